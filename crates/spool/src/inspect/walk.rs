//! An onlooker's walk through one file of the log: batches, holes, the end; nothing stops it.
//!
//! In: a file and what is known of it. Out: a [`Step`] at a time. A page that does not read is taken as
//! zeros and noted, so that what stands around it is still found. The one error is a file that is
//! no longer there under its name.
//! Recovery has a walk of its own (`scan.rs`), which must agree with this one on what is whole.

use crate::disk::{FileName, ReadPages};
use crate::format::BatchHeader;
use crate::page::{PAGE_OCTETS, Page, PageBuf, octets};
use crate::record::is_whole;
use std::collections::BTreeMap;
use std::io;

/// What is known of a file before it is walked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Sequence number of the segment in it.
    pub segment: u32,
    /// What its batches carry; `None` takes that of the first batch that reads.
    pub nonce: Option<u64>,
    /// Page behind the acknowledged part; `None` when unknown.
    pub end: Option<u32>,
    /// Length of the file, in pages.
    pub file_pages: u32,
}

/// A walk. It may be resumed: see [`Walk::at`].
pub(super) struct Walk<'a> {
    pages: Pages<'a>,
    bounds: Bounds,
    at: u32,
    last_sequence: u64,
}

/// What stands at the walk's position.
pub(super) enum Step<'w> {
    /// A batch whose header reads.
    Batch { page: u32, header: BatchHeader, octets: &'w [u8], whole: bool },
    /// Pages that should hold a batch and do not.
    Hole { page: u32, octets: &'w [u8] },
    /// The log's end at `page`; `torn_pages` were being written when it ended.
    End { page: u32, torn_pages: u32 },
}

/// The file is not there under its name any more.
#[derive(Debug)]
pub(super) struct Gone;

impl<'a> Walk<'a> {
    /// Starts at page `at`; batches with a sequence of at most `last_sequence` are stale.
    pub fn new(disk: &'a dyn ReadPages, file: FileName, bounds: Bounds, at: u32, last_sequence: u64) -> Walk<'a> {
        let pages = Pages {
            disk,
            file,
            file_pages: bounds.file_pages,
            start: 0,
            buffer: PageBuf::default(),
            unreadable: BTreeMap::new(),
        };
        Walk { pages, bounds, at, last_sequence }
    }

    /// Highest sequence met so far.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Pages that did not read, with the disk's words.
    pub fn unreadable(&self) -> &BTreeMap<u32, String> {
        &self.pages.unreadable
    }

    /// What stands at the position; goes on behind it. After `End` only `End` again.
    pub fn next(&mut self) -> Result<Step<'_>, Gone> {
        let page = self.at;
        let limit = self.limit();
        if page >= limit {
            return Ok(Step::End { page, torn_pages: 0 });
        }
        let (header, before) = (self.header_at(page)?, self.last_sequence);
        if let Some(header) = header {
            self.bounds.nonce = Some(header.nonce);
            self.last_sequence = header.sequence;
            if is_whole(self.pages.octets(page, header.pages)?, &header) {
                self.at = page + header.pages;
                return Ok(Step::Batch { page, header, octets: self.pages.octets(page, header.pages)?, whole: true });
            }
        }
        let next = self.find_after(page)?;
        if next.is_none() && self.bounds.end.is_none() {
            // The position stays: what is being written now may be whole the next time.
            self.last_sequence = before;
            return Ok(Step::End { page, torn_pages: header.map_or(0, |h| h.pages) });
        }
        self.at = next.unwrap_or(limit);
        let pages = self.at - page;
        Ok(match header {
            Some(header) => {
                Step::Batch { page, header, octets: self.pages.octets(page, header.pages.min(pages))?, whole: false }
            }
            None => Step::Hole { page, octets: self.pages.octets(page, pages)? },
        })
    }

    /// Reads what is left of the file, for the sake of what does not read.
    pub fn read_rest(&mut self) -> Result<(), Gone> {
        for page in self.at..self.bounds.file_pages {
            self.pages.octets(page, 1)?;
        }
        Ok(())
    }

    /// The octets from `page` to the end of the file.
    pub fn tail(&mut self, page: u32) -> Result<&[u8], Gone> {
        let pages = self.bounds.file_pages.saturating_sub(page);
        self.pages.octets(page, pages)
    }

    fn limit(&self) -> u32 {
        self.bounds.end.unwrap_or(self.bounds.file_pages).min(self.bounds.file_pages)
    }

    /// A sound header at `page` that continues this segment.
    fn header_at(&mut self, page: u32) -> Result<Option<BatchHeader>, Gone> {
        let (bounds, last, limit) = (self.bounds, self.last_sequence, self.limit());
        let header = BatchHeader::decode(self.pages.octets(page, 1)?);
        let ours = |h: &BatchHeader| h.segment == bounds.segment && bounds.nonce.is_none_or(|nonce| nonce == h.nonce);
        Ok(header.filter(|h| ours(h) && h.sequence > last && h.pages <= limit - page))
    }

    /// The next page behind `page` where a batch begins.
    fn find_after(&mut self, page: u32) -> Result<Option<u32>, Gone> {
        for next in page + 1..self.limit() {
            if self.header_at(next)?.is_some() {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }
}

/// Some pages of the file in memory.
struct Pages<'a> {
    disk: &'a dyn ReadPages,
    file: FileName,
    file_pages: u32,
    /// Page of the first octet.
    start: u32,
    buffer: PageBuf,
    unreadable: BTreeMap<u32, String>,
}

impl Pages<'_> {
    /// The octets of `pages` pages from page `at`; fewer at the end of the file.
    fn octets(&mut self, at: u32, pages: u32) -> Result<&[u8], Gone> {
        let wanted = pages as usize * PAGE_OCTETS;
        let here = at >= self.start && self.from(at) + wanted <= self.buffer.len();
        if !here {
            self.fill(at, WINDOW_PAGES.min(self.file_pages.saturating_sub(at)).max(pages))?;
        }
        let from = self.from(at).min(self.buffer.len());
        let to = (from + wanted).min(self.buffer.len());
        Ok(&self.buffer.octets()[from..to])
    }

    /// Reads `pages` pages from page `at`; page by page where the disk refuses them together.
    fn fill(&mut self, at: u32, pages: u32) -> Result<(), Gone> {
        self.buffer.clear(WINDOW_PAGES as usize * PAGE_OCTETS);
        self.start = at;
        let answer = self.disk.read_at(self.file, at, self.buffer.for_reading(pages as usize));
        match answer {
            Ok(length) => self.buffer.truncate(length),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.buffer.truncate(0);
                return Err(Gone);
            }
            Err(_) => self.fill_singly(at, pages)?,
        }
        Ok(())
    }

    fn fill_singly(&mut self, at: u32, pages: u32) -> Result<(), Gone> {
        self.buffer.clear(WINDOW_PAGES as usize * PAGE_OCTETS);
        let mut page = Page::zeros(1);
        for number in at..at + pages {
            match self.disk.read_at(self.file, number, &mut page) {
                Ok(length) => {
                    self.buffer.put(&octets(&page)[..length]);
                    if length < PAGE_OCTETS {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(Gone),
                Err(e) => {
                    self.unreadable.entry(number).or_insert_with(|| e.to_string());
                    self.buffer.put_zeros(PAGE_OCTETS);
                }
            }
        }
        Ok(())
    }

    fn from(&self, at: u32) -> usize {
        (at - self.start) as usize * PAGE_OCTETS
    }
}

/// Pages read at once: 1 MiB.
const WINDOW_PAGES: u32 = 256;
