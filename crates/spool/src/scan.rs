//! Walking a segment batch by batch: what is whole, what is damaged, where it ends.
//!
//! The one reader of segments, for recovery and for compaction. Reads in windows, so that
//! neither many small batches nor a large one cost more calls or memory than needed. A window
//! that does not read is read page by page; a page that still does not is damage, never emptiness.
//! So nothing here fails: what became of the disk's errors is in [`Unread`].

use crate::disk::{FileName, ReadPages};
use crate::format::BatchHeader;
use crate::page::{PAGE_OCTETS, PageBuf};
use crate::record::is_whole;
use crate::{SpoolError, Step};
use core::ops::Range;
use std::io;
use std::sync::Arc;

/// A walk through one segment.
pub(crate) struct Scan {
    window: Window,
    segment: u32,
    nonce: u64,
    /// Page of the next batch.
    at: u32,
    /// Page behind the acknowledged part, when that is known.
    end: Option<u32>,
    /// The end is unknown and something before it does not read.
    is_open: bool,
    file_pages: u32,
    last_sequence: u64,
}

/// Pages that the disk did not give.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread {
    /// How many, each counted once.
    pub pages: u64,
    /// What the disk said, the last time.
    pub error: Option<SpoolError>,
    /// Page behind the last of them.
    end: u32,
}

