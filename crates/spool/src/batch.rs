//! A batch: what one commit takes, and its stored form.
//!
//! [`Batch`] is what callers fill; [`Builder`] turns transactions and marks into the pages of
//! one self-contained batch, in one reused buffer. Nothing here knows segments: the batch
//! header, which does, is filled in last.

use crate::SpoolError;
use crate::format::{
    BATCH_HEADER_OCTETS, BATCH_OCTETS_MAX, BatchHeader, MARKS, MESSAGES_MAX, RECORD_HEADER_OCTETS, RecordHeader,
    TABLE_ENTRY_OCTETS, TRANSACTION, TableEntry,
};
use crate::mark::Mark;
use crate::page::{Page, PageBuf};
use clock::WallTime;
use crc32fast::Hasher;
use message::{Envelope, MessageId, Meta, Sealed, codec};

/// Appends and marks to be made durable together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Transactions: the messages of one share their body. None may be empty.
    pub appends: Vec<Vec<Sealed>>,
    /// Marks, in the order in which things happened.
    pub marks: Vec<Mark>,
}

impl Batch {
    /// True when there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.appends.is_empty() && self.marks.is_empty()
    }

    /// Refuses what the format cannot hold, before anything is written; else about how many octets it takes.
    pub(crate) fn check(&self) -> Result<u64, SpoolError> {
        let mut octets = self.marks.len() as u64 * MARK_OCTETS_USUAL;
        for transaction in &self.appends {
            octets += check_transaction(transaction)?;
        }
        bounded(octets)
    }
}

/// Refuses a transaction that the format cannot hold; else about how many octets it takes.
///
/// # Errors
/// `MessageCount`, `BodiesDiffer`, `TooBig`.
pub fn check_transaction(transaction: &[Sealed]) -> Result<u64, SpoolError> {
    let Some(first) = transaction.first().filter(|_| transaction.len() <= MESSAGES_MAX) else {
        return Err(SpoolError::MessageCount { messages: transaction.len(), messages_max: MESSAGES_MAX });
    };
    let mut octets = first.body.len() as u64;
    for sealed in transaction {
        if !same_octets(&sealed.body, &first.body) {
            return Err(SpoolError::BodiesDiffer { id: sealed.id });
        }
        let recipients: usize = sealed.envelope.recipients.iter().map(|r| r.as_str().len() + 4).sum();
        octets += (sealed.head.len() + recipients) as u64 + MESSAGE_OCTETS_USUAL;
    }
    bounded(octets)
}

/// `octets`, when a batch may have as many.
fn bounded(octets: u64) -> Result<u64, SpoolError> {
    if octets > BATCH_OCTETS_MAX {
        return Err(SpoolError::TooBig { octets, octets_max: BATCH_OCTETS_MAX });
    }
    Ok(octets)
}

/// One message of a transaction to be encoded.
pub(crate) struct Part<'a> {
    pub id: MessageId,
    pub due: WallTime,
    pub attempts: u16,
    pub flags: u16,
    /// The bitmap of settled recipients.
    pub settled: &'a [u8],
    pub state: State<'a>,
    pub head: &'a [u8],
}

/// Envelope and metadata: new, or as they were stored.
pub(crate) enum State<'a> {
    New(&'a Envelope, &'a Meta),
    Stored(&'a [u8]),
}

/// What the log must remember of a message that was put into the batch.
pub(crate) struct Written {
    pub id: MessageId,
    /// Of its record, from the beginning of the batch.
    pub offset: u32,
    pub index: u16,
    /// Octets the message stands for; the shared ones in equal parts.
    pub share: u32,
}

/// Builds the pages of one batch.
#[derive(Default)]
pub(crate) struct Builder {
    pages: PageBuf,
    scratch: Vec<u8>,
    sequence: u64,
    records: u32,
    records_crc: Hasher,
    pub written: Vec<Written>,
}

/// What the batch header says beyond what the builder knows.
pub(crate) struct Frame {
    pub nonce: u64,
    pub segment: u32,
    pub floor: u32,
}

impl Builder {
    /// Starts a batch of about `octets`.
    pub fn begin(&mut self, sequence: u64, octets: u64) {
        self.pages.clear(OCTETS_KEPT_MAX);
        self.pages.make_room(octets as usize);
        self.pages.put_zeros(BATCH_HEADER_OCTETS);
        self.scratch.shrink_to(SCRATCH_KEPT_MAX);
        self.sequence = sequence;
        self.records = 0;
        self.records_crc = Hasher::new();
        self.written.clear();
    }

    /// The number of the batch.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Octets of the batch so far.
    pub fn octets(&self) -> usize {
        self.pages.len()
    }

