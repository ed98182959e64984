//! MAIL: opens a transaction (RFC 5321 section 4.1.1.2).
//!
//! SIZE is held against the limit at once, so that nobody sends 100 MB to be told no; so is
//! what memory and disk allow now.

use crate::question::Question;
use crate::reject::Concerned;
use crate::session::{Awaiting, Session};
use crate::texts;
use clock::Instant;
use smtp_wire::command::{MailParams, RcptParams};
use smtp_wire::{Mailbox, ReversePath};

/// The transaction that MAIL opened.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) started: Instant,
    pub(crate) sender: ReversePath,
    pub(crate) params: MailParams,
    pub(crate) recipients: Vec<Mailbox>,
    pub(crate) rcpt_params: Vec<RcptParams>,
    /// Content so far, from DATA or from chunks.
    pub(crate) content: Vec<u8>,
    /// When the client began with it.
    pub(crate) content_at: Option<Instant>,
    pub(crate) chunks: Chunks,
}

/// What became of BDAT in this transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    None,
    Accepted,
    Refused,
}

impl Session {
    pub(crate) fn mail(&mut self, now: Instant, sender: ReversePath, params: MailParams) {
        if self.transaction.is_some() {
            return self.refuse_junk(texts::reply(texts::MAIL_TWICE));
        }
        if self.settings.hello_required && self.hello.is_none() {
            return self.refuse_junk(texts::reply(texts::HELLO_FIRST));
        }
        if params.size.is_some_and(|octets| octets > self.settings.max_message_size as u64) {
            let concerned = Concerned { sender: Some(sender), recipients: Vec::new() };
            return self.refuse(texts::reply(texts::MESSAGE_TOO_BIG), concerned);
        }
        if let Some(reply) = self.mail_refusal(params.size) {
            let concerned = Concerned { sender: Some(sender), recipients: Vec::new() };
            return match reply.code {
                421 => self.close_with(reply, concerned),
                _ => self.refuse(reply, concerned),
            };
        }
        let sender = match sender.0.map(|sender| sender.or_at(&self.settings.hostname)).transpose() {
            Ok(sender) => ReversePath(sender),
            Err(sender) => {
                let concerned = Concerned { sender: Some(ReversePath(Some(sender))), recipients: Vec::new() };
                return self.refuse(texts::reply(texts::NO_POSTMASTER), concerned);
            }
        };
        if !params.smtputf8 && !sender.0.as_ref().is_none_or(Mailbox::is_ascii) {
            let concerned = Concerned { sender: Some(sender), recipients: Vec::new() };
            return self.refuse(texts::reply(texts::NEEDS_SMTPUTF8), concerned);
        }
        if params.requiretls && self.tls.is_none() {
            let concerned = Concerned { sender: Some(sender), recipients: Vec::new() };
            return self.refuse(texts::reply(texts::REQUIRETLS_IN_CLEAR), concerned);
        }
        if !self.settings.interest.mail_from {
            return self.mail_accepted(now, sender, params);
        }
        let question = Question::MailFrom { sender: sender.clone(), params: params.clone() };
        self.ask(question, Awaiting::MailFrom { sender, params });
    }

    pub(crate) fn mail_accepted(&mut self, now: Instant, sender: ReversePath, params: MailParams) {
        self.say_address(sender.as_str());
        self.transaction = Some(Open {
            started: now,
            sender,
            params,
            recipients: Vec::new(),
            rcpt_params: Vec::new(),
            content: Vec::new(),
            content_at: None,
            chunks: Chunks::None,
        });
    }

    /// `250 OK EnvelopeAddress("a@b")`, KumoMTA's text.
    pub(crate) fn say_address(&mut self, address: &str) {
        use std::io::Write as _;
        // Writing to a Vec cannot fail.
        let _ = write!(self.output, "250 OK EnvelopeAddress({address:?})\r\n");
        self.said();
    }
}
