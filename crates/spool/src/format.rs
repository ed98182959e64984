//! Headers as octets: the segment's, the batch's, the record's and the table's
//! (docs/spool-format.md sections 2 to 4). Pure: numbers in, octets out, and back.

use crate::SpoolError;
use crate::disk::FileName;
use crate::page::PAGE_OCTETS;
use message::MessageId;

/// Page 0 of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub segment: u32,
    pub nonce: u64,
    /// The segment before it; 0 for none.
    pub previous: u32,
    /// Page behind the last acknowledged batch of `previous`.
    pub previous_end: u32,
    pub floor: u32,
}

/// The first octets of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHeader {
    pub nonce: u64,
    pub sequence: u64,
    pub segment: u32,
    pub pages: u32,
    pub octets: u32,
    pub records: u32,
    pub floor: u32,
    pub records_crc: u32,
}

/// The first octets of a record; `crc` is computed by whoever has the octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub kind: u8,
    pub crc: u32,
    pub tag: u32,
    pub length: u32,
    pub count: u32,
    pub body_length: u32,
    pub body_crc: u32,
}

/// A message's row in a transaction's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub id: MessageId,
    pub due: i64,
    pub attempts: u16,
    pub flags: u16,
    pub done_length: u32,
    pub state_length: u32,
    pub state_crc: u32,
    pub head_length: u32,
    pub head_crc: u32,
}

impl SegmentHeader {
    /// The header page's first octets.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_OCTETS] {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_OCTETS);
        out.extend_from_slice(SEGMENT_MAGIC);
        put_u32(&mut out, VERSION);
        put_u32(&mut out, self.segment);
        put_u64(&mut out, self.nonce);
        put_u32(&mut out, self.previous);
        put_u32(&mut out, self.previous_end);
        put_u32(&mut out, self.floor);
        sealed(out)
    }

    /// `Ok(None)` when the octets are not a sound header.
    pub fn decode(page: &[u8], file: FileName) -> Result<Option<SegmentHeader>, SpoolError> {
        let Some(mut input) = unsealed(page, SEGMENT_MAGIC) else { return Ok(None) };
        let header = (|| {
            let version = input.u32()?;
            Some((
                version,
                SegmentHeader {
                    segment: input.u32()?,
                    nonce: input.u64()?,
                    previous: input.u32()?,
                    previous_end: input.u32()?,
                    floor: input.u32()?,
                },
            ))
        })();
        match header {
            Some((version, _)) if version > VERSION => {
                Err(SpoolError::NewerFormat { file, found: version, known: VERSION })
            }
            Some((VERSION, header)) => Ok(Some(header).filter(|h| h.floor <= h.segment && h.previous < h.segment)),
            _ => Ok(None),
        }
    }
}

impl BatchHeader {
    pub fn encode(&self) -> [u8; BATCH_HEADER_OCTETS] {
        let mut out = Vec::with_capacity(BATCH_HEADER_OCTETS);
        out.extend_from_slice(BATCH_MAGIC);
        put_u64(&mut out, self.nonce);
        put_u64(&mut out, self.sequence);
        for number in [self.segment, self.pages, self.octets, self.records, self.floor, self.records_crc] {
            put_u32(&mut out, number);
        }
        sealed(out)
    }

    /// `None` when the octets are not a sound header with consistent lengths.
    pub fn decode(page: &[u8]) -> Option<BatchHeader> {
        let mut input = unsealed(page, BATCH_MAGIC)?;
        let header = BatchHeader {
            nonce: input.u64()?,
            sequence: input.u64()?,
            segment: input.u32()?,
            pages: input.u32()?,
            octets: input.u32()?,
            records: input.u32()?,
            floor: input.u32()?,
            records_crc: input.u32()?,
        };
        let octets = header.octets as usize;
        let fits = octets >= BATCH_HEADER_OCTETS && octets.div_ceil(PAGE_OCTETS) == header.pages as usize;
        // A floor names the oldest segment still needed; the one it stands in is.
        let sane = header.floor <= header.segment && header.sequence <= SEQUENCE_MAX;
        (fits && sane).then_some(header)
    }
}

impl RecordHeader {
    pub fn encode(&self) -> [u8; RECORD_HEADER_OCTETS] {
        let mut out = Vec::with_capacity(RECORD_HEADER_OCTETS);
        out.extend_from_slice(&[self.kind, 0, 0, 0]);
        for number in [self.crc, self.tag, self.length, self.count, self.body_length, self.body_crc, 0] {
            put_u32(&mut out, number);
        }
        fixed(out)
    }

