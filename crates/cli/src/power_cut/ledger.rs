//! What the engine was asked and what it promised, each dated by the number of disk calls made so far.
//!
//! From it follows, for a cut at any call, what a recovery must bring back, may bring back, and must not
//! ([`Ledger::expected`]).

use clock::WallTime;
use message::{MessageId, Sealed};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Everything asked and promised; shared by all who append.
#[derive(Default)]
pub(super) struct Ledger {
    entries: Mutex<BTreeMap<MessageId, Entry>>,
}

/// One message.
struct Entry {
    octets: u64,
    crc: u32,
    due: WallTime,
    recipients: u16,
    /// Which append it came with: all of its messages or none.
    transaction: u32,
    begun: usize,
    acked: Option<usize>,
    attempts: Vec<Dated<(u16, WallTime)>>,
    settled: Vec<Dated<u16>>,
    removed: Option<Dated<()>>,
}

/// Something asked for at one call and promised at another.
struct Dated<T> {
    what: T,
    begun: usize,
    acked: Option<usize>,
}

/// What a recovery may show of a message after a cut.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expected {
    /// It was acknowledged, and its removal was not asked for.
    pub must: bool,
    /// Its removal was acknowledged.
    pub must_not: bool,
    pub octets: u64,
    pub crc: u32,
    pub recipients: u16,
    pub transaction: u32,
    /// It was not acknowledged: then it is there with all of its transaction or not at all.
    pub unacked: bool,
    /// Attempts and due times it may show.
    pub plans: Vec<(u16, WallTime)>,
    /// Recipients that must be settled.
    pub settled: Vec<u16>,
    /// Recipients that may be.
    pub maybe_settled: Vec<u16>,
}

/// What is checked of content: far below the chance of an accident.
pub(super) fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

impl Ledger {
    /// Messages about to be appended together.
    pub fn begin(&self, transaction: u32, messages: &[Vec<Sealed>], at: usize) {
        let mut entries = self.entries();
        for sealed in messages.iter().flatten() {
            let entry = Entry {
                octets: (sealed.head.len() + sealed.body.len()) as u64,
                crc: checksum(&sealed.head, &sealed.body),
                due: sealed.due,
                recipients: sealed.envelope.recipients.len() as u16,
                transaction,
                begun: at,
                acked: None,
                attempts: Vec::new(),
                settled: Vec::new(),
                removed: None,
            };
            entries.insert(sealed.id, entry);
        }
    }

    /// They are durable.
    pub fn acked(&self, ids: impl Iterator<Item = MessageId>, at: usize) {
        let mut entries = self.entries();
        ids.for_each(|id| _ = entries.get_mut(&id).map(|entry| entry.acked = Some(at)));
    }

    /// An attempt is about to be marked.
    pub fn attempt(&self, id: MessageId, attempts: u16, due: WallTime, at: usize) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.attempts.push(Dated { what: (attempts, due), begun: at, acked: None });
        }
    }

    /// A recipient is about to be marked as settled.
    pub fn settle(&self, id: MessageId, recipient: u16, at: usize) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.settled.push(Dated { what: recipient, begun: at, acked: None });
        }
    }

    /// It is about to be removed.
    pub fn remove(&self, id: MessageId, at: usize) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.removed = Some(Dated { what: (), begun: at, acked: None });
        }
    }

    /// All marks of these messages so far are durable.
    pub fn flushed(&self, ids: &[MessageId], at: usize) {
        let mut entries = self.entries();
        for entry in ids.iter().filter_map(|id| entries.remove(id).map(|entry| (*id, entry))).collect::<Vec<_>>() {
            let (id, mut entry) = entry;
            entry.attempts.iter_mut().for_each(|mark| _ = mark.acked.get_or_insert(at));
            entry.settled.iter_mut().for_each(|mark| _ = mark.acked.get_or_insert(at));
            entry.removed.iter_mut().for_each(|mark| _ = mark.acked.get_or_insert(at));
            entries.insert(id, entry);
        }
    }

    /// What a recovery may show after a cut in call `cut`: the calls before it had returned.
    pub fn expected(&self, cut: usize) -> BTreeMap<MessageId, Expected> {
        let entries = self.entries();
        let begun = entries.iter().filter(|(_, entry)| entry.begun <= cut);
        begun.map(|(id, entry)| (*id, entry.expected(cut))).collect()
    }

    /// Each change under the lock is whole.
    fn entries(&self) -> MutexGuard<'_, BTreeMap<MessageId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn expected(&self, cut: usize) -> Expected {
        let is_acked = self.acked.is_some_and(|at| at <= cut);
        let removal = self.removed.as_ref().filter(|mark| mark.begun <= cut);
        let mut plans = vec![(0, self.due)];
        for mark in self.attempts.iter().filter(|mark| mark.begun <= cut) {
            if mark.is_acked(cut) {
                plans.clear();
            }
            plans.push(mark.what);
        }
        let settled = |mark: &&Dated<u16>| mark.is_acked(cut);
        Expected {
            must: is_acked && removal.is_none(),
            must_not: removal.is_some_and(|mark| mark.is_acked(cut)),
            octets: self.octets,
            crc: self.crc,
            recipients: self.recipients,
            transaction: self.transaction,
            unacked: !is_acked && removal.is_none(),
            plans,
            settled: self.settled.iter().filter(settled).map(|mark| mark.what).collect(),
            maybe_settled: self.settled.iter().filter(|mark| mark.begun <= cut).map(|mark| mark.what).collect(),
        }
    }
}

impl<T> Dated<T> {
    fn is_acked(&self, cut: usize) -> bool {
        self.acked.is_some_and(|at| at <= cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use message::{Envelope, Meta, TlsDemand};
    use smtp_wire::ReversePath;

    #[test]
    fn promises_hold_from_the_call_they_were_made_at() {
        let id = MessageId::from_bytes([1; 16]);
        let envelope = Envelope { sender: ReversePath(None), recipients: Vec::new(), dsn: None, tls: TlsDemand::Usual };
        let (head, body) = (Bytes::from_static(b"h"), Bytes::from_static(b"b"));
        let sealed = Sealed { id, envelope, meta: Meta::new(), head, body: body.into(), due: WallTime::EPOCH };
        let ledger = Ledger::default();
        ledger.begin(1, &[vec![sealed]], 3);
        ledger.acked([id].into_iter(), 5);
        ledger.attempt(id, 1, WallTime::from_unix_secs(9), 6);
        ledger.flushed(&[id], 8);
        ledger.remove(id, 10);
        ledger.flushed(&[id], 12);
        let at = |cut: usize| ledger.expected(cut).remove(&id);
        assert_eq!(at(2), None, "phantom");
        let flags = |cut| at(cut).map(|e| (e.must, e.must_not, e.unacked)).expect("begun");
        assert_eq!([flags(3), flags(4)], [(false, false, true); 2]);
        assert_eq!([flags(5), flags(9)], [(true, false, false); 2]);
        assert_eq!([flags(10), flags(11)], [(false, false, false); 2], "it may be there or not");
        assert_eq!(flags(12), (false, true, false));
        let plans = |cut| at(cut).expect("begun").plans.iter().map(|p| p.0).collect::<Vec<_>>();
        assert_eq!([plans(5), plans(7), plans(8)], [vec![0], vec![0, 1], vec![1]]);
    }
}
