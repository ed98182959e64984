//! A message whose bytes are final, and the message as queues know it.

use crate::{Content, Envelope, MessageId, Meta};
use bytes::Bytes;
use clock::WallTime;
use smtp_wire::Mailbox;

/// Final bytes, envelope and metadata: what the spool makes durable. Immutable by convention:
/// nothing below the seal edits content.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Identity.
    pub id: MessageId,
    /// Who from, who for.
    pub envelope: Envelope,
    /// What policy noted.
    pub meta: Meta,
    /// Everything before the body: header block and blank line, every line ending in CRLF.
    pub head: Bytes,
    /// The body.
    pub body: Bytes,
    /// First moment it may be tried.
    pub due: WallTime,
}

/// A message in our care. Passed by value; whoever holds it owns it.
#[derive(Clone, Debug)]
pub struct Message {
    /// Identity.
    pub id: MessageId,
    /// Who from, who for: all recipients, settled ones too.
    pub envelope: Envelope,
    /// Indices of recipients that are settled, ascending. Empty for a fresh message.
    pub settled: Vec<u16>,
    /// What policy noted.
    pub meta: Meta,
    /// The bytes, or where they are.
    pub content: Content,
    /// Attempts made so far.
    pub attempts: u16,
    /// First moment it may be tried next.
    pub due: WallTime,
}

impl Message {
    /// The queued form of a sealed message whose content stays in memory.
    pub fn resident(sealed: Sealed, place: Option<crate::Place>) -> Message {
        Message {
            id: sealed.id,
            envelope: sealed.envelope,
            settled: Vec::new(),
            meta: sealed.meta,
            content: Content::Resident { head: sealed.head, body: sealed.body, place },
            attempts: 0,
            due: sealed.due,
        }
    }

    /// Index and address of every recipient not yet settled.
    pub fn pending(&self) -> impl Iterator<Item = (u16, &Mailbox)> {
        let all = self.envelope.recipients.iter().enumerate().map(|(i, r)| (i as u16, r));
        all.filter(|(i, _)| self.settled.binary_search(i).is_err())
    }

    /// Notes that a recipient is settled; false when it was already.
    pub fn settle_recipient(&mut self, index: u16) -> bool {
        match self.settled.binary_search(&index) {
            Ok(_) => false,
            Err(at) => {
                self.settled.insert(at, index);
                true
            }
        }
    }

    /// True when every recipient is settled.
    pub fn is_settled(&self) -> bool {
        self.settled.len() >= self.envelope.recipients.len()
    }

    /// When it was accepted: the time inside its id (KumoMTA behaviour).
    pub fn created(&self) -> WallTime {
        self.id.created()
    }
}
