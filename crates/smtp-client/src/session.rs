//! The session machine: its state, what the driver may call, and the pump that moves the
//! sender's cursor.
//!
//! In: the server's bytes, jobs, the result of a TLS handshake, bad news. Out: [`Step`]s and the
//! [`Output`] to write. Replies are handled as they are fed; what follows from them is queued
//! and handed out by [`Session::next`] one step at a time. The rules of each part stand in
//! `hello`, `transaction` and `failure`.

use crate::failure::Failure;
use crate::flight::Flight;
use crate::pipeline::{Pipeline, Stage};
use crate::{Closing, Job, Outcome, Output, Phase, Settings, Step, command};
use bytes::Buf as _;
use clock::{Duration, Instant};
use smtp_wire::reply_reader::ReplyReader;
use smtp_wire::{Capabilities, Reply};
use std::collections::VecDeque;
use std::sync::Arc;

/// Jobs in hand at once: one whose content is being sent or judged, and one whose envelope
/// travels behind it. More would gain nothing: the second content must wait for its 354.
pub const JOBS_IN_HAND_MAX: usize = 2;

/// One connection to one server.
#[derive(Debug)]
pub struct Session {
    pub(crate) settings: Arc<Settings>,
    pub(crate) state: State,
    pub(crate) pipeline: Pipeline,
    pub(crate) flights: VecDeque<Flight>,
    pub(crate) output: Output,
    pub(crate) outcomes: VecDeque<Outcome>,
    pub(crate) closing: Option<Closing>,
    pub(crate) capabilities: Capabilities,
    pub(crate) tls: TlsStatus,
    pub(crate) banner: Option<Reply>,
    /// Recipients a transaction may have: the setting, or less once the server said so.
    pub(crate) batch_limit: usize,
    /// Serial of the next flight.
    pub(crate) next_serial: u64,
    /// The last transaction did not end with a final dot.
    pub(crate) must_reset: bool,
    finishing: bool,
    reader: ReplyReader,
    /// Part of a reply came before the command it would answer was written.
    came_early: bool,
    /// When the awaited reply began to be awaited, or bytes last left.
    progress_at: Instant,
    /// What [`Output::written`] was at `progress_at`.
    progress_bytes: u64,
}

/// Where the session is as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Before the first job may begin.
    Greeting,
    /// The driver does a handshake.
    Handshake,
    /// Jobs may come.
    Open,
    /// Over.
    Closed,
}

/// How the connection is protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsStatus {
    /// Not: it was not offered or not wanted.
    Clear,
    /// Not: the server offered STARTTLS, refused it, and the settings allow to go on.
    Refused(Arc<Reply>),
    /// TLS with a verified certificate.
    Verified,
    /// TLS with a certificate nobody vouches for.
    Unverified,
}

impl TlsStatus {
    /// True under TLS.
    pub fn is_on(&self) -> bool {
        matches!(self, TlsStatus::Verified | TlsStatus::Unverified)
    }
}

impl Session {
    /// A session on a connection just made: it waits for the greeting.
    pub fn new(now: Instant, settings: Arc<Settings>) -> Session {
        let mut session = Session {
            batch_limit: settings.batch_limit(),
            settings,
            state: State::Greeting,
            pipeline: Pipeline::default(),
            flights: VecDeque::with_capacity(JOBS_IN_HAND_MAX),
            output: Output::default(),
            outcomes: VecDeque::new(),
            closing: None,
            capabilities: Capabilities::default(),
            tls: TlsStatus::Clear,
            banner: None,
            next_serial: 0,
            must_reset: false,
            finishing: false,
            reader: ReplyReader::new(),
            came_early: false,
            progress_at: now,
            progress_bytes: 0,
        };
        session.pipeline.plan(Stage::Banner, 0);
        session.pipeline.mark_sent(0);
        session
    }

    /// What to do next. Its answer changes after any other call that takes `&mut self`.
    pub fn next(&mut self, now: Instant) -> Step {
        self.note_writing(now);
        if let Some(outcome) = self.outcomes.pop_front() {
            return Step::Outcome(outcome);
        }
        if let Some(closing) = &self.closing {
            return Step::Close(closing.clone());
        }
        if self.output.has_remaining() {
            return Step::Send;
        }
        match self.state {
            State::Handshake => Step::StartTls,
            State::Open if self.flights.is_empty() && !self.finishing => Step::Ready,
            _ => Step::NeedInput,
        }
    }

    /// Takes bytes from the server; all of them, at any time. Ask [`Session::next`] afterwards.
    pub fn feed(&mut self, now: Instant, mut bytes: &[u8]) {
        while !bytes.is_empty() && matches!(self.state, State::Greeting | State::Open) {
            match self.reader.read(&mut bytes) {
                None => break,
                Some(Ok(reply)) => self.take_reply(now, reply),
                Some(Err(error)) => self.fail(Failure::Malformed(error)),
            }
        }
        // RFC 3207 section 5: what came in clear must not be read as if it were protected.
        if self.state == State::Handshake && (!bytes.is_empty() || self.reader.has_partial()) {
            return self.fail(Failure::Violation("the server sent data in clear behind its reply to STARTTLS"));
        }
        self.came_early = self.reader.has_partial() && (self.came_early || !self.is_asked());
    }

