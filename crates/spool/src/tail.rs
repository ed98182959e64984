//! Where the log ends: what must be known before the first commit of a run, and nothing more.
//!
//! Reads the newest segment, from where a checkpoint says that it is durable, and older ones only while no whole batch was met: so
//! the start takes as long with a large backlog as with none. Of what reads well, the last batch may not be durable ([`Doubt`]); all before
//! it is: each batch is written after the sync of the one before, and the end of a segment goes into the next one's header.

use crate::SpoolError;
use crate::checkpoint::CheckpointHeader;
use crate::disk::{FileName, ReadPages};
use crate::doubt::Doubt;
use crate::format::{BatchHeader, SegmentHeader};
use crate::page::{PAGE_OCTETS, Page, octets};
use crate::scan::{Bounds, END_UNKNOWN, Found, Scan};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The log's end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// The newest segment; 0 for none.
    pub segment: u32,
    /// Page behind what is acknowledged in it.
    pub end: u32,
    /// The same, when a checkpoint alone says so: what is in front of it need not read.
    pub fence: Option<u32>,
    /// No batch that may ever be read has a higher sequence.
    pub last_sequence: u64,
    /// The last batch, when nothing says that it is durable.
    pub doubt: Option<Doubt>,
    /// No segment has a higher number.
    pub last_segment: u32,
    /// Highest floor met.
    pub floor: u32,
}

impl Tail {
    /// Finds the end of the log in `segments`, each with its octets.
    pub fn find(
        disk: &Arc<dyn ReadPages>,
        segments: &BTreeMap<u32, u64>,
        checkpoints: &[CheckpointHeader],
    ) -> Result<Tail, SpoolError> {
        let mut tail = Tail::default();
        let mut fences = Fences::default();
        let (mut has_batch, mut is_damaged) = (false, false);
        for (sequence, octets) in segments.iter().rev() {
            let planned = Planned::read(&**disk, *sequence, *octets)?;
            let fence = fences.of(*sequence, &planned);
            fences.pass(planned.header.as_ref());
            is_damaged |= planned.header.is_none();
            tail.floor = tail.floor.max(planned.header.map_or(0, |header| header.floor));
            // Where nothing can be told today, another day may tell.
            let (mut end, mut acknowledged) = (END_UNKNOWN, None);
            if let Some(mut scan) = planned.scan(disk, *sequence, fence) {
                if let Some(known) = planned.durable(*sequence, fence, checkpoints) {
                    scan = scan.behind(known.position.page, known.position.sequence);
                    (has_batch, acknowledged) = (true, Some(known.position.page));
                    tail.floor = tail.floor.max(known.floor);
                }
                end = loop {
                    match scan.next() {
                        Found::Whole { page, header, .. } => {
                            has_batch = true;
                            let doubt =
                                Doubt { segment: *sequence, page, pages: header.pages, sequence: header.sequence };
                            tail.doubt = fence.is_none().then_some(doubt);
                            tail.floor = tail.floor.max(header.floor);
                        }
                        Found::Damaged { .. } => is_damaged = true,
                        Found::End { page, torn_pages } => {
                            // Nothing stands behind it from which could be seen that what is in front of it does not read.
                            acknowledged = acknowledged.filter(|known| *known == page && torn_pages == 0);
                            break page;
                        }
                    }
                };
                tail.last_sequence = tail.last_sequence.max(scan.last_sequence());
            }
            // Where something behind it does not read, it need not be the last.
            tail.doubt = tail.doubt.filter(|doubt| doubt.page + doubt.pages == end);
            if tail.segment == 0 {
                (tail.segment, tail.end, tail.last_segment) = (*sequence, end, *sequence);
                tail.fence = acknowledged;
            }
            if has_batch {
                break;
            }
        }
        if is_damaged {
            // What does not read now may bear higher numbers, and may read another day.
            tail.last_sequence += SEQUENCES_SKIPPED;
        }
        Ok(tail)
    }

    /// Checkpoints know what the log had at least. Should some of it not read now, then what comes must not be mistaken
    /// for it, nor for older than it.
    pub fn heed_checkpoints(&mut self, checkpoints: &[CheckpointHeader]) {
        for CheckpointHeader { position, .. } in checkpoints {
            self.last_segment = self.last_segment.max(position.segment);
            if position.sequence > self.last_sequence {
                self.last_sequence = position.sequence + SEQUENCES_SKIPPED;
            }
            let is_covered = |doubt: &Doubt| position.segment == doubt.segment && position.page > doubt.page;
            self.doubt = self.doubt.filter(|doubt| !is_covered(doubt));
            if position.segment == self.segment && position.page > self.end {
                // Acknowledged, and does not read: damage, not the end.
                (self.end, self.fence) = (position.page, Some(position.page));
                self.last_sequence += SEQUENCES_SKIPPED;
            }
        }
    }
}

