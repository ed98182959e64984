//! The writer's inbox: what sessions put in, what the writer thread takes out.
//!
//! One short lock, never held across a wait of a session. Bounded: octets of appends by the
//! handle's permits, marks by folding those of one message together.

use crate::claim::Orphans;
use crate::coming::Coming;
use crate::options::{Options, Stats};
use message::{MessageId, Place, Sealed};
use spool::{Durable, Mark, Recovered, Rewrite, SpoolError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use watched::Watched;

/// Shared by all handles and the writer thread.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Watched<State>,
    wake: Condvar,
    stats: Mutex<Stats>,
    /// Appends that cores compute now. Counted off under the lock, so that who sleeps for them hears of it.
    coming: AtomicUsize,
}

/// A transaction waiting for its commit.
#[derive(Debug)]
pub(crate) struct Append {
    pub groups: Vec<Vec<Sealed>>,
    pub octets: usize,
    pub reply: oneshot::Sender<Answer>,
    pub orphans: Orphans,
    /// Announced before.
    pub coming: Coming,
    /// Given back with the reply.
    pub permit: OwnedSemaphorePermit,
}

/// A message to be written anew.
#[derive(Debug)]
pub(crate) struct Rewriting {
    pub rewrite: Rewrite,
    /// Gets its new place. Whether anybody still waits changes nothing.
    pub reply: oneshot::Sender<Result<Place, SpoolError>>,
    /// Given back with the reply.
    pub permit: OwnedSemaphorePermit,
}

/// What an append gets: its messages back, and their receipts.
pub(crate) type Answer = Result<(Vec<Vec<Sealed>>, Vec<Durable>), SpoolError>;
/// Someone who waits until all marks so far are synced.
pub(crate) type Flush = oneshot::Sender<Result<(), SpoolError>>;
/// Someone who asks where a message is.
pub(crate) type Locate = (MessageId, oneshot::Sender<Option<Place>>);

#[derive(Debug, Default)]
struct State {
    work: Work,
    append_octets: usize,
    /// Since when the writer has the appends of the next commit wait for others.
    lingers_since: Option<Instant>,
    /// When the oldest mark came.
    marked_at: Option<Instant>,
    /// Marks at which they are folded.
    fold_at: usize,
    /// What the sleeping writer waits for.
    asleep: Option<Wanted>,
    /// Why appends are refused at once.
    stopped: Option<SpoolError>,
    closing: bool,
    closed: bool,
}

/// What was put in.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub appends: Vec<Append>,
    pub marks: Vec<Mark>,
    pub rewrites: Vec<Rewriting>,
    pub flushes: Vec<Flush>,
    pub locates: Vec<Locate>,
    /// Messages that do not read.
    pub set_aside: Vec<MessageId>,
    /// The old segments are read.
    pub recovered: Option<Result<Recovered, SpoolError>>,
    /// Somebody took the last chunk of recovered messages.
    pub woken: bool,
    /// Nothing more will come.
    pub closing: bool,
}

/// What wakes the writer.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// An append, or a first mark, which starts a clock.
    Anything,
    /// So many appends, and nobody else who is about to.
    Appends(usize),
}

impl Wanted {
    /// Whether this is what was waited for.
    fn is_there(self, appends: usize, coming: usize) -> bool {
        match self {
            Wanted::Anything => appends > 0,
            Wanted::Appends(wanted) => appends >= wanted && coming == 0,
        }
    }
}

/// What the writer does next.
enum Next {
    /// Sleeps until then, or for that.
    Sleep(Option<Instant>, Wanted),
    /// Keeps house: it is urgent, or no append waits.
    House,
    /// Takes what waits.
    Work,
}

/// How the writer wants to wait.
pub(crate) struct Wait {
    /// Appends the previous commits lead it to expect.
    pub appends_expected: usize,
    /// There is something to do at once: do not sleep.
    pub busy: bool,
    /// When to try again after a failure.
    pub retry_at: Option<Instant>,
    /// When to go on with housekeeping.
    pub house_at: Option<Instant>,
    /// Not behind appends that wait for others.
    pub house_is_urgent: bool,
    /// Marks of a failed commit are with the writer: more of them are no reason to wake before `retry_at`.
    pub marks_failed: bool,
}

