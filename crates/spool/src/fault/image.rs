//! One file of the disk in memory: what is certain, what is visible, and what a cut makes of the rest.
//!
//! Pure: octets and a random number in, octets out. Knows nothing of names, calls or faults.

use crate::page::PAGE_OCTETS;
use std::collections::BTreeSet;

/// Random numbers that follow from a seed (splitmix64).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Random(pub u64);

impl Random {
    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// A file's octets.
#[derive(Clone, Debug, Default)]
pub(super) struct Image {
    /// Which file this is, whatever its name.
    pub serial: u64,
    /// What a cut leaves for certain.
    synced: Vec<u8>,
    /// What reads see.
    pub now: Vec<u8>,
    /// Written since the last sync.
    unsynced: Vec<Write>,
    /// Written before a failed sync: on the disk or not, for ever.
    given_up: Vec<Write>,
    /// Pages that do not read, until they are written again.
    pub unreadable: BTreeSet<usize>,
}

/// Octets written by one call.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub at: usize,
    pub octets: Vec<u8>,
}

impl Image {
    /// An empty file.
    pub fn new(serial: u64) -> Image {
        Image { serial, ..Image::default() }
    }

    /// A file whose octets are certain.
    pub fn durable(serial: u64, octets: Vec<u8>) -> Image {
        Image { serial, synced: octets.clone(), now: octets, ..Image::default() }
    }

    /// Takes a write; reads see it, a cut may not.
    pub fn write(&mut self, write: Write) {
        if write.octets.is_empty() {
            return;
        }
        let pages = write.at / PAGE_OCTETS..(write.at + write.octets.len()).div_ceil(PAGE_OCTETS);
        self.unreadable.retain(|page| !pages.contains(page));
        write.apply(&mut self.now);
        self.unsynced.push(write);
    }

    /// Makes everything written certain, but for what an earlier sync gave up and nobody has written again.
    pub fn sync(&mut self) {
        for write in self.unsynced.drain(..) {
            self.given_up = self.given_up.drain(..).flat_map(|old| old.without(&write)).collect();
            write.apply(&mut self.synced);
        }
    }

    /// A sync that fails: what it should have covered is never synced again. Reads go on seeing
    /// it, or, by chance, what the disk has got of it: the kernel may drop the pages.
    pub fn fail_sync(&mut self, random: &mut Random) {
        self.given_up.append(&mut self.unsynced);
        if random.below(2) == 0 {
            let length = self.now.len();
            self.now.clone_from(&self.synced);
            self.given_up.iter().for_each(|write| write.tear(random, &mut self.now));
            // The file's length is known to the file system, whatever became of its pages.
            self.now.resize(length, 0);
        }
    }

    /// Whether a sync failed for something that nobody has written again.
    pub fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Turns a bit over, in what is certain and in what is visible.
    pub fn flip(&mut self, bit: u64) {
        for octets in [&mut self.synced, &mut self.now] {
            if let Some(octet) = octets.get_mut((bit / 8) as usize) {
                *octet ^= 1 << (bit % 8);
            }
        }
    }

    /// A power cut: each write that no sync covered is dropped, kept or torn, in any order.
    pub fn cut(&mut self, random: &mut Random) {
        let mut writes = std::mem::take(&mut self.given_up);
        writes.append(&mut self.unsynced);
        for i in (1..writes.len()).rev() {
            writes.swap(i, random.below(i as u64 + 1) as usize);
        }
        writes.iter().for_each(|write| write.tear(random, &mut self.synced));
        self.now.clone_from(&self.synced);
    }
}

impl Write {
    /// The whole write.
    fn apply(&self, octets: &mut Vec<u8>) {
        self.apply_part(0..self.octets.len(), octets);
    }

    fn apply_part(&self, part: core::ops::Range<usize>, octets: &mut Vec<u8>) {
        if part.is_empty() {
            return;
        }
        let (start, end) = (self.at + part.start, self.at + part.end);
        if octets.len() < end {
            octets.resize(end, 0);
        }
        octets[start..end].copy_from_slice(&self.octets[part]);
    }

    /// What another write leaves of it.
    fn without(self, other: &Write) -> impl Iterator<Item = Write> {
        let (end, other_end) = (self.at + self.octets.len(), other.at + other.octets.len());
        let before = self.first(other.at.saturating_sub(self.at));
        let behind_at = other_end.clamp(self.at, end);
        let behind = Write { at: behind_at, octets: self.octets[behind_at - self.at..].to_vec() };
        [before, behind].into_iter().filter(|write| !write.octets.is_empty())
    }

    /// The first `count` octets of it.
    pub fn first(&self, count: usize) -> Write {
        Write { at: self.at, octets: self.octets[..count.min(self.octets.len())].to_vec() }
    }

    /// What a cut makes of it.
    fn tear(&self, random: &mut Random, octets: &mut Vec<u8>) {
        let length = self.octets.len();
        let sectors = length.div_ceil(SECTOR_OCTETS);
        match random.below(6) {
            0 => {}
            1 => self.apply(octets),
            2 => {
                let end = random.below(sectors as u64 + 1) as usize * SECTOR_OCTETS;
                self.apply_part(0..end.min(length), octets);
            }
            3 => self.apply_part(0..random.below(length as u64 + 1) as usize, octets),
            4 => Write { at: self.at, octets: vec![0; length] }.apply(octets),
            _ => {
                for sector in 0..sectors {
                    if random.below(2) == 0 {
                        self.apply_part(sector * SECTOR_OCTETS..((sector + 1) * SECTOR_OCTETS).min(length), octets);
                    }
                }
            }
        }
    }
}

/// What a disk writes whole or not at all.
pub(super) const SECTOR_OCTETS: usize = 512;
