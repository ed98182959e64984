//! A client's connection together with its place among all: an upgrade to another protocol takes both along. A client that takes
//! nothing of what it is told for [`STALL_MAX`] is let go.

use net::Stream;
use std::io;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};

/// Both.
pub(crate) struct Placed {
    stream: Stream,
    /// While nothing of what is written goes.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Free again when this is dropped.
    _place: Option<OwnedSemaphorePermit>,
}

impl Placed {
    pub fn new(stream: Stream, place: Option<OwnedSemaphorePermit>) -> Placed {
        Placed { stream, stalled: None, _place: place }
    }

    /// What a write came to, or the end of patience.
    fn watched<T>(&mut self, context: &mut Context<'_>, went: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if went.is_ready() {
            self.stalled = None;
            return went;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing was taken for {STALL_MAX:?}"))))
    }
}

impl AsyncRead for Placed {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let went = Pin::new(&mut self.stream).poll_write(context, octets);
        self.watched(context, went)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let went = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(context, went)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let went = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watched(context, went)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let went = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watched(context, went)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// How long a client may take nothing: as long as one who sends a stream may leave its answers.
const STALL_MAX: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_let_go() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connects");
        let (served, _) = listener.accept().await.expect("he comes");
        let mut served = Placed::new(Stream::Plain(served), None);
        let begun = Instant::now();
        let error = loop {
            if let Err(error) = served.write_all(&[0; 1 << 20]).await {
                break error;
            }
        };
        assert_eq!((error.kind(), begun.elapsed() >= STALL_MAX), (io::ErrorKind::TimedOut, true));
        drop(client);
    }
}
