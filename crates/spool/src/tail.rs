//! Where the log ends: what must be known before the first commit of a run, and nothing more.
//!
//! Reads the newest segment, and older ones only while no whole batch was met: so the start takes
//! as long with a large backlog as with none. What it takes for written is synced first: a killed process may have
//! left a batch that no sync covers, and a later power cut must not take back what was believed. Older segments need no such
//! sync: their end was written into a header after their last batch was synced, or believed by a start that synced it.

use crate::disk::{Disk, FileName, ReadPages};
use crate::format::{BatchHeader, SegmentHeader};
use crate::page::{PAGE_OCTETS, Page, octets};
use crate::scan::{Bounds, Found, Scan};
use crate::{SpoolError, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The log's end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// The newest segment; 0 for none.
    pub segment: u32,
    /// Page behind what is acknowledged in it.
    pub end: u32,
    /// No batch that may ever be read has a higher sequence.
    pub last_sequence: u64,
    /// Highest floor met.
    pub floor: u32,
}

impl Tail {
    /// Finds the end of the log in `segments`, each with its octets.
    pub fn find<D: Disk>(disk: &mut D, segments: &BTreeMap<u32, u64>) -> Result<Tail, SpoolError> {
        let reader = disk.reader();
        let mut tail = Tail::default();
        let mut fences = Fences::default();
        let (mut has_batch, mut is_damaged) = (false, false);
        for (sequence, octets) in segments.iter().rev() {
            let file = FileName::Segment(*sequence);
            let planned = Planned::read(&*reader, *sequence, *octets)?;
            let fence = fences.of(*sequence);
            if fence.is_none() {
                disk.sync(file).map_err(|e| SpoolError::io(Step::Sync, file, &e))?;
            }
            fences.pass(planned.header.as_ref());
            is_damaged |= planned.header.is_none();
            tail.floor = tail.floor.max(planned.header.map_or(0, |header| header.floor));
            let mut end = planned.file_pages;
            if let Some(mut scan) = planned.scan(&reader, *sequence, fence, 0) {
                end = loop {
                    match scan.next() {
                        Found::Whole { header, .. } => {
                            has_batch = true;
                            tail.floor = tail.floor.max(header.floor);
                        }
                        Found::Damaged { .. } => is_damaged = true,
                        Found::End { page, .. } => break page,
                    }
                };
                tail.last_sequence = tail.last_sequence.max(scan.last_sequence());
            }
            if tail.segment == 0 {
                (tail.segment, tail.end) = (*sequence, end);
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
}

/// A segment's header page and what is known without reading on.
#[derive(Debug)]
pub(crate) struct Planned {
    pub header: Option<SegmentHeader>,
    pub nonce: Option<u64>,
    pub file_pages: u32,
    /// The header page does not read.
    pub is_unreadable: bool,
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
        let file_pages = u32::try_from(file_octets.div_ceil(PAGE_OCTETS as u64)).unwrap_or(u32::MAX);
        Ok(Planned { header, nonce, file_pages, is_unreadable })
    }

    /// A walk through the segment up to `fence`; `None` when nothing in it can be told.
    pub fn scan(
        &self,
        disk: &Arc<dyn ReadPages>,
        sequence: u32,
        fence: Option<u32>,
        last_sequence: u64,
    ) -> Option<Scan> {
        let bounds = Bounds { segment: sequence, nonce: self.nonce?, end: fence, file_pages: self.file_pages };
        Some(Scan::new(Arc::clone(disk), &bounds, last_sequence))
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
    pub fn of(&self, sequence: u32) -> Option<u32> {
        // One that nobody names although there are later ones was opened and never used.
        let unused = (self.passed > 0 && !self.is_damaged).then_some(1);
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
