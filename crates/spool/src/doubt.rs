//! The last batch of an earlier run: whole, and yet it may not be durable.
//!
//! A process that was killed, or whose sync failed, may leave a batch that reads well now and that no sync covers: the
//! kernel may have given its pages up, and a sync asked for later would say nothing about them. Should it vanish with the next
//! power cut, then nothing may have been built on it. So it is not trusted and not synced again but copied: the first segment of a run
//! begins with it, and says that the segment before ends in front of it. At most one batch is in doubt: each is written
//! after the sync of the one before.

use crate::disk::{Disk, FileName};
use crate::format::BatchHeader;
use crate::log::SegmentLog;
use crate::page::{PAGE_OCTETS, PageBuf};
use crate::record::is_whole;
use crate::reserve::Purpose;
use crate::{SpoolError, Step};
use message::Place;

/// A batch in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub segment: u32,
    pub page: u32,
    pub pages: u32,
    pub sequence: u64,
}

/// A batch that stands in another segment now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied {
    pub from: Doubt,
    pub segment: u32,
    pub page: u32,
}

impl<D: Disk> SegmentLog<D> {
    /// The batch in doubt with its octets, to be framed for `segment`; `None` when there is none. It did read
    /// at the start: one that does not read any more is left where it is, but not before some tries.
    pub(crate) fn doubtful_batch(&mut self, nonce: u64, segment: u32) -> Result<Option<(Doubt, PageBuf)>, SpoolError> {
        let Some(doubt) = self.doubt else { return Ok(None) };
        let file = FileName::Segment(doubt.segment);
        let mut buffer = PageBuf::default();
        let pages = buffer.for_reading(doubt.pages as usize);
        match self.reader.read_at(file, doubt.page, pages) {
            Ok(length) => buffer.truncate(length),
            Err(error) if self.reclaim.doubt_tries < READ_TRIES_MAX => {
                self.reclaim.doubt_tries += 1;
                return Err(SpoolError::io(Step::Read, file, &error));
            }
            Err(_) => return Ok(None),
        }
        let header = BatchHeader::decode(buffer.octets()).filter(|header| header.sequence == doubt.sequence);
        let Some(header) = header.filter(|header| is_whole(buffer.octets(), header)) else { return Ok(None) };
        // Records know their batch's sequence and nothing else of where they stand.
        let header = BatchHeader { nonce, segment, ..header };
        buffer.octets_mut()[..64].copy_from_slice(&header.encode());
        Ok(Some((doubt, buffer)))
    }

    /// Opens the run's first segment, before something is done that cannot be undone on the word of the batch in doubt.
    pub(crate) fn settle_doubt(&mut self) -> Result<(), SpoolError> {
        let Some(doubt) = self.doubt else { return Ok(()) };
        if self.is_full() && doubt.pages >= self.segment_pages() {
            // No room for a copy that needs a file of its own. Synced where it is it is as durable as everything
            // else, unless the last run ended over a failed sync of it.
            if let Some(error) = &self.reclaim.doubt_unsynced {
                // A sync that succeeds after one that failed says nothing.
                return Err(error.clone());
            }
            if let Err(error) = self.sync(FileName::Segment(doubt.segment)) {
                self.reclaim.doubt_unsynced = Some(error.clone());
                return Err(error);
            }
            self.doubt = None;
        }
        self.open_segment(1, Purpose::Floor)
    }

    /// The first segment of this run is there: with a copy of the batch in doubt, if there was one that reads.
    pub(crate) fn doubt_settled(&mut self, copied: Option<Copied>) {
        self.doubt = None;
        let Some(copied) = copied else { return };
        self.acknowledged_sequence = copied.from.sequence;
        if self.is_recovering() {
            self.copied = Some(copied);
        } else {
            self.follow_copied(copied);
        }
    }

    /// Enters the new places of the messages of a copied batch.
    pub(crate) fn follow_copied(&mut self, copied: Copied) {
        let Copied { from, segment, page } = copied;
        let (start, to) = (from.page * PAGE_OCTETS as u32, page * PAGE_OCTETS as u32);
        let end = u64::from(from.page + from.pages) * PAGE_OCTETS as u64;
        for slot in 0..self.index.end() {
            let Some(entry) = self.index.at(slot) else { continue };
            let (id, place, share) = (entry.id, entry.place, entry.share);
            if place.segment == from.segment && place.offset >= start && u64::from(place.offset) < end {
                self.index.relocate(&id, Place { segment, offset: place.offset - start + to, ..place }, share);
                self.segments.subtract(from.segment, share);
                self.segments.add(segment, share);
            }
        }
        if let Some(before) = self.segments.get_mut(from.segment)
            && before.end == from.page + from.pages
        {
            before.end = from.page;
        }
    }
}

/// Commits that are refused because the batch in doubt does not read, before it is left where it is.
const READ_TRIES_MAX: u32 = 5;
