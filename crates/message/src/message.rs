//! The message as queues know it: 64 octets, and its content while that is in memory.
//!
//! Millions wait in queues; so what only an attempt or a log record needs stands apart in
//! [`Resident`], which is let go of in one place, [`Message::release`], and comes back from the spool.

use crate::{Envelope, MessageId, Meta, Place, Sealed, Settled};
use bytes::Bytes;
use clock::WallTime;
use smtp_wire::Body;

/// A message in our care. Passed by value; whoever holds it owns it.
#[derive(Clone, Debug)]
pub struct Message {
    /// Identity.
    pub id: MessageId,
    /// First moment it may be tried next.
    pub due: WallTime,
    /// Where the spool has it; `None` while it is in memory only (`deferred_spool`).
    pub place: Option<Place>,
    /// Octets of head and body together.
    pub size: u32,
    /// Attempts made so far.
    pub attempts: u16,
    /// Recipients of its envelope, settled ones too.
    pub recipients: u16,
    /// Which of them are settled.
    pub settled: Settled,
    /// What is in memory of it; `None` while only the spool has it.
    pub resident: Option<Box<Resident>>,
}

/// Envelope, metadata and bytes of a message, in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Resident {
    /// Who from, who for: all recipients, settled ones too.
    pub envelope: Envelope,
    /// What policy noted.
    pub meta: Meta,
    /// Header block and blank line, every line ending in CRLF.
    pub head: Bytes,
    /// The body; shared by the messages of a split transaction.
    pub body: Body,
}

impl Message {
    /// A message of one octet for one recipient, of which nothing is in memory and nothing was tried: what whoever only moves
    /// messages about begins with (tests and measurements).
    pub fn bare(id: MessageId, due: WallTime) -> Message {
        Message {
            id,
            due,
            place: None,
            size: 1,
            attempts: 0,
            recipients: 1,
            settled: Settled::default(),
            resident: None,
        }
    }

    /// The queued form of a sealed message, all of it in memory. It has at most 65 535 recipients.
    pub fn resident(sealed: Sealed, place: Option<Place>) -> Message {
        let Sealed { id, envelope, meta, head, body, due } = sealed;
        Message {
            id,
            due,
            place,
            size: (head.len() + body.len()) as u32,
            attempts: 0,
            recipients: envelope.recipients.len() as u16,
            settled: Settled::default(),
            resident: Some(Box::new(Resident { envelope, meta, head, body })),
        }
    }

    /// The same message without its content.
    pub fn bare_copy(&self) -> Message {
        Message { resident: None, place: self.place, settled: self.settled.clone(), ..*self }
    }

    /// Numbers of the recipients not yet settled.
    pub fn pending(&self) -> impl Iterator<Item = u16> {
        (0..self.recipients).filter(|recipient| !self.settled.contains(*recipient))
    }

    /// True when every recipient is settled.
    pub fn is_settled(&self) -> bool {
        self.settled.len() >= usize::from(self.recipients)
    }

    /// Octets of memory that its content takes; a shared body counts whole.
    pub fn resident_octets(&self) -> usize {
        if self.resident.is_some() { self.size as usize + RESIDENT_OCTETS } else { 0 }
    }

    /// True while no spool has it: a crash would lose it (`deferred_spool`).
    pub fn is_volatile(&self) -> bool {
        self.place.is_none()
    }

    /// Lets go of the memory when the spool has the content; the one place that does.
    pub fn release(&mut self) {
        if self.place.is_some() {
            self.resident = None;
        }
    }

    /// When it was accepted: the time inside its id (KumoMTA behaviour).
    pub fn created(&self) -> WallTime {
        self.id.created()
    }
}

/// What envelope and metadata of a usual message take beside the bytes.
const RESIDENT_OCTETS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_message_takes_64_octets() {
        assert!(size_of::<Message>() <= 64, "{}", size_of::<Message>());
    }
}