impl Inbox {
    pub fn new() -> Inbox {
        let state = State { fold_at: MARKS_FOLDED_AT, ..State::default() };
        let (wake, stats, coming) = (Condvar::new(), Mutex::default(), AtomicUsize::new(0));
        Inbox { state: Watched::new(state), wake, stats, coming }
    }

    /// Puts a transaction in.
    pub fn append(&self, mut append: Append, options: &Options) -> Result<(), SpoolError> {
        let mut state = self.state();
        if let Some(error) = state.refusal() {
            // Who is announced is called off where the append goes, behind the lock.
            return Err(error);
        }
        state.append_octets += append.octets;
        let coming = self.count_off(std::mem::take(&mut append.coming).has_come());
        state.work.appends.push(append);
        let (count, octets) = (state.work.appends.len(), state.append_octets);
        self.wake_if(state, |wanted| wanted.is_there(count, coming) || octets >= options.batch_octets_max);
        Ok(())
    }

    /// An append is being computed.
    pub fn announce(&self) {
        self.coming.fetch_add(1, Ordering::Relaxed);
    }

    /// It is not any more, for now or for good.
    pub fn call_off(&self) {
        let state = self.state();
        let (count, coming) = (state.work.appends.len(), self.count_off(true));
        self.wake_if(state, |wanted| wanted.is_there(count, coming));
    }

    /// Who is coming behind one that was announced, or was not. Called under the lock.
    fn count_off(&self, announced: bool) -> usize {
        match announced {
            true => self.coming.fetch_sub(1, Ordering::Relaxed) - 1,
            false => self.coming.load(Ordering::Relaxed),
        }
    }

    /// Puts a message in that is to be written anew.
    pub fn rewrite(&self, rewriting: Rewriting) -> Result<(), SpoolError> {
        let mut state = self.state();
        if let Some(error) = state.refusal() {
            return Err(error);
        }
        state.work.rewrites.push(rewriting);
        self.wake_if(state, |_| true);
        Ok(())
    }

    /// Puts a mark in. After the close it is dropped: a delivery may be repeated after the next start.
    pub fn mark(&self, mark: Mark) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.work.marks.push(mark);
        let first = state.marked_at.is_none();
        if first {
            state.marked_at = Some(Instant::now());
        }
        let count = state.work.marks.len();
        if count >= state.fold_at {
            fold(&mut state.work.marks);
            state.fold_at = (state.work.marks.len() * 2).max(MARKS_FOLDED_AT);
        }
        self.wake_if(state, |wanted| matches!(wanted, Wanted::Anything) && (first || count == MARKS_WAKE));
    }

    /// Asks for a commit of everything so far.
    pub fn flush(&self, flush: Flush) -> Result<(), SpoolError> {
        let mut state = self.state();
        if state.closed {
            return Err(SpoolError::Closed);
        }
        state.work.flushes.push(flush);
        self.wake_if(state, |_| true);
        Ok(())
    }

    /// Asks where a message is.
    pub fn locate(&self, locate: Locate) -> Result<(), SpoolError> {
        let mut state = self.state();
        if state.closed {
            return Err(SpoolError::Closed);
        }
        state.work.locates.push(locate);
        self.wake_if(state, |_| true);
        Ok(())
    }

    /// Tells that a live message does not read.
    pub fn set_aside(&self, id: MessageId) {
        let mut state = self.state();
        if !state.closed {
            state.work.set_aside.push(id);
            self.wake_if(state, |_| true);
        }
    }

    /// Hands in what was read of the old segments.
    pub fn recovered(&self, recovered: Result<Recovered, SpoolError>) {
        let mut state = self.state();
        if !state.closed {
            state.work.recovered = Some(recovered);
            self.wake_if(state, |_| true);
        }
    }

    /// Makes the writer look around.
    pub fn wake(&self) {
        let mut state = self.state();
        state.work.woken = true;
        self.wake_if(state, |_| true);
    }

    /// No more appends; the writer ends once all is written.
    pub fn close(&self) {
        let mut state = self.state();
        state.closing = true;
        self.wake_if(state, |_| true);
    }

    /// The writer has ended: everybody who waits gets `Closed`.
    pub fn ended(&self) {
        let mut state = self.state();
        state.closed = true;
        // Dropping the reply channels is what tells them.
        state.work = Work::default();
    }

    /// Refuses appends at once, or no longer.
    pub fn set_stopped(&self, error: Option<SpoolError>) {
        self.state().stopped = error;
    }

    /// Why appends are refused at once; `None` while they are not.
    pub fn stopped(&self) -> Option<SpoolError> {
        self.state().stopped.clone()
    }

    /// Waits as told, then takes what a commit may take; nothing when it is only time to keep house.
    pub fn take(&self, wait: &Wait, options: &Options) -> Work {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let coming = self.coming.load(Ordering::Relaxed);
            let (until, wanted) = match state.next(wait, options, now, coming) {
                Next::Sleep(until, wanted) => (until, wanted),
                Next::House => return Work::default(),
                Next::Work => return state.take(options),
            };
            state.asleep = Some(wanted);
            state = match until {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let span = until.saturating_duration_since(now);
                    self.wake.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.asleep = None;
        }
    }

    pub fn stats(&self) -> Stats {
        let queued = self.state().work.appends.len();
        Stats { queued, lock_waits: self.state.waits(), ..*self.stats.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    pub fn set_stats(&self, stats: Stats) {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }

    /// Each change under the lock leaves the state whole, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn wake_if(&self, mut state: MutexGuard<'_, State>, wanted: impl FnOnce(Wanted) -> bool) {
        let wake = state.asleep.is_some_and(wanted);
        if wake {
            state.asleep = None;
            drop(state);
            self.wake.notify_one();
        }
    }
}

