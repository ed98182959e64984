//! What the spool's tests share: messages made from a number, and a rig (`rig.rs`) that runs a log against
//! a model of what it has promised.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod rig;

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Resident, Sealed, TlsDemand};
use smtp_wire::{Mailbox, ReversePath};
use spool::fault::FaultDisk;
use spool::{Disk, FileName, NonceSource, RecoveredMessage, Recovery, SegmentLog, Settings, SpoolError};

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
        body: body.clone(),
        due: due(number),
    }
}

pub fn small_settings() -> Settings {
    Settings {
        segment_octets: 64 << 10,
        compact_margin_octets: 128 << 10,
        checkpoint_octets: 60_000,
        checkpoint_factor: 2,
        queue_of,
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

/// Opens the log on `disk`; nonces follow from `seed`.
pub fn open(disk: &FaultDisk, seed: u64) -> Result<(SegmentLog<FaultDisk>, Recovery), SpoolError> {
    SegmentLog::open(disk.clone(), small_settings(), nonces(seed))
}

/// Files of `disk` that are checkpoints.
pub fn checkpoints(disk: &FaultDisk) -> Vec<FileName> {
    let files = disk.copy().list().expect("a healthy disk lists");
    files.iter().map(|f| f.name).filter(|name| matches!(name, FileName::Checkpoint(_))).collect()
}

/// What the log alone says: everything recovered from a copy of `disk` without its checkpoints.
pub fn from_log_alone(disk: &FaultDisk) -> (SegmentLog<FaultDisk>, Recovery) {
    let mut alone = disk.copy();
    for file in checkpoints(disk) {
        alone.remove(file).expect("there");
    }
    open(&alone, 77).expect("a healthy disk opens")
}

/// Nonces that follow from `seed`.
pub fn nonces(seed: u64) -> NonceSource {
    let mut random = Random::new(seed ^ 0x5eed);
    Box::new(move || random.below(u64::MAX))
}

/// Housekeeping until there is nothing to do.
pub fn maintain_all(log: &mut SegmentLog<FaultDisk>) {
    for _ in 0..10_000 {
        if !log.maintain(1 << 20).expect("a healthy disk").has_more() {
            return;
        }
    }
    panic!("housekeeping never ends");
}
