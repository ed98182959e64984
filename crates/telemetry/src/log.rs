//! The log writer: takes encoded records, writes segments on a thread of its own.
//!
//! Records cross as finished lines in a bounded buffer that both sides swap, so a producer pays
//! a copy and a short lock, and the thread compresses many records per wake-up. Logging never
//! waits: when `back_pressure` records wait already, [`LogWriter::is_full`] says so and whoever
//! takes up work holds back, so that the buffer can only grow by what is in hand. A segment
//! ends at its size, at its age, and when the writer is closed. A disk error keeps the batch
//! and tries again each second, saying so; only closing gives such records up, saying so.

use crate::segment::{Segment, mark_leftovers_done};
use config::LocalLogs;
use record::LogRecord;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;
use time::OffsetDateTime;

/// Why logs cannot be written.
#[derive(Debug, Error)]
pub enum LogError {
    /// The directory cannot be made or read.
    #[error("log_dir `{}`: {cause}", dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the log thread: {0}")]
    Thread(io::Error),
}

/// A handle to one `configure_local_logs` logger; clones share it.
#[derive(Clone)]
pub struct LogWriter {
    shared: Arc<Shared>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signals the thread that lines wait or that it is to end.
    filled: Condvar,
    options: LocalLogs,
}

#[derive(Default)]
struct State {
    lines: Vec<u8>,
    records: usize,
    closing: bool,
    sleeping: bool,
}

impl LogWriter {
    /// Opens a logger; what an earlier process left open is marked complete.
    pub fn open(options: LocalLogs) -> Result<LogWriter, LogError> {
        let directory = |cause| LogError::Directory { dir: options.log_dir.clone(), cause };
        std::fs::create_dir_all(&options.log_dir).map_err(directory)?;
        mark_leftovers_done(&options.log_dir).map_err(directory)?;
        let shared = Arc::new(Shared { state: Mutex::default(), filled: Condvar::new(), options });
        let of_thread = shared.clone();
        let run = move || Writer { shared: of_thread, segment: None, opened: Instant::now(), complained: false }.run();
        let thread = std::thread::Builder::new().name("logs".to_owned()).spawn(run).map_err(LogError::Thread)?;
        Ok(LogWriter { shared, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// The options it was opened with.
    pub fn options(&self) -> &LocalLogs {
        &self.shared.options
    }

    /// True while `back_pressure` records wait: new work should wait too.
    pub fn is_full(&self) -> bool {
        self.shared.lock().records >= self.shared.options.back_pressure
    }

    /// Queues one record; never waits.
    pub fn log(&self, record: &LogRecord) {
        let mut state = self.shared.lock();
        record.write_json_line(&mut state.lines);
        state.records += 1;
        if state.sleeping && (state.lines.len() >= WAKE_BYTES || state.records == 1) {
            self.shared.filled.notify_one();
        }
    }

    /// Writes everything, ends the segment and the thread.
    pub fn close(&self) {
        self.shared.lock().closing = true;
        self.shared.filled.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(_)) = thread.map(JoinHandle::join) {
            tracing::error!("the log thread panicked; its last records may be missing");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
struct Writer {
    shared: Arc<Shared>,
    segment: Option<Segment>,
    opened: Instant,
    complained: bool,
}

impl Writer {
    fn run(mut self) {
        let mut lines = Vec::new();
        loop {
            let mut closing = self.gather(&mut lines);
            while !lines.is_empty() {
                let part = self.part(&lines);
                match self.write(&lines[..part]) {
                    Ok(()) => {
                        lines.drain(..part);
                        if self.is_over() {
                            self.finish();
                        }
                    }
                    Err(error) if closing => {
                        tracing::error!("log records lost at shutdown: {error}");
                        lines.clear();
                    }
                    Err(error) => closing = self.complain(&error),
                }
            }
            if closing || self.is_over() {
                self.finish();
            }
            if closing {
                return;
            }
        }
    }

    /// Waits for lines, the end of the segment's time, or closing; true when closing.
    fn gather(&mut self, lines: &mut Vec<u8>) -> bool {
        let mut state = self.shared.lock();
        while state.records == 0 && !state.closing {
            state.sleeping = true;
            let wait = self.time_left().unwrap_or(IDLE_WAIT);
            state = self.shared.filled.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
            state.sleeping = false;
            if self.is_over() {
                break;
            }
        }
        if !state.closing && state.records > 0 && state.lines.len() < WAKE_BYTES {
            // Let a batch gather: compressing many records at once costs far less than one by one.
            state.sleeping = true;
            state = self.shared.filled.wait_timeout(state, BATCH_WAIT).unwrap_or_else(PoisonError::into_inner).0;
            state.sleeping = false;
        }
        std::mem::swap(&mut state.lines, lines);
        state.records = 0;
        state.closing
    }

    /// Octets of whole lines that fill the segment to its size, one line at least.
    fn part(&self, lines: &[u8]) -> usize {
        let used = self.segment.as_ref().map_or(0, |s| s.uncompressed_bytes);
        let room = usize::try_from(self.shared.options.max_file_size.saturating_sub(used)).unwrap_or(usize::MAX);
        if lines.len() <= room {
            return lines.len();
        }
        let from = room.saturating_sub(1).min(lines.len());
        lines[from..].iter().position(|b| *b == b'\n').map_or(lines.len(), |at| from + at + 1)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.segment.is_none() {
            let options = &self.shared.options;
            let segment = Segment::create(&options.log_dir, "", options.compression_level, OffsetDateTime::now_utc())?;
            (self.segment, self.opened) = (Some(segment), Instant::now());
        }
        match &mut self.segment {
            Some(segment) => segment.write(lines),
            None => Ok(()),
        }
    }

    fn time_left(&self) -> Option<Duration> {
        let max = self.shared.options.max_segment_duration?.get();
        self.segment.as_ref().map(|_| max.saturating_sub(self.opened.elapsed()))
    }

    fn is_over(&self) -> bool {
        let size_max = self.shared.options.max_file_size;
        self.segment.as_ref().is_some_and(|s| s.uncompressed_bytes >= size_max)
            || self.time_left().is_some_and(|left| left.is_zero())
    }

    fn finish(&mut self) {
        if let Some(Err(error)) = self.segment.take().map(Segment::finish) {
            tracing::error!("log_dir {}: cannot finish a segment: {error}", self.shared.options.log_dir.display());
        }
    }

    /// A segment that failed to write is abandoned: its frame may be cut anywhere. Waits a
    /// moment; true when the writer is being closed.
    fn complain(&mut self, error: &io::Error) -> bool {
        if !std::mem::replace(&mut self.complained, true) {
            let dir = self.shared.options.log_dir.display();
            tracing::error!("log_dir {dir}: {error}; records wait, trying again each second");
        }
        if let Some(segment) = self.segment.take() {
            segment.discard_if_empty();
        }
        let state = self.shared.lock();
        let waited = self.shared.filled.wait_timeout(state, RETRY_WAIT).unwrap_or_else(PoisonError::into_inner);
        waited.0.closing
    }
}

/// Lines that wake the thread at once, in octets.
const WAKE_BYTES: usize = 256 * 1024;
/// How long a batch may gather.
const BATCH_WAIT: Duration = Duration::from_millis(20);
/// How long the thread sleeps when nothing is to be timed.
const IDLE_WAIT: Duration = Duration::from_secs(3600);
/// Pause after a disk error.
const RETRY_WAIT: Duration = Duration::from_secs(1);