impl State {
    fn refusal(&self) -> Option<SpoolError> {
        if self.closing || self.closed {
            return Some(SpoolError::Closed);
        }
        self.stopped.clone()
    }

    /// When the last commit had several appends, this one waits a little for as many, and always for those who are coming, whose cores
    /// a commit would only take away: an append waits for none where nobody else is at it. Meanwhile no housekeeping begins but what is
    /// urgent; the rest has its turn behind the commit.
    fn next(&mut self, wait: &Wait, options: &Options, now: Instant, coming: usize) -> Next {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.closing || self.is_asked() || is_due(wait.retry_at) {
            return Next::Work;
        }
        let count = self.work.appends.len();
        if count > 0 {
            let since = *self.lingers_since.get_or_insert(now);
            let wanted = Wanted::Appends(wait.appends_expected);
            let enough = wanted.is_there(count, coming) || self.append_octets >= options.batch_octets_max;
            let until = since + options.linger.longest(wait.appends_expected);
            if enough || until <= now || wait.marks_failed {
                return Next::Work;
            }
            if wait.house_is_urgent && is_due(wait.house_at) {
                return Next::House;
            }
            return Next::Sleep(wait.retry_at.into_iter().chain([until]).min(), wanted);
        }
        let marks_until = self.marked_at.filter(|_| !wait.marks_failed).map(|at| at + options.mark_interval);
        let many = !wait.marks_failed && self.work.marks.len() >= MARKS_WAKE;
        if wait.busy || many || is_due(marks_until) {
            return Next::Work;
        }
        if is_due(wait.house_at) {
            return Next::House;
        }
        Next::Sleep([marks_until, wait.retry_at, wait.house_at].into_iter().flatten().min(), Wanted::Anything)
    }

    /// Somebody wants something that waits for nothing.
    fn is_asked(&self) -> bool {
        let Work { rewrites, flushes, locates, set_aside, recovered, woken, .. } = &self.work;
        *woken
            || recovered.is_some()
            || !(rewrites.is_empty() && flushes.is_empty() && locates.is_empty() && set_aside.is_empty())
    }

