//! A writer of segments that whoever awaits may share.
//!
//! Owns [`Writer`]: a handle to a thread that has the [`Pen`]. In: lines and records. Out: segments. A line is written when
//! the call returns, so an error is told to whoever wrote the line. Each line is flushed by itself for those who tail:
//! this is for what scripts write, not for a log of every delivery. When the writer is closed, or its last handle is
//! dropped, the thread finishes the segment and ends.

use crate::JsonlError;
use crate::pen::Pen;
use config::JsonlWriterOptions;
use serde_json::Value;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Most lines that wait for the disk; who writes one more waits.
pub const WAITING_LINES_MAX: usize = 64;

/// Writes segments of lines; clones write to the same ones.
#[derive(Clone)]
pub struct Writer {
    orders: Sender<Order>,
    /// How many may still send a line, which is what bounds the channel.
    room: Arc<Semaphore>,
    /// Longest line in octets.
    record_octets_max: usize,
}

enum Order {
    Write(Line),
    Close(oneshot::Sender<Result<(), JsonlError>>),
}

struct Line {
    octets: Vec<u8>,
    done: oneshot::Sender<Result<(), JsonlError>>,
    _room: OwnedSemaphorePermit,
}

impl Writer {
    /// Opens a writer; makes the directory. Waits for the disk.
    ///
    /// Other files of the directory are left alone: unlike the log's, a script's directory may have several writers.
    ///
    /// Errors: [`JsonlError::Directory`], [`JsonlError::Thread`].
    pub fn open(options: JsonlWriterOptions) -> Result<Writer, JsonlError> {
        let failed = |cause| JsonlError::Directory { dir: options.log_dir.clone(), cause };
        std::fs::create_dir_all(&options.log_dir).map_err(failed)?;
        let (orders, received) = channel();
        let record_octets_max = options.max_record_size;
        let pen = Pen::new(options);
        let run = move || run(pen, &received);
        // Its owner is whoever holds a handle: it ends with the last of them.
        std::thread::Builder::new().name("jsonl".to_owned()).spawn(run).map_err(JsonlError::Thread)?;
        Ok(Writer { orders, room: Arc::new(Semaphore::new(WAITING_LINES_MAX)), record_octets_max })
    }

    /// Writes a line, and a newline if it does not end with one.
    ///
    /// Errors: [`JsonlError::WriteTooLong`], [`JsonlError::Write`], [`JsonlError::Closed`].
    pub async fn write_line(&self, line: impl Into<Vec<u8>>) -> Result<(), JsonlError> {
        let mut octets = line.into();
        if octets.last() != Some(&b'\n') {
            octets.push(b'\n');
        }
        if octets.len() > self.record_octets_max {
            return Err(JsonlError::WriteTooLong { octets: octets.len(), octets_max: self.record_octets_max });
        }
        let room = self.room.clone().acquire_owned().await.map_err(|_| JsonlError::Closed)?;
        self.order(|done| Order::Write(Line { octets, done, _room: room })).await
    }

    /// Writes a record as a line of JSON. Errors as [`Writer::write_line`], and [`JsonlError::Encode`].
    pub async fn write_record(&self, record: &Value) -> Result<(), JsonlError> {
        self.write_line(serde_json::to_vec(record).map_err(JsonlError::Encode)?).await
    }

    /// Finishes the segment: what was written is whole, and read-only. Closing again changes nothing.
    ///
    /// Errors: [`JsonlError::Write`] when it cannot be finished.
    pub async fn close(&self) -> Result<(), JsonlError> {
        match self.order(Order::Close).await {
            Err(JsonlError::Closed) => Ok(()),
            closed => closed,
        }
    }

    async fn order(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<(), JsonlError>>) -> Order,
    ) -> Result<(), JsonlError> {
        let (done, answer) = oneshot::channel();
        self.orders.send(order(done)).map_err(|_| JsonlError::Closed)?;
        answer.await.map_err(|_| JsonlError::Closed)?
    }
}

/// The thread.
fn run(mut pen: Pen, orders: &Receiver<Order>) {
    loop {
        let wait = pen.time_left(OffsetDateTime::now_utc()).unwrap_or(WAIT_MAX).min(WAIT_MAX);
        match orders.recv_timeout(wait) {
            Ok(Order::Write(Line { octets, done, _room })) => {
                // Whoever does not wait for the answer does not want it.
                let _ = done.send(pen.write(&octets, OffsetDateTime::now_utc()));
            }
            Ok(Order::Close(done)) => {
                let _ = done.send(pen.finish());
                return;
            }
            Err(RecvTimeoutError::Timeout) => pen.tend(OffsetDateTime::now_utc()),
            Err(RecvTimeoutError::Disconnected) => return pen.finish_or_say(),
        }
    }
}

/// How long the thread sleeps at most: the clock may have been set meanwhile.
const WAIT_MAX: Duration = Duration::from_secs(60);
