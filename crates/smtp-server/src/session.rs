//! The session: its state, and the loop over input, commands and answers.
//!
//! A driver owns the socket and a receive buffer, and goes round:
//! [`Session::feed`] the unread octets, then do what [`Session::next`] says. All state is here;
//! the verbs in their own files change it. The session allocates in proportion to the content
//! it is sent, never to what a client announces, and everything else it holds is bounded.

use crate::admission::Admission;
use crate::auth::Exchange;
use crate::bdat::Chunk;
use crate::data::Receiving;
use crate::ehlo::Hello;
use crate::mail::Open;
use crate::question::{Answer, Identity, Question, TlsInfo};
use crate::reject::{Concerned, REJECTIONS_MAX, Rejection, offending_line};
use crate::settings::Settings;
use crate::texts;
use clock::Instant;
use core::net::SocketAddr;
use smtp_wire::command::{Command, CommandError, MailParams, RcptParams};
use smtp_wire::line::{AUTH_LINE_OCTETS_MAX, COMMAND_LINE_OCTETS_MAX, Line, LineReader};
use smtp_wire::{Mailbox, ReversePath};
use std::sync::Arc;

/// Octets a driver's receive buffer must hold at least: the longest line is left unread until
/// it is complete.
pub const RECEIVE_BUFFER_MIN: usize = 16 * 1024;

/// What the driver has to do.
#[derive(Debug)]
pub enum Step {
    /// Write the output, if any; then wait for input, [`Session::deadline`] or the wish to stop.
    NeedInput,
    /// Write the output and take the rejections, then feed what is unread without waiting.
    Flush,
    /// Find the answer and give it to [`Session::answer`]. The output may wait meanwhile.
    Ask(Question),
    /// Write the output, do the handshake on the bare connection, call [`Session::tls_started`].
    StartTls,
    /// Write the output and close.
    Close,
}

/// One client's dialogue. See the page.
#[derive(Debug)]
pub struct Session {
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) settings: Arc<Settings>,
    pub(crate) admission: Admission,
    pub(crate) phase: Phase,
    /// To be handed out by [`Session::next`].
    pub(crate) question: Option<Question>,
    /// What the outstanding question was about; set from asking to answering.
    pub(crate) awaiting: Option<Awaiting>,
    pub(crate) output: Vec<u8>,
    /// The replies in it, if they are kept apart.
    pub(crate) said: Vec<Said>,
    /// Whether they are: as the session began, so that no two replies are ever taken for one.
    pub(crate) keeps_apart: bool,
    pub(crate) lines: LineReader,
    /// The command being worked on, for rejections.
    pub(crate) line: Vec<u8>,
    pub(crate) transaction: Option<Open>,
    pub(crate) hello: Option<String>,
    pub(crate) tls: Option<TlsInfo>,
    pub(crate) identity: Option<Identity>,
    pub(crate) rejections: Vec<Rejection>,
    /// A buffer for the next content.
    pub(crate) spare: Vec<u8>,
    /// Octets of the last content, which the next is expected to resemble.
    pub(crate) last_octets: usize,
    pub(crate) recipients_accepted: usize,
    /// Since the last accepted message.
    pub(crate) junk_commands: u32,
    /// Likewise, of all commands.
    pub(crate) refusals: usize,
    pub(crate) auth_failures: u32,
    pub(crate) last_progress: Instant,
    pub(crate) stopping: bool,
}

/// One reply among what is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Where it ends in the output.
    pub end: usize,
    /// The line it answers, without credentials; `None` when it answers none.
    pub command: Option<String>,
}

/// What input means now.
#[derive(Debug)]
pub(crate) enum Phase {
    /// The banner is not out.
    Greeting,
    Command,
    Auth(Exchange),
    Data(Box<Receiving>),
    Chunk(Chunk),
    /// The handshake is due.
    Tls,
    Closing,
}

