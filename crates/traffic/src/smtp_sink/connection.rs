//! Drives one session over its socket: read, feed, write, in that order and nothing else.
//!
//! In: an accepted socket. Out: bytes. The read buffer is borrowed from a pool only while it is in use, never across
//! a wait, so the number of buffers is the number of threads and not of connections. A socket error ends the session
//! in silence: the client has gone, and there is nobody to tell.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use super::Sink;
use super::session::{Session, Step};

/// One accepted connection and its session.
pub(super) struct Connection {
    stream: TcpStream,
    sink: Arc<Sink>,
    session: Session,
    replies: Vec<u8>,
}

impl Connection {
    /// Takes over an accepted socket.
    pub(super) fn new(stream: TcpStream, sink: Arc<Sink>) -> Self {
        Self { stream, sink, session: Session::new(), replies: Vec::new() }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(mut self) {
        if self.converse().await.is_ok() {
            self.close_gently().await;
        }
    }

    /// Returns `Ok` when it is for us to close, an error when the client has gone or fell silent.
    async fn converse(&mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        let greeting = format!("220 {} ESMTP smtp-sink\r\n", self.sink.options.hostname);
        self.stream.write_all(greeting.as_bytes()).await?;
        let delay = Duration::from_millis(self.sink.options.delay_ms);
        let mut silence = Box::pin(tokio::time::sleep(SILENCE_MAX));
        loop {
            let (mut step, mut unread) = self.read_and_feed(&mut silence).await?;
            while step == Step::Pause {
                tokio::time::sleep(delay).await;
                self.flush().await?;
                let (used, next) = self.session.feed(&self.sink, &unread, &mut self.replies);
                unread.drain(..used);
                step = next;
            }
            self.flush().await?;
            if step == Step::Close {
                return Ok(());
            }
        }
    }

    /// One read, and what the session makes of it. When the session pauses, what is left of the input is copied out.
    async fn read_and_feed(&mut self, silence: &mut Pin<Box<Sleep>>) -> io::Result<(Step, Vec<u8>)> {
        silence.as_mut().reset(Instant::now() + SILENCE_MAX);
        poll_fn(|cx| {
            let mut buffer = self.sink.buffers.take();
            let read = poll_read_or_silence(&mut self.stream, silence, cx, &mut buffer);
            let outcome = read.map_ok(|length| {
                let (used, step) = self.session.feed(&self.sink, &buffer[..length], &mut self.replies);
                let unread = if step == Step::Pause { buffer[used..length].to_vec() } else { Vec::new() };
                (step, unread)
            });
            self.sink.buffers.put(buffer);
            outcome
        })
        .await
    }

    async fn flush(&mut self) -> io::Result<()> {
        if !self.replies.is_empty() {
            self.stream.write_all(&self.replies).await?;
            self.replies.clear();
        }
        Ok(())
    }

    /// Closes so that the replies written reach the client: input left unread would make the kernel reset the
    /// connection and throw them away.
    async fn close_gently(mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut silence = Box::pin(tokio::time::sleep(LINGER_MAX));
        loop {
            let read = poll_fn(|cx| {
                let mut buffer = self.sink.buffers.take();
                let read = poll_read_or_silence(&mut self.stream, &mut silence, cx, &mut buffer);
                self.sink.buffers.put(buffer);
                read
            });
            if read.await.is_err() {
                return;
            }
        }
    }
}

/// Reads at least one byte; the end of the stream and the end of our patience are errors.
fn poll_read_or_silence(
    stream: &mut TcpStream,
    silence: &mut Pin<Box<Sleep>>,
    cx: &mut Context<'_>,
    buffer: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(buffer);
    match Pin::new(stream).poll_read(cx, &mut read) {
        Poll::Ready(Ok(())) if read.filled().is_empty() => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
        Poll::Ready(Ok(())) => Poll::Ready(Ok(read.filled().len())),
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending => silence.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
    }
}

/// Read buffers not in use just now, the warmest on top.
#[derive(Default)]
pub(super) struct BufferPool {
    free: Mutex<Vec<Box<[u8]>>>,
}

impl BufferPool {
    fn take(&self) -> Box<[u8]> {
        let pooled = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        pooled.unwrap_or_else(|| vec![0; READ_BUFFER_BYTES].into_boxed_slice())
    }

    fn put(&self, buffer: Box<[u8]>) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// Bytes read at once: a 100 KB message with its envelope in one call, and still inside a core's second-level cache.
const READ_BUFFER_BYTES: usize = 256 * 1024;
/// How long a client may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// How long a closed connection waits for the client to close too.
const LINGER_MAX: Duration = Duration::from_secs(1);
