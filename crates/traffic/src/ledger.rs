//! An append-only text file written by many tasks: one line a message.
//!
//! A task only copies its line into a shared buffer; one plain thread writes the buffer out at a fixed interval, so
//! that no session ever waits for the disk. The buffer is bounded: when the disk cannot follow, writers wait.
//! A write error is kept and told at `close`; lines after it are dropped, because a ledger with a hole proves nothing.
//! It never syncs: a ledger witnesses the crash of a server, not of the machine.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A line file with one background writer; shared by reference between tasks.
pub(crate) struct Ledger {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    /// Tells the writer that the buffer is full or that the end has come.
    wake: Condvar,
    /// Tells waiting tasks that the buffer was emptied.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    closing: bool,
    error: Option<io::Error>,
}

impl Ledger {
    /// Creates (or empties) `path` and starts the writer, which writes at least every `interval`.
    pub(crate) fn create(path: &Path, interval: Duration) -> io::Result<Self> {
        let file = File::create(path)?;
        let shared =
            Arc::new(Shared { state: Mutex::new(State::default()), wake: Condvar::new(), emptied: Condvar::new() });
        let for_writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || write_until_closed(&for_writer, file, interval))?;
        Ok(Self { shared, writer: Mutex::new(Some(writer)) })
    }

    /// Appends one line, given in parts and without its line end.
    pub(crate) fn append(&self, parts: &[&[u8]]) {
        let mut state = self.shared.lock();
        while state.pending.len() >= PENDING_BYTES_MAX && state.error.is_none() {
            self.shared.wake.notify_one();
            state = wait(&self.shared.emptied, state);
        }
        if state.error.is_some() {
            return;
        }
        for part in parts {
            state.pending.extend_from_slice(part);
        }
        state.pending.push(b'\n');
    }

    /// Writes out what is pending, stops the writer, and tells the first write error if there was one.
    pub(crate) fn close(&self) -> io::Result<()> {
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.join().is_err()
        {
            return Err(io::Error::other("the ledger's writer thread panicked"));
        }
        self.shared.lock().error.take().map_or(Ok(()), Err)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_until_closed(shared: &Shared, mut file: File, interval: Duration) {
    let mut batch = Vec::new();
    loop {
        let mut state = shared.lock();
        if !state.closing && state.pending.len() < PENDING_BYTES_MAX {
            state = shared.wake.wait_timeout(state, interval).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.pending, &mut batch);
        let closing = state.closing;
        drop(state);
        shared.emptied.notify_all();
        let outcome = file.write_all(&batch);
        batch.clear();
        if let Err(error) = outcome {
            shared.lock().error = Some(error);
            shared.emptied.notify_all();
            return;
        }
        if closing {
            return;
        }
    }
}

fn wait<'a>(condvar: &Condvar, guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Bytes buffered before a writer waits: several seconds of lines at any rate seen.
const PENDING_BYTES_MAX: usize = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_many_threads_all_arrive_whole() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let path = folder.path().join("ledger");
        let ledger = Ledger::create(&path, Duration::from_millis(1)).expect("create");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let ledger = &ledger;
                scope.spawn(move || {
                    for line in 0..5_000 {
                        ledger.append(&[b"run-", format!("{thread}-{line}").as_bytes()]);
                    }
                });
            }
        });
        ledger.close().expect("close");
        let text = std::fs::read_to_string(&path).expect("read");
        let lines: std::collections::HashSet<&str> = text.lines().collect();
        assert_eq!(lines.len(), 20_000);
        assert!(lines.contains("run-3-4999"));
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn a_write_error_is_told_at_the_end_and_blocks_nobody() {
        let ledger = Ledger::create(Path::new("/dev/full"), Duration::from_millis(1)).expect("open");
        let line = vec![b'x'; 1024 * 1024];
        for _ in 0..20 {
            ledger.append(&[&line]);
        }
        assert!(ledger.close().is_err());
    }

    #[test]
    fn a_second_close_is_harmless() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let ledger = Ledger::create(&folder.path().join("l"), Duration::from_secs(5)).expect("create");
        ledger.close().expect("first");
        ledger.close().expect("second");
    }
}
