//! Which segments there are and how much of each is alive.

use crate::page::PAGE_OCTETS;
use std::collections::{BTreeMap, BTreeSet};

/// All segments of the log, in order.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    map: BTreeMap<u32, Segment>,
    /// Those of them that are damaged or poisoned.
    bad: BTreeSet<u32>,
    live_messages: u64,
    live_octets: u64,
    dead_octets: u64,
    file_pages: u64,
}

/// One segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    /// Length of its file, in pages.
    pub file_pages: u32,
    /// Page behind its last acknowledged batch.
    pub end: u32,
    /// What its batches carry; `None` when its header was damaged and nothing in it is known.
    pub nonce: Option<u64>,
    /// Live messages in it.
    pub live_messages: u32,
    /// Octets they stand for.
    pub live_octets: u64,
    /// Octets of messages that are gone or have moved, and of marks.
    pub dead_octets: u64,
    /// Something in it did not read: it goes to `corrupt/`, not to the spares.
    pub damaged: bool,
    /// A write or sync of it failed: its file is not used again.
    pub poisoned: bool,
    /// How often it was tried to empty or to release it, in vain.
    pub tries: u32,
}

impl Segments {
    /// Adds a segment.
    pub fn insert(&mut self, sequence: u32, segment: Segment) {
        self.file_pages += u64::from(segment.file_pages);
        if segment.damaged || segment.poisoned {
            self.bad.insert(sequence);
        }
        self.map.insert(sequence, segment);
    }

    /// Adds all of `other`, which has none of the same number.
    /// Of its own ones nobody knows what died in them: the worst is assumed. What was never written is no better: nothing will be.
    pub fn absorb(&mut self, mut other: Segments) {
        for segment in self.map.values_mut() {
            let octets = u64::from(segment.file_pages.saturating_sub(1)) * PAGE_OCTETS as u64;
            segment.dead_octets = octets.saturating_sub(segment.live_octets);
        }
        self.dead_octets = self.map.values().map(|segment| segment.dead_octets).sum::<u64>() + other.dead_octets;
        self.map.append(&mut other.map);
        self.bad.append(&mut other.bad);
        self.live_messages += other.live_messages;
        self.live_octets += other.live_octets;
        self.file_pages += other.file_pages;
    }

    /// Forgets a segment.
    pub fn remove(&mut self, sequence: u32) {
        self.bad.remove(&sequence);
        if let Some(segment) = self.map.remove(&sequence) {
            self.file_pages -= u64::from(segment.file_pages);
            self.dead_octets -= segment.dead_octets;
        }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        self.map.iter().map(|(sequence, segment)| (*sequence, segment))
    }

    pub fn get(&self, sequence: u32) -> Option<&Segment> {
        self.map.get(&sequence)
    }

    pub fn get_mut(&mut self, sequence: u32) -> Option<&mut Segment> {
        self.map.get_mut(&sequence)
    }

    /// Notes that a segment's file reaches at least to page `end`.
    pub fn reaches(&mut self, sequence: u32, end: u32) {
        if let Some(segment) = self.map.get_mut(&sequence) {
            self.file_pages += u64::from(end.saturating_sub(segment.file_pages));
            segment.file_pages = segment.file_pages.max(end);
        }
    }

    /// Counts a message in.
    pub fn add(&mut self, sequence: u32, octets: u32) {
        if let Some(segment) = self.map.get_mut(&sequence) {
            segment.live_messages += 1;
            segment.live_octets += u64::from(octets);
            self.live_messages += 1;
            self.live_octets += u64::from(octets);
        }
    }

    /// Counts a message out.
    pub fn subtract(&mut self, sequence: u32, octets: u32) {
        if let Some(segment) = self.map.get_mut(&sequence) {
            segment.live_messages -= 1;
            segment.live_octets -= u64::from(octets);
            self.live_messages -= 1;
            self.live_octets -= u64::from(octets);
        }
        self.add_dead(sequence, u64::from(octets));
    }

    /// Counts octets that nobody needs.
    pub fn add_dead(&mut self, sequence: u32, octets: u64) {
        if let Some(segment) = self.map.get_mut(&sequence) {
            segment.dead_octets += octets;
            self.dead_octets += octets;
        }
    }

    /// Notes that something in a segment does not read.
    pub fn damage(&mut self, sequence: u32) {
        if let Some(segment) = self.map.get_mut(&sequence) {
            segment.damaged = true;
            self.bad.insert(sequence);
        }
    }

    /// Notes that a write or sync of a segment failed.
    pub fn poison(&mut self, sequence: u32) {
        if let Some(segment) = self.map.get_mut(&sequence) {
            segment.poisoned = true;
            self.bad.insert(sequence);
        }
    }

    /// Bad segments at or above `floor` that hold live messages.
    pub fn bad(&self, floor: u32) -> impl Iterator<Item = (u32, &Segment)> {
        let known = self.bad.range(floor..).filter_map(|n| Some((*n, self.map.get(n)?)));
        known.filter(|(_, segment)| segment.live_messages > 0)
    }

    /// The oldest segment at or above `floor` in which something does not read.
    pub fn oldest_damaged(&self, floor: u32) -> Option<u32> {
        self.bad.range(floor..).copied().find(|n| self.map.get(n).is_some_and(|segment| segment.damaged))
    }

    /// The oldest segment at or above `floor`.
    pub fn oldest(&self, floor: u32) -> Option<(u32, &Segment)> {
        self.map.range(floor..).next().map(|(sequence, segment)| (*sequence, segment))
    }

    /// The newest segment.
    pub fn newest(&self) -> Option<u32> {
        self.map.last_key_value().map(|(sequence, _)| *sequence)
    }

    /// A segment below `floor` that is still there: the lowest of those that were tried least.
    pub fn below(&self, floor: u32) -> Option<u32> {
        self.map.range(..floor).min_by_key(|(_, segment)| segment.tries).map(|(sequence, _)| *sequence)
    }

    /// The oldest segment that holds a live message; from there on everything is needed.
    pub fn oldest_live(&self, floor: u32) -> Option<u32> {
        self.map.range(floor..).find(|(_, segment)| segment.live_messages > 0).map(|(sequence, _)| *sequence)
    }

    pub fn count(&self) -> usize {
        self.map.len()
    }

    pub fn file_pages(&self) -> u64 {
        self.file_pages
    }

    pub fn live_messages(&self) -> u64 {
        self.live_messages
    }

    pub fn live_octets(&self) -> u64 {
        self.live_octets
    }

    pub fn dead_octets(&self) -> u64 {
        self.dead_octets
    }
}
