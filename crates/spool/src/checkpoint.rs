//! Checkpoints as octets: the index written down, so that a start need not read the whole log
//! (docs/spool-format.md section 10). Pure: values in, octets out, and back.
//!
//! Writing is in `checkpoint_write.rs`, reading in `checkpoint_read.rs`. Every chunk names its file's nonce and its number
//! under a crc: what is left of an earlier use of a file, or out of order, never fits.

use crate::format::{Cursor, put_i64, put_u16, put_u32, put_u64, sealed, unsealed};
use crate::index::Entry;
use clock::WallTime;
use message::{MessageId, Place};

/// A place between two batches of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The segment; 0 in a log without any.
    pub segment: u32,
    /// Page of the next batch in it, if another follows there.
    pub page: u32,
    /// Sequence of the batch before.
    pub sequence: u64,
}

/// Page 0 of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointHeader {
    pub number: u32,
    pub nonce: u64,
    /// Where reading the log begins.
    pub position: Position,
    pub floor: u32,
    /// Of the position's segment; `None` where nobody knew, as in files of before.
    pub segment_nonce: Option<u64>,
}

/// The first octets of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub crc: u32,
    /// Of the chunk, this header included.
    pub octets: u32,
    pub nonce: u64,
    pub number: u32,
    pub kind: u32,
    /// Names of queues, or segments.
    pub rows: u32,
    /// Messages.
    pub entries: u32,
}

/// A segment as a checkpoint knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRow {
    pub sequence: u32,
    /// Page behind its last acknowledged batch.
    pub end: u32,
    pub damaged: bool,
    pub poisoned: bool,
    pub nonce: Option<u64>,
}

/// A message as a checkpoint has it; its settled recipients stand apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryRow {
    pub id: MessageId,
    pub due: WallTime,
    pub place: Place,
    pub share: u32,
    pub size: u32,
    pub label: u32,
    pub attempts: u16,
    pub recipients: u16,
    pub bitmap_length: u16,
}

impl CheckpointHeader {
    /// The header page's first octets.
    pub fn encode(&self) -> [u8; 64] {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(MAGIC);
        put_u32(&mut out, VERSION);
        put_u32(&mut out, self.number);
        put_u64(&mut out, self.nonce);
        put_u32(&mut out, self.position.segment);
        put_u32(&mut out, self.position.page);
        put_u64(&mut out, self.position.sequence);
        put_u32(&mut out, self.floor);
        put_u64(&mut out, self.segment_nonce.unwrap_or_default());
        sealed(out)
    }

    /// `None` when the octets are not a sound header of a version that is known.
    pub fn decode(page: &[u8]) -> Option<CheckpointHeader> {
        let mut input = unsealed(page, MAGIC)?;
        let VERSION = input.u32()? else { return None };
        let (number, nonce) = (input.u32()?, input.u64()?);
        let position = Position { segment: input.u32()?, page: input.u32()?, sequence: input.u64()? };
        let floor = input.u32()?;
        let segment_nonce = Some(input.u64()?).filter(|nonce| *nonce != 0);
        let header = CheckpointHeader { number, nonce, position, floor, segment_nonce };
        (header.floor <= position.segment).then_some(header)
    }
}

impl ChunkHeader {
    /// The octets; the crc is filled in by [`seal_chunk`].
    pub fn encode(&self) -> [u8; CHUNK_HEADER_OCTETS] {
        let mut out = Vec::with_capacity(CHUNK_HEADER_OCTETS);
        put_u32(&mut out, self.crc);
        put_u32(&mut out, self.octets);
        put_u64(&mut out, self.nonce);
        for number in [self.number, self.kind, self.rows, self.entries] {
            put_u32(&mut out, number);
        }
        let mut octets = [0; CHUNK_HEADER_OCTETS];
        octets.copy_from_slice(&out);
        octets
    }

