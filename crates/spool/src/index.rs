//! What the log remembers of each live message: where it is and how far it got.
//!
//! Needed to follow messages that move, to account for removals, to write survivors anew and to give the queues
//! back after a restart; so it is kept small: 56 octets for the entry, 6 to 12 for finding it by id, the
//! name of its queue kept once for all, settled recipients apart because few messages have any.
//! The table of ids is cut into [`SHARDS`] parts that grow one by one: no commit waits for all of it.

use crate::labels::Labels;
use crate::mark::Mark;
use crate::recovery::RecoveredMessage;
use crate::slots::Slots;
use clock::WallTime;
use hashbrown::HashTable;
use message::{MessageId, Place, Settled};
use std::collections::BTreeMap;

/// Live messages.
#[derive(Debug)]
pub(crate) struct Index {
    slots: Slots,
    /// Slot numbers by id.
    shards: Vec<HashTable<u32>>,
    labels: Labels,
    /// By slot; only of messages of which some recipients are settled.
    settled: BTreeMap<u32, Settled>,
}

/// A live message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub id: MessageId,
    pub due: WallTime,
    pub place: Place,
    /// Octets it stands for in its segment.
    pub share: u32,
    /// Octets of head and body.
    pub size: u32,
    /// Number of its queue's name.
    pub label: u32,
    pub attempts: u16,
    pub recipients: u16,
    /// Some of its recipients are settled.
    has_settled: bool,
    /// Recovered, and not yet given to the queues.
    is_recovered: bool,
}

/// What a message is entered with.
pub(crate) struct Live {
    pub id: MessageId,
    pub due: WallTime,
    pub place: Place,
    pub share: u32,
    pub size: u32,
    pub attempts: u16,
    pub recipients: u16,
    pub settled: Settled,
    /// Live on the disk at the start, not appended since.
    pub is_recovered: bool,
}

impl Index {
    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// The number behind the last slot in use.
    pub fn end(&self) -> u32 {
        self.slots.end()
    }

    /// Names of queues in use.
    pub fn labels(&self) -> usize {
        self.labels.len()
    }

    /// As [`Index::labels`], for writing them down.
    pub fn labels_mut(&mut self) -> &mut Labels {
        &mut self.labels
    }

    /// A message by id.
    pub fn get(&self, id: &MessageId) -> Option<&Entry> {
        self.slot_of(id).and_then(|slot| self.slots.get(slot))
    }

    /// What is in a slot.
    pub fn at(&self, slot: u32) -> Option<&Entry> {
        self.slots.get(slot)
    }

    /// The name of an entry's queue.
    pub fn queue(&self, entry: &Entry) -> &str {
        self.labels.name(entry.label)
    }

    /// The stored form of which recipients of a message are settled.
    pub fn bitmap(&self, entry: &Entry) -> &[u8] {
        if !entry.has_settled {
            return &[];
        }
        let settled = self.slot_of(&entry.id).and_then(|slot| self.settled.get(&slot));
        settled.map_or(&[], Settled::bitmap)
    }

    /// Enters a message; the entry of that id that was there before.
    pub fn insert(&mut self, live: Live, queue: &str) -> Option<Entry> {
        let label = self.labels.hold(queue);
        self.insert_held(live, label)
    }

    /// As [`Index::insert`], with the number of a name that is held.
    pub fn insert_labelled(&mut self, live: Live, label: u32) -> Option<Entry> {
        self.labels.hold_again(label);
        self.insert_held(live, label)
    }

    /// The name is held for it already.
    fn insert_held(&mut self, live: Live, label: u32) -> Option<Entry> {
        let old = self.remove(&live.id);
        let Live { id, due, place, share, size, attempts, recipients, settled, is_recovered } = live;
        let has_settled = !settled.is_empty();
        let entry = Entry { id, due, place, share, size, label, attempts, recipients, has_settled, is_recovered };
        let slot = self.slots.put(entry);
        if has_settled {
            self.settled.insert(slot, settled);
        }
        let (hash, slots) = (hash(&id), &self.slots);
        let hash_of = |slot: &u32| slots.get(*slot).map_or(0, |entry| self::hash(&entry.id));
        self.shards[shard(hash)].insert_unique(hash, slot, hash_of);
        old
    }

