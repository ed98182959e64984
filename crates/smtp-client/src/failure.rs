//! Every way a connection ends: what that means for the jobs in hand, in one place.
//!
//! In: a [`Failure`] and the reply that was awaited. Out: an outcome for every job in hand, in
//! order, and the [`Closing`]. Nothing is left behind: whatever happens to a connection, it ends
//! in [`Session::fail`], and that empties the session.
//!
//! | recipient, when the connection ends | verdict |
//! |---|---|
//! | has its result already | stays |
//! | accepted, final dot written to its end, no reply | unknown; transient when 421 is the reply |
//! | job answered, or its reply was awaited | transient |
//! | only its envelope travelled ahead, or a reused connection broke before any answer | not attempted |

use crate::flight::Standing;
use crate::pipeline::Stage;
use crate::session::{Session, State};
use crate::{CloseReason, Closing, Phase, RecipientResult, Verdict, command};
use smtp_wire::reply_reader::MalformedReply;
use smtp_wire::{EnhancedCode, Reply};
use std::borrow::Cow;
use std::sync::Arc;

/// What the text of a reply made here begins with: KumoMTA's words, because traffic shaping
/// rules and bounce classifiers look for them.
pub const INTERNAL_PREFIX: &str = "KumoMTA internal: ";

/// The code of replies made here for connections that failed (KumoMTA behaviour).
const INTERNAL_CODE: u16 = 400;

