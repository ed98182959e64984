//! The driver of the segment log, after the store's `writer.rs`: takes what waits, commits it as
//! one, answers all, keeps house.
//!
//! A failed commit refuses its appends and keeps its marks; when no segment can be opened,
//! appends are refused at once until one can.

use crate::Sabotage;
use crate::accept::by_body;
use crate::event::{Appender, ServerEvent};
use crate::life::Process;
use crate::plan::SECOND;
use crate::world::World;
use message::Sealed;
use spool::{Batch, Mark, SpoolError, Work};

/// The writer thread's state and its inbox.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// Transactions, and who wants them durable.
    appends: Vec<(Appender, Vec<Vec<Sealed>>)>,
    /// Marks that came since the last turn.
    inbox: Vec<Mark>,
    /// Marks taken and not durable yet.
    marks: Vec<Mark>,
    /// The next turn; others are void.
    turn_at: Option<u64>,
    /// Next try after the disk refused.
    retry_at: Option<u64>,
    /// Why no segment can be opened.
    stopped: Option<SpoolError>,
    busy: bool,
}

impl World {
    /// Somebody wants messages durable; `ServerEvent::Appended` is the answer.
    pub fn append(&mut self, session: Appender, groups: Vec<Vec<Sealed>>) {
        let Some(process) = &mut self.process else { return };
        if let Some(error) = process.writer.stopped.clone() {
            groups.iter().flatten().for_each(|s| self.ledger.in_limbo(s.id));
            return self.server_soon(0, ServerEvent::Appended(session, Err(error)));
        }
        process.writer.appends.push((session, groups));
        let linger = self.dice.within(0, 1_000);
        self.turn_within(linger);
    }

    /// Hands a mark to the spool.
    pub fn mark(&mut self, mark: Mark) {
        if matches!(mark, Mark::Attempt { .. }) && self.sabotaged(Sabotage::UnmarkedAttempts) {
            return self.ledger.marked(&mark);
        }
        self.ledger.marked(&mark);
        let Some(process) = &mut self.process else { return };
        process.writer.inbox.push(mark);
        self.turn_within(MARK_INTERVAL);
    }

    /// Housekeeping has something to do.
    pub fn writer_soon(&mut self) {
        self.turn_within(0);
    }

    /// One commit or one step of housekeeping.
    pub fn writer_turn(&mut self, at: u64) {
        let now = self.now;
        let Some(process) = &mut self.process else { return };
        if process.writer.turn_at != Some(at) {
            return;
        }
        process.writer.turn_at = None;
        if process.writer.retry_at.is_some_and(|at| at <= now) {
            process.writer.retry_at = None;
            process.writer.busy = true;
            if process.writer.stopped.is_some() {
                self.reopen();
            }
        }
        self.serve();
        self.keep_house();
        self.plan_turn();
    }

    fn serve(&mut self) {
        let Some(Process { writer, .. }) = &mut self.process else { return };
        let appends = std::mem::take(&mut writer.appends);
        let inbox = std::mem::take(&mut writer.inbox);
        writer.marks.extend(inbox);
        if let Some(error) = writer.stopped.clone() {
            return self.refuse(appends, &error);
        }
        if !appends.is_empty() || !writer.marks.is_empty() {
            self.commit(appends);
        }
    }

    fn commit(&mut self, appends: Vec<(Appender, Vec<Vec<Sealed>>)>) {
        let Some(Process { writer, log, disk, .. }) = &mut self.process else { return };
        let sessions: Vec<(Appender, usize)> =
            appends.iter().map(|(session, groups)| (*session, groups.len())).collect();
        let groups = appends.into_iter().flat_map(|(_, groups)| groups).collect();
        let batch = Batch { appends: groups, marks: std::mem::take(&mut writer.marks) };
        let result = log.commit(&batch);
        let dead = disk.is_dead();
        match result {
            Ok(durable) => {
                self.report.messages += durable.len() as u64;
                durable.iter().for_each(|d| self.ledger.durable(d.id()));
                batch.marks.iter().for_each(|m| self.ledger.mark_synced(m));
                let mut durable = durable.into_iter();
                let mut written = batch.appends.into_iter();
                for (session, groups) in sessions {
                    let sealed: Vec<Sealed> = written.by_ref().take(groups).flatten().collect();
                    let own = durable.by_ref().take(sealed.len()).collect();
                    let delay = self.dice.within(0, 500);
                    self.server_soon(delay, ServerEvent::Appended(session, Ok((sealed, own))));
                }
            }
            Err(error) => {
                writer.marks = batch.marks;
                self.report.failed_commits += u64::from(!dead);
                self.sync_failed |= !dead;
                self.note(|| format!("commit failed: {error}"));
                let mut refused = batch.appends.into_iter();
                let refused = sessions.into_iter().map(|(s, groups)| (s, refused.by_ref().take(groups).collect()));
                self.refuse(refused.collect(), &error);
                self.reopen();
            }
        }
    }

