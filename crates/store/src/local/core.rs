//! What the threads of a spool of one file per message share: the engine, the figures, and why mail is refused.
//!
//! Blocking calls, from many threads at once. A refused append has two consequences: what is left of it is taken away, and
//! the keeper finds out whether messages can be written at all. Until both are well no mail is taken.

use super::files::RealFiles;
use super::keeper::Chore;
use super::marker::{Flush, MarkCounters, MarkQueue};
use crate::Appended;
use crate::hints::Recent;
use crate::lock::SpoolLock;
use crate::options::Stats;
use message::{MessageId, Sealed};
use spool::local::{Folder, MessageFiles, Undo};
use spool::{Durable, LogStats, Mark, RecoveredMessage, Rewrite, SpoolError};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// What the threads share.
pub(crate) struct Core {
    pub engine: Arc<MessageFiles<RealFiles>>,
    pub markers: Vec<Arc<MarkQueue>>,
    /// What a killed process had finished.
    recent: Recent,
    chores: mpsc::Sender<Chore>,
    stop: Mutex<Stop>,
    /// The keeper was told to find out whether messages can be written.
    probe_asked: AtomicBool,
    pub counters: Counters,
    /// Of the directory, while it is open.
    lock: Mutex<Option<SpoolLock>>,
}

/// Why appends are refused.
#[derive(Debug, Default)]
struct Stop {
    /// Refused transactions of which something is left.
    undoing: usize,
    /// Why the newest of them was refused.
    undone_why: Option<SpoolError>,
    /// Why no message can be written.
    probe: Option<SpoolError>,
}

#[derive(Default)]
pub(crate) struct Counters {
    recovered_messages: AtomicU64,
    appended_messages: AtomicU64,
    appended_octets: AtomicU64,
    failed_messages: AtomicU64,
    pub marks: Arc<MarkCounters>,
    /// Files in `corrupt/` at the start.
    in_corrupt: u64,
    /// Messages moved there at somebody's wish.
    given_up: AtomicU64,
    transactions: AtomicU64,
}

impl Core {
    /// `in_corrupt` files are set aside already.
    pub fn new(
        engine: MessageFiles<RealFiles>,
        recent: Recent,
        chores: mpsc::Sender<Chore>,
        in_corrupt: u64,
        lock: SpoolLock,
    ) -> Core {
        Core {
            engine: Arc::new(engine),
            markers: (0..MARKERS).map(|_| Arc::default()).collect(),
            recent,
            chores,
            stop: Mutex::default(),
            probe_asked: AtomicBool::new(false),
            counters: Counters { in_corrupt, ..Counters::default() },
            lock: Mutex::new(Some(lock)),
        }
    }

    /// Writes and commits; a blocking call.
    pub fn append(&self, sealed: Vec<Sealed>) -> Result<Appended, SpoolError> {
        let ids: Vec<MessageId> = sealed.iter().map(|sealed| sealed.id).collect();
        let written = self.write(&sealed).map_err(|error| (error, self.engine.give_up(ids.clone())));
        self.end(sealed, written.and_then(|()| self.engine.commit(&ids)))
    }

    /// Writes and commits messages, each a transaction of its own; a blocking call. Answers in their order.
    pub fn append_each(&self, sealed: Vec<Sealed>) -> Vec<Result<Appended, SpoolError>> {
        let done = self.engine.append_each(&sealed);
        sealed.into_iter().zip(done).map(|(sealed, done)| self.end(vec![sealed], done.map(|one| vec![one]))).collect()
    }

    /// The end of a transaction.
    fn end(&self, sealed: Vec<Sealed>, done: Result<Vec<Durable>, (SpoolError, Undo)>) -> Result<Appended, SpoolError> {
        match done {
            Ok(durable) => {
                self.count(&sealed, &durable);
                Ok(Appended { sealed, durable })
            }
            Err((error, undo)) => {
                tracing::error!(%error, messages = sealed.len(), "an append is refused");
                self.counters.failed_messages.fetch_add(sealed.len() as u64, Ordering::Relaxed);
                self.undo(undo, &error);
                if !self.probe_asked.swap(true, Ordering::AcqRel) {
                    self.tell(Chore::Probe);
                }
                Err(error)
            }
        }
    }

