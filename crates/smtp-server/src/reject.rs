//! Refusals: what the client is told, what the driver logs, and whether the session goes on.
//!
//! Every 4xx and 5xx reply becomes a [`Rejection`], except `421 4.3.2` (KumoMTA behaviour:
//! timeouts and shutdowns are nobody's refusal). The list is bounded: the session stops reading
//! until the driver has taken it.

use crate::question::Disconnect;
use crate::session::{Phase, Session};
use crate::texts;
use smtp_wire::{Mailbox, Reply, ReversePath};

/// A refusal to be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// What the client was told.
    pub reply: Reply,
    /// The line it answers; empty when it answers none. Credentials are left out.
    pub command: String,
    /// Sender of the transaction, or of the MAIL refused.
    pub sender: Option<ReversePath>,
    /// The recipient refused; all of them when the message was.
    pub recipients: Vec<Mailbox>,
}

/// Whom a refusal concerns.
#[derive(Debug)]
pub(crate) struct Concerned {
    pub(crate) sender: Option<ReversePath>,
    pub(crate) recipients: Vec<Mailbox>,
}

impl Concerned {
    pub(crate) fn nobody() -> Concerned {
        Concerned { sender: None, recipients: Vec::new() }
    }
}

/// Rejections held before the session stops reading.
pub(crate) const REJECTIONS_MAX: usize = 256;

impl Session {
    /// Takes the refusals since the last call, to be logged. To be called at every
    /// [`crate::Step::Flush`], [`crate::Step::NeedInput`] and [`crate::Step::Close`].
    pub fn take_rejections(&mut self) -> Vec<Rejection> {
        core::mem::take(&mut self.rejections)
    }

    /// Refuses the command at hand for a fault that is not the client's manners: limits.
    pub(crate) fn refuse(&mut self, reply: Reply, concerned: Concerned) {
        self.refusals = self.refusals.saturating_add(1);
        reply.write_to(&mut self.output);
        self.said();
        let unlogged = reply.code == 421 && reply.enhanced == Some(texts::NOT_NOW);
        if !unlogged {
            let command = offending_line(&self.line);
            let Concerned { sender, recipients } = concerned;
            self.rejections.push(Rejection { reply, command, sender, recipients });
        }
    }

    /// Refuses a command that is wrong in itself or in its order, and counts it.
    pub(crate) fn refuse_junk(&mut self, reply: Reply) {
        if self.count_junk() {
            let sender = self.transaction.as_ref().map(|open| open.sender.clone());
            self.refuse(reply, Concerned { sender, recipients: Vec::new() });
        }
    }

    /// Counts a command that moves no mail. False when it was one too many and 421 was said.
    pub(crate) fn count_junk(&mut self) -> bool {
        self.junk_commands = self.junk_commands.saturating_add(1);
        let bearable = self.junk_commands <= self.settings.junk_commands_max;
        if !bearable {
            self.close_with(Reply::new(421, "4.7.0 too many errors"), Concerned::nobody());
        }
        bearable
    }

    /// Ends a session that was refused more since its last accepted message than one message can be: whoever looks for addresses that
    /// exist is slowed down, and logs are not filled by one connection.
    pub(crate) fn end_if_refused_too_often(&mut self) {
        let bearable =
            self.settings.max_recipients_per_message.saturating_add(self.settings.junk_commands_max as usize);
        if self.refusals > bearable && !self.is_closing() {
            self.close_with(Reply::new(421, "4.7.0 too many errors"), Concerned::nobody());
        }
    }

    /// Says a last reply.
    pub(crate) fn close_with(&mut self, reply: Reply, concerned: Concerned) {
        self.refuse(reply, concerned);
        self.close();
    }

    /// Nothing is read any more; the driver writes what is left and closes.
    pub(crate) fn close(&mut self) {
        self.phase = Phase::Closing;
        self.question = None;
        self.transaction = None;
    }

    /// Carries out policy's rejection.
    pub(crate) fn reject(&mut self, reply: Reply, disconnect: Disconnect, concerned: Concerned) {
        if !reply.is_transient() && !reply.is_permanent() {
            // A "rejection" with 2xx would promise what nobody took responsibility for.
            self.close_with(self.settings.technical_difficulties(), concerned);
            return;
        }
        let code = reply.code;
        self.refuse(reply, concerned);
        match disconnect {
            Disconnect::If421 if code == 421 => self.close(),
            Disconnect::If421 => {}
            Disconnect::ForceDisconnect => self.close(),
            Disconnect::FollowWith421 => {
                let text = format!("{} disconnecting due to previous error", self.settings.hostname);
                self.close_with(Reply::new(421, &text), Concerned::nobody());
            }
        }
    }
}

/// A command line as text; of AUTH only verb and mechanism, for the rest may be a password.
pub(crate) fn offending_line(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(verb), Some(mechanism)) if verb.eq_ignore_ascii_case("AUTH") => {
            format!("{verb} {mechanism}")
        }
        _ => text.into_owned(),
    }
}
