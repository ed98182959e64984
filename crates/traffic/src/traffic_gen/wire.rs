//! One connection to the server: bytes out in one vectored write, lines in, nothing waits for ever.
//!
//! In: addresses, slices. Out: lines, or a [`WireError`]. Plain TCP (TCP_NODELAY always) or TLS after `start_tls`.
//! It knows nothing of SMTP replies or HTTP headers, only where a line ends. The timer is one object for the life of
//! the connection, moved forward at each wait, because arming a new one would cost as much as the system call.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use memchr::memchr;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Why a connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// No address of the target could be connected to.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The last one tried.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Closed,
    /// Reading or writing failed.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// The server took too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server sent a line beyond the bound.
    #[error("the server sent a line longer than {INPUT_BYTES} bytes")]
    LineTooLong,
}

/// A connection.
pub(super) struct Wire {
    stream: Stream,
    input: Box<[u8]>,
    /// The unread part of `input`.
    start: usize,
    end: usize,
    timer: Pin<Box<Sleep>>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Only while the handshake owns the socket.
    Upgrading,
}

/// What became of a write.
pub(super) struct Written {
    /// Bytes the kernel (or TLS) took, also when the write failed.
    pub bytes: usize,
    /// Just before the last part was written.
    pub last_part_at: Instant,
    /// Whether all was written.
    pub outcome: Result<(), WireError>,
}

impl Wire {
    /// Connects to the first address that answers.
    pub(super) async fn connect(addresses: &[SocketAddr]) -> Result<Self, WireError> {
        let mut failure = WireError::Closed;
        for &address in addresses {
            let attempt = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
            match attempt.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Self {
                        stream: Stream::Plain(stream),
                        input: vec![0; INPUT_BYTES].into_boxed_slice(),
                        start: 0,
                        end: 0,
                        timer: Box::pin(tokio::time::sleep(REPLY_TIMEOUT)),
                    });
                }
                Err(source) => failure = WireError::Connect { address, source },
            }
        }
        Err(failure)
    }

    /// Upgrades to TLS. Whatever the server sent before the handshake is thrown away.
    pub(super) async fn start_tls(
        &mut self,
        connector: &TlsConnector,
        name: ServerName<'static>,
    ) -> Result<(), WireError> {
        let Stream::Plain(stream) = std::mem::replace(&mut self.stream, Stream::Upgrading) else {
            return Err(WireError::Closed);
        };
        (self.start, self.end) = (0, 0);
        let handshake = tokio::time::timeout(CONNECT_TIMEOUT, connector.connect(name, stream));
        let stream = handshake.await.map_err(|_| WireError::Timeout(CONNECT_TIMEOUT))??;
        self.stream = Stream::Tls(Box::new(stream));
        Ok(())
    }

    /// Writes all slices, if the kernel lets us in one call.
    pub(super) async fn write(&mut self, mut slices: &mut [IoSlice<'_>]) -> Written {
        let mut written = Written { bytes: 0, last_part_at: Instant::now(), outcome: Ok(()) };
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.write_part(slices).await {
                Ok((count, at)) => {
                    written.bytes += count;
                    written.last_part_at = at;
                    IoSlice::advance_slices(&mut slices, count);
                }
                Err(error) => {
                    written.outcome = Err(error);
                    return written;
                }
            }
        }
        if let Stream::Tls(stream) = &mut self.stream
            && let Err(error) = stream.flush().await
        {
            written.outcome = Err(error.into());
        }
        written
    }

    /// Writes one buffer.
    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.write(&mut [IoSlice::new(bytes)]).await.outcome
    }

    async fn write_part(&mut self, slices: &[IoSlice<'_>]) -> Result<(usize, Instant), WireError> {
        self.timer.as_mut().reset(tokio::time::Instant::now() + REPLY_TIMEOUT);
        let (stream, timer) = (&mut self.stream, &mut self.timer);
        poll_fn(|cx| {
            let at = Instant::now();
            match Pin::new(&mut *stream).poll_write_vectored(cx, slices) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(WireError::Closed)),
                Poll::Ready(Ok(count)) => Poll::Ready(Ok((count, at))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                Poll::Pending => timed_out(timer, cx),
            }
        })
        .await
    }

    /// The next line, without its line end.
    pub(super) async fn line(&mut self) -> Result<&[u8], WireError> {
        let mut searched = self.start;
        loop {
            if let Some(found) = memchr(b'\n', &self.input[searched..self.end]) {
                let line = self.start..searched + found;
                self.start = line.end + 1;
                let line = &self.input[line];
                return Ok(line.strip_suffix(b"\r").unwrap_or(line));
            }
            let unread = self.end - self.start;
            self.fill().await?;
            searched = self.start + unread;
        }
    }

    /// Exactly `length` bytes; the caller has checked that it is not too many.
    pub(super) async fn bytes(&mut self, length: usize) -> Result<Vec<u8>, WireError> {
        let mut bytes = Vec::with_capacity(length);
        loop {
            let taken = (self.end - self.start).min(length - bytes.len());
            bytes.extend_from_slice(&self.input[self.start..self.start + taken]);
            self.start += taken;
            if bytes.len() == length {
                return Ok(bytes);
            }
            self.fill().await?;
        }
    }

    /// Reads once, behind what is unread.
    async fn fill(&mut self) -> Result<(), WireError> {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.input.len() {
            return Err(WireError::LineTooLong);
        }
        self.timer.as_mut().reset(tokio::time::Instant::now() + REPLY_TIMEOUT);
        let (stream, timer) = (&mut self.stream, &mut self.timer);
        let free = &mut self.input[self.end..];
        let count = poll_fn(|cx| {
            let mut read = ReadBuf::new(free);
            match Pin::new(&mut *stream).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if read.filled().is_empty() => Poll::Ready(Err(WireError::Closed)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(read.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                Poll::Pending => timed_out(timer, cx),
            }
        })
        .await?;
        self.end += count;
        Ok(())
    }
}

fn timed_out<T>(timer: &mut Pin<Box<Sleep>>, cx: &mut Context<'_>) -> Poll<Result<T, WireError>> {
    timer.as_mut().poll(cx).map(|()| Err(WireError::Timeout(REPLY_TIMEOUT)))
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Upgrading => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl Stream {
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Upgrading => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

/// Bytes of the longest line a server may send.
const INPUT_BYTES: usize = 4096;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// For any one wait of a read or a write.
const REPLY_TIMEOUT: Duration = Duration::from_secs(120);
