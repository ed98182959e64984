//! Receive buffers: large while bytes are being handled, nothing while a session waits.
//!
//! A session borrows a buffer from the pool for the moment between a read and the next wait, for the client, policy or a commit,
//! and keeps only what it could not use yet: a partial command line, or the commands behind the one it waits for. Ten thousand idle
//! sessions then hold no buffers, and the few in use stay in the processor's cache. A buffer of
//! their own would cost 2 000 sessions 250 MB.

use net::Stream;
use smtp_server::RECEIVE_BUFFER_MIN;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};

/// Buffers that nobody uses now; at most [`SPARE_MAX`].
#[derive(Default)]
pub(crate) struct BufferPool(Mutex<Vec<Box<[u8]>>>);

/// Bytes of one session, received and not yet understood.
pub(crate) struct ReceiveBuffer {
    pool: Arc<BufferPool>,
    /// Borrowed from the pool while it holds bytes beyond `kept`.
    lent: Option<Box<[u8]>>,
    /// What is left when nothing is borrowed.
    kept: Vec<u8>,
    start: usize,
    end: usize,
}

impl BufferPool {
    fn take(&self) -> Box<[u8]> {
        let spare = self.lock().pop();
        spare.unwrap_or_else(|| vec![0; BUFFER_BYTES].into())
    }

    fn put(&self, buffer: Box<[u8]>) {
        let mut spare = self.lock();
        if spare.len() < SPARE_MAX {
            spare.push(buffer);
        }
    }

    /// Lets go of what nobody uses: memory is short.
    pub fn trim(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiveBuffer {
    pub fn new(pool: Arc<BufferPool>) -> ReceiveBuffer {
        ReceiveBuffer { pool, lent: None, kept: Vec::new(), start: 0, end: 0 }
    }

    pub fn unread(&self) -> &[u8] {
        let bytes: &[u8] = self.lent.as_deref().unwrap_or(&self.kept);
        &bytes[self.start..self.end]
    }

    pub fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Gives the buffer back and keeps the unread bytes; to be called before a long wait.
    pub fn lend_back(&mut self) {
        if let Some(buffer) = self.lent.take() {
            self.kept.clear();
            self.kept.extend_from_slice(&buffer[self.start..self.end]);
            (self.start, self.end) = (0, self.kept.len());
            self.pool.put(buffer);
        }
    }

    /// The same before what may be a long wait, or none, unless so much is unread that to keep it would cost more than the
    /// buffer is worth to others.
    pub fn lend_back_if_cheap(&mut self) {
        if self.unread().len() <= KEPT_CHEAPLY {
            self.lend_back();
        }
    }

    /// Reads once, behind what is unread; 0 when the peer closed.
    pub async fn fill(&mut self, stream: &mut Stream) -> io::Result<usize> {
        self.lend_back();
        std::future::poll_fn(|cx| self.poll_fill(cx, stream)).await
    }

    /// The same, behind [`ReceiveBuffer::lend_back`]: borrows a buffer only for as long as the socket has something to say.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<io::Result<usize>> {
        let mut buffer = self.pool.take();
        let unread = self.end - self.start;
        let mut free = ReadBuf::new(&mut buffer[unread..]);
        let polled = Pin::new(stream).poll_read(cx, &mut free);
        let read = free.filled().len();
        match polled {
            Poll::Ready(Ok(())) => {
                buffer[..unread].copy_from_slice(&self.kept[self.start..self.end]);
                (self.start, self.end) = (0, unread + read);
                self.lent = Some(buffer);
                Poll::Ready(Ok(read))
            }
            other => {
                self.pool.put(buffer);
                other.map_ok(|()| 0)
            }
        }
    }
}

impl Drop for ReceiveBuffer {
    fn drop(&mut self) {
        if let Some(buffer) = self.lent.take() {
            self.pool.put(buffer);
        }
    }
}

/// Octets of one buffer.
const BUFFER_BYTES: usize = 128 * 1024;
/// Unread octets that cost next to nothing to keep: commands that came with those before them.
const KEPT_CHEAPLY: usize = 4 * 1024;
/// Buffers kept for later, about one for each session being served at one moment.
const SPARE_MAX: usize = 64;
// What a session may leave unread is less than half a buffer, so there is always room to read.
const _: () = assert!(BUFFER_BYTES >= 2 * RECEIVE_BUFFER_MIN);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    /// A client, and the server's end of its connection.
    async fn connected() -> (TcpStream, Stream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("connects");
        let (server, _) = listener.accept().await.expect("accepts");
        (client, Stream::Plain(server))
    }

    #[tokio::test]
    async fn partial_input_survives_the_wait_and_buffers_return() {
        let (mut client, mut stream) = connected().await;
        let pool = Arc::new(BufferPool::default());
        let mut buffer = ReceiveBuffer::new(pool.clone());
        client.write_all(b"EHLO a\r\nMAIL").await.expect("writes");
        assert_eq!(buffer.fill(&mut stream).await.expect("reads"), 12);
        buffer.consume(8);
        buffer.lend_back();
        assert_eq!((buffer.unread(), pool.lock().len()), (&b"MAIL"[..], 1));
        pool.trim();
        assert!(pool.lock().is_empty());
        client.write_all(b" FROM").await.expect("writes");
        assert_eq!(buffer.fill(&mut stream).await.expect("reads"), 5);
        assert_eq!(buffer.unread(), b"MAIL FROM");
        drop(client);
        assert_eq!(buffer.fill(&mut stream).await.expect("end"), 0);
        assert_eq!((buffer.unread(), pool.lock().len()), (&b"MAIL FROM"[..], 0));
        drop(buffer);
        assert_eq!(pool.lock().len(), 1, "the next connection has it");
    }

    #[tokio::test]
    async fn a_question_keeps_a_buffer_only_for_much_that_is_unread() {
        let (mut client, mut stream) = connected().await;
        let pool = Arc::new(BufferPool::default());
        let mut buffer = ReceiveBuffer::new(pool.clone());
        let sent: Vec<u8> = (0..KEPT_CHEAPLY + 1).map(|at| at as u8).collect();
        client.write_all(&sent).await.expect("writes");
        while buffer.unread().len() < sent.len() {
            assert_ne!(buffer.fill(&mut stream).await.expect("reads"), 0);
        }
        buffer.lend_back_if_cheap();
        assert_eq!((buffer.unread(), pool.lock().len()), (&sent[..], 0));
        buffer.consume(1);
        buffer.lend_back_if_cheap();
        assert_eq!((buffer.unread(), pool.lock().len()), (&sent[1..], 1));
    }
}
