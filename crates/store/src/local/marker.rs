//! The threads that write marks: settled messages go at once, mark lines with a sync each, syncs of directories together.
//!
//! Removals go first, because each costs little and a kill must not find many undone; a few mark lines follow, then it is
//! looked again. Each thread has its own directories, so that the marks of a message keep their order. Bounded: what waits for one
//! message is folded into at most an attempt and a list of recipients, or a removal. A mark that cannot be written stays
//! and is tried again; others go on.

use message::MessageId;
use spool::local::{Files, Folder, MessageFiles};
use spool::{Mark, Rewrite, SpoolError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What a marker thread is told.
#[derive(Debug, Default)]
pub(crate) struct MarkQueue {
    state: Mutex<State>,
    wake: Condvar,
}

/// Someone who waits until all marks so far are synced.
pub(crate) type Flush = oneshot::Sender<Result<(), SpoolError>>;

#[derive(Debug, Default)]
struct State {
    /// Messages to be removed.
    removals: Waiting,
    /// Messages that stay.
    notes: Waiting,
    /// Messages to be written anew.
    rewrites: Vec<(Rewrite, Flush)>,
    flushes: Vec<Flush>,
    closing: bool,
    ended: bool,
}

/// Marks by message.
type Waiting = HashMap<MessageId, Pending>;

/// What the thread does next.
struct Taken {
    removals: Waiting,
    notes: Waiting,
    rewrites: Vec<(Rewrite, Flush)>,
    flushes: Vec<Flush>,
    closing: bool,
}

/// What is to be written of one message.
#[derive(Debug, Default)]
struct Pending {
    attempt: Option<Mark>,
    done: Vec<u32>,
    removed: bool,
    /// Marks that it stands for.
    count: u64,
}

/// A marker thread.
pub(crate) struct Marker<F> {
    engine: Arc<MessageFiles<F>>,
    queue: Arc<MarkQueue>,
    /// Longest time a removal waits for the sync of its directory.
    interval: Duration,
    retry_interval: Duration,
    /// Directories with removals that are not synced, and since when.
    unsynced: BTreeMap<Folder, Instant>,
    /// Directories that may have files kept for other messages, and when those that nobody took go.
    kept: BTreeSet<Folder>,
    tidy_at: Option<Instant>,
    /// What the disk refused.
    failed: Waiting,
    retry_at: Option<Instant>,
    counters: Arc<MarkCounters>,
}

/// What the markers did.
#[derive(Debug, Default)]
pub(crate) struct MarkCounters {
    /// Marks written.
    pub marks: AtomicU64,
    /// Messages removed.
    pub removed: AtomicU64,
}

impl MarkQueue {
    /// Puts a mark in. After the end it is dropped: a delivery may be repeated after the next start.
    pub fn mark(&self, mark: Mark) {
        let mut state = self.state();
        if !state.ended {
            let wake = state.is_empty();
            state.add(mark);
            drop(state);
            if wake {
                self.wake.notify_one();
            }
        }
    }

    /// Puts a message in that is to be written anew, behind its marks so far.
    pub fn rewrite(&self, rewrite: Rewrite, reply: Flush) {
        let mut state = self.state();
        if !state.ended {
            // Else dropping it tells.
            state.rewrites.push((rewrite, reply));
            self.wake.notify_one();
        }
    }

    /// Asks for everything so far to be made durable.
    pub fn flush(&self, flush: Flush) {
        let mut state = self.state();
        if !state.ended {
            // Else dropping it tells.
            state.flushes.push(flush);
            self.wake.notify_one();
        }
    }

    /// The thread ends once all is written, or was tried.
    pub fn close(&self) {
        self.state().closing = true;
        self.wake.notify_one();
    }

    /// Each change under the lock leaves the state whole, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.removals.is_empty() && self.notes.is_empty() && self.rewrites.is_empty()
    }

    fn add(&mut self, mark: Mark) {
        let id = mark.id();
        if let Some(removal) = self.removals.get_mut(&id) {
            removal.add(mark);
        } else if matches!(mark, Mark::Removed { .. }) {
            let mut pending = self.notes.remove(&id).unwrap_or_default();
            pending.add(mark);
            self.removals.insert(id, pending);
        } else {
            self.notes.entry(id).or_default().add(mark);
        }
    }

    /// All removals, and mark lines of a few messages, or of all.
    fn take(&mut self, all: bool) -> (Waiting, Waiting) {
        let removals = std::mem::take(&mut self.removals);
        if all || self.notes.len() <= NOTES_AT_ONCE {
            return (removals, std::mem::take(&mut self.notes));
        }
        let some: Vec<MessageId> = self.notes.keys().take(NOTES_AT_ONCE).copied().collect();
        (removals, some.iter().filter_map(|id| self.notes.remove_entry(id)).collect())
    }
}

