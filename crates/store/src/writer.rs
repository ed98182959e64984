//! The writer thread: takes what waits, commits it as one, answers all, keeps house.
//!
//! The flush is the scarce thing, so everything that waits rides on one. A lone session is
//! synced at once; when the last commit carried several, the next waits a moment for as many, and for who computes an append
//! meanwhile.
//! A failed commit refuses its appends and keeps its marks; when no segment can be opened,
//! appends are refused at once until one can.

use crate::claim::Orphans;
use crate::inbox::{Answer, Append, Inbox, Rewriting, Wait, Work, fold};
use crate::options::{Options, Stats};
use crate::return_home::ReturnHome;
use message::{MessageId, Sealed};
use spool::{Batch, Disk, Durable, Mark, SegmentLog, SpoolError, Work as HouseWork};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// The thread's state.
pub(crate) struct Writer<D> {
    log: SegmentLog<D>,
    inbox: Arc<Inbox>,
    options: Options,
    /// While messages of earlier runs are on their way back.
    return_home: Option<ReturnHome>,
    /// What is being committed; marks stay in it until they are durable.
    batch: Batch,
    /// Who waits for the batch, and how many groups of it are theirs.
    replies: Vec<Waiting>,
    appends_expected: usize,
    /// Housekeeping failed the last time, which was said.
    house_fails: bool,
    /// When housekeeping goes on; `None` when there is none to do.
    house_at: Option<Instant>,
    /// That is to come before the next commit.
    house_is_urgent: bool,
    /// Next try after the disk refused.
    retry_at: Option<Instant>,
    /// The disk refused the marks in `batch`: they are tried again at `retry_at`.
    marks_failed: bool,
    /// Why the last failed commit failed.
    refusal: Option<SpoolError>,
    /// Why appends are refused; marks are not.
    stopped: Option<SpoolError>,
    stats: Stats,
}

/// Who waits for the commit that runs.
struct Waiting {
    /// Groups of the batch that are theirs.
    groups: usize,
    reply: oneshot::Sender<Answer>,
    orphans: Orphans,
    permit: OwnedSemaphorePermit,
}

impl<D: Disk> Writer<D> {
    pub fn new(log: SegmentLog<D>, inbox: Arc<Inbox>, return_home: Option<ReturnHome>, options: Options) -> Writer<D> {
        let stats = Stats { log: log.stats(), ..Stats::default() };
        inbox.set_stats(stats);
        Writer {
            log,
            inbox,
            options,
            return_home,
            batch: Batch::default(),
            replies: Vec::new(),
            appends_expected: 1,
            house_fails: false,
            house_at: Some(Instant::now()),
            house_is_urgent: false,
            retry_at: None,
            marks_failed: false,
            refusal: None,
            stopped: None,
            stats,
        }
    }

    /// Until closed. Whatever ends it, nobody is left waiting.
    pub fn run(mut self) {
        let ended = catch_unwind(AssertUnwindSafe(|| while self.turn() {}));
        self.inbox.ended();
        if let Err(panic) = ended {
            resume_unwind(panic);
        }
    }

