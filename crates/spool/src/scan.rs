//! Walking a segment batch by batch: what is whole, what is damaged, where it ends.
//!
//! The one reader of segments, for recovery and for compaction. Reads in windows, so that
//! neither many small batches nor a large one cost more calls or memory than needed.

use crate::disk::{FileName, ReadPages};
use crate::format::BatchHeader;
use crate::page::{PAGE_OCTETS, PageBuf};
use crate::record::is_whole;
use crate::{SpoolError, Step};
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
    file_pages: u32,
    last_sequence: u64,
}

/// What stands at the walk's position.
pub(crate) enum Found<'a> {
    /// A batch that is whole.
    Whole { page: u32, header: BatchHeader, octets: &'a [u8] },
    /// Acknowledged pages that are not a whole batch; with the batch when at least its header is sound.
    Damaged { page: u32, pages: u32, batch: Option<(BatchHeader, &'a [u8])> },
    /// The log's end at `page`; `torn_pages` were being written when it ended.
    End { page: u32, torn_pages: u32 },
}

/// Which part of a segment to walk.
pub(crate) struct Bounds {
    pub segment: u32,
    pub nonce: u64,
    /// Page behind the acknowledged part; `None` when unknown: then it ends where nothing more reads.
    pub end: Option<u32>,
    pub file_pages: u32,
}

impl Scan {
    /// Starts at page 1; batches with a sequence of at most `last_sequence` are stale.
    pub fn new(disk: Arc<dyn ReadPages>, bounds: &Bounds, last_sequence: u64) -> Scan {
        Scan {
            window: Window {
                disk,
                file: FileName::Segment(bounds.segment),
                file_pages: bounds.file_pages,
                start: 0,
                buffer: PageBuf::default(),
            },
            segment: bounds.segment,
            nonce: bounds.nonce,
            at: 1,
            end: bounds.end,
            file_pages: bounds.file_pages,
            last_sequence,
        }
    }

    /// Highest sequence met so far.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// What stands at the position; goes on behind it. After `End` only `End` again.
    pub fn next(&mut self) -> Result<Found<'_>, SpoolError> {
        let page = self.at;
        let limit = self.limit();
        if page >= limit {
            return Ok(Found::End { page, torn_pages: 0 });
        }
        let header = self.header_at(page)?;
        let mut whole = false;
        if let Some(header) = &header {
            whole = is_whole(self.window.octets(page, header.pages)?, header);
            self.last_sequence = header.sequence;
        }
        if let (Some(header), true) = (header, whole) {
            self.at = page + header.pages;
            let octets = self.window.octets(page, header.pages)?;
            return Ok(Found::Whole { page, header, octets });
        }
        let next = self.find_after(page)?;
        if next.is_none() && self.end.is_none() {
            self.file_pages = page;
            return Ok(Found::End { page, torn_pages: header.map_or(0, |h| h.pages) });
        }
        self.at = next.unwrap_or(limit);
        let pages = self.at - page;
        let batch = match header {
            Some(header) => Some((header, self.window.octets(page, header.pages.min(pages))?)),
            None => None,
        };
        Ok(Found::Damaged { page, pages, batch })
    }

    /// Page behind the last that may hold a batch.
    fn limit(&self) -> u32 {
        self.end.unwrap_or(self.file_pages).min(self.file_pages)
    }

    /// A sound header at `page` that continues this segment.
    fn header_at(&mut self, page: u32) -> Result<Option<BatchHeader>, SpoolError> {
        let (segment, nonce, last, limit) = (self.segment, self.nonce, self.last_sequence, self.limit());
        let header = BatchHeader::decode(self.window.octets(page, 1)?);
        Ok(header.filter(|h| h.segment == segment && h.nonce == nonce && h.sequence > last && h.pages <= limit - page))
    }

    /// The next page behind `page` where a batch begins.
    fn find_after(&mut self, page: u32) -> Result<Option<u32>, SpoolError> {
        for next in page + 1..self.limit() {
            if self.header_at(next)?.is_some() {
                return Ok(Some(next));
            }
        }
        Ok(None)
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
}

impl Window {
    /// The octets of `pages` pages from page `at`; fewer at the end of the file.
    fn octets(&mut self, at: u32, pages: u32) -> Result<&[u8], SpoolError> {
        let wanted = pages as usize * PAGE_OCTETS;
        let here = at >= self.start && self.from(at) + wanted <= self.buffer.len();
        if !here {
            self.buffer.clear(WINDOW_PAGES as usize * PAGE_OCTETS);
            let pages = WINDOW_PAGES.min(self.file_pages.saturating_sub(at)).max(pages);
            let into = self.buffer.for_reading(pages as usize);
            let length = self.disk.read_at(self.file, at, into);
            self.buffer.truncate(0);
            let length = length.map_err(|e| SpoolError::io(Step::Read, self.file, &e))?;
            self.buffer.for_reading(length.div_ceil(PAGE_OCTETS));
            self.buffer.truncate(length);
            self.start = at;
        }
        let from = self.from(at).min(self.buffer.len());
        let to = (from + wanted).min(self.buffer.len());
        Ok(&self.buffer.octets()[from..to])
    }

    fn from(&self, at: u32) -> usize {
        (at - self.start) as usize * PAGE_OCTETS
    }
}

/// Pages read at once: 1 MiB.
const WINDOW_PAGES: u32 = 256;