    pub fn decode(octets: &[u8]) -> Option<RecordHeader> {
        let mut input = Cursor(octets);
        let [kind, 0, 0, 0] = input.take::<4>()? else { return None };
        let header = RecordHeader {
            kind,
            crc: input.u32()?,
            tag: input.u32()?,
            length: input.u32()?,
            count: input.u32()?,
            body_length: input.u32()?,
            body_crc: input.u32()?,
        };
        let whole = input.u32()? == 0 && header.length as usize >= RECORD_HEADER_OCTETS;
        whole.then_some(header)
    }
}

impl TableEntry {
    pub fn encode(&self) -> [u8; TABLE_ENTRY_OCTETS] {
        let mut out = Vec::with_capacity(TABLE_ENTRY_OCTETS);
        out.extend_from_slice(self.id.as_bytes());
        put_i64(&mut out, self.due);
        put_u16(&mut out, self.attempts);
        put_u16(&mut out, self.flags);
        for number in [self.done_length, self.state_length, self.state_crc, self.head_length, self.head_crc] {
            put_u32(&mut out, number);
        }
        fixed(out)
    }

    pub fn decode(octets: &[u8]) -> Option<TableEntry> {
        let mut input = Cursor(octets);
        let entry = TableEntry {
            id: MessageId::from_bytes(input.take::<16>()?),
            due: input.i64()?,
            attempts: input.u16()?,
            flags: input.u16()?,
            done_length: input.u32()?,
            state_length: input.u32()?,
            state_crc: input.u32()?,
            head_length: input.u32()?,
            head_crc: input.u32()?,
        };
        (entry.done_length <= entry.state_length).then_some(entry)
    }
}

/// No log gets there; a higher sequence is not ours, and believing it would leave no room for the next.
pub(crate) const SEQUENCE_MAX: u64 = u64::MAX >> 1;

/// Octets still to be read; every step is `None` at the end.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn left(&self) -> usize {
        self.0.len()
    }

    pub fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    /// As many octets as they are.
    pub fn slice(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }
}

pub(crate) fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn put_i64(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// 64 octets: what was put, zeros, and the crc of both.
pub(crate) fn sealed(mut out: Vec<u8>) -> [u8; 64] {
    out.resize(60, 0);
    let crc = crc32fast::hash(&out);
    put_u32(&mut out, crc);
    fixed(out)
}

/// The octets behind the magic, when magic and crc are right.
pub(crate) fn unsealed<'a>(page: &'a [u8], magic: &[u8; 8]) -> Option<Cursor<'a>> {
    let header = page.get(..64)?;
    if !header.starts_with(magic) || crc32fast::hash(&header[..60]).to_le_bytes() != header[60..] {
        return None;
    }
    Some(Cursor(&header[8..60]))
}

fn fixed<const N: usize>(out: Vec<u8>) -> [u8; N] {
    let mut octets = [0; N];
    octets.copy_from_slice(&out);
    octets
}

/// Newest format version this program reads, and the one it writes.
pub(crate) const VERSION: u32 = 1;
pub(crate) const SEGMENT_MAGIC: &[u8; 8] = b"PRSPSEG\n";
pub(crate) const BATCH_MAGIC: &[u8; 8] = b"PRSPBAT\n";
pub(crate) const SEGMENT_HEADER_OCTETS: usize = 64;
pub(crate) const BATCH_HEADER_OCTETS: usize = 64;
pub(crate) const RECORD_HEADER_OCTETS: usize = 32;
pub(crate) const TABLE_ENTRY_OCTETS: usize = 48;
pub(crate) const TRANSACTION: u8 = 1;
pub(crate) const MARKS: u8 = 2;
/// Messages of one transaction.
pub(crate) const MESSAGES_MAX: usize = 65_535;
/// Octets of one batch, 1 GiB.
pub(crate) const BATCH_OCTETS_MAX: u64 = 1 << 30;
/// Smallest segment, in octets.
pub(crate) const SEGMENT_OCTETS_MIN: u32 = 64 << 10;
/// Largest segment, in octets.
pub(crate) const SEGMENT_OCTETS_MAX: u32 = 2 << 30;
