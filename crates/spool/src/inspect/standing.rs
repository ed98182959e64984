//! Every message that stands in one file, readable or not, whatever became of it: what salvaging is made of.
//!
//! Goes further than recovery, which must not guess: behind a record that does not read, and in pages
//! where the batch header itself is gone, it looks for the next record whose own checks hold.
//! What is found that way is said to be (see [`Standing::known`]).

use super::walk::{Bounds, Gone, Step, Walk};
use super::{FAULTS_MAX, Fault, FaultKind, is_aside, number};
use crate::batch::record_crc;
use crate::disk::{FileInfo, FileName, ReadPages};
use crate::format::{BATCH_HEADER_OCTETS, BatchHeader, RECORD_HEADER_OCTETS, RecordHeader, SegmentHeader, TRANSACTION};
use crate::page::{PAGE_OCTETS, Page, octets};
use crate::record::Layout;
use clock::WallTime;
use core::ops::Range;
use message::{Envelope, MessageId, Meta, Place, Settled, codec};
use std::io::ErrorKind;

/// A message as it stands in a file.
#[derive(Debug)]
pub struct Standing<'a> {
    /// Identity.
    pub id: MessageId,
    /// Where it stands; the segment is that of the file's present or last use.
    pub place: Place,
    /// True when recovery reads it too: then, if it is not alive, it was removed or has moved.
    pub known: bool,
    /// First moment it may be tried, as written here.
    pub due: WallTime,
    /// Attempts, as written here.
    pub attempts: u16,
    /// Settled recipients, as written here.
    pub settled: Settled,
    /// `None` when it does not decode.
    pub envelope: Option<(Envelope, Meta)>,
    /// `None` when it does not read.
    pub head: Option<&'a [u8]>,
    /// `None` when it does not read.
    pub body: Option<&'a [u8]>,
}

/// Gives every message in `file` to `each`; what does not read comes back. `None` when the file is gone.
/// `acknowledged_octets` is where its promised part ends, when that is known ([`super::FileReport`]).
pub fn messages_in(
    disk: &dyn ReadPages,
    file: &FileInfo,
    acknowledged_octets: Option<u64>,
    each: &mut dyn FnMut(Standing<'_>),
) -> Option<Vec<Fault>> {
    let Some(mut bounds) = bounds(disk, file).ok()? else { return Some(Vec::new()) };
    bounds.end = acknowledged_octets.map(|octets| (octets / PAGE_OCTETS as u64) as u32);
    let believed = bounds.nonce.is_some();
    let mut finder = Finder { file: file.name, segment: bounds.segment, each, faults: Vec::new() };
    let mut walk = Walk::new(disk, file.name, bounds, 1, 0);
    let mut next_tag = None;
    let end = loop {
        match walk.next().ok()? {
            Step::Batch { page, header, octets, whole } => {
                let tag = header.sequence as u32;
                let octets = &octets[..octets.len().min(header.octets as usize)];
                finder.records(page, octets, BATCH_HEADER_OCTETS, &|t| t == tag, believed);
                if !whole {
                    finder.fault(page, 0, octets.len(), FaultKind::Batch);
                }
                next_tag = Some(tag.wrapping_add(1));
            }
            Step::Hole { page, octets } => {
                finder.records(page, octets, 0, &|tag| follows(tag, next_tag), false);
                finder.fault(page, 0, octets.len(), FaultKind::Batch);
            }
            Step::End { page, .. } => break page,
        }
    };
    if is_aside(file.name) && bounds.end.is_none() {
        // Where its promised part ended nobody knows any more: its last batch may be what is damaged.
        let octets = walk.tail(end).ok()?;
        finder.records(end, octets, 0, &|tag| follows(tag, next_tag), false);
    }
    walk.read_rest().ok()?;
    for (page, text) in walk.unreadable() {
        finder.fault(*page, 0, PAGE_OCTETS, FaultKind::Unreadable(text.clone()));
    }
    Some(finder.faults)
}

/// Whether a record's tag may be that of a batch behind the one before; how many were lost is not known.
fn follows(tag: u32, next: Option<u32>) -> bool {
    next.is_none_or(|next| tag.wrapping_sub(next) < TAGS_AHEAD_MAX)
}

/// What is known of the file; `None` when it holds nothing of the log.
fn bounds(disk: &dyn ReadPages, file: &FileInfo) -> Result<Option<Bounds>, Gone> {
    let mut pages = Page::zeros(2);
    for (page, into) in pages.chunks_mut(1).enumerate() {
        match disk.read_at(file.name, page as u32, into) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(Gone),
            // Left as zeros: the walk meets it again and notes it.
            _ => {}
        }
    }
    let header = SegmentHeader::decode(octets(&pages[..1]), file.name).ok().flatten();
    let is_spare = matches!(file.name, FileName::Spare(_));
    let segment = if is_spare { header.map(|h| h.segment) } else { Some(number(file.name)) };
    let Some(segment) = segment else { return Ok(None) };
    let first = BatchHeader::decode(octets(&pages[1..])).filter(|h| h.segment == segment);
    let nonce = header.filter(|h| h.segment == segment).map(|h| h.nonce).or(first.map(|h| h.nonce));
    let file_pages = u32::try_from(file.octets.div_ceil(PAGE_OCTETS as u64)).unwrap_or(u32::MAX);
    Ok(Some(Bounds { segment, nonce, end: None, file_pages }))
}