/// What stands at the walk's position.
pub(crate) enum Found<'a> {
    /// A batch that is whole.
    Whole { page: u32, header: BatchHeader, octets: &'a [u8] },
    /// Acknowledged pages that are not a whole batch; with the batch when at least its header is sound.
    Damaged { page: u32, pages: u32, batch: Option<(BatchHeader, &'a [u8])> },
    /// The log's end at `page`, [`END_UNKNOWN`] when what does not read may hold more of it; `torn_pages` were being
    /// written when it ended.
    End { page: u32, torn_pages: u32 },
}

/// Which part of a segment to walk.
pub(crate) struct Bounds {
    pub segment: u32,
    pub nonce: u64,
    /// Page behind the acknowledged part; `None` or [`END_UNKNOWN`]: then it ends where no batch begins.
    pub end: Option<u32>,
    pub file_pages: u32,
}

impl Scan {
    /// Starts at page 1.
    pub fn new(disk: Arc<dyn ReadPages>, bounds: &Bounds) -> Scan {
        Scan {
            window: Window {
                disk,
                file: FileName::Segment(bounds.segment),
                file_pages: bounds.file_pages,
                start: 0,
                buffer: PageBuf::default(),
                holes: Vec::new(),
                unread: Unread::default(),
            },
            segment: bounds.segment,
            nonce: bounds.nonce,
            at: 1,
            end: bounds.end.filter(|end| *end != END_UNKNOWN),
            is_open: false,
            file_pages: bounds.file_pages,
            last_sequence: 0,
        }
    }

    /// The same walk from page `page` on.
    pub fn starting_at(self, page: u32) -> Scan {
        Scan { at: page, ..self }
    }

    /// The same walk from page `page` on, where the batch before has this sequence.
    pub fn behind(self, page: u32, sequence: u64) -> Scan {
        Scan { last_sequence: sequence, ..self.starting_at(page) }
    }

    /// Highest sequence met so far.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Goes back to the batch at `page`, which has this sequence.
    pub fn rewind(&mut self, page: u32, sequence: u64) {
        (self.at, self.last_sequence) = (page, sequence - 1);
    }

    /// Pages met so far that did not read.
    pub fn unread(&self) -> &Unread {
        &self.window.unread
    }

    /// What stands at the position; goes on behind it. After `End` only `End` again.
    pub fn next(&mut self) -> Found<'_> {
        let page = self.at;
        let limit = self.limit();
        if page >= limit {
            return Found::End { page: if self.is_open { END_UNKNOWN } else { page }, torn_pages: 0 };
        }
        let header = self.header_at(page);
        let (mut whole, mut is_read) = (false, self.window.is_read(page..page + 1));
        if let Some(header) = &header {
            whole = is_whole(self.window.octets(page, header.pages), header);
            is_read = self.window.is_read(page..page + header.pages);
            self.last_sequence = header.sequence;
        }
        if let (Some(header), true, true) = (header, whole, is_read) {
            self.at = page + header.pages;
            return Found::Whole { page, header, octets: self.window.octets(page, header.pages) };
        }
        let next = self.find_after(page);
        if next.is_none() && self.end.is_none() && is_read {
            // Batches follow one another: where a page reads and no batch begins, the log ends.
            self.file_pages = page;
            return Found::End { page, torn_pages: header.map_or(0, |h| h.pages) };
        }
        self.at = next.unwrap_or(limit);
        self.is_open = next.is_none() && self.end.is_none();
        let pages = if self.is_open { self.window.unread.end } else { self.at } - page;
        let batch = header.map(|header| (header, self.window.octets(page, header.pages.min(self.at - page))));
        Found::Damaged { page, pages, batch }
    }

    /// Page behind the last that may hold a batch. What is acknowledged is missed where the file ends before it.
    fn limit(&self) -> u32 {
        self.end.unwrap_or(self.file_pages)
    }

    /// A sound header at `page` that continues this segment.
    fn header_at(&mut self, page: u32) -> Option<BatchHeader> {
        let (segment, nonce, last, limit) = (self.segment, self.nonce, self.last_sequence, self.limit());
        let header = BatchHeader::decode(self.window.octets(page, 1));
        header.filter(|h| h.segment == segment && h.nonce == nonce && h.sequence > last && h.pages <= limit - page)
    }

    /// The next page behind `page` where a batch begins.
    fn find_after(&mut self, page: u32) -> Option<u32> {
        (page + 1..self.limit()).find(|next| self.header_at(*next).is_some())
    }
}

/// Some pages of a segment in memory.
struct Window {
    disk: Arc<dyn ReadPages>,
    file: FileName,
    file_pages: u32,
    /// Page of the first octet.
    start: u32,
    buffer: PageBuf,
    /// Pages of the buffer that did not read: zeros stand in for them. In order.
    holes: Vec<u32>,
    unread: Unread,
}

impl Window {
    /// The octets of `pages` pages from page `at`; fewer at the end of the file, zeros for what does not read.
    fn octets(&mut self, at: u32, pages: u32) -> &[u8] {
        let wanted = pages as usize * PAGE_OCTETS;
        let here = at >= self.start && self.from(at) + wanted <= self.buffer.len();
        if !here {
            self.buffer.clear(WINDOW_PAGES as usize * PAGE_OCTETS);
            let count = WINDOW_PAGES.min(self.file_pages.saturating_sub(at)).max(pages);
            self.holes.clear();
            self.start = at;
            let into = self.buffer.for_reading(count as usize);
            match self.disk.read_at(self.file, at, into) {
                Ok(length) => self.buffer.truncate(length),
                Err(_) => self.read_singly(count),
            }
        }
        let from = self.from(at).min(self.buffer.len());
        let to = (from + wanted).min(self.buffer.len());
        &self.buffer.octets()[from..to]
    }

    /// Whether all of these pages were read; they must be in the buffer.
    fn is_read(&self, pages: Range<u32>) -> bool {
        !self.holes.iter().any(|hole| pages.contains(hole))
    }

    /// Reads the window page by page, after it failed as a whole.
    fn read_singly(&mut self, count: u32) {
        let pages = self.buffer.for_reading(count as usize);
        let mut length = 0;
        for (i, page) in pages.iter_mut().enumerate() {
            let number = self.start + i as u32;
            match self.disk.read_at(self.file, number, std::slice::from_mut(page)) {
                Ok(0) => break,
                Ok(octets) => length = i * PAGE_OCTETS + octets,
                Err(error) => {
                    *page = bytemuck::Zeroable::zeroed();
                    self.holes.push(number);
                    self.unread.note(number, &error, self.file);
                    length = (i + 1) * PAGE_OCTETS;
                }
            }
        }
        self.buffer.truncate(length);
    }

    fn from(&self, at: u32) -> usize {
        (at - self.start) as usize * PAGE_OCTETS
    }
}

impl Unread {
    /// Counts a page, unless it was met before: windows move forward but may overlap.
    fn note(&mut self, page: u32, error: &io::Error, file: FileName) {
        if page >= self.end {
            self.pages += 1;
            self.end = page + 1;
        }
        self.error = Some(SpoolError::io(Step::Read, file, error));
    }
}

/// Page behind the acknowledged part of a segment, when pages near its end do not read.
pub(crate) const END_UNKNOWN: u32 = u32::MAX;
/// Pages read at once: 1 MiB.
const WINDOW_PAGES: u32 = 256;