    /// `None` when there are too few octets, or it says of itself that it is shorter than its header.
    pub fn decode(octets: &[u8]) -> Option<ChunkHeader> {
        let mut input = Cursor(octets);
        let header = ChunkHeader {
            crc: input.u32()?,
            octets: input.u32()?,
            nonce: input.u64()?,
            number: input.u32()?,
            kind: input.u32()?,
            rows: input.u32()?,
            entries: input.u32()?,
        };
        (header.octets as usize >= CHUNK_HEADER_OCTETS).then_some(header)
    }
}

impl SegmentRow {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.sequence);
        put_u32(out, self.end);
        let flag = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        put_u32(
            out,
            flag(self.damaged, DAMAGED) | flag(self.poisoned, POISONED) | flag(self.nonce.is_some(), HAS_NONCE),
        );
        put_u32(out, 0);
        put_u64(out, self.nonce.unwrap_or(0));
    }

    /// The reverse.
    pub fn decode(input: &mut Cursor<'_>) -> Option<SegmentRow> {
        let (sequence, end, flags, 0) = (input.u32()?, input.u32()?, input.u32()?, input.u32()?) else { return None };
        let nonce = input.u64()?;
        Some(SegmentRow {
            sequence,
            end,
            damaged: flags & DAMAGED != 0,
            poisoned: flags & POISONED != 0,
            nonce: (flags & HAS_NONCE != 0).then_some(nonce),
        })
    }
}

impl EntryRow {
    /// What is stored of an entry.
    pub fn of(entry: &Entry, bitmap_length: u16) -> EntryRow {
        let Entry { id, due, place, share, size, label, attempts, recipients, .. } = *entry;
        EntryRow { id, due, place, share, size, label, attempts, recipients, bitmap_length }
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        put_i64(out, self.due.unix_micros());
        for number in [self.place.segment, self.place.offset, self.share, self.size, self.label] {
            put_u32(out, number);
        }
        for number in [self.place.index, self.attempts, self.recipients, self.bitmap_length] {
            put_u16(out, number);
        }
    }

    /// The reverse; no message stands in segment 0.
    pub fn decode(input: &mut Cursor<'_>) -> Option<EntryRow> {
        let id = MessageId::from_bytes(input.take::<16>()?);
        let due = WallTime::from_unix_micros(input.i64()?);
        let (segment, offset) = (input.u32()?, input.u32()?);
        let (share, size, label) = (input.u32()?, input.u32()?, input.u32()?);
        let place = Place { segment, offset, index: input.u16()? };
        let (attempts, recipients, bitmap_length) = (input.u16()?, input.u16()?, input.u16()?);
        let row = EntryRow { id, due, place, share, size, label, attempts, recipients, bitmap_length };
        (segment != 0).then_some(row)
    }
}

/// Fills in a chunk's crc.
pub(crate) fn seal_chunk(octets: &mut [u8]) {
    let crc = crc32fast::hash(&octets[4..]);
    octets[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Appends the stored form of a queue's name.
pub(crate) fn put_label(number: u32, name: &str, out: &mut Vec<u8>) {
    put_u32(out, number);
    put_u32(out, name.len() as u32);
    out.extend_from_slice(name.as_bytes());
}

/// The reverse.
pub(crate) fn take_label<'a>(input: &mut Cursor<'a>) -> Option<(u32, &'a str)> {
    let (number, length) = (input.u32()?, input.u32()? as usize);
    let name = core::str::from_utf8(input.slice(length)?).ok()?;
    Some((number, name))
}

pub(crate) const MAGIC: &[u8; 8] = b"PRSPIDX\n";
/// Newest version this program reads, and the one it writes.
const VERSION: u32 = 1;
pub(crate) const CHUNK_HEADER_OCTETS: usize = 32;
pub(crate) const ENTRY_OCTETS: usize = 52;
/// A chunk of names and messages.
pub(crate) const MESSAGES: u32 = 1;
/// The last chunk: how many messages there were, and the segments.
pub(crate) const END: u32 = 2;
const DAMAGED: u32 = 1;
const POISONED: u32 = 2;
const HAS_NONCE: u32 = 4;
