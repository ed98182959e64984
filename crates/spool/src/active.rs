//! The segment that batches go to, and how the next one is opened.
//!
//! A segment gets its name only when its header is synced. When none can be opened, the old one goes on taking what fits.

use crate::disk::{Disk, FileName};
use crate::format::SegmentHeader;
use crate::log::SegmentLog;
use crate::page::{PAGE_OCTETS, Page, octets_mut};
use crate::segments::Segment;
use crate::{SpoolError, Step};

/// The segment that batches go to.
pub(crate) struct Active {
    pub sequence: u32,
    pub nonce: u64,
    /// Page of the next batch.
    pub next_page: u32,
    /// Pages it may have.
    pub capacity: u32,
}

impl<D: Disk> SegmentLog<D> {
    /// Makes sure that a segment is open for the next batch.
    ///
    /// # Errors
    /// When none can be opened: nothing can be accepted now.
    pub fn ready(&mut self) -> Result<(), SpoolError> {
        self.room_for(1)
    }

    /// Makes sure that the active segment has room for `pages`.
    pub(crate) fn room_for(&mut self, pages: u32) -> Result<(), SpoolError> {
        if self.active.as_ref().is_some_and(|a| a.capacity - a.next_page >= pages) {
            return Ok(());
        }
        // If none can be opened, the old one stays: on a full disk it still takes marks and small mail.
        self.open_segment(pages + 1)
    }

    /// Opens a segment of at least `pages` pages: header, sync, name.
    fn open_segment(&mut self, pages: u32) -> Result<(), SpoolError> {
        let sequence = self.next_segment;
        self.next_segment = sequence.checked_add(1).ok_or(SpoolError::Exhausted)?;
        let capacity = pages.max(self.settings.segment_octets / PAGE_OCTETS as u32);
        let (number, file_pages) = self.take_spare(capacity)?;
        let (spare, file) = (FileName::Spare(number), FileName::Segment(sequence));
        let nonce = (self.nonces)();
        let (previous, previous_end) = self.acknowledged;
        let header = SegmentHeader { segment: sequence, nonce, previous, previous_end, floor: self.floor };
        let mut page = Page::zeros(1);
        octets_mut(&mut page)[..64].copy_from_slice(&header.encode());
        let opened = (self.disk.write_at(spare, 0, &page).map_err(|e| SpoolError::io(Step::Write, spare, &e)))
            .and_then(|()| self.sync(spare))
            .and_then(|()| self.disk.rename(spare, file).map_err(|e| SpoolError::io(Step::Rename, spare, &e)));
        if let Err(error) = opened {
            if matches!(error, SpoolError::Io { step: Step::Rename, .. }) {
                // The new header may be in place and says where the old segment ends: nothing may follow there.
                self.active = None;
            }
            // Which of the two names it has is unknown; neither holds anything. Best effort.
            let _ = self.disk.remove(spare);
            let _ = self.disk.remove(file);
            return Err(error);
        }
        self.counters.octets_written += PAGE_OCTETS as u64;
        self.segments.insert(
            sequence,
            Segment { file_pages: file_pages.max(1), end: 1, nonce: Some(nonce), ..Segment::default() },
        );
        self.acknowledged = (sequence, 1);
        self.active = Some(Active { sequence, nonce, next_page: 1, capacity });
        Ok(())
    }

    /// A file for a segment of `capacity` pages: a spare, one half filled, or a new one.
    fn take_spare(&mut self, capacity: u32) -> Result<(u32, u32), SpoolError> {
        let usual = capacity == self.settings.segment_octets / PAGE_OCTETS as u32;
        if usual && let Some(spare) = self.spares.pop() {
            return Ok(spare);
        }
        if usual && let Some(filling) = self.filling.take() {
            return Ok((filling.number, filling.pages));
        }
        let number = self.new_spare()?;
        Ok((number, 0))
    }

    /// Makes an empty spare.
    pub(crate) fn new_spare(&mut self) -> Result<u32, SpoolError> {
        let number = self.next_spare;
        self.next_spare = number.wrapping_add(1);
        let file = FileName::Spare(number);
        self.disk.create(file).map_err(|e| SpoolError::io(Step::Create, file, &e))?;
        Ok(number)
    }
}
