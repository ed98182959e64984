//! The threads that write messages: each takes what waits, writes it, and lets messages of one directory share its sync.
//!
//! As many threads as the disk has use for: where a sync is quick, few of them, so that several messages are written by one
//! thread, one behind the other, without a change of threads for each; where it is slow, many, since waiting costs nothing
//! and disks and journals do several syncs in one. In: appends with somebody who waits. Out: the receipts, to whoever waits.
//! Bounded by the permits that appends hold.

use super::core::{Core, locked};
use crate::Appended;
use crate::claim::Orphans;
use message::Sealed;
use spool::SpoolError;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A transaction on its way.
pub(crate) struct Append {
    pub sealed: Vec<Sealed>,
    /// Who waits for it.
    pub reply: oneshot::Sender<Result<Appended, SpoolError>>,
    pub orphans: Orphans,
    /// Given back behind everything else: who closes waits for it, and the markers end after that.
    pub permit: OwnedSemaphorePermit,
}

/// Appends that wait for a thread.
#[derive(Default)]
pub(crate) struct AppendQueue {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Append>,
    /// Threads that wait for something to do.
    idle: usize,
    closing: bool,
}

impl AppendQueue {
    /// Puts one in.
    pub fn push(&self, append: Append) {
        let mut state = locked(&self.state);
        state.waiting.push_back(append);
        if state.idle > 0 {
            self.wake.notify_one();
        }
    }

    /// The threads end once nothing waits. To be called when nobody can put anything in any more.
    pub fn close(&self) {
        locked(&self.state).closing = true;
        self.wake.notify_all();
    }

    /// What each thread does, until closed.
    pub fn run(&self, core: &Core) {
        while let Some(appends) = self.take() {
            // Who waits learns of it by the answer that does not come; the thread stays.
            if catch_unwind(AssertUnwindSafe(|| write(core, appends))).is_err() {
                tracing::error!("a thread that writes messages panicked: its messages are refused");
            }
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
        let count = together(state.waiting.iter().take(share).map(|append| append.sealed.as_slice()));
        Some(state.waiting.drain(..count).collect())
    }
}

/// Threads for a disk that needs so long for a write and its sync; one that cannot be timed may be slow.
pub fn threads_for(sync: Option<Duration>) -> usize {
    let steps = sync.unwrap_or(Duration::MAX).as_micros() / SYNC_STEP.as_micros();
    usize::try_from(steps).unwrap_or(THREADS_MAX).clamp(THREADS_MIN, THREADS_MAX)
}

/// How many of those that wait one thread takes when `idle` others could take some too.
fn share(waiting: usize, idle: usize) -> usize {
    (waiting / (idle + 1)).clamp(1, TOGETHER_MAX)
}

/// How many of these transactions, at least one, go together: single messages, as long as they are short. A long one, or one of
/// several messages, goes by itself, so that nobody waits for what another thread could write.
fn together<'a>(waiting: impl Iterator<Item = &'a [Sealed]>) -> usize {
    let (mut count, mut octets) = (0, 0);
    for transaction in waiting {
        let [single] = transaction else { break };
        octets += single.head.len() + single.body.len();
        if octets > TOGETHER_OCTETS {
            break;
        }
        count += 1;
    }
    count.max(1)
}

/// Single messages, or one transaction of several.
fn write(core: &Core, appends: Vec<Append>) {
    let (sealed, answers): (Vec<_>, Vec<_>) =
        appends.into_iter().map(|append| (append.sealed, (append.reply, append.orphans, append.permit))).unzip();
    let done = match core.stopped() {
        // What waited when that came about is refused too.
        Some(error) => sealed.iter().map(|_| Err(error.clone())).collect(),
        None if sealed.iter().all(|sealed| sealed.len() == 1) => {
            core.append_each(sealed.into_iter().flatten().collect())
        }
        None => sealed.into_iter().map(|sealed| core.append(sealed)).collect::<Vec<_>>(),
    };
    done.into_iter().zip(answers).for_each(|(done, answering)| answer(core, done, answering));
}