/// What a question was about, and what its answer needs.
#[derive(Debug)]
pub(crate) enum Awaiting {
    ConnectionAccepted,
    Ehlo(Hello),
    AuthPlain,
    XClient { peer: SocketAddr, local: SocketAddr },
    MailFrom { sender: ReversePath, params: MailParams },
    RcptTo { recipient: Mailbox, params: RcptParams },
    Data(Concerned),
}

/// Output above this is written before more commands are read: a client that sends commands
/// and never reads replies holds no more than this.
const OUTPUT_OCTETS_MAX: usize = 32 * 1024;
/// Largest content buffer kept from one message to the next.
const SPARE_OCTETS_MAX: usize = 128 * 1024;
/// Longest line without an end that is skipped before the session gives up.
const SKIPPED_OCTETS_MAX: usize = 1 << 20;

impl Session {
    /// A session with a client that just connected. Ask [`Session::next`] at once.
    pub fn new(now: Instant, peer: SocketAddr, local: SocketAddr, settings: Arc<Settings>) -> Session {
        let mut session = Session {
            peer,
            local,
            keeps_apart: settings.replies_apart,
            settings,
            admission: Admission::default(),
            phase: Phase::Greeting,
            question: None,
            awaiting: None,
            output: Vec::new(),
            said: Vec::new(),
            lines: LineReader::new(),
            line: Vec::new(),
            transaction: None,
            hello: None,
            tls: None,
            identity: None,
            rejections: Vec::new(),
            spare: Vec::new(),
            last_octets: 0,
            recipients_accepted: 0,
            junk_commands: 0,
            refusals: 0,
            auth_failures: 0,
            last_progress: now,
            stopping: false,
        };
        session.begin();
        session
    }

    /// Works off `input`, the unread octets in order, as far as it can go; returns the octets
    /// consumed. An incomplete command line is left unread, content is not. 0 when a question is
    /// outstanding or the output is to be written first. Ask [`Session::next`] afterwards.
    pub fn feed(&mut self, now: Instant, input: &[u8]) -> usize {
        if input.is_empty() || matches!(self.phase, Phase::Greeting) && !self.leave_greeting(now) {
            return 0;
        }
        let mut used = 0;
        while used < input.len() && self.is_receptive() {
            let rest = &input[used..];
            let taken = match self.phase {
                Phase::Data(_) => self.feed_data(now, rest),
                Phase::Chunk(_) => self.feed_chunk(now, rest),
                _ => self.feed_line(now, rest),
            };
            if taken == 0 {
                break;
            }
            used += taken;
            if self.lines.skipped() == 0 {
                self.last_progress = now;
            }
        }
        if matches!(self.phase, Phase::Closing) { input.len() } else { used }
    }

    /// What to do now. Hands a question out once; the next call belongs behind its answer.
    pub fn next(&mut self, now: Instant) -> Step {
        if let Some(question) = self.question.take() {
            return Step::Ask(question);
        }
        assert!(self.awaiting.is_none(), "next called with a question outstanding");
        if self.is_overdue_while_talking(now) {
            self.expire(now);
        }
        match self.phase {
            Phase::Closing => Step::Close,
            Phase::Tls => Step::StartTls,
            _ if self.is_full() => Step::Flush,
            _ => Step::NeedInput,
        }
    }

