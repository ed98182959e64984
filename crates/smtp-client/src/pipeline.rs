//! The two cursors: one ordered list of replies expected or to be asked for.
//!
//! Each entry is a command and its reply. The front belongs to the receiver: the next reply is
//! its answer. `sent` is the sender's cursor: entries before it are written (or at least
//! queued), those behind are planned. How far the sender may run ahead is decided in one place,
//! [`Pipeline::sendable`]. Bounded by the session: it plans one transaction at a time.

use crate::Phase;
use std::collections::VecDeque;

/// A command whose reply is awaited or planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is sent for it.
    Banner,
    Ehlo,
    Helo,
    StartTls,
    /// AUTH PLAIN, all of it.
    Auth,
    /// AUTH LOGIN, then its two answers.
    AuthLogin,
    AuthLoginUser,
    AuthLoginPassword,
    Rset,
    Mail,
    /// With the recipient's place in the job.
    Rcpt(u32),
    Data,
    /// The final dot: of content, or alone when DATA was accepted without a recipient.
    Dot,
    /// The final dot in LMTP, for one recipient.
    LmtpDot(u32),
    Quit,
}

impl Stage {
    pub(crate) fn phase(self) -> Phase {
        match self {
            Stage::Banner => Phase::Banner,
            Stage::Ehlo | Stage::Helo => Phase::Ehlo,
            Stage::StartTls => Phase::StartTls,
            Stage::Auth | Stage::AuthLogin | Stage::AuthLoginUser | Stage::AuthLoginPassword => Phase::Auth,
            Stage::Rset => Phase::Rset,
            Stage::Mail => Phase::MailFrom,
            Stage::Rcpt(_) => Phase::RcptTo,
            Stage::Data => Phase::Data,
            Stage::Dot | Stage::LmtpDot(_) => Phase::DataDot,
            Stage::Quit => Phase::Quit,
        }
    }

    /// True when nothing may be sent behind it before its reply (RFC 2920 section 3.1).
    fn ends_group(self) -> bool {
        match self {
            Stage::Banner | Stage::Ehlo | Stage::Helo | Stage::StartTls | Stage::Auth => true,
            Stage::AuthLogin | Stage::AuthLoginUser | Stage::AuthLoginPassword => true,
            Stage::Data | Stage::Quit => true,
            Stage::Rset | Stage::Mail | Stage::Rcpt(_) | Stage::Dot | Stage::LmtpDot(_) => false,
        }
    }
}

/// One entry of the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) stage: Stage,
    /// The flight it belongs to; of no meaning outside of transactions.
    pub(crate) serial: u64,
    /// Where in the output stream the command ends.
    pub(crate) end: u64,
}

/// The list and its sender's cursor.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    list: VecDeque<Expected>,
    sent: usize,
}

impl Pipeline {
    /// Appends a command to be sent when the time comes.
    pub(crate) fn plan(&mut self, stage: Stage, serial: u64) {
        self.list.push_back(Expected { stage, serial, end: 0 });
    }

    /// The next command, if it may be sent now. Dots are not found here: content is sent at once
    /// when its 354 comes, see [`Pipeline::sent_now`].
    pub(crate) fn sendable(&self, pipelining: bool) -> Option<Expected> {
        let next = self.list.get(self.sent)?;
        let may = match self.sent.checked_sub(1).and_then(|last| self.list.get(last)) {
            None => true,
            Some(last) => pipelining && !last.stage.ends_group(),
        };
        may.then_some(*next)
    }

    /// Moves the sender's cursor over the command last found sendable.
    pub(crate) fn mark_sent(&mut self, end: u64) {
        if let Some(entry) = self.list.get_mut(self.sent) {
            entry.end = end;
            self.sent += 1;
        }
    }

    /// Puts a command that has just been sent at the sender's cursor, before those only planned.
    pub(crate) fn sent_now(&mut self, stage: Stage, serial: u64, end: u64) {
        self.list.insert(self.sent, Expected { stage, serial, end });
        self.sent += 1;
    }

    /// What the next reply answers.
    pub(crate) fn awaited(&self) -> Option<Expected> {
        self.list.front().filter(|_| self.sent > 0).copied()
    }

    /// Moves the receiver's cursor.
    pub(crate) fn answered(&mut self) {
        if self.sent > 0 {
            self.sent -= 1;
            self.list.pop_front();
        }
    }

    /// Forgets the commands of a flight that were planned and not sent.
    pub(crate) fn drop_unsent(&mut self, serial: u64) -> Vec<Stage> {
        let kept = self.sent;
        let mut dropped = Vec::new();
        while let Some(entry) = self.list.get(kept).filter(|e| e.serial == serial) {
            dropped.push(entry.stage);
            self.list.remove(kept);
        }
        dropped
    }

    /// True when a command or reply of this kind is still to come for the flight.
    pub(crate) fn has(&self, serial: u64, is: impl Fn(Stage) -> bool) -> bool {
        self.list.iter().any(|e| e.serial == serial && is(e.stage))
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_all(pipeline: &mut Pipeline, pipelining: bool) -> Vec<Stage> {
        let mut sent = Vec::new();
        while let Some(entry) = pipeline.sendable(pipelining) {
            sent.push(entry.stage);
            pipeline.mark_sent(0);
        }
        sent
    }

    fn transaction() -> Pipeline {
        let mut pipeline = Pipeline::default();
        for stage in [Stage::Rset, Stage::Mail, Stage::Rcpt(0), Stage::Data] {
            pipeline.plan(stage, 1);
        }
        pipeline.plan(Stage::Quit, 2);
        pipeline
    }

    #[test]
    fn a_group_ends_with_data() {
        let mut pipeline = transaction();
        assert_eq!(send_all(&mut pipeline, true), [Stage::Rset, Stage::Mail, Stage::Rcpt(0), Stage::Data]);
        for _ in 0..4 {
            assert_eq!(send_all(&mut pipeline, true), []);
            pipeline.answered();
        }
        pipeline.sent_now(Stage::Dot, 1, 0);
        assert_eq!(send_all(&mut pipeline, true), [Stage::Quit], "behind the dot the next group begins");
    }

    #[test]
    fn without_pipelining_the_cursors_are_one_apart() {
        let mut pipeline = transaction();
        for stage in [Stage::Rset, Stage::Mail, Stage::Rcpt(0), Stage::Data, Stage::Quit] {
            assert_eq!(send_all(&mut pipeline, false), [stage]);
            assert_eq!(pipeline.awaited().map(|e| e.stage), Some(stage));
            pipeline.answered();
        }
        assert!(pipeline.awaited().is_none());
    }

    #[test]
    fn only_what_was_not_sent_can_be_dropped() {
        let mut pipeline = transaction();
        pipeline.mark_sent(0);
        assert_eq!(pipeline.drop_unsent(1), [Stage::Mail, Stage::Rcpt(0), Stage::Data]);
        assert!(pipeline.has(1, |s| s == Stage::Rset) && pipeline.has(2, |s| s == Stage::Quit));
    }
}