/// Tells who waits.
fn answer(
    core: &Core,
    done: Result<Appended, SpoolError>,
    (reply, orphans, permit): (oneshot::Sender<Result<Appended, SpoolError>>, Orphans, OwnedSemaphorePermit),
) {
    if let (Err(Ok(Appended { durable, .. })), Orphans::TakenBack) = (reply.send(done), orphans) {
        core.take_back(&durable);
    }
    drop(permit);
}

/// Messages that one thread writes together.
const TOGETHER_MAX: usize = 16;
/// Octets of head and body that it takes together.
const TOGETHER_OCTETS: usize = 1 << 20;
const THREADS_MIN: usize = 8;
const THREADS_MAX: usize = 64;
/// Time of a sync for which it takes one thread more.
const SYNC_STEP: Duration = Duration::from_micros(25);

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use clock::WallTime;
    use message::{Envelope, MessageId, Meta, TlsDemand};
    use smtp_wire::ReversePath;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    #[test]
    fn a_thread_leaves_the_others_their_share() {
        assert_eq!(
            [(1, 0), (1, 7), (5, 7), (16, 7), (40, 3), (40, 0), (200, 1)].map(|(w, i)| share(w, i)),
            [1, 1, 1, 2, 10, 16, 16]
        );
    }

    fn message(octets: usize) -> Sealed {
        let envelope = Envelope { sender: ReversePath(None), recipients: Vec::new(), dsn: None, tls: TlsDemand::Usual };
        let body = Bytes::from(vec![b'x'; octets]);
        let id = MessageId::from_bytes([1; 16]);
        Sealed { id, envelope, meta: Meta::new(), head: Bytes::new(), body: body.into(), due: WallTime::EPOCH }
    }

    #[test]
    fn nobody_waits_for_a_long_transaction_of_another() {
        let counts = |waiting: &[&[usize]]| {
            let waiting: Vec<Vec<Sealed>> = waiting.iter().map(|t| t.iter().map(|o| message(*o)).collect()).collect();
            together(waiting.iter().map(Vec::as_slice))
        };
        assert_eq!(counts(&[&[10], &[10], &[10]]), 3);
        assert_eq!(counts(&[&[10], &[10], &[10, 10], &[10]]), 2);
        assert_eq!(counts(&[&[10, 10], &[10]]), 1);
        assert_eq!(counts(&[&[10], &[TOGETHER_OCTETS - 10], &[10]]), 2);
        assert_eq!(counts(&[&[10], &[TOGETHER_OCTETS], &[10]]), 1);
        assert_eq!(counts(&[&[2 * TOGETHER_OCTETS], &[10]]), 1);
    }

    #[test]
    fn what_waits_is_taken_in_its_order_and_the_end_comes_behind_it() {
        let queue = AppendQueue::default();
        let permits = Arc::new(Semaphore::new(9));
        for octets in [1, 2, TOGETHER_OCTETS, 3] {
            let permit = Arc::clone(&permits).try_acquire_owned().expect("a permit");
            let (sealed, orphans) = (vec![message(octets)], Orphans::TakenBack);
            queue.push(Append { sealed, reply: oneshot::channel().0, orphans, permit });
        }
        queue.close();
        let taken = || {
            let octets = |append: Append| append.sealed[0].body.len();
            queue.take().map(|appends| appends.into_iter().map(octets).collect::<Vec<_>>())
        };
        assert_eq!([taken(), taken(), taken()], [Some(vec![1, 2]), Some(vec![TOGETHER_OCTETS]), Some(vec![3])]);
        assert_eq!((taken(), permits.available_permits()), (None, 9));
    }

    #[test]
    fn a_slow_disk_gets_more_threads() {
        let of = |us| threads_for(Some(Duration::from_micros(us)));
        assert_eq!([0, 100, 400, 1_000, 5_000, 1 << 40].map(of), [8, 8, 16, 40, 64, 64]);
        assert_eq!(threads_for(None), 64);
    }
}
