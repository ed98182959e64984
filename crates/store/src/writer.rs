//! The writer thread: takes what waits, commits it as one, answers all, keeps house.
//!
//! The flush is the scarce thing, so everything that waits rides on one. A lone session is
//! synced at once; when the last commits carried several, the next waits a moment for as many.
//! A failed commit refuses its appends and keeps its marks; when no segment can be opened,
//! appends are refused at once until one can.

use crate::inbox::{Answer, Append, Inbox, Wait, Work, fold};
use crate::options::{Options, Stats};
use message::Sealed;
use spool::{Batch, Disk, Durable, Mark, SegmentLog, SpoolError};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// The thread's state.
pub(crate) struct Writer<D> {
    log: SegmentLog<D>,
    inbox: Arc<Inbox>,
    options: Options,
    /// What is being committed; marks stay in it until they are durable.
    batch: Batch,
    /// Who waits for the batch, and how many groups of it are theirs.
    replies: Vec<Waiting>,
    appends_expected: usize,
    busy: bool,
    /// Next try after the disk refused.
    retry_at: Option<Instant>,
    /// Why no segment can be opened.
    stopped: Option<SpoolError>,
    stats: Stats,
}

/// Who waits for the commit that runs.
struct Waiting {
    /// Groups of the batch that are theirs.
    groups: usize,
    reply: oneshot::Sender<Answer>,
    permit: OwnedSemaphorePermit,
}

impl<D: Disk> Writer<D> {
    pub fn new(log: SegmentLog<D>, inbox: Arc<Inbox>, options: Options) -> Writer<D> {
        let stats = Stats { log: log.stats(), ..Stats::default() };
        inbox.set_stats(stats);
        Writer {
            log,
            inbox,
            options,
            batch: Batch::default(),
            replies: Vec::new(),
            appends_expected: 1,
            busy: true,
            retry_at: None,
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
        let stopped = self.stopped.is_some();
        let busy = self.busy && self.retry_at.is_none();
        let wait = Wait { appends_expected: self.appends_expected, busy, until: self.retry_at, stopped };
        let work = self.inbox.take(&wait, &self.options);
        if self.retry_at.is_some_and(|at| at <= Instant::now()) {
            self.retry();
        }
        let closing = work.closing;
        self.serve(work);
        if !closing && self.retry_at.is_none() {
            self.keep_house();
        }
        if closing && !self.batch.marks.is_empty() {
            // What the last commit left over; if it fails too, deliveries may be repeated.
            let _ = self.commit(Vec::new());
        }
        self.stats.stopped = self.stopped.is_some();
        self.stats.log = self.log.stats();
        self.inbox.set_stats(self.stats);
        !closing
    }

    /// Answers, commits, answers.
    fn serve(&mut self, work: Work) {
        let Work { appends, marks, flushes, locates, closing } = work;
        for (id, reply) in locates {
            // Whoever asked may have gone.
            let _ = reply.send(self.log.locate(id));
        }
        self.batch.marks.extend(marks);
        if !appends.is_empty() {
            self.appends_expected = appends.len();
        }
        let wanted = !appends.is_empty() || !self.batch.marks.is_empty();
        let result = match &self.stopped {
            Some(error) if !closing => Err(refuse(appends, error)),
            _ if wanted => self.commit(appends),
            _ => Ok(()),
        };
        for flush in flushes {
            let _ = flush.send(result.clone());
        }
    }

    /// One commit for all.
    fn commit(&mut self, appends: Vec<Append>) -> Result<(), SpoolError> {
        self.stats.last_batch = appends.len();
        for Append { groups, reply, permit, .. } in appends {
            self.replies.push(Waiting { groups: groups.len(), reply, permit });
            self.batch.appends.extend(groups);
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
                for waiting in self.replies.drain(..) {
                    let _ = waiting.reply.send(Err(error.clone()));
                }
                self.reopen();
                Err(error)
            }
        }
    }

    /// Wakes everybody whose messages are durable now.
    fn acknowledge(&mut self, durable: Vec<Durable>) {
        self.stats.marks += self.batch.marks.len() as u64;
        self.stats.appended_messages += durable.len() as u64;
        self.batch.marks.clear();
        let mut durable = durable.into_iter();
        let mut written = self.batch.appends.drain(..);
        for Waiting { groups, reply, permit } in self.replies.drain(..) {
            let groups: Vec<Vec<Sealed>> = written.by_ref().take(groups).collect();
            let own: Vec<Durable> = durable.by_ref().take(groups.iter().map(Vec::len).sum()).collect();
            let octets = |s: &Sealed| (s.head.len() + s.body.len()) as u64;
            self.stats.appended_octets += groups.iter().flatten().map(octets).sum::<u64>();
            drop(permit);
            if let Err(Ok((_, orphans))) = reply.send(Ok((groups, own))) {
                // Whoever waited has gone and never said 250: nobody would own these.
                self.batch.marks.extend(orphans.iter().map(|d| Mark::Removed { id: d.id() }));
            }
        }
    }

    /// After a failed commit: another segment, or no more appends for a while.
    fn reopen(&mut self) {
        match self.log.ready() {
            Ok(()) => {
                if self.stopped.take().is_some() {
                    tracing::info!("the spool takes mail again");
                }
                self.retry_at = None;
                self.inbox.set_stopped(None);
            }
            Err(error) => {
                if self.stopped.is_none() {
                    tracing::error!(%error, "no segment can be opened: the spool takes no mail");
                }
                self.stopped = Some(error.clone());
                self.retry_at = Some(Instant::now() + self.options.retry_interval);
                self.inbox.set_stopped(Some(error));
                fold(&mut self.batch.marks);
            }
        }
    }

    /// When the time of a retry has come.
    fn retry(&mut self) {
        self.retry_at = None;
        self.busy = true;
        if self.stopped.is_some() {
            self.reopen();
        }
    }

    /// One step of housekeeping.
    fn keep_house(&mut self) {
        match self.log.maintain(HOUSEKEEPING_OCTETS) {
            // Marks of a failed commit and of orphans are due at once.
            Ok(more) => self.busy = more || !self.batch.marks.is_empty(),
            Err(error) => {
                tracing::warn!(%error, "spool housekeeping failed: trying again later");
                self.busy = false;
                self.retry_at = Some(Instant::now() + self.options.retry_interval);
            }
        }
    }
}

/// Refuses appends without trying; the reason.
fn refuse(appends: Vec<Append>, error: &SpoolError) -> SpoolError {
    for append in appends {
        let _ = append.reply.send(Err(error.clone()));
    }
    error.clone()
}

/// Octets a step of housekeeping reads and writes at most: what a session may have to wait for.
const HOUSEKEEPING_OCTETS: usize = 512 << 10;