    /// Puts a transaction of `count` messages; `part(i)` describes each.
    pub fn transaction<'a>(&mut self, count: usize, part: impl Fn(usize) -> Part<'a>, body: &[u8]) {
        let start = self.pages.put_zeros(RECORD_HEADER_OCTETS);
        let table = self.pages.put_zeros(count * TABLE_ENTRY_OCTETS);
        let first = self.written.len();
        let body_share = (body.len() + RECORD_HEADER_OCTETS) / count;
        for i in 0..count {
            let part = part(i);
            let entry = self.put_state(&part);
            self.patch(table + i * TABLE_ENTRY_OCTETS, &entry.encode());
            let own = TABLE_ENTRY_OCTETS + entry.state_length as usize + part.head.len();
            self.written.push(Written {
                id: part.id,
                offset: start as u32,
                index: i as u16,
                share: (own + body_share) as u32,
            });
        }
        debug_assert_eq!(self.written.len(), first + count);
        (0..count).for_each(|i| self.pages.put(part(i).head));
        self.pages.put(body);
        let table_end = table + count * TABLE_ENTRY_OCTETS;
        self.seal(start, table_end, TRANSACTION, count, body);
    }

    /// Puts all marks of the batch; each with the segment of its target.
    pub fn marks<'a>(&mut self, marks: impl Iterator<Item = (&'a Mark, u32)>) {
        self.scratch.clear();
        let mut count = 0;
        for (mark, segment) in marks {
            mark.encode(segment, &mut self.scratch);
            count += 1;
        }
        if count == 0 {
            return;
        }
        let start = self.pages.put_zeros(RECORD_HEADER_OCTETS);
        self.pages.put(&self.scratch);
        self.seal(start, self.pages.len(), MARKS, count, &[]);
    }

    /// Fills in the batch header and gives the pages to be written.
    pub fn finish(&mut self, frame: &Frame) -> &[Page] {
        let octets = self.pages.len();
        let header = BatchHeader {
            nonce: frame.nonce,
            sequence: self.sequence,
            segment: frame.segment,
            pages: self.page_count(),
            octets: octets as u32,
            records: self.records,
            floor: frame.floor,
            records_crc: self.records_crc.clone().finalize(),
        };
        self.patch(0, &header.encode());
        self.pages.finish()
    }

    /// Pages of the batch so far.
    pub fn page_count(&self) -> u32 {
        self.pages.len().div_ceil(crate::PAGE_OCTETS) as u32
    }

    /// Puts bitmap, envelope and metadata; the table row that describes them.
    fn put_state(&mut self, part: &Part<'_>) -> TableEntry {
        self.scratch.clear();
        self.scratch.extend_from_slice(part.settled);
        let done_length = self.scratch.len() as u32;
        match part.state {
            State::New(envelope, meta) => codec::encode(envelope, meta, &mut self.scratch),
            State::Stored(octets) => self.scratch.extend_from_slice(octets),
        }
        self.pages.put(&self.scratch);
        TableEntry {
            id: part.id,
            due: part.due.unix_micros(),
            attempts: part.attempts,
            flags: part.flags,
            done_length,
            state_length: self.scratch.len() as u32,
            state_crc: crc32fast::hash(&self.scratch),
            head_length: part.head.len() as u32,
            head_crc: crc32fast::hash(part.head),
        }
    }

    /// Fills in the header of the record that began at `start`; its crc reaches to `crc_end`.
    fn seal(&mut self, start: usize, crc_end: usize, kind: u8, count: usize, body: &[u8]) {
        let mut header = RecordHeader {
            kind,
            crc: 0,
            tag: self.sequence as u32,
            length: (self.pages.len() - start) as u32,
            count: count as u32,
            body_length: body.len() as u32,
            body_crc: if body.is_empty() { 0 } else { crc32fast::hash(body) },
        };
        self.patch(start, &header.encode());
        header.crc = record_crc(&self.pages.octets()[start..crc_end]);
        self.patch(start, &header.encode());
        self.records += 1;
        self.records_crc.update(&header.crc.to_le_bytes());
    }

    fn patch(&mut self, at: usize, octets: &[u8]) {
        self.pages.octets_mut()[at..at + octets.len()].copy_from_slice(octets);
    }
}

/// The crc of a record: of everything given but the crc field itself.
pub(crate) fn record_crc(octets: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&octets[..4]);
    hasher.update(&octets[8..]);
    hasher.finalize()
}

/// Whether two bodies are the same; nearly always the same memory, so nearly never compared.
fn same_octets(a: &[u8], b: &[u8]) -> bool {
    core::ptr::eq(a, b) || a == b
}

/// What a mark is estimated at, in octets.
const MARK_OCTETS_USUAL: u64 = 40;
/// What table row, sender and metadata of a message are estimated at, in octets.
const MESSAGE_OCTETS_USUAL: u64 = 256;
/// Memory the builder keeps between batches, in octets.
const OCTETS_KEPT_MAX: usize = 8 << 20;
/// Memory kept for one state, in octets.
const SCRATCH_KEPT_MAX: usize = 1 << 20;
