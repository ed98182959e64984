//! A batch's octets as records: views that are checked before they are given out.
//!
//! In: the octets of one batch, the header that says what they should be. Out: for each record
//! a [`Record`] or the fact that it is damaged. Never panics on any input.

use crate::batch::record_crc;
use crate::format::{
    BATCH_HEADER_OCTETS, BatchHeader, Cursor, MARKS, MESSAGES_MAX, RECORD_HEADER_OCTETS, RecordHeader,
    TABLE_ENTRY_OCTETS, TRANSACTION, TableEntry,
};
use crate::mark::Mark;
use core::ops::Range;
use crc32fast::Hasher;

/// A sound record.
pub(crate) enum Record<'a> {
    Transaction(Transaction<'a>),
    Marks(Vec<(Mark, u32)>),
}

/// Messages that share a body.
pub(crate) struct Transaction<'a> {
    /// Of the record, from the beginning of the batch.
    pub offset: u32,
    pub layout: Layout,
    octets: &'a [u8],
}

/// Where the parts of a transaction are, from the beginning of its record.
pub(crate) struct Layout {
    pub entries: Vec<TableEntry>,
    pub body: Range<usize>,
    pub body_crc: u32,
    states: usize,
    heads: usize,
}

/// Walks the records of a batch.
pub(crate) struct Records<'a> {
    octets: &'a [u8],
    at: usize,
    tag: u32,
    left: u32,
    crcs: Hasher,
}

/// A record that does not read; the walk goes on behind it when its length is known.
pub(crate) struct DamagedRecord;

impl<'a> Records<'a> {
    /// `octets` from the beginning of the batch, as many as the header says or fewer.
    pub fn new(octets: &'a [u8], header: &BatchHeader) -> Records<'a> {
        let octets = &octets[..octets.len().min(header.octets as usize)];
        Records {
            octets,
            at: BATCH_HEADER_OCTETS,
            tag: header.sequence as u32,
            left: header.records,
            crcs: Hasher::new(),
        }
    }

    /// The next record; `None` at the end.
    pub fn next(&mut self) -> Option<Result<Record<'a>, DamagedRecord>> {
        self.left = self.left.checked_sub(1)?;
        let start = self.at;
        let octets = self.octets.get(start..).unwrap_or_default();
        let header = RecordHeader::decode(octets).filter(|h| h.tag == self.tag && h.length as usize <= octets.len());
        let Some(header) = header else {
            self.left = 0;
            return Some(Err(DamagedRecord));
        };
        let octets = &octets[..header.length as usize];
        self.at += octets.len();
        self.crcs.update(&header.crc.to_le_bytes());
        Some(decode(start as u32, &header, octets).ok_or(DamagedRecord))
    }

    /// Whether everything the batch header promised was there. To be asked after the last record.
    pub fn is_complete(&self, header: &BatchHeader) -> bool {
        self.left == 0 && self.at == header.octets as usize && self.crcs.clone().finalize() == header.records_crc
    }
}

/// Whether the batch is whole: every record sound, none missing.
pub(crate) fn is_whole(octets: &[u8], header: &BatchHeader) -> bool {
    let mut records = Records::new(octets, header);
    while let Some(record) = records.next() {
        if record.is_err() {
            return false;
        }
    }
    records.is_complete(header)
}

impl<'a> Transaction<'a> {
    /// A message's bitmap and its stored envelope with metadata.
    pub fn state(&self, range: &Range<usize>, entry: &TableEntry) -> (&'a [u8], &'a [u8]) {
        self.octets[range.clone()].split_at(entry.done_length as usize)
    }

    /// The octets at a range of the layout.
    pub fn octets(&self, range: &Range<usize>) -> &'a [u8] {
        &self.octets[range.clone()]
    }
}

impl Layout {
    /// Octets from the record's beginning to the end of its table; `None` when the header is no transaction's.
    pub fn table_end(header: &RecordHeader) -> Option<usize> {
        let count = header.count as usize;
        let end = RECORD_HEADER_OCTETS + count * TABLE_ENTRY_OCTETS;
        (header.kind == TRANSACTION && (1..=MESSAGES_MAX).contains(&count) && end <= header.length as usize)
            .then_some(end)
    }

