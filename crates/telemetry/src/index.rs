//! The index beside a log segment: in which part of the segment a message, a recipient or a sender is spoken of.
//!
//! Owns the form of the file (docs/logs.md) and what a record is found by, [`Key`]; pure. In: records, or the octets of an index.
//! Out: the octets of a [`Block`], or blocks. A segment is a row of zstd frames that can be read without those before them;
//! a block lists the keys of one frame in order. Two texts may have one key: who finds a key looks at the records. What
//! is behind the last sound block is not indexed, and whoever searches reads that part of the segment.

use record::LogRecord;
use std::ops::Range;

/// What a record is found by: the CRC-32 of what it is and of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u32);

/// The keys of one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Where the frame stands in the segment, in octets.
    pub frame: Range<u64>,
    /// Its keys in order, four octets each.
    keys: &'a [[u8; 4]],
}

/// The sound blocks of an index, in order.
#[derive(Debug)]
pub struct Blocks<'a> {
    rest: &'a [u8],
    /// Where the next frame must begin.
    at: u64,
}

impl Key {
    /// Of a message's id, as records have it.
    pub fn id(text: &str) -> Key {
        Key::of(b'i', text)
    }

    /// Of a recipient's address; case does not count.
    pub fn recipient(address: &str) -> Key {
        Key::of(b'r', address)
    }

    /// Of a sender's address; case does not count.
    pub fn sender(address: &str) -> Key {
        Key::of(b's', address)
    }

    fn of(kind: u8, text: &str) -> Key {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[kind]);
        for part in text.as_bytes().chunks(64) {
            let mut lower = [0; 64];
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            hasher.update(lower);
        }
        Key(hasher.finalize())
    }

    /// Everything a record is found by.
    pub(crate) fn all_of(record: &LogRecord, keys: &mut Vec<Key>) {
        let LogRecord { id, sender, recipient, .. } = record;
        keys.extend((!id.is_empty()).then(|| Key::id(id)));
        keys.extend((!sender.is_empty()).then(|| Key::sender(sender)));
        keys.extend(recipient.0.iter().filter(|address| !address.is_empty()).map(|address| Key::recipient(address)));
    }
}