    /// Answers the outstanding question. Feed the unread input again afterwards. Ignored when
    /// the session closed meanwhile. Panics when the answer does not fit the question.
    pub fn answer(&mut self, now: Instant, answer: Answer) {
        let Some(awaiting) = self.awaiting.take() else {
            assert!(matches!(self.phase, Phase::Closing), "an answer nobody asked for");
            return;
        };
        self.last_progress = now;
        match (awaiting, answer) {
            (Awaiting::AuthPlain, Answer::Reject { reply, disconnect }) => self.auth_rejected(reply, disconnect),
            (Awaiting::ConnectionAccepted | Awaiting::XClient { .. }, Answer::Reject { reply, disconnect }) => {
                self.reject(reply, disconnect, Concerned::nobody());
                self.close();
            }
            (awaiting, Answer::Reject { reply, disconnect }) => {
                let concerned = self.concerned(awaiting);
                self.reject(reply, disconnect, concerned);
            }
            (Awaiting::ConnectionAccepted, Answer::Continue) if self.stopping => {}
            (Awaiting::ConnectionAccepted, Answer::Continue) => self.greet(),
            (Awaiting::Ehlo(hello), Answer::Continue) => self.hello_accepted(hello),
            (Awaiting::Ehlo(hello), Answer::Extensions(extensions)) => {
                self.hello_accepted(Hello { extensions, ..hello });
            }
            (Awaiting::XClient { peer, local }, Answer::Anew(settings)) => self.begin_anew(peer, local, settings),
            (Awaiting::AuthPlain, Answer::Authenticated(identity)) => self.auth_succeeded(identity),
            (Awaiting::AuthPlain, Answer::NotAuthenticated) => self.auth_failed(),
            (Awaiting::MailFrom { sender, params }, Answer::Continue) => self.mail_accepted(now, sender, params),
            (Awaiting::RcptTo { recipient, params }, Answer::Continue) => self.rcpt_accepted(recipient, params),
            (Awaiting::Data(_), Answer::Accepted(receipts)) => self.data_accepted(&receipts),
            _ => panic!("the answer does not fit the question"),
        }
        self.end_if_refused_too_often();
        self.stop_if_asked();
    }

    /// Octets to write. Write all of them, then clear the buffer.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// The replies in the output, in order: to be taken before the output is written, and there only with
    /// [`Settings::replies_apart`].
    pub fn take_said(&mut self) -> Vec<Said> {
        core::mem::take(&mut self.said)
    }

    /// Nothing is read any more, as if the session had closed by itself.
    pub fn hang_up(&mut self) {
        self.awaiting = None;
        self.close();
    }