impl Pending {
    fn add(&mut self, mark: Mark) {
        self.count += 1;
        match mark {
            _ if self.removed => {}
            Mark::Removed { .. } => *self = Pending { removed: true, count: self.count, ..Pending::default() },
            Mark::Attempt { .. } => self.attempt = Some(mark),
            Mark::RecipientsDone { mut recipients, .. } => self.done.append(&mut recipients),
        }
        if self.done.len() > DONE_FOLDED_AT {
            self.done.sort_unstable();
            self.done.dedup();
        }
    }

    /// Adds what came later.
    fn merge(&mut self, id: MessageId, later: Pending) {
        let count = self.count + later.count;
        let Pending { attempt, done, removed, .. } = later;
        attempt.into_iter().for_each(|mark| self.add(mark));
        self.add(Mark::RecipientsDone { id, recipients: done });
        if removed {
            self.add(Mark::Removed { id });
        }
        self.count = count;
    }

    fn marks(&self, id: MessageId) -> Vec<Mark> {
        let done = (!self.done.is_empty()).then(|| Mark::RecipientsDone { id, recipients: self.done.clone() });
        self.attempt.iter().cloned().chain(done).collect()
    }
}

impl<F: Files> Marker<F> {
    /// A marker for one queue.
    pub fn new(
        engine: Arc<MessageFiles<F>>,
        queue: Arc<MarkQueue>,
        (interval, retry_interval): (Duration, Duration),
        counters: Arc<MarkCounters>,
    ) -> Marker<F> {
        Marker {
            engine,
            queue,
            interval,
            retry_interval,
            unsynced: BTreeMap::new(),
            kept: BTreeSet::new(),
            tidy_at: None,
            failed: HashMap::new(),
            retry_at: None,
            counters,
        }
    }

    /// Until closed. Whatever ends it, nobody is left waiting.
    pub fn run(mut self) {
        let _end = End(Arc::clone(&self.queue));
        while self.turn() {}
    }

    /// Takes what waits and writes it; false at the end.
    fn turn(&mut self) -> bool {
        let Taken { removals, notes, rewrites, flushes, closing } = self.take();
        let all = closing || !flushes.is_empty();
        let mut result = Ok(());
        if self.retry_at.is_some_and(|at| all || at <= Instant::now()) {
            self.retry_at = None;
            result = self.write(HashMap::new(), true);
        }
        result = result.and(self.write(removals, false));
        result = result.and(self.write(notes, false));
        rewrites.into_iter().for_each(|(rewrite, reply)| _ = reply.send(self.rewrite(&rewrite)));
        result = result.and(self.sync_folders(all));
        self.tidy();
        if !self.failed.is_empty() || result.is_err() {
            self.retry_at.get_or_insert_with(|| Instant::now() + self.retry_interval);
        }
        for flush in flushes {
            // Whoever asked may have gone.
            let _ = flush.send(result.clone());
        }
        !closing || !self.queue.state().is_empty()
    }

    /// Writes a message anew, unless marks of it are still to be written.
    fn rewrite(&mut self, rewrite: &Rewrite) -> Result<(), SpoolError> {
        let id = rewrite.sealed.id;
        if self.failed.contains_key(&id) {
            self.write(HashMap::new(), true)?;
        }
        self.engine.rewrite(rewrite).inspect_err(|error| {
            tracing::error!(%error, message = %id, "a message cannot be written anew: it stays as it is");
            // The name may stand and not be durable.
            self.unsynced.entry(Folder::of(id)).or_insert_with(Instant::now);
        })
    }