    fn refuse(&mut self, appends: Vec<(Appender, Vec<Vec<Sealed>>)>, error: &SpoolError) {
        for (session, groups) in appends {
            groups.iter().flatten().for_each(|s| self.ledger.in_limbo(s.id));
            let delay = self.dice.within(0, 500);
            self.server_soon(delay, ServerEvent::Appended(session, Err(error.clone())));
        }
    }

    /// After a failed commit: another segment, or no more appends for a while.
    fn reopen(&mut self) {
        let retry_at = self.now + SECOND;
        let Some(Process { writer, log, .. }) = &mut self.process else { return };
        match log.ready() {
            Ok(()) => (writer.stopped, writer.retry_at) = (None, None),
            Err(error) => (writer.stopped, writer.retry_at) = (Some(error), Some(retry_at)),
        }
    }

    fn keep_house(&mut self) {
        let retry_at = self.now + SECOND;
        let Some(Process { writer, log, .. }) = &mut self.process else { return };
        if writer.retry_at.is_some() {
            return;
        }
        match log.maintain(HOUSEKEEPING_OCTETS) {
            Ok(done) => writer.busy = done.work != Work::Nothing || !writer.marks.is_empty(),
            Err(_) => {
                (writer.busy, writer.retry_at) = (false, Some(retry_at));
                self.sync_failed = true;
            }
        }
    }

    /// The next turn, if there is something to do.
    fn plan_turn(&mut self) {
        let now = self.now;
        let Some(Process { writer, .. }) = &mut self.process else { return };
        match writer.retry_at {
            Some(at) => self.turn_within(at.saturating_sub(now)),
            None if writer.busy => self.turn_within(200),
            None => {}
        }
    }

    fn turn_within(&mut self, delay: u64) {
        let at = self.now + delay;
        let Some(Process { writer, .. }) = &mut self.process else { return };
        if writer.turn_at.is_none_or(|planned| planned > at) {
            writer.turn_at = Some(at);
            self.server_soon(delay, ServerEvent::WriterTurn(at));
        }
    }

    /// An orderly stop: what is in memory only is written, then marks are made durable, each twice tried; what sessions
    /// wait for was never promised. False when something could not be written.
    pub fn last_commits(&mut self, process: &mut Process) -> bool {
        let mut marks = std::mem::take(&mut process.writer.marks);
        marks.append(&mut process.writer.inbox);
        let taken = self.take_volatile(process);
        let appends = by_body(taken.iter().map(|(sealed, _)| sealed.clone()).collect());
        let counted = taken.iter().filter(|(_, attempts)| *attempts > 0);
        let attempts: Vec<Mark> =
            counted.map(|(s, attempts)| Mark::Attempt { id: s.id, attempts: *attempts, due: s.due }).collect();
        attempts.iter().for_each(|mark| self.ledger.marked(mark));
        self.last_commit(process, Batch { appends, marks })
            && self.last_commit(process, Batch { appends: Vec::new(), marks: attempts })
    }

    fn last_commit(&mut self, process: &mut Process, batch: Batch) -> bool {
        if batch.is_empty() {
            return true;
        }
        let log = &mut process.log;
        let Ok(durable) = log.commit(&batch).or_else(|_| log.commit(&batch)) else {
            batch.appends.iter().flatten().for_each(|s| self.ledger.in_limbo(s.id));
            return false;
        };
        self.report.spooled_at_stop += durable.len() as u64;
        durable.iter().for_each(|d| self.ledger.durable(d.id()));
        batch.marks.iter().for_each(|m| self.ledger.mark_synced(m));
        true
    }
}

/// Microseconds that a mark may wait for company.
const MARK_INTERVAL: u64 = 50_000;
/// Octets a step of housekeeping reads and writes at most.
const HOUSEKEEPING_OCTETS: usize = 64 << 10;