    /// Everything but the appends beyond one batch.
    fn take(&mut self, options: &Options) -> Work {
        let mut work = std::mem::take(&mut self.work);
        work.closing = self.closing;
        let octets = work.appends.iter().map(|append| append.octets);
        self.work.appends = work.appends.split_off(share(octets, options.batch_octets_max));
        self.append_octets = self.work.appends.iter().map(|append| append.octets).sum();
        work.closing &= self.work.appends.is_empty();
        (self.marked_at, self.lingers_since) = (None, None);
        self.fold_at = MARKS_FOLDED_AT;
        work
    }
}

/// How many of these appends share a commit: until they fill it. One that fills it by itself shares it with none before it, which
/// would be refused with it where both are more than a batch may have.
fn share(octets: impl Iterator<Item = usize>, octets_max: usize) -> usize {
    let (mut count, mut sum) = (0, 0_usize);
    for octets in octets {
        if sum >= octets_max || (count > 0 && octets >= octets_max) {
            break;
        }
        count += 1;
        sum = sum.saturating_add(octets);
    }
    count
}

/// Drops marks that later ones of the same message make needless, so that at most a few a live
/// message are kept however long the disk refuses.
pub(crate) fn fold(marks: &mut Vec<Mark>) {
    let mut last_attempt = HashMap::new();
    let mut removed = HashMap::new();
    for (i, mark) in marks.iter().enumerate() {
        match mark {
            Mark::Attempt { id, .. } => _ = last_attempt.insert(*id, i),
            Mark::Removed { id } => _ = removed.insert(*id, i),
            Mark::RecipientsDone { .. } => {}
        }
    }
    let mut i = 0;
    marks.retain(|mark| {
        let id = mark.id();
        let keep = match (removed.get(&id), mark) {
            (Some(at), _) => *at == i,
            (None, Mark::Attempt { .. }) => last_attempt.get(&id) == Some(&i),
            (None, _) => true,
        };
        i += 1;
        keep
    });
}

