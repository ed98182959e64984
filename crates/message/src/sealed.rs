//! A message whose bytes are final, and the message as queues know it.

use crate::{Content, Envelope, MessageId, Meta};
use bytes::Bytes;
use clock::WallTime;

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
    /// Final header block, every line ending in CRLF.
    pub head: Bytes,
    /// Separating blank line and body.
    pub body: Bytes,
    /// First moment it may be tried.
    pub due: WallTime,
}

/// A message in our care. Passed by value; whoever holds it owns it.
#[derive(Clone, Debug)]
pub struct Message {
    /// Identity.
    pub id: MessageId,
    /// Who from, and which recipients are still to be settled.
    pub envelope: Envelope,
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
            meta: sealed.meta,
            content: Content::Resident { head: sealed.head, body: sealed.body, place },
            attempts: 0,
            due: sealed.due,
        }
    }

    /// When it was accepted: the time inside its id (KumoMTA behaviour).
    pub fn created(&self) -> WallTime {
        self.id.created()
    }
}