/// Whether a checkpoint may be of the log with these segments: its position's, if it is here, is the one it says.
pub(crate) fn is_of(
    header: &CheckpointHeader,
    disk: &dyn ReadPages,
    segments: &BTreeMap<u32, u64>,
) -> Result<bool, SpoolError> {
    let sequence = header.position.segment;
    let here = segments.get(&sequence).map(|octets| Planned::read(disk, sequence, *octets)).transpose()?;
    let nonce = here.and_then(|planned| planned.nonce);
    Ok(header.segment_nonce.is_none() || nonce.is_none() || nonce == header.segment_nonce)
}

/// A segment's header page and what is known without reading on.
#[derive(Debug)]
pub(crate) struct Planned {
    pub header: Option<SegmentHeader>,
    pub nonce: Option<u64>,
    pub file_pages: u32,
    /// The header page does not read.
    pub is_unreadable: bool,
    /// A batch begins behind the header.
    pub is_used: bool,
}

impl Planned {
    /// Reads the header page of a segment, and the first batch's header in case it is damaged.
    pub fn read(disk: &dyn ReadPages, sequence: u32, file_octets: u64) -> Result<Planned, SpoolError> {
        let file = FileName::Segment(sequence);
        let mut pages = Page::zeros(2);
        let mut is_unreadable = false;
        if disk.read_at(file, 0, &mut pages).is_err() {
            // Each for itself: a page that does not read stays zero, which is no header. That the
            // first page of batches does not read is found, and counted, when the batches are read.
            let (first, second) = pages.split_at_mut(1);
            is_unreadable = !reads_or_zeros(disk, file, 0, first);
            reads_or_zeros(disk, file, 1, second);
        }
        let header = SegmentHeader::decode(octets(&pages[..1]), file)?.filter(|h| h.segment == sequence);
        let first = BatchHeader::decode(octets(&pages[1..])).filter(|h| h.segment == sequence);
        let nonce = header.map(|h| h.nonce).or(first.map(|h| h.nonce));
        let is_used = first.is_some_and(|first| Some(first.nonce) == nonce);
        let file_pages = u32::try_from(file_octets.div_ceil(PAGE_OCTETS as u64)).unwrap_or(u32::MAX);
        Ok(Planned { header, nonce, file_pages, is_unreadable, is_used })
    }

    /// The checkpoint that says the most of how far this segment is durable; `None` when none tells of batches in it.
    fn durable(&self, sequence: u32, fence: Option<u32>, checkpoints: &[CheckpointHeader]) -> Option<CheckpointHeader> {
        let limit = fence.unwrap_or(u32::MAX).min(self.file_pages);
        let of_this = |header: &&CheckpointHeader| {
            let position = header.position;
            let is_same = position.segment == sequence && header.segment_nonce == self.nonce && self.nonce.is_some();
            is_same && (2..=limit).contains(&position.page)
        };
        checkpoints.iter().filter(of_this).max_by_key(|header| header.position.page).copied()
    }

    /// A walk through the segment up to `fence`; `None` when nothing in it can be told.
    pub fn scan(&self, disk: &Arc<dyn ReadPages>, sequence: u32, fence: Option<u32>) -> Option<Scan> {
        let bounds = Bounds { segment: sequence, nonce: self.nonce?, end: fence, file_pages: self.file_pages };
        Some(Scan::new(Arc::clone(disk), &bounds))
    }
}

/// Reads pages; false, and zeros, when the disk refuses.
fn reads_or_zeros(disk: &dyn ReadPages, file: FileName, at: u32, into: &mut [Page]) -> bool {
    let reads = disk.read_at(file, at, into).is_ok();
    if !reads {
        into.fill(bytemuck::Zeroable::zeroed());
    }
    reads
}

/// Where segments end, as later ones say. To be asked and told from the newest to the oldest.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    ends: BTreeMap<u32, u32>,
    /// Segments passed.
    passed: usize,
    /// A header among them does not read.
    is_damaged: bool,
}

impl Fences {
    /// Page behind the acknowledged part of a segment; `None` when nobody says.
    pub fn of(&self, sequence: u32, planned: &Planned) -> Option<u32> {
        // One that nobody names although there are later ones was opened and never used; unless there is something in it,
        // then the one that named it is missing.
        let unused = (self.passed > 0 && !self.is_damaged && !planned.is_used).then_some(1);
        self.ends.get(&sequence).copied().or(unused)
    }

    /// Goes on to the segment before; the newest word on each stands.
    pub fn pass(&mut self, header: Option<&SegmentHeader>) {
        self.passed += 1;
        match header {
            Some(header) => _ = self.ends.entry(header.previous).or_insert(header.previous_end),
            None => self.is_damaged = true,
        }
    }
}

/// More batches than a segment can hold that does not read.
const SEQUENCES_SKIPPED: u64 = 1 << 32;
