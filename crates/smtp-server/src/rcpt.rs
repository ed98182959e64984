//! RCPT: adds a recipient (RFC 5321 section 4.1.1.3).
//!
//! Limits are judged before policy is asked: a recipient over a limit costs nobody anything.
//! Whether relaying is permitted is the driver's answer. A bare `<postmaster>` is that of this host (RFC 5321 section 4.1.1.3).

use crate::admission::Admission;
use crate::mail::Chunks;
use crate::question::Question;
use crate::reject::Concerned;
use crate::session::{Awaiting, Session};
use crate::texts;
use smtp_wire::command::RcptParams;
use smtp_wire::{Mailbox, Reply};

impl Session {
    pub(crate) fn rcpt(&mut self, recipient: Mailbox, params: RcptParams) {
        let Some(open) = &self.transaction else {
            return self.refuse_junk(texts::reply(texts::MAIL_FIRST));
        };
        if open.chunks != Chunks::None {
            return self.refuse_junk(texts::reply(texts::IN_CHUNKS));
        }
        if self.admission == Admission::LoadShedding {
            let concerned = self.concerning(recipient);
            return self.refuse(texts::reply(texts::NO_ROOM_FOR_RECIPIENTS), concerned);
        }
        if let Some((reply, close)) = self.recipient_over_limit() {
            let concerned = self.concerning(recipient);
            return if close { self.close_with(reply, concerned) } else { self.refuse(reply, concerned) };
        }
        let recipient = match recipient.or_at(&self.settings.hostname) {
            Ok(recipient) => recipient,
            Err(recipient) => {
                let concerned = self.concerning(recipient);
                return self.refuse(texts::reply(texts::NO_POSTMASTER), concerned);
            }
        };
        let sender = open.sender.clone();
        if !open.params.smtputf8 && !recipient.is_ascii() {
            let concerned = self.concerning(recipient);
            return self.refuse(texts::reply(texts::NEEDS_SMTPUTF8), concerned);
        }
        if !self.settings.interest.rcpt_to {
            return self.rcpt_accepted(recipient, params);
        }
        let question = Question::RcptTo { sender, recipient: recipient.clone(), params: params.clone() };
        self.ask(question, Awaiting::RcptTo { recipient, params });
    }

    pub(crate) fn rcpt_accepted(&mut self, recipient: Mailbox, params: RcptParams) {
        self.say_address(recipient.as_str());
        self.recipients_accepted += 1;
        if let Some(open) = &mut self.transaction {
            open.recipients.push(recipient);
            open.rcpt_params.push(params);
        }
    }

    /// The reply to one recipient too many, and whether to close.
    fn recipient_over_limit(&self) -> Option<(Reply, bool)> {
        let held = self.transaction.as_ref().map_or(0, |open| open.recipients.len());
        if held >= self.settings.max_recipients_per_message {
            return Some((texts::reply(texts::TOO_MANY_RECIPIENTS), false));
        }
        if self.recipients_accepted < self.settings.max_messages_per_connection {
            return None;
        }
        if held > 0 {
            return Some((texts::reply(texts::TOO_MANY_RECIPIENTS), false));
        }
        let text = format!("4.5.3 {} too many messages on this connection", self.settings.hostname);
        Some((Reply::new(421, &text), true))
    }

    /// The transaction's sender with one recipient.
    pub(crate) fn concerning(&self, recipient: Mailbox) -> Concerned {
        let sender = self.transaction.as_ref().map(|open| open.sender.clone());
        Concerned { sender, recipients: vec![recipient] }
    }
}
