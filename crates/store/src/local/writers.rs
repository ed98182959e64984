//! The threads that write messages: each takes what waits, writes it, and lets messages of one directory share its sync.
//!
//! As many threads as the disk has use for: where a sync is quick, few of them, so that several messages are written by one
//! thread, one behind the other, without a change of threads for each; where it is slow, many, since waiting costs nothing
//! and disks and journals do several syncs in one. In: appends with somebody who waits. Out: the receipts, to whoever waits.
//! Bounded by the permits that appends hold.

use super::core::{Core, locked};
use crate::Appended;
use message::Sealed;
use spool::{Mark, SpoolError};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A transaction on its way.
pub(crate) struct Append {
    pub sealed: Vec<Sealed>,
    /// Who waits for it.
    pub reply: oneshot::Sender<Result<Appended, SpoolError>>,
    /// Given back behind everything else: who closes waits for it, and the markers end after that.
    pub permit: OwnedSemaphorePermit,
}

/// Appends that wait for a thread.
pub(crate) struct AppendQueue {
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    waiting: VecDeque<Append>,
    /// Threads that will look here.
    threads: usize,
    /// Those of them that wait for something to do.
    idle: usize,
    closing: bool,
}

impl AppendQueue {
    /// For `threads` threads, each of which is to run [`AppendQueue::run`].
    pub fn new(threads: usize) -> AppendQueue {
        let state = State { waiting: VecDeque::new(), threads, idle: 0, closing: false };
        AppendQueue { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Puts one in. When no thread is left it is dropped: that tells who waits.
    pub fn push(&self, append: Append) {
        let mut state = locked(&self.state);
        if state.threads > 0 {
            state.waiting.push_back(append);
            if state.idle > 0 {
                self.wake.notify_one();
            }
        }
    }

    /// The threads end once nothing waits.
    pub fn close(&self) {
        locked(&self.state).closing = true;
        self.wake.notify_all();
    }

    /// What each thread does, until closed.
    pub fn run(&self, core: &Core) {
        let _end = End(self);
        while let Some(appends) = self.take() {
            write(core, appends);
        }
    }

    /// Waits for appends, and takes this thread's share of them; `None` at the end.
    fn take(&self) -> Option<Vec<Append>> {
        let mut state = locked(&self.state);
        while state.waiting.is_empty() {
            if state.closing {
                return None;
            }
            state.idle += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
        let share = share(state.waiting.len(), state.idle);
        Some(state.waiting.drain(..share).collect())
    }
}

/// Threads for a disk that needs so long for a write and its sync.
pub fn threads_for(sync: Option<Duration>) -> usize {
    let steps = sync.unwrap_or_default().as_micros() / SYNC_STEP.as_micros();
    usize::try_from(steps).unwrap_or(THREADS_MAX).clamp(THREADS_MIN, THREADS_MAX)
}

/// How many of those that wait one thread takes when `idle` others could take some too.
fn share(waiting: usize, idle: usize) -> usize {
    (waiting / (idle + 1)).clamp(1, TOGETHER_MAX)
}

/// Transactions of one message go together; each of the others by itself.
fn write(core: &Core, appends: Vec<Append>) {
    let (single, several): (Vec<_>, Vec<_>) = appends.into_iter().partition(|append| append.sealed.len() == 1);
    let (sealed, answers): (Vec<_>, Vec<_>) =
        single.into_iter().map(|append| (append.sealed, (append.reply, append.permit))).unzip();
    for (done, (reply, permit)) in core.append_each(sealed.into_iter().flatten().collect()).into_iter().zip(answers) {
        answer(core, done, reply, permit);
    }
    for Append { sealed, reply, permit } in several {
        answer(core, core.append(sealed), reply, permit);
    }
}

/// Tells who waits.
fn answer(
    core: &Core,
    done: Result<Appended, SpoolError>,
    reply: oneshot::Sender<Result<Appended, SpoolError>>,
    permit: OwnedSemaphorePermit,
) {
    if let Err(Ok(Appended { durable, .. })) = reply.send(done) {
        // Whoever waited has gone and never said 250: nobody would own these.
        durable.iter().for_each(|durable| core.mark(Mark::Removed { id: durable.id() }));
    }
    drop(permit);
}

/// Notes the end of a thread, whatever ended it.
struct End<'a>(&'a AppendQueue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.threads -= 1;
        if state.threads == 0 {
            // Dropping them tells those who wait.
            state.waiting.clear();
        }
    }
}

/// Messages that one thread writes together.
const TOGETHER_MAX: usize = 16;
const THREADS_MIN: usize = 8;
const THREADS_MAX: usize = 64;
/// Time of a sync for which it takes one thread more.
const SYNC_STEP: Duration = Duration::from_micros(25);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_the_others_their_share() {
        assert_eq!(
            [(1, 0), (1, 7), (5, 7), (16, 7), (40, 3), (40, 0), (200, 1)].map(|(w, i)| share(w, i)),
            [1, 1, 1, 2, 10, 16, 16]
        );
    }

    #[test]
    fn a_slow_disk_gets_more_threads() {
        let of = |us| threads_for(Some(Duration::from_micros(us)));
        assert_eq!([0, 100, 400, 1_000, 5_000, 1 << 40].map(of), [8, 8, 16, 40, 64, 64]);
        assert_eq!(threads_for(None), 8);
    }
}