    /// Enters every message of `newer`; `replaced` sees what was there before.
    pub fn absorb(&mut self, newer: &Index, mut replaced: impl FnMut(Entry)) {
        for entry in (0..newer.end()).filter_map(|slot| newer.at(slot)) {
            let Entry { id, due, place, share, size, attempts, recipients, is_recovered, .. } = *entry;
            let settled = Settled::from_bitmap(newer.bitmap(entry));
            let live = Live { id, due, place, share, size, attempts, recipients, settled, is_recovered };
            if let Some(old) = self.insert(live, newer.queue(entry)) {
                replaced(old);
            }
        }
    }

    /// A message was copied forward: its new place and share; the old ones.
    pub fn relocate(&mut self, id: &MessageId, place: Place, share: u32) -> Option<(Place, u32)> {
        let entry = self.slot_of(id).and_then(|slot| self.slots.get_mut(slot))?;
        let old = (entry.place, entry.share);
        (entry.place, entry.share) = (place, share);
        Some(old)
    }

    /// Applies a mark; what was removed by it.
    pub fn apply(&mut self, mark: &Mark) -> Option<Entry> {
        if let Mark::Removed { id } = mark {
            return self.remove(id);
        }
        let slot = self.slot_of(&mark.id())?;
        let entry = self.slots.get_mut(slot)?;
        match mark {
            Mark::Attempt { attempts, due, .. } => (entry.attempts, entry.due) = (*attempts, *due),
            Mark::RecipientsDone { recipients, .. } => {
                let known = recipients.iter().filter_map(|r| u16::try_from(*r).ok().filter(|r| *r < entry.recipients));
                for recipient in known {
                    entry.has_settled = true;
                    self.settled.entry(slot).or_default().insert(recipient);
                }
            }
            Mark::Removed { .. } => {}
        }
        None
    }

    /// Forgets a message.
    pub fn remove(&mut self, id: &MessageId) -> Option<Entry> {
        let (hash, slots) = (hash(id), &self.slots);
        let shard = &mut self.shards[shard(hash)];
        let found = shard.find_entry(hash, |slot| slots.get(*slot).is_some_and(|entry| entry.id == *id));
        let (slot, _) = found.ok()?.remove();
        if shard.capacity() > SHRINK_CAPACITY_MIN && shard.len() * 8 < shard.capacity() {
            let len = shard.len();
            shard.shrink_to(len * 2, |slot| slots.get(*slot).map_or(0, |entry| self::hash(&entry.id)));
        }
        let entry = self.slots.take(slot)?;
        self.labels.release(entry.label);
        if entry.has_settled {
            self.settled.remove(&slot);
        }
        Some(entry)
    }

    /// What the queues get to know of a recovered message; once, and never of one appended since.
    pub fn hand_out(&mut self, slot: u32) -> Option<RecoveredMessage> {
        let entry = self.slots.get_mut(slot).filter(|entry| entry.is_recovered)?;
        entry.is_recovered = false;
        let Entry { id, place, size, attempts, due, recipients, label, .. } = *entry;
        let settled = self.settled.get(&slot).cloned().unwrap_or_default();
        let queue = self.labels.name(label).clone();
        Some(RecoveredMessage { id, queue, place, size, attempts, due, recipients, settled })
    }

    /// Octets of memory held, but for the names of queues and settled recipients.
    pub fn octets(&self) -> usize {
        self.slots.octets() + self.shards.iter().map(HashTable::allocation_size).sum::<usize>()
    }

    fn slot_of(&self, id: &MessageId) -> Option<u32> {
        let hash = hash(id);
        let is_it = |slot: &u32| self.slots.get(*slot).is_some_and(|entry| entry.id == *id);
        self.shards[shard(hash)].find(hash, is_it).copied()
    }
}

impl Default for Index {
    fn default() -> Index {
        let shards = (0..SHARDS).map(|_| HashTable::new()).collect();
        Index { slots: Slots::default(), shards, labels: Labels::default(), settled: BTreeMap::new() }
    }
}

impl Entry {
    /// A free slot; `next` is the one freed before it.
    pub fn free(next: u16) -> Entry {
        Entry {
            id: MessageId::from_bytes([0; 16]),
            due: WallTime::EPOCH,
            place: Place { segment: 0, offset: u32::from(next), index: 0 },
            share: 0,
            size: 0,
            label: 0,
            attempts: 0,
            recipients: 0,
            has_settled: false,
            is_recovered: false,
        }
    }