    /// Waits for something to do, and takes all of it.
    fn take(&self) -> Taken {
        let mut state = self.queue.state();
        loop {
            let now = Instant::now();
            let sync_at = self.unsynced.values().min().map(|since| *since + self.interval);
            let sync_at = sync_at.filter(|_| self.retry_at.is_none());
            let until = [sync_at, self.retry_at, self.tidy_at].into_iter().flatten().min();
            let due = until.is_some_and(|until| until <= now);
            if due || state.closing || !state.is_empty() || !state.flushes.is_empty() {
                let all = state.closing || !state.flushes.is_empty() || !state.rewrites.is_empty();
                let (rewrites, flushes) = (std::mem::take(&mut state.rewrites), std::mem::take(&mut state.flushes));
                let (removals, notes) = state.take(all);
                return Taken { removals, notes, rewrites, flushes, closing: state.closing };
            }
            state = match until {
                None => self.queue.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let span = until.saturating_duration_since(now);
                    self.queue.wake.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Writes marks; those that the disk refuses stay. `again` tries those of earlier.
    fn write(&mut self, marks: Waiting, again: bool) -> Result<(), SpoolError> {
        let mut result = Ok(());
        let marks = if again { std::mem::take(&mut self.failed) } else { marks };
        for (id, pending) in marks {
            if let Some(earlier) = self.failed.get_mut(&id) {
                // Behind those that failed, else the order would change.
                earlier.merge(id, pending);
                continue;
            }
            let written = match pending.removed {
                true => self.engine.retire(id),
                false => self.engine.note(id, &pending.marks(id)).map(|()| false),
            };
            match written {
                Ok(was_there) => {
                    self.counters.marks.fetch_add(pending.count, Ordering::Relaxed);
                    self.counters.removed.fetch_add(u64::from(was_there), Ordering::Relaxed);
                    if pending.removed {
                        self.unsynced.entry(Folder::of(id)).or_insert_with(Instant::now);
                        self.kept.insert(Folder::of(id));
                        self.tidy_at.get_or_insert_with(|| Instant::now() + KEPT_FOR);
                    }
                }
                Err(error) => {
                    if !again {
                        tracing::error!(%error, message = %id, "a mark cannot be written: trying again");
                    }
                    result = Err(error);
                    self.failed.insert(id, pending);
                }
            }
        }
        result
    }

    /// Removes kept files that no message took for some time.
    fn tidy(&mut self) {
        if self.tidy_at.is_some_and(|at| at <= Instant::now()) {
            self.kept.retain(|folder| self.engine.remove_old_spares(*folder));
            self.tidy_at = (!self.kept.is_empty()).then(|| Instant::now() + KEPT_FOR);
        }
    }

    /// Syncs directories whose time has come, or all.
    fn sync_folders(&mut self, all: bool) -> Result<(), SpoolError> {
        let now = Instant::now();
        let oldest = self.unsynced.values().min().copied();
        if self.retry_at.is_some_and(|at| !all && at > now)
            || !oldest.is_some_and(|at| all || at + self.interval <= now)
        {
            return Ok(());
        }
        let mut result = Ok(());
        let engine = &self.engine;
        // Those whose time has not come ride along: the journal takes all of them in one go.
        self.unsynced.retain(|folder, _| {
            let synced = engine.sync_names(*folder);
            let failed = synced.is_err();
            if let Err(error) = synced {
                tracing::error!(%error, "removals cannot be made durable: trying again");
                result = Err(error);
            }
            failed
        });
        result
    }
}

/// Ends a queue, whatever ended its thread.
struct End(Arc<MarkQueue>);

impl Drop for End {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ended = true;
        // Dropping the reply channels is what tells those who wait.
        (state.removals, state.notes) = (HashMap::new(), HashMap::new());
        (state.rewrites, state.flushes) = (Vec::new(), Vec::new());
    }
}

/// Time a settled message's file is kept at least for another message, at most twice that.
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Messages whose mark lines are written before it is looked whether there are removals.
const NOTES_AT_ONCE: usize = 8;
/// Recipients in one list at which doubles are taken out.
const DONE_FOLDED_AT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use clock::WallTime;
    use spool::local::{FaultFiles, LocalName, Run};

    const ID: MessageId = MessageId::from_bytes([1; 16]);

    fn attempt(attempts: u16) -> Mark {
        Mark::Attempt { id: ID, attempts, due: WallTime::EPOCH }
    }

    fn done(recipients: &[u32]) -> Mark {
        Mark::RecipientsDone { id: ID, recipients: recipients.to_vec() }
    }

    #[test]
    fn the_marks_of_a_message_are_folded() {
        let mut pending = Pending::default();
        [attempt(1), done(&[1]), attempt(2), done(&[3, 2])].into_iter().for_each(|mark| pending.add(mark));
        assert_eq!(pending.marks(ID), [attempt(2), done(&[1, 3, 2])]);
        let mut later = Pending::default();
        [attempt(3), done(&[7])].into_iter().for_each(|mark| later.add(mark));
        pending.merge(ID, later);
        assert_eq!((pending.marks(ID), pending.count), (vec![attempt(3), done(&[1, 3, 2, 7])], 6));
        let mut last = Pending::default();
        last.add(Mark::Removed { id: ID });
        pending.merge(ID, last);
        pending.add(attempt(4));
        assert!(pending.removed && pending.marks(ID).is_empty() && pending.count == 8);
    }

    #[test]
    fn removals_go_first_and_nothing_is_left_behind() {
        let mut state = State::default();
        let id = |n: u8| MessageId::from_bytes([n; 16]);
        let count = NOTES_AT_ONCE as u8 + 1;
        for n in 0..count {
            state.add(Mark::Attempt { id: id(n), attempts: 1, due: WallTime::EPOCH });
        }
        state.add(Mark::Removed { id: id(0) });
        state.add(Mark::RecipientsDone { id: id(0), recipients: vec![1] });
        state.add(Mark::Removed { id: id(200) });
        assert_eq!(state.notes.len(), NOTES_AT_ONCE, "what was to be noted of a removed message is not");
        state.add(Mark::Attempt { id: id(0xf0), attempts: 1, due: WallTime::EPOCH });
        let (removals, notes) = state.take(false);
        assert_eq!((removals.len(), removals[&id(0)].count, notes.len()), (2, 3, NOTES_AT_ONCE));
        let (removals, notes) = state.take(true);
        assert!(removals.is_empty() && notes.len() == 1 && state.is_empty());
    }

    #[test]
    fn files_that_no_message_takes_go_after_some_time() {
        let files = FaultFiles::new();
        let engine = Arc::new(MessageFiles::new(files.clone(), Run(1), |_, _| String::new()));
        files.set_contents(LocalName::Message(ID), b"a message".to_vec());
        let intervals = (Duration::ZERO, Duration::ZERO);
        let mut marker = Marker::new(engine, Arc::default(), intervals, Arc::default());
        marker.queue.mark(Mark::Removed { id: ID });
        assert!(marker.turn());
        assert_eq!(files.names(), [LocalName::New(ID, Run(1))]);
        for left in [1, 0] {
            let at = marker.tidy_at.expect("it was kept");
            assert!(at > Instant::now() + KEPT_FOR / 2);
            marker.tidy_at = Some(Instant::now());
            marker.tidy();
            assert_eq!(files.names().len(), left, "young at first, then old");
        }
        assert!(marker.tidy_at.is_none() && marker.kept.is_empty(), "it sleeps until there is something to do");
    }

    #[test]
    fn a_list_of_recipients_stays_bounded() {
        let mut pending = Pending::default();
        for round in 0..10 {
            for recipient in 0..DONE_FOLDED_AT as u32 {
                pending.add(done(&[recipient]));
                assert!(pending.done.len() <= DONE_FOLDED_AT + 1, "round {round}");
            }
        }
    }
}
