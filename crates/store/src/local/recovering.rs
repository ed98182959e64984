//! What a restart brings back: message files read by threads of their own, in chunks, while the spool is in use already.
//!
//! The threads wait while chunks are not taken, so that a large backlog never stands in memory twice.

use super::core::Core;
use spool::local::{Folder, LocalReport};
use spool::{RecoveredMessage, SpoolError};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The messages of earlier runs, on their way back.
#[derive(Debug)]
pub(crate) struct LocalRecovering {
    gate: Arc<Gate>,
}

/// Between the threads that read and the task that takes.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// A chunk was taken.
    room: Condvar,
    /// A chunk came, or the last thread ended.
    some: Notify,
}

#[derive(Debug)]
struct State {
    chunks: VecDeque<Vec<RecoveredMessage>>,
    /// Directories nobody reads yet.
    folders: VecDeque<Folder>,
    /// Threads that still read.
    threads: usize,
    report: LocalReport,
    error: Option<SpoolError>,
    stopped: bool,
}

impl LocalRecovering {
    /// Behind it.
    pub fn new(gate: Arc<Gate>) -> LocalRecovering {
        LocalRecovering { gate }
    }

    /// Some more messages; `None` once all were given out, or recovery failed ([`LocalRecovering::report`] tells).
    pub async fn next(&mut self) -> Option<Vec<RecoveredMessage>> {
        loop {
            {
                let mut state = self.gate.state();
                if let Some(chunk) = state.chunks.pop_front() {
                    self.gate.room.notify_all();
                    return Some(chunk);
                }
                if state.threads == 0 {
                    return None;
                }
            }
            // One that came since then has left its permit.
            self.gate.some.notified().await;
        }
    }

    /// What recovery found, and whether it came to its end. To be asked after [`LocalRecovering::next`] gave `None`.
    ///
    /// # Errors
    /// Why it did not: the messages not given out are still in their files, untouched. `Closed` before the end.
    pub fn report(self) -> Result<LocalReport, SpoolError> {
        let state = self.gate.state();
        match &state.error {
            Some(error) => Err(error.clone()),
            None if state.threads > 0 || state.stopped => Err(SpoolError::Closed),
            None => Ok(state.report),
        }
    }
}

impl Gate {
    /// For `threads` threads.
    pub fn new(threads: usize) -> Arc<Gate> {
        let state = State {
            chunks: VecDeque::new(),
            folders: Folder::of_messages().collect(),
            threads,
            report: LocalReport::default(),
            error: None,
            stopped: false,
        };
        Arc::new(Gate { state: Mutex::new(state), room: Condvar::new(), some: Notify::new() })
    }

    /// What each of the threads does: directories until none is left.
    pub fn read(&self, core: &Core) {
        let _end = End(self);
        while let Some(folder) = self.next_folder() {
            let mut chunk = Vec::with_capacity(CHUNK_MESSAGES);
            let read = core.engine.recover(folder, &mut |message| {
                chunk.push(message);
                if chunk.len() == CHUNK_MESSAGES {
                    self.give(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_MESSAGES)), core);
                }
            });
            self.give(chunk, core);
            let mut state = self.state();
            match read {
                Ok(report) => state.report.add(&report),
                Err(error) => {
                    tracing::error!(%error, "some mail of earlier runs cannot be read now; it is left as it is");
                    state.error = Some(error);
                }
            }
        }
    }

    /// A thread could not be started.
    pub fn one_less(&self) {
        drop(End(self));
    }

    /// No more is wanted: whoever reads ends soon.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopped = true;
        state.folders.clear();
        drop(state);
        self.room.notify_all();
        self.some.notify_one();
    }

    fn next_folder(&self) -> Option<Folder> {
        self.state().folders.pop_front()
    }

    /// Hands a chunk over when there is room for it.
    fn give(&self, mut chunk: Vec<RecoveredMessage>, core: &Core) {
        core.found(&mut chunk);
        if chunk.is_empty() {
            return;
        }
        let mut state = self.state();
        while state.chunks.len() >= CHUNKS_WAITING_MAX && !state.stopped {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if !state.stopped {
            state.chunks.push_back(chunk);
            self.some.notify_one();
        }
    }

    /// Each change under the lock leaves the state whole, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the end of a thread, whatever ended it.
struct End<'a>(&'a Gate);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state().threads -= 1;
        self.0.some.notify_one();
    }
}

/// Messages handed over at once.
const CHUNK_MESSAGES: usize = 1024;
/// Chunks that wait to be taken.
const CHUNKS_WAITING_MAX: usize = 4;
/// Threads that read.
pub(crate) const THREADS: usize = 4;
