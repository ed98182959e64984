//! Messages made from a number, for the tests of both kinds of spool.
#![allow(dead_code, reason = "each test binary uses its part")]

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Resident, Sealed, TlsDemand};
use smtp_wire::{Mailbox, ReversePath};
use spool::RecoveredMessage;

/// Small numbers from a seed (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % bound
    }
}

pub fn id(number: u64) -> MessageId {
    let mut octets = [0xa5; 16];
    octets[..8].copy_from_slice(&number.to_be_bytes());
    MessageId::from_bytes(octets)
}

pub fn due(number: u64) -> WallTime {
    WallTime::from_unix_micros(1_790_000_000_000_000 + number as i64)
}

/// A body nobody else has.
pub fn body(number: u64, octets: usize) -> Bytes {
    let mut random = Random::new(number);
    let mut body = Vec::with_capacity(octets + 8);
    while body.len() < octets {
        body.extend_from_slice(&random.below(u64::MAX).to_le_bytes()[..7]);
    }
    body.truncate(octets);
    body.into()
}

/// Message `number` with `recipients` recipients.
pub fn sealed(number: u64, recipients: u64, body: &Bytes) -> Sealed {
    let mailbox = |n: u64| Mailbox::parse(&format!("r{n}.{number}@example.com")).expect("an address");
    let mut meta = Meta::new();
    meta.set("n", number);
    Sealed {
        id: id(number),
        envelope: Envelope {
            sender: ReversePath(None),
            recipients: (0..recipients).map(mailbox).collect(),
            dsn: None,
            tls: TlsDemand::Usual,
        },
        meta,
        head: Bytes::from(format!("Subject: {number}\r\nX-Fill: {}\r\n", "x".repeat((number % 97) as usize))),
        body: body.clone().into(),
        due: due(number),
    }
}

/// One of seven queues, by the message's number.
pub fn queue_of(_: &Envelope, meta: &Meta) -> String {
    let number = meta.get("n").and_then(|n| n.as_u64()).expect("every message has its number");
    format!("q{}", number % 7)
}

/// What `sealed` reads back as.
pub fn resident(sealed: &Sealed) -> Resident {
    let Sealed { envelope, meta, head, body, .. } = sealed.clone();
    Resident { envelope, meta, head, body }
}

/// Whether a message reads back as what `sealed` is.
pub fn is_same(read: &Resident, sealed: &Sealed) -> bool {
    let Resident { envelope, meta, head, body } = read;
    (envelope, meta, head, body) == (&sealed.envelope, &sealed.meta, &sealed.head, &sealed.body)
}

/// Numbers of a recovered message's recipients that are not settled.
pub fn pending(message: &RecoveredMessage) -> Vec<u16> {
    (0..message.recipients).filter(|recipient| !message.settled.contains(*recipient)).collect()
}