impl Block<'_> {
    /// Appends the block of a frame to an index. The keys are sorted, and each is kept once.
    pub fn write(frame: &Range<u64>, keys: &mut Vec<Key>, out: &mut Vec<u8>) {
        keys.sort_unstable();
        keys.dedup();
        let start = out.len();
        out.extend_from_slice(&frame.start.to_le_bytes());
        out.extend_from_slice(&frame.end.to_le_bytes());
        out.extend_from_slice(&(keys.len() as u32).to_le_bytes());
        keys.iter().for_each(|key| out.extend_from_slice(&key.0.to_le_bytes()));
        let checksum = crc32fast::hash(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    /// Whether the frame may speak of it; when not, it does not.
    pub fn may_have(&self, key: Key) -> bool {
        self.keys.binary_search_by_key(&key.0, |octets| u32::from_le_bytes(*octets)).is_ok()
    }
}

impl<'a> Blocks<'a> {
    /// The blocks of an index; none when it is no index.
    pub fn of(index: &'a [u8]) -> Blocks<'a> {
        Blocks { rest: index.strip_prefix(MAGIC).unwrap_or_default(), at: 0 }
    }

    /// Where the part of the segment begins that no block spoke of so far.
    pub fn end(&self) -> u64 {
        self.at
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        let (head, rest) = self.rest.split_first_chunk::<HEAD_OCTETS>()?;
        let start = u64::from_le_bytes(*head.first_chunk()?);
        let end = u64::from_le_bytes(*head[8..].first_chunk()?);
        let count = u32::from_le_bytes(*head[16..].first_chunk()?) as usize;
        let (keys, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        let (checksum, rest) = rest.split_first_chunk::<4>()?;
        let octets = &self.rest[..HEAD_OCTETS + keys.len()];
        let is_sound = start == self.at && start < end && crc32fast::hash(octets) == u32::from_le_bytes(*checksum);
        if !is_sound {
            self.rest = &[];
            return None;
        }
        (self.rest, self.at) = (rest, end);
        Some(Block { frame: start..end, keys: keys.as_chunks().0 })
    }
}

/// The name of a segment's index, in the same directory; hidden, so that nobody takes it for a segment.
pub fn index_name(segment: &str) -> String {
    format!(".{segment}{INDEX_END}")
}

/// The name of the segment an index is about.
pub(crate) fn indexed_segment(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(INDEX_END)
}

/// How an index begins.
pub(crate) const MAGIC: &[u8; 8] = b"PRLOGIX1";
const INDEX_END: &str = ".index";
/// Begin and end of the frame, and the number of keys.
const HEAD_OCTETS: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Recipients, RecordType, Response, Timestamp};

    fn index() -> Vec<u8> {
        let mut octets = MAGIC.to_vec();
        Block::write(&(0..700), &mut vec![Key::id("b"), Key::recipient("A@x.test"), Key::id("b")], &mut octets);
        Block::write(&(700..1000), &mut vec![Key::sender("s@x.test")], &mut octets);
        octets
    }

    #[test]
    fn frames_are_found_by_the_keys_of_their_records() {
        let octets = index();
        let frames = |key| -> Vec<u64> {
            Blocks::of(&octets).filter(|block| block.may_have(key)).map(|block| block.frame.end).collect()
        };
        assert_eq!(frames(Key::id("b")), [700]);
        assert_eq!(frames(Key::recipient("a@X.test")), [700], "case does not count");
        assert_eq!(frames(Key::sender("s@x.test")), [1000]);
        assert!(frames(Key::sender("a@x.test")).is_empty(), "a recipient is no sender");
        assert_eq!(octets.len(), 8 + (20 + 8 + 4) + (20 + 4 + 4), "each key once");
    }

    #[test]
    fn the_form_is_as_documented() {
        let mut octets = MAGIC.to_vec();
        Block::write(&(0..700), &mut vec![Key::id("b"), Key::recipient("a@x.test")], &mut octets);
        let golden = b"PRLOGIX1\0\0\0\0\0\0\0\0\xbc\x02\0\0\0\0\0\0\x02\0\0\0";
        assert_eq!(octets[..28], golden[..]);
        let mut keys = [crc32fast::hash(b"ib"), crc32fast::hash(b"ra@x.test")];
        keys.sort_unstable();
        assert_eq!(octets[28..36], keys.map(u32::to_le_bytes).concat());
        assert_eq!(octets[36..], crc32fast::hash(&octets[8..36]).to_le_bytes());
    }

    #[test]
    fn what_is_torn_or_damaged_is_not_indexed() {
        let octets = index();
        for cut in 0..octets.len() {
            let mut blocks = Blocks::of(&octets[..cut]);
            let whole = usize::from(cut >= 40) + usize::from(cut >= 68);
            assert_eq!(blocks.by_ref().count(), whole, "cut at {cut}");
            assert_eq!(blocks.end(), [0, 700, 1000][whole], "cut at {cut}");
        }
        for at in 0..octets.len() {
            let mut damaged = octets.clone();
            damaged[at] ^= 0x10;
            let whole = usize::from(at >= 40);
            assert_eq!(Blocks::of(&damaged).count(), whole, "damaged at {at}");
        }
    }

    #[test]
    fn a_record_has_the_keys_of_all_it_names() {
        let at = Timestamp::from_unix_seconds(1_790_000_000);
        let mut record = LogRecord::new(RecordType::Reception, at, at, Response::new(250, None, "ok"));
        let keys = |record: &LogRecord| {
            let mut keys = Vec::new();
            Key::all_of(record, &mut keys);
            keys
        };
        assert_eq!(keys(&record), [], "nothing is named");
        record.id = "ab".to_owned();
        record.recipient = Recipients(vec!["a@x.test".to_owned(), "b@x.test".to_owned()]);
        let both = [Key::recipient("a@x.test"), Key::recipient("b@x.test")];
        assert_eq!(keys(&record), [&[Key::id("ab")], &both[..]].concat());
        record.sender = "s@x.test".to_owned();
        assert_eq!(keys(&record), [&[Key::id("ab"), Key::sender("s@x.test")], &both[..]].concat());
    }

    #[test]
    fn long_texts_are_taken_whole() {
        let long = format!("{}@X.test", "a".repeat(200));
        assert_eq!(Key::id(&long).0, crc32fast::hash(format!("i{}", long.to_ascii_lowercase()).as_bytes()));
        assert_eq!(indexed_segment(&index_name("20261125-033000.123456789-b")), Some("20261125-033000.123456789-b"));
    }
}
