//! A message for the tests of real directories. In: a number and a size. Out: what a session would hand to the spool.

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Sealed, TlsDemand};
use smtp_wire::{Mailbox, ReversePath};

/// A message whose id and body are made of `number` alone, for one recipient.
pub fn sealed(number: u8, octets: usize) -> Sealed {
    let mailbox = Mailbox::parse("someone@example.com").expect("an address");
    let envelope = Envelope { sender: ReversePath(None), recipients: vec![mailbox], dsn: None, tls: TlsDemand::Usual };
    let (head, body) = (Bytes::from_static(b"Subject: x\r\n"), Bytes::from(vec![number; octets]));
    Sealed {
        id: MessageId::from_bytes([number; 16]),
        envelope,
        meta: Meta::new(),
        head,
        body: body.into(),
        due: WallTime::EPOCH,
    }
}