    /// What to write. Advance it by what was written, and by nothing else.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// True when [`Session::begin`] may be called: no job in hand, or (with PIPELINING) all
    /// content of the last one is queued, so that the next envelope travels behind its final dot.
    pub fn can_begin(&self) -> bool {
        let room = match self.flights.back() {
            None => true,
            Some(last) => self.flights.len() < JOBS_IN_HAND_MAX && self.pipelining() && last.is_all_queued(),
        };
        self.state == State::Open && !self.finishing && room
    }

    /// Takes a job. Exactly one [`Step::Outcome`] with its ticket will follow.
    ///
    /// # Panics
    /// When [`Session::can_begin`] is false: the driver would lose its place.
    pub fn begin(&mut self, now: Instant, job: Job) {
        assert!(self.can_begin(), "begin() without can_begin()");
        self.take_job(job);
        self.pump(now);
    }

    /// Says that no job will follow: QUIT goes out behind what is in hand. Before the session
    /// was ever ready it ends at once.
    pub fn finish(&mut self, now: Instant) {
        self.finishing = true;
        match self.state {
            State::Greeting | State::Handshake => self.fail(Failure::Finished(None)),
            State::Open => self.pump(now),
            State::Closed => {}
        }
    }

    /// When [`Session::expire`] should be called; `None` while nothing is awaited (how long a
    /// connection may idle is the driver's decision). Changes with every other call.
    pub fn deadline(&self) -> Option<Instant> {
        let timeout = match (self.state, self.pipeline.awaited()) {
            (State::Closed, _) => return None,
            (State::Handshake, _) => self.settings.timeouts.starttls,
            (_, Some(expected)) => self.timeout(expected.stage),
            (_, None) => return None,
        };
        Some(self.progress_at + timeout)
    }

    /// The deadline may have passed. Nothing happens when it has not.
    pub fn expire(&mut self, now: Instant) {
        self.note_writing(now);
        if self.deadline().is_some_and(|deadline| now >= deadline) {
            self.fail(Failure::TimedOut);
        }
    }

    /// The connection broke, was closed by the server, or is about to be dropped by the driver;
    /// `why` is for logs. Outcomes for the jobs in hand follow.
    pub fn connection_lost(&mut self, now: Instant, why: &str) {
        self.note_writing(now);
        self.fail(Failure::Lost(why.to_owned()));
    }

    /// What the session waits for, for operators' eyes.
    pub fn phase(&self) -> Phase {
        match (self.state, self.pipeline.awaited()) {
            (State::Closed, _) => Phase::Closed,
            (State::Handshake, _) => Phase::StartTls,
            (_, Some(expected)) => expected.stage.phase(),
            (_, None) => Phase::Idle,
        }
    }

    /// What the server offers at this moment.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// How the connection is protected.
    pub fn tls(&self) -> &TlsStatus {
        &self.tls
    }

    /// The greeting, once it came.
    pub fn banner(&self) -> Option<&Reply> {
        self.banner.as_ref()
    }

    /// Jobs begun whose outcome is not decided: 0 to [`JOBS_IN_HAND_MAX`].
    pub fn jobs_in_hand(&self) -> usize {
        self.flights.len()
    }

    /// True when the connection is of no more use; outcomes may still be waiting in
    /// [`Session::next`].
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    pub(crate) fn pipelining(&self) -> bool {
        self.settings.enable_pipelining && self.capabilities.pipelining
    }

    /// True when all that RFC 8689 section 2 asks for holds: MAIL may say REQUIRETLS.
    pub(crate) fn may_require_tls(&self) -> bool {
        self.settings.is_name_known && self.tls == TlsStatus::Verified && self.capabilities.requiretls
    }

    pub(crate) fn flight(&mut self, serial: u64) -> Option<&mut Flight> {
        self.flights.iter_mut().find(|f| f.serial == serial)
    }

    /// Moves the sender's cursor as far as it may go.
    pub(crate) fn pump(&mut self, now: Instant) {
        if matches!(self.state, State::Handshake | State::Closed) {
            return;
        }
        self.plan_quit();
        let was_waiting = self.pipeline.awaited().is_some();
        while let Some(next) = self.pipeline.sendable(self.pipelining()) {
            self.write(next.stage, next.serial);
            self.pipeline.mark_sent(self.output.queued());
        }
        if !was_waiting {
            self.progress_at = now;
        }
    }

    fn plan_quit(&mut self) {
        let all_queued = self.flights.back().is_none_or(Flight::is_all_queued);
        if self.finishing && all_queued && self.state == State::Open && !self.pipeline.has(QUIT, |s| s == Stage::Quit) {
            self.pipeline.plan(Stage::Quit, QUIT);
        }
    }

