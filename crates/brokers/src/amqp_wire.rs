//! Streams for lapin: ours, in clear or over the TLS that we have, and cut off when nobody wants them any more.
//!
//! lapin drives a connection on a thread of its own, until the stream ends; a server that says nothing would keep both for ever.
//! So the owner of a connection holds a [`Cut`], and the stream ends when that is dropped.

use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::Task;
use async_rs::{Runtime, Tokio};
use futures_util::Stream;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// Ends a stream when it is dropped.
#[derive(Debug)]
pub(crate) struct Cut(#[expect(dead_code, reason = "its end is what counts")] oneshot::Sender<()>);

/// A connection, in clear or not.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A stream that can be cut off.
pub(crate) struct Wire {
    stream: Box<dyn Duplex>,
    /// Is ready once it was cut off.
    end: oneshot::Receiver<()>,
    is_cut: bool,
}

impl Wire {
    /// A stream, and what cuts it off.
    pub fn new(stream: Box<dyn Duplex>) -> (Wire, Cut) {
        let (cut, end) = oneshot::channel();
        (Wire { stream, end, is_cut: false }, Cut(cut))
    }

    fn live(&mut self, cx: &mut Context<'_>) -> io::Result<&mut Box<dyn Duplex>> {
        // Asked once more after its end, a receiver panics.
        self.is_cut = self.is_cut || Pin::new(&mut self.end).poll(cx).is_ready();
        if self.is_cut { Err(io::ErrorKind::ConnectionAborted.into()) } else { Ok(&mut self.stream) }
    }
}

impl futures_io::AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let stream = self.live(cx)?;
        let mut buffer = ReadBuf::new(into);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl futures_io::AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.live(cx)?).poll_write(cx, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.live(cx)?).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// What lapin runs on: tokio, with our streams.
#[derive(Clone, Debug)]
pub(crate) struct Kit(Tokio);

impl Kit {
    /// The runtime that this is called in.
    pub fn current() -> Runtime<Kit> {
        Runtime::new(Kit(Tokio::current()))
    }
}

impl RuntimeKit for Kit {}

impl Executor for Kit {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, work: F) -> T {
        self.0.block_on(work)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(&self, work: F) -> Task<Self::Task<T>> {
        self.0.spawn(work)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, work: F) -> Task<Self::Task<T>> {
        self.0.spawn_blocking(work)
    }
}

impl Reactor for Kit {
    type TcpStream = Wire;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: io::Read + io::Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl futures_io::AsyncRead + futures_io::AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, time: Duration) -> Self::Sleep {
        self.0.sleep(time)
    }

    fn interval(&self, time: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(time)
    }

    fn tcp_connect_addr(&self, _: SocketAddr) -> impl Future<Output = io::Result<Wire>> + Send + 'static {
        std::future::ready(Err(io::Error::other("lapin is given its streams")))
    }
}
