//! The segment that batches go to, and how the next one is opened.
//!
//! A segment gets its name only when its header is synced, with the batch that an earlier run left in doubt. When none can be opened, the old one goes on taking what fits.

use crate::disk::{Disk, FileName};
use crate::doubt::Copied;
use crate::format::SegmentHeader;
use crate::log::SegmentLog;
use crate::page::{PAGE_OCTETS, PageBuf};
use crate::reserve::Purpose;
use crate::segments::Segment;
use crate::{SpoolError, Step};

/// The segment that batches go to.
#[derive(Clone)]
pub(crate) struct Active {
    pub sequence: u32,
    pub nonce: u64,
    /// Page of the next batch.
    pub next_page: u32,
    /// Pages it may have.
    pub capacity: u32,
}

impl<D: Disk> SegmentLog<D> {
    /// Makes sure that the active segment has room for `pages`.
    pub(crate) fn room_for(&mut self, pages: u32, purpose: Purpose) -> Result<(), SpoolError> {
        let left = self.pages_left(purpose);
        let fits = self.active.as_ref().is_some_and(|a| a.capacity - a.next_page >= pages + left);
        if fits && (purpose != Purpose::Appends || self.may_append(pages)) {
            return Ok(());
        }
        if purpose == Purpose::Appends {
            self.reserve_first()?;
        }
        // If none can be opened, the old one stays: on a full disk it still takes marks and small mail.
        self.open_segment(pages + 1, purpose)
    }

    /// Opens a segment with room for `pages` pages, header included: header and the batch in doubt, sync, name.
    pub(crate) fn open_segment(&mut self, pages: u32, purpose: Purpose) -> Result<(), SpoolError> {
        let in_doubt = self.doubt.map_or(0, |doubt| doubt.pages);
        if in_doubt > 0 && pages > 1 && pages + in_doubt > self.segment_pages() {
            // Not both in one segment of the usual length, which is what there may be on a full disk.
            self.settle_doubt()?;
            return self.room_for(pages - 1, purpose);
        }
        let sequence = self.next_segment;
        let nonce = (self.nonces)();
        let doubtful = self.doubtful_batch(nonce, sequence)?;
        let copy_pages = doubtful.as_ref().map_or(0, |(doubt, _)| doubt.pages);
        let capacity = (pages + copy_pages).max(self.segment_pages());
        let (number, file_pages) = self.take_spare(capacity, purpose)?;
        self.next_segment = sequence.checked_add(1).ok_or(SpoolError::Exhausted)?;
        let (spare, file) = (FileName::Spare(number), FileName::Segment(sequence));
        let (previous, previous_end) = match &doubtful {
            Some((doubt, _)) if doubt.segment == self.acknowledged.0 => (doubt.segment, doubt.page),
            _ => self.acknowledged,
        };
        let header = SegmentHeader { segment: sequence, nonce, previous, previous_end, floor: self.floor };
        let mut first = PageBuf::default();
        first.put(&header.encode());
        first.put_zeros(PAGE_OCTETS - first.len());
        if let Some((_, batch)) = &doubtful {
            first.put(batch.octets());
        }
        let opened = (self.disk.write_at(spare, 0, first.finish()).map_err(|e| SpoolError::io(Step::Write, spare, &e)))
            .and_then(|()| self.sync(spare))
            .and_then(|()| self.disk.rename(spare, file).map_err(|e| SpoolError::io(Step::Rename, spare, &e)));
        if let Err(error) = opened {
            self.not_opened(spare, file, file_pages, &error);
            return Err(error);
        }
        let end = 1 + copy_pages;
        self.counters.octets_written += u64::from(end) * PAGE_OCTETS as u64;
        self.segments.insert(
            sequence,
            Segment { file_pages: file_pages.max(end), end, nonce: Some(nonce), ..Segment::default() },
        );
        self.acknowledged = (sequence, end);
        self.active = Some(Active { sequence, nonce, next_page: end, capacity });
        let copied = doubtful.map(|(from, _)| Copied { from, segment: sequence, page: 1 });
        self.doubt_settled(copied);
        Ok(())
    }

    /// What becomes of a spare that did not become a segment.
    fn not_opened(&mut self, spare: FileName, file: FileName, file_pages: u32, error: &SpoolError) {
        self.reclaim.lacking = Some(error.clone());
        self.reclaim.failed_opens += 1;
        let is_renaming = matches!(error, SpoolError::Io { step: Step::Rename, .. });
        if is_renaming {
            // The new header may be in place and says where the old segment ends: nothing may follow there.
            self.active = None;
        }
        match spare {
            FileName::Spare(number) if error.is_refusal() && !is_renaming && file_pages > 0 => {
                // Untouched: the reserve must not melt away while the disk refuses.
                self.spares.push((number, file_pages));
            }
            _ => {
                // Which of the two names it has is unknown; neither holds anything.
                self.discard(spare);
                if is_renaming {
                    self.discard(file);
                }
            }
        }
    }

    /// After the first batch of a segment made for it alone was refused: the segment is given up, so that what it
    /// took of a full disk is free again, and the one before it, if it was active, is active again.
    pub(crate) fn undo_open(&mut self, (active, acknowledged): (Option<Active>, (u32, u32))) {
        let segment_pages = self.segment_pages();
        let is_new = |a: &Active| a.next_page == 1 && a.capacity > segment_pages && a.sequence != acknowledged.0;
        let Some(sequence) = self.active.as_ref().filter(|a| is_new(a)).map(|a| a.sequence) else { return };
        // Whatever becomes of the file: nothing in it was acknowledged, and the next header must name the one before.
        self.acknowledged = acknowledged;
        let file = FileName::Segment(sequence);
        self.active = if self.disk.remove(file).is_ok() {
            active
        } else {
            // Its header may be there after all and says where the old segment ends: nothing may follow there.
            self.remember(file);
            None
        };
        self.segments.remove(sequence);
    }
}