    /// One commit or one step of housekeeping; false at the end.
    fn turn(&mut self) -> bool {
        let work = self.inbox.take(&self.wait(), &self.options);
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry();
        }
        let closing = work.closing;
        self.serve(work);
        self.return_home = self.return_home.take().and_then(|home| home.hand_over(&mut self.log));
        if closing {
            self.end();
        } else if self.house_at.is_some_and(|at| at <= Instant::now()) {
            self.keep_house();
        }
        self.stats.stopped = self.stopped.is_some();
        self.stats.log = self.log.stats();
        self.inbox.set_stats(self.stats);
        !closing
    }

    /// What to wait for.
    fn wait(&self) -> Wait {
        let chunk_wanted = self.return_home.as_ref().is_some_and(ReturnHome::can_go_on);
        // Orphans of the last commit are due at once.
        let marks_wait = !self.batch.marks.is_empty() && !self.marks_failed;
        Wait {
            appends_expected: self.appends_expected,
            busy: chunk_wanted || marks_wait,
            retry_at: self.retry_at,
            house_at: self.house_at,
            house_is_urgent: self.house_is_urgent,
            marks_failed: self.marks_failed,
        }
    }

    /// Answers, commits, answers.
    fn serve(&mut self, work: Work) {
        let Work { appends, marks, rewrites, flushes, locates, set_aside, recovered, .. } = work;
        if let Some(recovered) = recovered
            && let Some(home) = self.return_home.take()
        {
            self.return_home = home.arrived(&mut self.log, recovered).map(|(home, hints)| {
                self.batch.marks.extend(hints);
                self.house_at = Some(Instant::now());
                home
            });
        }
        for (id, reply) in locates {
            // Whoever asked may have gone.
            let _ = reply.send(self.log.locate(id));
        }
        for id in set_aside {
            tracing::error!(%id, "a message does not read: what holds it will be set aside in corrupt/");
            self.log.set_aside(id);
            self.house_soon();
        }
        self.batch.marks.extend(marks);
        if !appends.is_empty() {
            self.appends_expected = appends.len();
        }
        let appends = match &self.stopped {
            Some(error) => refuse(appends, error),
            None => appends,
        };
        let mut result = Ok(());
        if !appends.is_empty() || (!self.batch.marks.is_empty() && !self.marks_failed) {
            result = self.commit(appends);
        } else if let (true, Some(error)) = (self.marks_failed, &self.refusal) {
            result = Err(error.clone());
        }
        // Behind all marks of them: see there.
        if !rewrites.is_empty() {
            self.rewrite(rewrites);
        }
        for flush in flushes {
            let _ = flush.send(result.clone());
        }
    }

    /// Writes messages anew, all with one sync. One that has gone meanwhile is left out. One whose marks are yet to be written is refused:
    /// they would stand behind what is newer.
    fn rewrite(&mut self, waiting: Vec<Rewriting>) {
        let (mut rewrites, mut replies) = (Vec::new(), Vec::new());
        let unwritten = self.batch.marks.iter().filter(|_| self.marks_failed);
        let marked: HashSet<MessageId> = unwritten.map(Mark::id).collect();
        for Rewriting { rewrite, reply, permit } in waiting {
            let id = rewrite.sealed.id;
            let gone = self.log.locate(id).is_none().then_some(SpoolError::NoSuchMessage { id });
            let overtakes = self.refusal.clone().filter(|_| marked.contains(&id));
            match self.stopped.clone().or(gone).or(overtakes) {
                // Whoever waited may have gone, here and below: it is done all the same.
                Some(error) => _ = reply.send(Err(error)),
                None => {
                    rewrites.push(rewrite);
                    replies.push((reply, permit));
                }
            }
        }
        if rewrites.is_empty() {
            return;
        }
        match self.log.rewrite(&rewrites) {
            Ok(places) => {
                self.house_at.get_or_insert_with(Instant::now);
                replies.into_iter().zip(places).for_each(|((reply, _permit), place)| _ = reply.send(Ok(place)));
            }
            Err(error) => {
                tracing::error!(%error, messages = rewrites.len(), "messages cannot be written anew: they stay as they are");
                self.refused(error.clone());
                replies.into_iter().for_each(|(reply, _permit)| _ = reply.send(Err(error.clone())));
            }
        }
    }

    /// The last thing: what is left over, and an index for a quick start.
    fn end(&mut self) {
        if !self.batch.marks.is_empty()
            && let Err(error) = self.commit(Vec::new())
        {
            tracing::warn!(%error, marks = self.batch.marks.len(), "finished deliveries are not noted: they may be repeated");
        }
        if let Err(error) = self.log.finish() {
            tracing::warn!(%error, "no index was written: the next start reads the log instead");
        }
    }

    /// One commit for all.
    fn commit(&mut self, appends: Vec<Append>) -> Result<(), SpoolError> {
        self.stats.last_batch = appends.len();
        for Append { groups, reply, orphans, permit, .. } in appends {
            self.replies.push(Waiting { groups: groups.len(), reply, orphans, permit });
            self.batch.appends.extend(groups);
        }
        if self.replies.is_empty() {
            return self.commit_marks();
        }
        match self.log.commit(&self.batch) {
            Ok(durable) => {
                self.acknowledge(durable);
                Ok(())
            }
            Err(error) => {
                tracing::error!(%error, appends = self.replies.len(), "commit failed: its appends are refused");
                self.stats.failed_messages += self.batch.appends.iter().map(|t| t.len() as u64).sum::<u64>();
                self.batch.appends.clear();
                self.refused(error.clone());
                for waiting in self.replies.drain(..) {
                    let _ = waiting.reply.send(Err(error.clone()));
                }
                // Marks need little room, and some is kept for them.
                self.commit_marks()
            }
        }
    }

    /// Marks alone, in batches that fit into what is kept for them on a full disk, however many have come together.
    fn commit_marks(&mut self) -> Result<(), SpoolError> {
        while !self.batch.marks.is_empty() {
            let later = self.batch.marks.split_off(self.batch.marks.len().min(MARKS_PER_BATCH));
            let committed = self.log.commit(&self.batch);
            match committed {
                Ok(durable) => {
                    self.acknowledge(durable);
                    self.batch.marks = later;
                }
                Err(error) => {
                    self.batch.marks.extend(later);
                    tracing::error!(%error, marks = self.batch.marks.len(), "commit failed: tried again later");
                    fold(&mut self.batch.marks);
                    self.marks_failed = true;
                    self.refused(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Wakes everybody whose messages are durable now.
    fn acknowledge(&mut self, durable: Vec<Durable>) {
        // Whatever was written or removed may be a reason to keep house; what is being paced goes on when it is time.
        self.house_at.get_or_insert_with(Instant::now);
        self.stats.marks += self.batch.marks.len() as u64;
        self.stats.appended_messages += durable.len() as u64;
        self.batch.marks.clear();
        let mut durable = durable.into_iter();
        let mut written = self.batch.appends.drain(..);
        for Waiting { groups, reply, orphans, permit } in self.replies.drain(..) {
            let groups: Vec<Vec<Sealed>> = written.by_ref().take(groups).collect();
            let own: Vec<Durable> = durable.by_ref().take(groups.iter().map(Vec::len).sum()).collect();
            let octets = |s: &Sealed| (s.head.len() + s.body.len()) as u64;
            self.stats.appended_octets += groups.iter().flatten().map(octets).sum::<u64>();
            drop(permit);
            if let (Err(Ok((_, left))), Orphans::TakenBack) = (reply.send(Ok((groups, own))), orphans) {
                // Whoever waited has gone and never said 250: nobody would own these.
                self.batch.marks.extend(left.iter().map(|d| Mark::Removed { id: d.id() }));
            }
        }
    }

    /// The disk refused a commit: are appends worth trying? Known to all before whoever waits is told of the refusal.
    fn refused(&mut self, error: SpoolError) {
        self.refusal = Some(error);
        self.house_soon();
        match self.log.accepts_appends() {
            Ok(()) => self.set_stopped(None),
            Err(error) => self.set_stopped(Some(error)),
        }
        if self.stopped.is_some() || self.marks_failed {
            self.retry_at = Some(Instant::now() + self.options.retry_interval);
        }
    }

    /// When the time of a retry has come.
    fn retry(&mut self) {
        self.retry_at = None;
        self.marks_failed = false;
        if self.stopped.is_some() {
            let answer = self.log.ready().err();
            self.retry_at = answer.as_ref().map(|_| Instant::now() + self.options.retry_interval);
            self.set_stopped(answer);
        }
        self.house_soon();
    }

    fn set_stopped(&mut self, error: Option<SpoolError>) {
        match (&self.stopped, &error) {
            (None, Some(error)) => tracing::error!(%error, "the spool takes no mail until the cause is gone"),
            (Some(_), None) => tracing::info!("the spool takes mail again"),
            _ => {}
        }
        self.inbox.set_stopped(error.clone());
        self.stopped = error;
    }

    fn house_soon(&mut self) {
        self.house_at = Some(Instant::now());
    }

    /// One step of housekeeping, and when the next may follow: at a bounded rate beside traffic, at once when it is urgent.
    fn keep_house(&mut self) {
        let now = Instant::now();
        self.house_is_urgent = false;
        self.house_at = match self.log.maintain(HOUSEKEEPING_OCTETS) {
            Ok(done) => {
                self.house_fails = false;
                self.house_is_urgent = done.urgent;
                match done.work {
                    HouseWork::Nothing => None,
                    _ if done.urgent => Some(now),
                    _ => Some(now + self.pause_after(done.octets)),
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.house_fails, true) {
                    tracing::warn!(%error, "spool housekeeping failed: trying again each {:?}", self.options.retry_interval);
                }
                Some(now + self.options.retry_interval)
            }
        };
        for id in self.log.take_set_aside() {
            self.stats.set_aside_messages += 1;
            tracing::error!(%id, "a message did not read: it was set aside in corrupt/");
        }
    }

    /// How long housekeeping rests after a step that moved so many octets.
    fn pause_after(&self, octets: u64) -> std::time::Duration {
        std::time::Duration::from_secs_f64(octets as f64 / self.options.house_octets_per_s.max(1) as f64)
    }
}

/// Refuses appends without trying; nothing is left of them.
fn refuse(appends: Vec<Append>, error: &SpoolError) -> Vec<Append> {
    for append in appends {
        // Whoever asked may have gone.
        let _ = append.reply.send(Err(error.clone()));
    }
    Vec::new()
}

/// Octets a step of housekeeping reads and writes at most: what a session may have to wait for.
const HOUSEKEEPING_OCTETS: usize = 512 << 10;
/// Marks committed at once when nothing else is: some 160 KiB, less than a quarter of the smallest segment.
const MARKS_PER_BATCH: usize = 4096;