/// Finds records in octets.
struct Finder<'e> {
    file: FileName,
    segment: u32,
    each: &'e mut dyn FnMut(Standing<'_>),
    faults: Vec<Fault>,
}

impl Finder<'_> {
    /// Every record in the octets that begin at `page`, from `at` on, with a tag that is `ours`.
    fn records(&mut self, page: u32, octets: &[u8], mut at: usize, ours: &dyn Fn(u32) -> bool, mut known: bool) {
        // Where the record before says that the next one is.
        let mut expected = at;
        while at + RECORD_HEADER_OCTETS <= octets.len() {
            let header = RecordHeader::decode(&octets[at..]);
            let header = header.filter(|h| ours(h.tag) && h.length as usize <= octets.len() - at);
            if let Some(header) = header {
                known &= at == expected;
                if self.record(page, octets, at, &header, known) {
                    at += header.length as usize;
                    expected = at;
                    continue;
                }
                expected = at + header.length as usize;
                self.fault(page, at, header.length as usize, FaultKind::Record);
            } else if at == expected && known {
                self.fault(page, at, 0, FaultKind::Record);
            }
            at += 1;
        }
    }

    /// Gives out the messages of one record; false when its own check does not hold.
    fn record(&mut self, page: u32, octets: &[u8], at: usize, header: &RecordHeader, known: bool) -> bool {
        let record = &octets[at..at + header.length as usize];
        if header.kind != TRANSACTION {
            return record_crc(record) == header.crc;
        }
        let Some(layout) = Layout::decode(header, record) else { return false };
        let body_crc = if layout.body.is_empty() { 0 } else { layout.body_crc };
        let body = part(record, layout.body.clone(), body_crc);
        let sound = |range: &Range<usize>, crc| part(record, range.clone(), crc).is_some();
        let whole = body.is_some()
            && layout
                .messages()
                .all(|(entry, state, head)| sound(&state, entry.state_crc) && sound(&head, entry.head_crc));
        let offset = page * PAGE_OCTETS as u32 + at as u32;
        for (index, (entry, state, head)) in layout.messages().enumerate() {
            let state = part(record, state, entry.state_crc);
            let (done, state) = state.map_or((&[][..], None), |state| {
                let (done, state) = state.split_at(entry.done_length as usize);
                (done, Some(state))
            });
            (self.each)(Standing {
                id: entry.id,
                place: Place { segment: self.segment, offset, index: index as u16 },
                known: known && whole,
                due: WallTime::from_unix_micros(entry.due),
                attempts: entry.attempts,
                settled: Settled::from_bitmap(done),
                envelope: state.and_then(|state| codec::decode(state).ok()),
                head: part(record, head, entry.head_crc),
                body,
            });
        }
        if !whole {
            self.fault(page, at, record.len(), FaultKind::Record);
        }
        true
    }

    fn fault(&mut self, page: u32, at: usize, octets: usize, what: FaultKind) {
        if self.faults.len() < FAULTS_MAX {
            let offset = u64::from(page) * PAGE_OCTETS as u64 + at as u64;
            self.faults.push(Fault { file: self.file, offset, octets: octets as u64, what });
        }
    }
}

/// The octets at `range`, when their crc is right.
fn part(record: &[u8], range: Range<usize>, crc: u32) -> Option<&[u8]> {
    let octets = record.get(range)?;
    (crc32fast::hash(octets) == crc).then_some(octets)
}

/// Batches that may be missing between two that read, for a record in between to be believed.
const TAGS_AHEAD_MAX: u32 = 1024;