/// Why the connection is of no more use.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// Nothing failed: QUIT, with its reply.
    Finished(Option<Reply>),
    /// The server refused something without which no job can go on.
    Refused(Reply),
    /// 421.
    ServiceClosing(Reply),
    /// A reply to nothing.
    Unsolicited(Reply),
    /// Replies do not match commands.
    Violation(&'static str),
    /// Bytes that are not a reply.
    Malformed(MalformedReply),
    /// The connection broke.
    Lost(String),
    /// The deadline passed.
    TimedOut,
    /// TLS is required and not offered.
    TlsUnavailable,
    /// REQUIRETLS is needed and not offered.
    RequireTlsUnavailable,
    /// The handshake failed.
    TlsFailed(String),
    /// Credentials cannot be used.
    AuthUnavailable(&'static str),
}

/// What the end of the connection means for the jobs in hand.
struct End {
    failure: Failure,
    /// The awaited reply.
    stage: Option<Stage>,
    /// Its command was written to its end.
    asked: bool,
    reply: Arc<Reply>,
    local: bool,
    phase: Phase,
    command: Cow<'static, str>,
}

impl Session {
    /// Ends the session while the reply at the receiver's cursor is awaited.
    pub(crate) fn fail(&mut self, failure: Failure) {
        let awaited = self.pipeline.awaited();
        let asked = awaited.is_some_and(|e| e.end <= self.output.written());
        self.end(awaited.map(|e| e.stage), asked, failure);
    }

    /// Ends the session because of the reply to `stage`, which the cursor has already passed.
    pub(crate) fn fail_at(&mut self, stage: Stage, failure: Failure) {
        self.end(Some(stage), true, failure);
    }

    fn end(&mut self, stage: Option<Stage>, asked: bool, failure: Failure) {
        if self.state == State::Closed {
            return;
        }
        let phase = match (self.state, stage) {
            (State::Handshake, _) => Phase::StartTls,
            (_, Some(stage)) => stage.phase(),
            (_, None) => Phase::Idle,
        };
        let (reply, local) = failure.reply(phase);
        let command = stage.map_or("".into(), |stage| command::named(stage, self.flights.front()));
        let end = End { failure, stage, asked, reply: Arc::new(reply), local, phase, command };
        self.give_up_jobs(&end);
        self.closing = Some(Closing {
            why: end.failure.reason(stage),
            phase,
            reply: end.reply,
            local,
            reconnect_in_clear: self.is_tls_trouble(stage) && self.settings.may_go_in_clear(),
        });
        self.state = State::Closed;
        self.pipeline.clear();
        self.output.clear();
    }

    fn give_up_jobs(&mut self, end: &End) {
        for (place, mut flight) in std::mem::take(&mut self.flights).into_iter().enumerate() {
            let is_first = place == 0;
            if is_first && end.is_after_dot() {
                flight.settle_where(|s| matches!(s, Standing::Accepted), &end.result(Verdict::Unknown));
            }
            // The first job of a connection always counts as tried: else a server that drops
            // everybody would be tried again at once, for ever.
            let tried = flight.answered || (is_first && (flight.serial == 0 || end.is_an_answer()));
            let rest = if tried { Verdict::Transient } else { Verdict::NotAttempted };
            flight.settle_where(|_| true, &end.result(rest));
            self.outcomes.push_back(flight.into_outcome());
        }
    }

    /// True when what failed is TLS, or would not have failed without.
    fn is_tls_trouble(&self, stage: Option<Stage>) -> bool {
        let hello_under_tls = matches!(stage, Some(Stage::Ehlo)) && self.tls.is_on();
        self.state == State::Handshake || matches!(stage, Some(Stage::StartTls)) || hello_under_tls
    }
}

impl End {
    /// True when a written final dot has no reply one can read.
    fn is_after_dot(&self) -> bool {
        let dot = matches!(self.stage, Some(Stage::Dot | Stage::LmtpDot(_)));
        dot && self.asked && !matches!(self.failure, Failure::ServiceClosing(_))
    }

    /// True when the end says something about the front job: the server was asked about it and
    /// did answer, or did not in time. A reused connection that just breaks says nothing, nor
    /// does a failed RSET, which belongs to the job before.
    fn is_an_answer(&self) -> bool {
        let about_job = !matches!(self.stage, None | Some(Stage::Rset));
        about_job && self.asked && !matches!(self.failure, Failure::Lost(_))
    }

    fn result(&self, verdict: Verdict) -> RecipientResult {
        RecipientResult {
            verdict,
            reply: Arc::clone(&self.reply),
            command: if verdict == Verdict::NotAttempted { "".into() } else { self.command.clone() },
            phase: self.phase,
            local: self.local,
        }
    }
}

impl Failure {
    fn reason(&self, stage: Option<Stage>) -> CloseReason {
        match self {
            // Nobody minds how the connection breaks behind a QUIT.
            _ if stage == Some(Stage::Quit) => CloseReason::Finished,
            Failure::Finished(_) => CloseReason::Finished,
            Failure::Refused(_) => CloseReason::Refused,
            Failure::ServiceClosing(_) => CloseReason::ServiceClosing,
            Failure::Unsolicited(_) | Failure::Violation(_) => CloseReason::ProtocolViolation,
            Failure::Malformed(_) => CloseReason::Malformed,
            Failure::Lost(_) => CloseReason::ConnectionLost,
            Failure::TimedOut => CloseReason::TimedOut,
            Failure::TlsUnavailable => CloseReason::TlsUnavailable,
            Failure::RequireTlsUnavailable => CloseReason::RequireTlsUnavailable,
            Failure::TlsFailed(_) => CloseReason::TlsFailed,
            Failure::AuthUnavailable(_) => CloseReason::AuthUnavailable,
        }
    }

    /// The server's reply, or ours; true when ours.
    fn reply(&self, phase: Phase) -> (Reply, bool) {
        let text = match self {
            Failure::Refused(reply) | Failure::ServiceClosing(reply) | Failure::Unsolicited(reply) => {
                return (reply.clone(), false);
            }
            Failure::Finished(Some(reply)) => return (reply.clone(), false),
            Failure::Finished(None) => "session finished".to_owned(),
            Failure::Violation(what) => format!("{what}, {}", when(phase)),
            Failure::Malformed(error) => format!("{error}, {}", when(phase)),
            Failure::Lost(why) => format!("{why}, {}", when(phase)),
            Failure::TimedOut => format!("timed out {}", when(phase)),
            Failure::TlsUnavailable => "TLS is required and the server does not offer STARTTLS".to_owned(),
            Failure::RequireTlsUnavailable => "the server does not offer REQUIRETLS".to_owned(),
            Failure::TlsFailed(why) => format!("TLS handshake failed: {why}"),
            Failure::AuthUnavailable(why) => (*why).to_owned(),
        };
        (internal(INTERNAL_CODE, None, &text), true)
    }
}

/// A reply made here.
pub(crate) fn internal(code: u16, enhanced: Option<EnhancedCode>, text: &str) -> Reply {
    let Reply { text, .. } = Reply::new(code, &format!("{INTERNAL_PREFIX}{text}"));
    Reply { code, enhanced, text }
}

fn when(phase: Phase) -> String {
    match phase {
        Phase::Idle | Phase::Closed => "while idle".to_owned(),
        Phase::Banner => "waiting for the greeting".to_owned(),
        other => format!("waiting for the reply to {other}"),
    }
}