    fn write(&mut self, stage: Stage, serial: u64) {
        let flight = self.flights.iter().find(|f| f.serial == serial);
        let out = &mut self.output;
        match (stage, flight) {
            (Stage::Ehlo, _) if self.settings.use_lmtp => command::put_hello(out, "LHLO", &self.settings.ehlo_domain),
            (Stage::Ehlo, _) => command::put_hello(out, "EHLO", &self.settings.ehlo_domain),
            (Stage::Helo, _) => command::put_hello(out, "HELO", &self.settings.ehlo_domain),
            (Stage::StartTls, _) => out.put(b"STARTTLS\r\n"),
            (Stage::Auth, _) => self.settings.auth.iter().for_each(|auth| command::put_auth(out, auth)),
            (Stage::AuthLogin, _) => out.put(b"AUTH LOGIN\r\n"),
            (Stage::AuthLoginUser, _) => {
                self.settings.auth.iter().for_each(|auth| command::put_auth_answer(out, &auth.username));
            }
            (Stage::AuthLoginPassword, _) => {
                self.settings.auth.iter().for_each(|auth| command::put_auth_answer(out, &auth.password));
            }
            (Stage::Rset, _) => out.put(b"RSET\r\n"),
            (Stage::Mail, Some(flight)) => command::put_mail(out, flight, &self.capabilities),
            (Stage::Rcpt(place), Some(flight)) => command::put_rcpt(out, flight, place, &self.capabilities),
            (Stage::Data, _) => out.put(b"DATA\r\n"),
            (Stage::Quit, _) => out.put(b"QUIT\r\n"),
            // Nothing is written for a greeting; dots are written with their content.
            (Stage::Banner | Stage::Dot | Stage::LmtpDot(_), _) => {}
            (Stage::Mail | Stage::Rcpt(_), None) => debug_assert!(false, "{stage:?} of a flight that is gone"),
        }
    }

    /// Moves the receiver's cursor by one reply and lets what follows from it be sent.
    fn take_reply(&mut self, now: Instant, reply: Reply) {
        let asked = self.is_asked() && !std::mem::take(&mut self.came_early);
        let Some(expected) = self.pipeline.awaited() else {
            return self.fail(match reply.code {
                421 => Failure::ServiceClosing(reply),
                _ => Failure::Unsolicited(reply),
            });
        };
        self.progress_at = now;
        match expected.stage {
            Stage::Quit => self.fail(Failure::Finished(Some(reply))),
            _ if reply.code == 421 => self.fail(Failure::ServiceClosing(reply)),
            _ if !asked => self.take_early_reply(expected.stage, expected.serial, reply),
            stage => {
                self.pipeline.answered();
                self.dispatch(stage, expected.serial, reply);
                self.pump(now);
            }
        }
    }

    fn dispatch(&mut self, stage: Stage, serial: u64, reply: Reply) {
        match stage {
            Stage::Banner => self.on_banner(reply),
            Stage::Ehlo => self.on_ehlo(reply),
            Stage::Helo => self.on_helo(reply),
            Stage::StartTls => self.on_starttls(reply),
            Stage::Auth | Stage::AuthLoginPassword => self.on_auth(stage, reply),
            Stage::AuthLogin => self.on_auth_challenge(stage, Stage::AuthLoginUser, reply),
            Stage::AuthLoginUser => self.on_auth_challenge(stage, Stage::AuthLoginPassword, reply),
            Stage::Rset => self.on_rset(reply),
            Stage::Mail => self.on_mail(serial, reply),
            Stage::Rcpt(place) => self.on_rcpt(serial, place, reply),
            Stage::Data => self.on_data(serial, reply),
            Stage::Dot => self.on_dot(serial, reply),
            Stage::LmtpDot(place) => self.on_lmtp_dot(serial, place, reply),
            Stage::Quit => self.fail(Failure::Finished(Some(reply))),
        }
    }

    /// True when the command whose reply comes next was written to its end.
    fn is_asked(&self) -> bool {
        self.pipeline.awaited().is_some_and(|e| e.end <= self.output.written())
    }

    /// Bytes that leave are progress: a big message on a slow line is not a timeout.
    fn note_writing(&mut self, now: Instant) {
        let written = self.output.written();
        if written != self.progress_bytes {
            self.progress_bytes = written;
            self.progress_at = now;
        }
    }

    fn timeout(&self, stage: Stage) -> Duration {
        let timeouts = &self.settings.timeouts;
        match stage {
            Stage::Banner => timeouts.banner,
            Stage::Ehlo | Stage::Helo => timeouts.ehlo,
            Stage::StartTls => timeouts.starttls,
            Stage::Auth | Stage::AuthLogin | Stage::AuthLoginUser | Stage::AuthLoginPassword => timeouts.auth,
            Stage::Rset => timeouts.rset,
            Stage::Mail => timeouts.mail_from,
            Stage::Rcpt(_) => timeouts.rcpt_to,
            Stage::Data => timeouts.data,
            Stage::Dot | Stage::LmtpDot(_) => timeouts.data_dot,
            Stage::Quit => timeouts.quit,
        }
    }
}

/// The serial of commands that belong to no flight.
pub(crate) const QUIT: u64 = u64::MAX;