    /// From a record's header and its octets up to the end of the table; `None` when they are damaged.
    pub fn decode(header: &RecordHeader, octets: &[u8]) -> Option<Layout> {
        let table_end = Layout::table_end(header)?;
        let octets = octets.get(..table_end)?;
        if record_crc(octets) != header.crc {
            return None;
        }
        let table = &octets[RECORD_HEADER_OCTETS..];
        let entries: Option<Vec<_>> = table.chunks_exact(TABLE_ENTRY_OCTETS).map(TableEntry::decode).collect();
        let entries = entries?;
        let sum = |length: fn(&TableEntry) -> u32| entries.iter().map(|e| length(e) as usize).sum::<usize>();
        let heads = table_end + sum(|e| e.state_length);
        let body_start = heads + sum(|e| e.head_length);
        let body = body_start..body_start + header.body_length as usize;
        (body.end == header.length as usize).then_some(Layout {
            entries,
            body,
            body_crc: header.body_crc,
            states: table_end,
            heads,
        })
    }

    /// Each message with the ranges of its state and head.
    pub fn messages(&self) -> impl Iterator<Item = (&TableEntry, Range<usize>, Range<usize>)> {
        let (mut state, mut head) = (self.states, self.heads);
        self.entries.iter().map(move |entry| {
            let state_range = state..state + entry.state_length as usize;
            let head_range = head..head + entry.head_length as usize;
            (state, head) = (state_range.end, head_range.end);
            (entry, state_range, head_range)
        })
    }

    /// Octets a message stands for: its own, and its part of what is shared.
    pub fn share(&self, entry: &TableEntry) -> u32 {
        let own = TABLE_ENTRY_OCTETS + entry.state_length as usize + entry.head_length as usize;
        (own + (self.body.len() + RECORD_HEADER_OCTETS) / self.entries.len()) as u32
    }
}

/// One record, fully checked.
fn decode<'a>(offset: u32, header: &RecordHeader, octets: &'a [u8]) -> Option<Record<'a>> {
    match header.kind {
        TRANSACTION => {
            let layout = Layout::decode(header, octets)?;
            let sound = layout.messages().all(|(entry, state, head)| {
                crc32fast::hash(&octets[state]) == entry.state_crc && crc32fast::hash(&octets[head]) == entry.head_crc
            });
            let body = &octets[layout.body.clone()];
            let body_sound =
                if body.is_empty() { layout.body_crc == 0 } else { crc32fast::hash(body) == layout.body_crc };
            (sound && body_sound).then_some(Record::Transaction(Transaction { offset, layout, octets }))
        }
        MARKS if record_crc(octets) == header.crc => {
            let mut input = Cursor(&octets[RECORD_HEADER_OCTETS..]);
            let mut marks = Vec::new();
            for _ in 0..header.count {
                marks.push(Mark::decode(&mut input)?);
            }
            (input.left() == 0).then_some(Record::Marks(marks))
        }
        _ => None,
    }
}

/// For fuzzing and properties: reads octets as the records of a batch, with every crc made right
/// first, so that what lies behind the crcs is reached. Any octets must be survived.
#[doc(hidden)]
pub fn read_any(octets: &mut [u8]) -> usize {
    let length = octets.len().min(u32::MAX as usize) as u32;
    let header = BatchHeader {
        nonce: 0,
        sequence: 0,
        segment: 0,
        pages: 0,
        octets: length,
        records: 8,
        floor: 0,
        records_crc: 0,
    };
    let mut at = BATCH_HEADER_OCTETS;
    while let Some(record) = octets.get_mut(at..).filter(|r| r.len() >= RECORD_HEADER_OCTETS) {
        record[8..12].fill(0);
        let Some(mut header) = RecordHeader::decode(record).filter(|h| h.length as usize <= record.len()) else {
            break;
        };
        let record = &mut record[..header.length as usize];
        let covered = match header.kind {
            TRANSACTION => Layout::table_end(&header).unwrap_or(RECORD_HEADER_OCTETS),
            _ => record.len(),
        };
        header.crc = record_crc(&record[..covered]);
        record[..RECORD_HEADER_OCTETS].copy_from_slice(&header.encode());
        if let Some(layout) = Layout::decode(&header, record) {
            layout.messages().for_each(|(_, state, head)| _ = (&record[state], &record[head]));
        }
        at += record.len();
    }
    let mut records = Records::new(octets, &header);
    std::iter::from_fn(|| records.next()).filter(Result::is_ok).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arbitrary_records_never_panic(mut octets in proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), any::<u8>()], 0..600), count in 0..5_u32, length in 0..600_u32, kind in 1..3_u8) {
            if octets.len() > BATCH_HEADER_OCTETS + RECORD_HEADER_OCTETS {
                let header = RecordHeader { kind, crc: 0, tag: 0, length, count, body_length: length / 3, body_crc: 0 };
                octets[BATCH_HEADER_OCTETS..][..RECORD_HEADER_OCTETS].copy_from_slice(&header.encode());
            }
            read_any(&mut octets);
        }
    }
}