    /// Writes all messages of a transaction, several at the same time.
    fn write(&self, sealed: &[Sealed]) -> Result<(), SpoolError> {
        let writers = sealed.len().min(WRITERS_PER_TRANSACTION_MAX);
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(sealed) = sealed.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.engine.write(sealed)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            // When the system gives no thread, this one does it all.
            let others: Vec<_> =
                (1..writers).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
            let own = work();
            others.into_iter().fold(own, |result, other| result.and(other.join().unwrap_or(Err(SpoolError::Closed))))
        })
    }

    fn count(&self, sealed: &[Sealed], durable: &[Durable]) {
        let octets = sealed.iter().map(|s| (s.head.len() + s.body.len()) as u64).sum();
        let counters = &self.counters;
        counters.transactions.fetch_add(1, Ordering::Relaxed);
        counters.appended_messages.fetch_add(durable.len() as u64, Ordering::Relaxed);
        counters.appended_octets.fetch_add(octets, Ordering::Relaxed);
    }

    /// Takes away what is left of a refused transaction, now or, while mail is refused, later.
    fn undo(&self, mut undo: Undo, error: &SpoolError) {
        if self.engine.undo(&mut undo).is_ok() {
            return;
        }
        self.change_stop(|stop| {
            stop.undoing += 1;
            stop.undone_why = Some(error.clone());
        });
        self.tell(Chore::Undo(undo));
    }

    /// The keeper took away what was left of a transaction.
    pub fn undone(&self) {
        self.change_stop(|stop| {
            stop.undoing -= 1;
            if stop.undoing == 0 {
                stop.undone_why = None;
            }
        });
    }

    /// Finds out whether a message can be written now; no mail is taken when not.
    pub fn probe(&self) -> Result<(), SpoolError> {
        // What fails from here on asks anew.
        self.probe_asked.store(false, Ordering::Release);
        let probed = self.engine.probe(PROBE_OCTETS);
        self.change_stop(|stop| stop.probe = probed.clone().err());
        probed
    }

    /// Why no append may begin; `None` while they may.
    pub fn stopped(&self) -> Option<SpoolError> {
        locked(&self.stop).why().cloned()
    }

    fn change_stop(&self, change: impl FnOnce(&mut Stop)) {
        let mut stop = locked(&self.stop);
        let before = stop.why().is_some();
        change(&mut stop);
        match (before, stop.why()) {
            (false, Some(error)) => tracing::error!(%error, "the spool takes no mail until the cause is gone"),
            (true, None) => tracing::info!("the spool takes mail again"),
            _ => {}
        }
    }

    /// Puts a mark in the queue of the one thread that writes those of its message.
    pub fn mark(&self, mark: Mark) {
        self.marker_of(mark.id()).mark(mark);
    }

    /// Removes what was written for somebody who has gone and never said 250: nobody would own it.
    pub fn take_back(&self, written: &[Durable]) {
        written.iter().for_each(|durable| self.mark(Mark::Removed { id: durable.id() }));
    }

    /// Has a message written anew by the thread that writes its marks.
    pub fn rewrite(&self, rewrite: Rewrite, reply: Flush) {
        self.marker_of(rewrite.sealed.id).rewrite(rewrite, reply);
    }

    fn marker_of(&self, id: MessageId) -> &MarkQueue {
        let marker = match Folder::of(id) {
            Folder::Messages(number) => usize::from(number) % self.markers.len(),
            Folder::Intents | Folder::Corrupt => 0,
        };
        &self.markers[marker]
    }

    /// Recovery found messages: takes those away that a killed process had finished, and notes what else it had done.
    pub fn found(&self, messages: &mut Vec<RecoveredMessage>) {
        self.counters.recovered_messages.fetch_add(messages.len() as u64, Ordering::Relaxed);
        messages.retain_mut(|message| {
            let Some(mark) = self.recent.news_of(message) else { return true };
            let lives = !matches!(mark, Mark::Removed { .. });
            self.mark(mark);
            lives
        });
    }

    /// A message was moved to `corrupt/`.
    pub fn was_set_aside(&self, id: MessageId) {
        tracing::error!(message = %id, "does not read: what is left of its file is in corrupt/");
        self.counters.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub fn tell(&self, chore: Chore) {
        // The keeper ends at the close only, after everything that could be told.
        let _ = self.chores.send(chore);
    }

    /// The figures now, but for what is queued.
    pub fn stats(&self) -> Stats {
        let counters = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let live = get(&counters.recovered_messages) + get(&counters.appended_messages);
        let gone = get(&counters.marks.removed) + get(&counters.given_up);
        let log = LogStats {
            commits: get(&counters.transactions),
            syncs: self.engine.files().syncs(),
            set_aside: counters.in_corrupt + self.engine.moved_aside(),
            set_aside_messages: get(&counters.given_up),
            // Several counters: between two of them something may happen.
            live_messages: live.saturating_sub(gone),
            ..LogStats::default()
        };
        Stats {
            log,
            appended_messages: get(&counters.appended_messages),
            appended_octets: get(&counters.appended_octets),
            failed_messages: get(&counters.failed_messages),
            marks: get(&counters.marks.marks),
            set_aside_messages: get(&counters.given_up),
            stopped: self.stopped().is_some(),
            ..Stats::default()
        }
    }

    /// Gives the directory free.
    pub fn unlock(&self) {
        locked(&self.lock).take();
    }
}

impl Stop {
    fn why(&self) -> Option<&SpoolError> {
        self.undone_why.as_ref().or(self.probe.as_ref())
    }
}

/// Each change under these locks is one step, so a panic elsewhere does not spoil them.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Messages of one transaction that are written at the same time.
const WRITERS_PER_TRANSACTION_MAX: usize = 8;
/// Threads that write marks.
const MARKERS: usize = 4;
/// Octets of a message that is written to find out whether one can be.
const PROBE_OCTETS: usize = 64 << 10;
