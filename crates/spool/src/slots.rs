//! Where the index keeps its entries: chunks of slots, numbered through.
//!
//! A chunk is one allocation; growing never copies what is there, and an entry keeps its number for life
//! (checkpoints rely on that). The lowest chunk with room is filled first, an empty chunk's memory is given back.

use crate::index::Entry;
use std::collections::BTreeSet;

/// All slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// `None`: all free, no memory held.
    chunks: Vec<Option<Chunk>>,
    /// Chunks that are not full.
    room: BTreeSet<u32>,
    /// One chunk's memory, kept so that a message that comes and goes costs no allocation.
    spare: Option<Box<[Entry]>>,
    len: usize,
}

#[derive(Debug)]
struct Chunk {
    entries: Box<[Entry]>,
    /// The slot freed last, which knows the one freed before it; [`NONE`] for none.
    free: u16,
    /// Slots ever used; those behind are free too.
    used: u16,
    live: u16,
}

impl Slots {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The number behind the last slot there is memory for.
    pub fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK_SLOTS) as u32
    }

    /// The entry in a slot; `None` when it is free.
    pub fn get(&self, slot: u32) -> Option<&Entry> {
        let chunk = self.chunks.get(slot as usize / CHUNK_SLOTS)?.as_ref()?;
        Some(&chunk.entries[slot as usize % CHUNK_SLOTS]).filter(|entry| !entry.is_free())
    }

    /// As [`Slots::get`], to be changed.
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Entry> {
        let chunk = self.chunks.get_mut(slot as usize / CHUNK_SLOTS)?.as_mut()?;
        Some(&mut chunk.entries[slot as usize % CHUNK_SLOTS]).filter(|entry| !entry.is_free())
    }

    /// Puts an entry into a free slot; its number.
    pub fn put(&mut self, entry: Entry) -> u32 {
        let number = self.room.first().copied().unwrap_or(self.chunks.len() as u32);
        if number as usize == self.chunks.len() {
            self.chunks.push(None);
            self.room.insert(number);
        }
        let spare = &mut self.spare;
        let chunk = self.chunks[number as usize].get_or_insert_with(|| Chunk {
            entries: spare.take().unwrap_or_else(|| vec![Entry::free(NONE); CHUNK_SLOTS].into()),
            free: NONE,
            used: 0,
            live: 0,
        });
        let at = if chunk.free == NONE { chunk.used } else { chunk.free };
        if chunk.free == NONE {
            chunk.used += 1;
        } else {
            chunk.free = chunk.entries[usize::from(at)].next_free();
        }
        chunk.entries[usize::from(at)] = entry;
        chunk.live += 1;
        self.len += 1;
        if usize::from(chunk.live) == CHUNK_SLOTS {
            self.room.remove(&number);
        }
        number * CHUNK_SLOTS as u32 + u32::from(at)
    }

    /// Frees a slot; what was in it.
    pub fn take(&mut self, slot: u32) -> Option<Entry> {
        let entry = *self.get(slot)?;
        let number = slot / CHUNK_SLOTS as u32;
        let place = self.chunks.get_mut(number as usize)?;
        let chunk = place.as_mut()?;
        let at = slot % CHUNK_SLOTS as u32;
        chunk.entries[at as usize] = Entry::free(chunk.free);
        chunk.free = at as u16;
        chunk.live -= 1;
        self.len -= 1;
        self.room.insert(number);
        if chunk.live == 0
            && let Some(chunk) = place.take()
        {
            self.spare = Some(chunk.entries);
        }
        Some(entry)
    }

    /// Octets of memory held.
    pub fn octets(&self) -> usize {
        let held = self.chunks.iter().flatten().count() + usize::from(self.spare.is_some());
        held * CHUNK_SLOTS * size_of::<Entry>() + self.chunks.capacity() * size_of::<Option<Chunk>>()
    }
}

/// Slots of a chunk.
pub(crate) const CHUNK_SLOTS: usize = 4096;
/// No slot of a chunk.
const NONE: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_their_numbers_and_memory_comes_back() {
        let mut slots = Slots::default();
        let numbers: Vec<u32> = (0..3 * CHUNK_SLOTS as u32).map(|n| slots.put(Entry::sample(n))).collect();
        assert_eq!(numbers, (0..3 * CHUNK_SLOTS as u32).collect::<Vec<_>>());
        let full = slots.octets();
        assert_eq!((slots.len(), slots.end()), (3 * CHUNK_SLOTS, 3 * CHUNK_SLOTS as u32));
        for slot in (0..2 * CHUNK_SLOTS as u32).rev() {
            assert_eq!(slots.take(slot).map(|e| e.id), Some(Entry::sample(slot).id));
            assert!(slots.take(slot).is_none() && slots.get(slot).is_none());
        }
        assert_eq!(slots.len(), CHUNK_SLOTS);
        assert!(slots.octets() <= full - CHUNK_SLOTS * size_of::<Entry>(), "two chunks empty, one of them kept");
        let again = [slots.put(Entry::sample(1)), slots.put(Entry::sample(2))];
        assert_eq!(again, [0, 1], "the lowest chunk first");
        slots.take(0).expect("there");
        assert_eq!(slots.put(Entry::sample(3)), 0, "freed slots are used again");
        assert_eq!(slots.get(2 * CHUNK_SLOTS as u32).map(|e| e.id), Some(Entry::sample(2 * CHUNK_SLOTS as u32).id));
    }
}