/// Marks that wake the writer before their time is up.
const MARKS_WAKE: usize = 4096;
/// Marks at which those of one message are folded together.
const MARKS_FOLDED_AT: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use clock::WallTime;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::sync::Semaphore;

    /// With so many appends.
    fn state(appends: usize) -> State {
        let room = Arc::new(Semaphore::new(appends.max(1)));
        let append = || Append {
            groups: Vec::new(),
            octets: 1,
            reply: oneshot::channel().0,
            orphans: Orphans::Kept,
            coming: Coming::default(),
            permit: Arc::clone(&room).try_acquire_owned().expect("room"),
        };
        let work = Work { appends: (0..appends).map(|_| append()).collect(), ..Work::default() };
        State { work, append_octets: appends, ..State::default() }
    }

    fn wait(appends_expected: usize, house_at: Option<Instant>) -> Wait {
        Wait { appends_expected, busy: false, retry_at: None, house_at, house_is_urgent: false, marks_failed: false }
    }

    /// What the writer does, with so many appends there, so many expected and so many coming, `later` than when it first looked.
    fn next(appends: usize, expected: usize, coming: usize, later: Duration) -> Next {
        let (mut state, options, now) = (state(appends), Options::default(), Instant::now());
        let wait = wait(expected, None);
        state.next(&wait, &options, now, coming);
        state.next(&wait, &options, now + later, coming)
    }

    #[test]
    fn a_commit_waits_for_as_many_as_the_last_had_and_for_who_computes_but_never_long() {
        let (at_once, few, many) = (Duration::ZERO, Duration::from_millis(1), Duration::from_millis(4));
        assert!(matches!(next(1, 1, 0, at_once), Next::Work), "nobody else is known of");
        assert!(matches!(next(1, 1, 1, at_once), Next::Sleep(Some(_), Wanted::Appends(1))));
        assert!(matches!(next(1, 1, 1, few), Next::Work));
        assert!(matches!(next(9, 10, 0, few), Next::Sleep(Some(_), Wanted::Appends(10))));
        assert!(matches!(next(10, 10, 0, few), Next::Work));
        assert!(matches!(next(10, 10, 1, few), Next::Sleep(Some(_), Wanted::Appends(10))));
        assert!(matches!(next(10, 10, 1, many), Next::Work));
        assert!(matches!(next(0, 10, 1, many), Next::Sleep(None, Wanted::Anything)));
        let woken_by = |appends, coming| Wanted::Appends(2).is_there(appends, coming);
        assert_eq!([woken_by(1, 0), woken_by(2, 1), woken_by(2, 0)], [false, false, true]);
    }

    #[test]
    fn housekeeping_does_not_cut_the_wait_of_a_commit_short_and_begins_in_it_only_when_it_is_urgent() {
        let (mut state, options, now) = (state(3), Options::default(), Instant::now());
        let (few, due) = (Duration::from_millis(1), wait(5, Some(now)));
        for later in [Duration::ZERO, few / 2] {
            let until = match state.next(&due, &options, now + later, 0) {
                Next::Sleep(until, Wanted::Appends(5)) => until,
                _ => panic!("a commit waits"),
            };
            assert_eq!(until, Some(now + few), "counted from when the writer first saw the append");
        }
        let urgent = Wait { house_is_urgent: true, ..wait(5, Some(now)) };
        assert!(matches!(state.next(&urgent, &options, now + few / 2, 0), Next::House));
        assert!(matches!(state.next(&urgent, &options, now + few, 0), Next::Work), "nor then for ever");
        assert!(matches!(state.next(&due, &options, now + few, 0), Next::Work));
        assert_eq!(state.take(&options).appends.len(), 3);
        assert!(matches!(state.next(&due, &options, now + few, 0), Next::House));
    }

    #[test]
    fn housekeeping_takes_no_marks_before_their_time() {
        let inbox = Inbox::new();
        inbox.mark(Mark::Removed { id: MessageId::from_bytes([1; 16]) });
        let patient = Options { mark_interval: Duration::from_secs(3600), ..Options::default() };
        assert!(inbox.take(&wait(1, Some(Instant::now())), &patient).marks.is_empty());
        assert_eq!(inbox.take(&wait(1, None), &Options::default()).marks.len(), 1);
    }

    #[test]
    fn who_came_is_counted_off_and_so_is_who_was_refused_or_came_elsewhere() {
        let (inbox, other, options) = (Arc::new(Inbox::new()), Arc::new(Inbox::new()), Options::default());
        let append = |coming| Append { coming, ..state(1).work.appends.remove(0) };
        let count = |inbox: &Inbox| inbox.coming.load(Ordering::Relaxed);
        let [comes, here, elsewhere, refused] = [(); 4].map(|()| Coming::to(&inbox));
        drop(comes);
        assert_eq!(count(&inbox), 3);
        inbox.append(append(here.here(&inbox)), &options).expect("taken");
        other.append(append(elsewhere.here(&other)), &options).expect("taken");
        assert_eq!((count(&inbox), count(&other)), (1, 0));
        inbox.close();
        inbox.append(append(refused.here(&inbox)), &options).expect_err("closing");
        assert_eq!(count(&inbox), 0);
    }

    #[test]
    fn what_fills_a_commit_by_itself_shares_it_with_none_before_it() {
        let share = |octets: &[usize]| share(octets.iter().copied(), 10);
        assert_eq!((share(&[]), share(&[1, 2, 3]), share(&[25]), share(&[25, 1])), (0, 3, 1, 1));
        assert_eq!((share(&[4, 4, 4, 1]), share(&[9, 9, 1]), share(&[5, 5, 1])), (3, 2, 2));
        assert_eq!((share(&[1, 2, 10, 1]), share(&[9, 10])), (2, 1));
    }

    #[test]
    fn folding_keeps_the_last_word_on_each_message() {
        let id = |n: u8| MessageId::from_bytes([n; 16]);
        let attempt = |n: u8, attempts: u16| Mark::Attempt { id: id(n), attempts, due: WallTime::EPOCH };
        let done = |n: u8| Mark::RecipientsDone { id: id(n), recipients: vec![1] };
        let mut marks = vec![
            attempt(1, 1),
            attempt(2, 1),
            done(2),
            attempt(1, 2),
            done(1),
            attempt(2, 2),
            Mark::Removed { id: id(1) },
        ];
        fold(&mut marks);
        assert_eq!(marks, [done(2), attempt(2, 2), Mark::Removed { id: id(1) }]);
    }
}
