//! What the log remembers of each live message: where it is and how far it got.
//!
//! Needed to follow messages that move, to account for removals and to write survivors anew;
//! so it is kept small: at most 64 octets a message, key included, bitmaps of more than 64
//! recipients apart.

use crate::mark::Mark;
use clock::WallTime;
use core::hash::{BuildHasherDefault, Hasher};
use message::{MessageId, Place};
use std::collections::HashMap;

/// Live messages by id.
pub(crate) type Index = HashMap<MessageId, Entry, BuildHasherDefault<IdHasher>>;

/// A live message.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub place: Place,
    pub attempts: u16,
    /// Octets it stands for in its segment.
    pub share: u32,
    pub due: WallTime,
    pub done: Done,
}

/// Which recipients are settled.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Done {
    /// Recipients 0 to 63.
    low: u64,
    /// All recipients, as stored, once one above 63 is settled.
    #[expect(clippy::box_collection, reason = "8 octets instead of 24 in each of millions of entries")]
    all: Option<Box<Vec<u8>>>,
}

impl Entry {
    /// Applies a mark that is not a removal.
    pub fn apply(&mut self, mark: &Mark) {
        match mark {
            Mark::Attempt { attempts, due, .. } => (self.attempts, self.due) = (*attempts, *due),
            Mark::RecipientsDone { recipients, .. } => recipients.iter().for_each(|r| self.done.set(*r)),
            Mark::Removed { .. } => {}
        }
    }
}

impl Done {
    /// Notes a recipient as settled.
    pub fn set(&mut self, recipient: u32) {
        if recipient >= RECIPIENTS_MAX {
            return;
        }
        if recipient < 64 {
            self.low |= 1 << recipient;
        }
        if recipient >= 64 || self.all.is_some() {
            let low = self.low;
            let all = self.all.get_or_insert_with(|| Box::new(low.to_le_bytes().to_vec()));
            let at = recipient as usize / 8;
            if all.len() <= at {
                all.resize(at + 1, 0);
            }
            all[at] |= 1 << (recipient % 8);
        }
    }

    /// Whether a recipient is settled.
    pub fn has(&self, recipient: u32) -> bool {
        match &self.all {
            Some(all) => all.get(recipient as usize / 8).is_some_and(|octet| octet >> (recipient % 8) & 1 == 1),
            None => recipient < 64 && self.low >> recipient & 1 == 1,
        }
    }

    /// Appends the stored bitmap, without trailing zeros.
    pub fn put_bitmap(&self, out: &mut Vec<u8>) {
        let start = out.len();
        match &self.all {
            Some(all) => out.extend_from_slice(all),
            None if self.low == 0 => {}
            None => out.extend_from_slice(&self.low.to_le_bytes()),
        }
        while out.len() > start && out.last() == Some(&0) {
            out.pop();
        }
    }

    /// From the stored bitmap.
    pub fn from_bitmap(octets: &[u8]) -> Done {
        let mut done = Done::default();
        for (i, octet) in octets.iter().enumerate() {
            (0..8).filter(|bit| octet >> bit & 1 == 1).for_each(|bit| done.set(i as u32 * 8 + bit));
        }
        done
    }
}

/// Folds an id's octets. Ids are made by ourselves: nobody can choose them to collide.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        for chunk in octets.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(FOLD);
            self.0 ^= self.0 >> 32;
        }
    }

    fn write_usize(&mut self, _length: usize) {
        // The length prefix of an array of 16 octets says nothing.
    }
}

const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Recipient numbers at or above this are not noted: no envelope is that long.
const RECIPIENTS_MAX: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_within_64_octets() {
        assert!(size_of::<(MessageId, Entry)>() <= 64, "{}", size_of::<(MessageId, Entry)>());
    }

    #[test]
    fn bitmaps_keep_any_recipient() {
        let mut done = Done::default();
        for recipient in [0, 7, 63] {
            done.set(recipient);
        }
        let mut octets = Vec::new();
        done.put_bitmap(&mut octets);
        assert_eq!(octets.len(), 8);
        assert_eq!(Done::from_bitmap(&octets), done);
        done.set(64);
        done.set(1000);
        done.set(RECIPIENTS_MAX);
        let mut octets = Vec::new();
        done.put_bitmap(&mut octets);
        assert_eq!(octets.len(), 126);
        let back = Done::from_bitmap(&octets);
        for recipient in 0..1100 {
            assert_eq!(back.has(recipient), [0, 7, 63, 64, 1000].contains(&recipient), "{recipient}");
            assert_eq!(done.has(recipient), back.has(recipient), "{recipient}");
        }
    }
}
