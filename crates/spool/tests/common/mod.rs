//! What the spool's tests share: messages made from a number, and a rig that runs a log against
//! a model of what it has promised.
#![allow(dead_code, reason = "each test binary uses its part")]

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Place, Resident, Sealed};
use smtp_wire::{Mailbox, ReversePath};
use spool::fault::FaultDisk;
use spool::{Batch, Mark, RecoveredMessage, Recovery, SegmentLog, Settings, SpoolError};
use std::collections::{BTreeMap, BTreeSet};

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
        envelope: Envelope { sender: ReversePath(None), recipients: (0..recipients).map(mailbox).collect() },
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

/// Numbers of a recovered message's recipients that are not settled.
pub fn pending(message: &RecoveredMessage) -> Vec<u16> {
    (0..message.recipients).filter(|recipient| !message.settled.contains(*recipient)).collect()
}

/// Opens the log on `disk`; nonces follow from `seed`.
pub fn open(disk: &FaultDisk, seed: u64) -> Result<(SegmentLog<FaultDisk>, Recovery), SpoolError> {
    let mut random = Random::new(seed ^ 0x5eed);
    SegmentLog::open(disk.clone(), small_settings(), Box::new(move || random.below(u64::MAX)))
}

/// What the spool may say of a message after a cut.
#[derive(Clone, Debug)]
struct Promise {
    sealed: Sealed,
    place: Option<Place>,
    /// Acknowledged, or found by a recovery.
    ours: bool,
    /// (attempts, due) that a recovery may show; the last one is what was confirmed or tried last.
    plans: Vec<(u16, WallTime)>,
    done: BTreeSet<u32>,
    maybe_done: BTreeSet<u32>,
    maybe_removed: bool,
}

/// A log and the model it must agree with.
pub struct Rig {
    pub disk: FaultDisk,
    log: Option<SegmentLog<FaultDisk>>,
    promises: BTreeMap<MessageId, Promise>,
    /// Marks of failed commits, to be committed again.
    marks: Vec<Mark>,
    random: Random,
    next: u64,
    seed: u64,
}

impl Rig {
    pub fn new(seed: u64) -> Rig {
        Rig {
            disk: FaultDisk::new(),
            log: None,
            promises: BTreeMap::new(),
            marks: Vec::new(),
            random: Random::new(seed),
            next: 0,
            seed,
        }
    }

    /// A number for the test's own decisions.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One random thing; `Err` when the disk refused.
    pub fn step(&mut self) -> Result<(), SpoolError> {
        self.opened()?;
        match self.random.below(10) {
            0..6 => self.commit(),
            6 | 7 => self.maintain(),
            8 => self.read_one(),
            _ => self.maintain_all(),
        }
    }

    /// Cuts the power, opens again, compares with the model.
    pub fn crash_and_check(&mut self, seed: u64) {
        self.log = None;
        self.disk.crash(seed);
        self.opened().expect("a healthy disk opens");
    }

    pub fn stats(&self) -> spool::LogStats {
        self.log.as_ref().map(|log| log.stats()).unwrap_or_default()
    }