    /// Segments are numbered from 1.
    pub fn is_free(&self) -> bool {
        self.place.segment == 0
    }

    /// Of a free slot.
    pub fn next_free(&self) -> u16 {
        self.place.offset as u16
    }
}

/// Folds an id's octets. Ids are made by ourselves: nobody can choose them to collide.
fn hash(id: &MessageId) -> u64 {
    let word = |at: usize| id.as_bytes()[at..at + 8].iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet));
    let fold = |state: u64, word: u64| {
        let folded = (state ^ word).wrapping_mul(FOLD);
        folded ^ folded >> 32
    };
    fold(fold(0, word(0)), word(8))
}

/// The part of the table an id is in: by bits that the parts themselves use neither first nor last.
fn shard(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Parts of the table of ids.
const SHARDS: usize = 256;
/// Parts with room for no more ids than this are not made smaller.
const SHRINK_CAPACITY_MIN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    impl Entry {
        /// Some live message, for tests.
        pub fn sample(number: u32) -> Entry {
            Entry { id: id(number), place: Place { segment: 1, offset: 0, index: 0 }, ..Entry::free(0) }
        }
    }

    fn id(number: u32) -> MessageId {
        let mut octets = [7; 16];
        octets[..4].copy_from_slice(&number.to_be_bytes());
        MessageId::from_bytes(octets)
    }

    fn found(number: u32, segment: u32) -> Live {
        Live {
            id: id(number),
            due: WallTime::EPOCH,
            place: Place { segment, offset: 0, index: 0 },
            share: 10,
            size: 5,
            attempts: 0,
            recipients: 9,
            settled: Settled::default(),
            is_recovered: true,
        }
    }

    #[test]
    fn an_entry_takes_56_octets() {
        assert_eq!(size_of::<Entry>(), 56);
    }

    #[test]
    fn a_message_takes_at_most_75_octets_at_any_number() {
        let mut index = Index::default();
        for number in 0..400_000 {
            index.insert(found(number, 1), "example.com");
            // While nearly empty, the chunk and the smallest tables are more than the entries.
            let (count, octets) = (index.len(), index.octets());
            assert!(count < 100_000 || octets <= 75 * count, "{octets} octets for {count} messages");
        }
        (0..399_000).for_each(|number| _ = index.remove(&id(number)));
        assert!(index.octets() < 600_000, "memory comes back: {}", index.octets());
        assert!((399_000..400_000).all(|number| index.get(&id(number)).is_some()));
    }

    #[test]
    fn settled_recipients_are_kept_for_those_who_have_any() {
        let mut index = Index::default();
        index.insert(found(1, 1), "a");
        index.insert(found(2, 1), "b");
        let mark = Mark::RecipientsDone { id: id(2), recipients: vec![0, 8, 9, 70_000] };
        assert!(index.apply(&mark).is_none());
        let two = index.get(&id(2)).expect("live");
        assert_eq!((index.bitmap(two), index.settled.len()), (&[1, 1][..], 1), "only recipients there are");
        assert_eq!(index.bitmap(index.get(&id(1)).expect("live")), [0; 0]);
        assert_eq!(index.apply(&Mark::Removed { id: id(2) }).map(|e| e.id), Some(id(2)));
        assert!(index.settled.is_empty() && index.labels() == 1);
    }

    #[test]
    fn a_recovered_message_is_handed_out_once_and_a_new_one_never() {
        let mut index = Index::default();
        (0..3).for_each(|number| _ = index.insert(found(number, 1), "q"));
        index.remove(&id(1));
        index.insert(Live { is_recovered: false, ..found(7, 2) }, "r");
        assert_eq!(index.at(1).map(|e| e.id), Some(id(7)), "in the slot of the one that went");
        assert_eq!(
            index.relocate(&id(2), Place { segment: 2, offset: 8, index: 0 }, 11),
            Some((found(2, 1).place, 10))
        );
        let handed: Vec<_> = (0..index.end()).filter_map(|slot| index.hand_out(slot)).collect();
        assert_eq!(handed.iter().map(|m| (m.id, m.place.segment)).collect::<Vec<_>>(), [(id(0), 1), (id(2), 2)]);
        assert!((0..index.end()).all(|slot| index.hand_out(slot).is_none()));
    }
}