    /// True when nothing is read any more.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing)
    }

    /// Offers a buffer for the next content, such as one the spool is done with. It is held
    /// until then; a large one is not, so that idle sessions stay small.
    pub fn recycle(&mut self, mut spare: Vec<u8>) {
        if spare.capacity() <= SPARE_OCTETS_MAX && spare.capacity() > self.spare.capacity() {
            spare.clear();
            self.spare = spare;
        }
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Our address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// What the session was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the client calls itself, once EHLO or HELO was accepted.
    pub fn hello(&self) -> Option<&str> {
        self.hello.as_deref()
    }

    /// The handshake's facts, under TLS.
    pub fn tls(&self) -> Option<&TlsInfo> {
        self.tls.as_ref()
    }

    /// Who the client proved to be.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// The protocol's name for trace headers (RFC 3848; KumoMTA uses these three).
    pub fn protocol(&self) -> &'static str {
        match (&self.tls, &self.identity) {
            (Some(_), Some(_)) => "ESMTPSA",
            (Some(_), None) => "ESMTPS",
            _ => "ESMTP",
        }
    }

    pub(crate) fn ask(&mut self, question: Question, awaiting: Awaiting) {
        self.question = Some(question);
        self.awaiting = Some(awaiting);
    }

    /// Writes a one-line reply that is no refusal.
    pub(crate) fn say(&mut self, code: u16, text: &str) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let _ = write!(self.output, "{code} {text}\r\n");
        self.said();
    }

    /// A reply is complete.
    pub(crate) fn said(&mut self) {
        if self.keeps_apart {
            let command = (!self.line.is_empty()).then(|| offending_line(&self.line));
            self.said.push(Said { end: self.output.len(), command });
        }
    }

    /// The last reply answers no command.
    pub(crate) fn unasked(&mut self) {
        if let Some(last) = self.said.last_mut() {
            last.command = None;
        }
    }

    fn is_receptive(&self) -> bool {
        let reading = !matches!(self.phase, Phase::Greeting | Phase::Tls | Phase::Closing);
        reading && self.awaiting.is_none() && !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.output.len() >= OUTPUT_OCTETS_MAX || self.rejections.len() >= REJECTIONS_MAX
    }

    /// Works off one line; returns the octets consumed, 0 when it is not complete.
    fn feed_line(&mut self, now: Instant, input: &[u8]) -> usize {
        let in_auth = matches!(self.phase, Phase::Auth(_));
        let octets_max = if in_auth { AUTH_LINE_OCTETS_MAX } else { COMMAND_LINE_OCTETS_MAX };
        let skipped = self.lines.skipped();
        match self.lines.next(input, octets_max) {
            Line::Complete { text, consumed } if in_auth => {
                self.auth_line(text);
                consumed
            }
            Line::Complete { text, consumed } => {
                self.line.clear();
                self.line.extend_from_slice(text);
                self.command(now, text, consumed < input.len());
                consumed
            }
            Line::TooLong { consumed } => {
                self.line_too_long(skipped + consumed);
                consumed
            }
            Line::Incomplete { consumed } => {
                if self.lines.skipped() > SKIPPED_OCTETS_MAX {
                    self.line_too_long(self.lines.skipped());
                }
                consumed
            }
        }
    }

    fn line_too_long(&mut self, octets: usize) {
        if matches!(self.phase, Phase::Auth(_)) {
            self.phase = Phase::Command;
        } else {
            self.line.clear();
        }
        self.refuse_junk(texts::reply(texts::COMMAND_TOO_LONG));
        if octets > SKIPPED_OCTETS_MAX {
            self.close();
        }
    }

    /// `more`: input follows the line.
    fn command(&mut self, now: Instant, text: &[u8], more: bool) {
        match Command::parse(text) {
            Ok(Command::Ehlo(domain)) => self.ehlo(domain, true),
            Ok(Command::Helo(domain)) => self.ehlo(domain, false),
            Ok(Command::Mail { sender, params }) => self.mail(now, sender, params),
            Ok(Command::Rcpt { recipient, params }) => self.rcpt(recipient, params),
            Ok(Command::Data) => self.data(now),
            Ok(Command::Bdat { octets, last }) => self.bdat(now, octets, last),
            Ok(Command::Rset) => self.rset(),
            Ok(Command::Noop) => self.noop(),
            Ok(Command::Quit) => self.quit(),
            Ok(Command::StartTls) => self.starttls(more),
            Ok(Command::XClient(said)) => self.xclient(&said),
            Ok(Command::Auth { mechanism, initial }) => self.auth(&mechanism, initial.as_deref()),
            Ok(Command::Lhlo(_) | Command::Vrfy(_) | Command::Expn(_) | Command::Help | Command::Unknown(_)) => {
                self.refuse_junk(texts::reply(texts::NOT_IMPLEMENTED));
            }
            Err(error @ CommandError::ChunkSize(_)) => {
                self.refuse_junk(texts::of_command_error(&error));
                self.close();
            }
            Err(error) => self.refuse_junk(texts::of_command_error(&error)),
        }
        self.end_if_refused_too_often();
    }

    fn rset(&mut self) {
        if self.count_junk() {
            self.transaction = None;
            self.say(250, "Reset state");
        }
    }

    fn noop(&mut self) {
        if self.count_junk() {
            self.say(250, "the goggles do nothing");
        }
    }

    fn quit(&mut self) {
        self.say(221, "So long, and thanks for all the fish!");
        self.close();
    }

    /// Whom the rejection of a question concerns.
    fn concerned(&self, awaiting: Awaiting) -> Concerned {
        match awaiting {
            Awaiting::MailFrom { sender, .. } => Concerned { sender: Some(sender), recipients: Vec::new() },
            Awaiting::RcptTo { recipient, .. } => self.concerning(recipient),
            Awaiting::Data(concerned) => concerned,
            Awaiting::ConnectionAccepted | Awaiting::XClient { .. } | Awaiting::Ehlo(_) | Awaiting::AuthPlain => {
                Concerned::nobody()
            }
        }
    }
}