    fn opened(&mut self) -> Result<(), SpoolError> {
        if self.log.is_none() {
            self.seed += 1_000_003;
            let (log, recovery) = open(&self.disk, self.seed)?;
            let unread = self.compare(&log, &recovery);
            self.log = Some(log);
            unread?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), SpoolError> {
        let mut batch = Batch { appends: Vec::new(), marks: std::mem::take(&mut self.marks) };
        for _ in 0..self.random.below(4) {
            batch.appends.push(self.transaction());
        }
        for _ in 0..self.random.below(7) {
            batch.marks.extend(self.mark());
        }
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        match log.commit(&batch) {
            Ok(durable) => {
                let all: Vec<_> = batch.appends.iter().flatten().collect();
                assert_eq!(all.len(), durable.len());
                for (sealed, durable) in all.iter().zip(&durable) {
                    assert_eq!(sealed.id, durable.id(), "receipts in order");
                    let promise = self.promises.get_mut(&sealed.id).expect("noted when it was made");
                    (promise.ours, promise.place) = (true, Some(durable.place()));
                }
                batch.marks.iter().for_each(|mark| self.confirm(mark));
                Ok(())
            }
            Err(error) => {
                self.marks = batch.marks;
                Err(error)
            }
        }
    }

    /// One to three messages with one body, now and then larger than a segment.
    fn transaction(&mut self) -> Vec<Sealed> {
        let octets = match self.random.below(40) {
            0 => 100_000,
            1..5 => 0,
            _ => self.random.below(12_000) as usize,
        };
        let body = body(self.next, octets);
        let count = [1, 1, 1, 2, 3][self.random.below(5) as usize];
        let messages: Vec<_> =
            (0..count).map(|i| sealed(self.next + i, RECIPIENTS[self.random.below(8) as usize], &body)).collect();
        self.next += count;
        for sealed in &messages {
            let plans = vec![(0, sealed.due)];
            let promise = Promise {
                sealed: sealed.clone(),
                place: None,
                ours: false,
                plans,
                done: BTreeSet::new(),
                maybe_done: BTreeSet::new(),
                maybe_removed: false,
            };
            self.promises.insert(sealed.id, promise);
        }
        messages
    }

    /// A mark for some live message; mostly removals, so that space is reclaimed.
    fn mark(&mut self) -> Option<Mark> {
        let live: Vec<_> = self.promises.values().filter(|p| p.ours && !p.maybe_removed).map(|p| p.sealed.id).collect();
        if live.is_empty() {
            return None;
        }
        // The oldest few are left alone more often: they are what compaction is for.
        let at = self.random.below(live.len() as u64).max(self.random.below(live.len() as u64));
        let id = live[at as usize];
        let promise = self.promises.get_mut(&id).expect("just found");
        Some(match self.random.below(6) {
            0 => {
                let (attempts, due) = (self.random.below(9) as u16, due(self.random.below(1 << 40)));
                promise.plans.push((attempts, due));
                Mark::Attempt { id, attempts, due }
            }
            1 => {
                let count = promise.sealed.envelope.recipients.len() as u64;
                let recipients = vec![self.random.below(count) as u32, self.random.below(count) as u32];
                promise.maybe_done.extend(&recipients);
                Mark::RecipientsDone { id, recipients }
            }
            _ => {
                promise.maybe_removed = true;
                Mark::Removed { id }
            }
        })
    }

    fn confirm(&mut self, mark: &Mark) {
        match mark {
            Mark::Removed { id } => _ = self.promises.remove(id),
            Mark::Attempt { id, attempts, due } => {
                if let Some(promise) = self.promises.get_mut(id) {
                    let at = promise.plans.iter().rposition(|plan| plan == &(*attempts, *due)).unwrap_or(0);
                    promise.plans.drain(..at);
                }
            }
            Mark::RecipientsDone { id, recipients } => {
                if let Some(promise) = self.promises.get_mut(id) {
                    promise.done.extend(recipients);
                }
            }
        }
    }

    fn maintain(&mut self) -> Result<(), SpoolError> {
        let octets_max = 1 + self.random.below(40_000) as usize;
        self.log.as_mut().map_or(Ok(false), |log| log.maintain(octets_max)).map(|_| ())
    }

    fn maintain_all(&mut self) -> Result<(), SpoolError> {
        let Some(log) = self.log.as_mut() else { return Ok(()) };
        for _ in 0..1000 {
            if !log.maintain(20_000)? {
                return Ok(());
            }
        }
        panic!("housekeeping never ends");
    }

    fn read_one(&mut self) -> Result<(), SpoolError> {
        let live: Vec<_> = self.promises.values().filter(|p| p.ours && p.place.is_some()).collect();
        let Some(log) = self.log.as_ref() else { return Ok(()) };
        if !live.is_empty() {
            let promise = live[self.random.below(live.len() as u64) as usize];
            let place = promise.place.expect("just asked");
            let read = log.read(promise.sealed.id, place)?;
            assert!(read == resident(&promise.sealed), "content of {}", promise.sealed.id);
        }
        Ok(())
    }

    /// Checks a recovery against the promises, then takes it as the new truth.
    fn compare(&mut self, log: &SegmentLog<FaultDisk>, recovery: &Recovery) -> Result<(), SpoolError> {
        assert_eq!(recovery.damage, spool::Damage::default(), "a cut is no damage");
        assert_eq!(recovery.set_aside, 0, "a cut is no damage");
        assert_eq!(log.stats().live_messages, recovery.messages.len() as u64);
        let mut unread = Ok(());
        let mut found = BTreeMap::new();
        for message in &recovery.messages {
            let id = message.id;
            let promise = self.promises.get(&id).unwrap_or_else(|| panic!("{id} is removed or was never appended"));
            assert_eq!(*message.queue, queue_of(&promise.sealed.envelope, &promise.sealed.meta));
            assert_eq!(usize::from(message.recipients), promise.sealed.envelope.recipients.len());
            assert_eq!(message.size as usize, promise.sealed.head.len() + promise.sealed.body.len());
            assert!(
                promise.plans.contains(&(message.attempts, message.due)),
                "{id}: {message:?} of {:?}",
                promise.plans
            );
            let settled = (0..message.recipients).filter(|r| message.settled.contains(*r));
            let done: BTreeSet<u32> = settled.map(u32::from).collect();
            assert_eq!(done.len(), message.settled.len(), "{id}: no recipients but those of the envelope");
            assert!(done.is_superset(&promise.done), "{id}: settled recipients stay settled");
            assert!(done.is_subset(&promise.maybe_done), "{id}: recipients settle only by marks");
            match log.read(id, message.place) {
                Ok(read) => assert!(read == resident(&promise.sealed), "content of {id}"),
                Err(error @ SpoolError::Io { .. }) => unread = Err(error),
                Err(error) => panic!("{id} does not read: {error}"),
            }
            let promise = Promise {
                place: Some(message.place),
                ours: true,
                plans: vec![(message.attempts, message.due)],
                maybe_done: done.clone(),
                done,
                maybe_removed: false,
                ..promise.clone()
            };
            assert!(found.insert(id, promise).is_none(), "{id} twice");
        }
        for (id, promise) in &self.promises {
            let may_be_gone = !promise.ours || promise.maybe_removed;
            assert!(may_be_gone || found.contains_key(id), "{id} was acknowledged and is lost");
        }
        self.promises = found;
        self.marks.clear();
        unread
    }
}

/// Numbers of recipients to choose from: few, and now and then more than a bitmap's first word holds.
const RECIPIENTS: [u64; 8] = [1, 1, 1, 2, 3, 3, 5, 80];
