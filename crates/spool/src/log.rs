//! The segment log: commit, read, locate. One owner, one thread; the disk is behind [`Disk`].
//!
//! [`SegmentLog::commit`] is the only place in the program where responsibility for a message
//! is taken: one write, one sync, then receipts. Its index mirrors what is durable and nothing
//! else: it changes after a successful sync only.
//! How it starts is in `begin.rs`, how segments are opened in `active.rs`, what reclaims space in `compact.rs`.

use crate::active::Active;
use crate::batch::{Batch, Builder, Frame, Part, State, Written};
use crate::checkpoint_write::Checkpoints;
use crate::compact::Compaction;
use crate::disk::{Disk, FileName, ReadPages};
use crate::doubt::{Copied, Doubt};
use crate::format::SEQUENCE_MAX;
use crate::index::{Index, Live};
use crate::maintain::Reclaim;
use crate::mark::Mark;
use crate::page::PAGE_OCTETS;
use crate::receipt::Durable;
use crate::reserve::{Filling, Purpose};
use crate::segments::Segments;
use crate::settings::{NonceSource, Settings};
use crate::stats::Counters;
use crate::{SpoolError, Step, read_message};
use message::{MessageId, Place, Resident, Sealed, Settled};
use std::sync::Arc;

/// The log. See the file's head.
pub struct SegmentLog<D> {
    pub(crate) disk: D,
    pub(crate) reader: Arc<dyn ReadPages>,
    pub(crate) settings: Settings,
    pub(crate) nonces: NonceSource,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) active: Option<Active>,
    /// Newest segment that was opened and the page behind what is acknowledged in it; (0, 0) for none.
    pub(crate) acknowledged: (u32, u32),
    /// Sequence of the last batch that is.
    pub(crate) acknowledged_sequence: u64,
    pub(crate) next_segment: u32,
    pub(crate) next_batch: u64,
    /// Floor of the newest synced batch: segments below it may be reused.
    pub(crate) floor: u32,
    /// Files ready for use, by number, with their length in pages.
    pub(crate) spares: Vec<(u32, u32)>,
    pub(crate) next_spare: u32,
    pub(crate) filling: Option<Filling>,
    pub(crate) compaction: Option<Compaction>,
    pub(crate) reclaim: Reclaim,
    pub(crate) builder: Builder,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) counters: Counters,
    /// The last batch of the run before, until it is durable for certain.
    pub(crate) doubt: Option<Doubt>,
    /// What became of it, to be followed when its messages are adopted.
    pub(crate) copied: Option<Copied>,
    /// Octets of the segments of earlier runs; `None` once they are adopted.
    pub(crate) unadopted_octets: Option<u64>,
    /// Slots of recovered messages not yet given out, the oldest last.
    pub(crate) handing_out: Vec<u32>,
}

impl<D: Disk> SegmentLog<D> {
    /// Makes a batch durable: one write, one sync. The receipts come in the order of the
    /// messages. Marks of unknown messages are passed over.
    ///
    /// # Errors
    /// Nothing of the batch is acknowledged then: the appends must be refused, the marks
    /// committed again. Marks alone may succeed where a batch with appends does not: see [`SegmentLog::accepts_appends`].
    pub fn commit(&mut self, batch: &Batch) -> Result<Vec<Durable>, SpoolError> {
        let octets = batch.check()?;
        let mut purpose = Purpose::Marks;
        if !batch.appends.is_empty() {
            self.accepts_appends()?;
            purpose = Purpose::Appends;
        }
        self.begin_batch(octets);
        for transaction in &batch.appends {
            let part = |i: usize| new_part(&transaction[i]);
            self.builder.transaction(transaction.len(), part, &transaction[0].body);
        }
        let index = &self.index;
        let known = batch.marks.iter().filter_map(|mark| Some((mark, index.get(&mark.id())?.place.segment)));
        self.builder.marks(known);
        let (segment, first_page) = self.write_batch(purpose)?;
        match purpose {
            Purpose::Appends => self.note_growth(self.builder.page_count()),
            _ => self.segments.add_dead(segment, u64::from(self.builder.page_count()) * PAGE_OCTETS as u64),
        }
        let durable = self.note_appended(segment, first_page, batch);
        batch.marks.iter().for_each(|mark| self.apply(mark));
        Ok(durable)
    }

    /// All of a live message; `place` may be an old one.
    ///
    /// # Errors
    /// `NoSuchMessage` when it is not live, `Damaged` when it does not read, `Io`.
    pub fn read(&self, id: MessageId, place: Place) -> Result<Resident, SpoolError> {
        match read_message(&*self.reader, id, place) {
            Err(SpoolError::NoSuchMessage { .. }) => match self.locate(id) {
                Some(now) if now != place => read_message(&*self.reader, id, now),
                Some(_) => Err(SpoolError::Damaged { id, place }),
                None => Err(SpoolError::NoSuchMessage { id }),
            },
            other => other,
        }
    }

    /// Where a live message is now.
    pub fn locate(&self, id: MessageId) -> Option<Place> {
        self.index.get(&id).map(|entry| entry.place)
    }

    /// A reader for [`read_message`] in other threads.
    pub fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::clone(&self.reader)
    }

    /// Ends the log, gives the disk back.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// Starts the next batch, of about `octets`, in the builder.
    pub(crate) fn begin_batch(&mut self, octets: u64) {
        self.builder.begin(self.next_batch, octets);
        self.next_batch += 1;
    }

    /// Writes and syncs what the builder has; the segment and page it went to.
    pub(crate) fn write_batch(&mut self, purpose: Purpose) -> Result<(u32, u32), SpoolError> {
        let pages = self.builder.page_count();
        if self.next_batch > SEQUENCE_MAX {
            // begin_batch() has counted this one already; recovery would not believe its number.
            return Err(SpoolError::Exhausted);
        }
        if self.doubt.is_some_and(|doubt| pages + 1 + doubt.pages > self.segment_pages()) {
            // A segment of its own, in which nothing was acknowledged, may be given up again; one with what was in doubt may not.
            self.settle_doubt()?;
        }
        let before = (self.active.clone(), self.acknowledged);
        self.room_for(pages, purpose)?;
        match self.write_once(pages) {
            Err(error) if error.is_refusal() && self.active.is_some() => {
                self.reclaim.lacking = Some(error.clone());
                self.undo_open(before);
                if purpose == Purpose::Appends {
                    return Err(error);
                }
                // What has its place on the disk already: a filled spare.
                self.open_segment(pages + 1, purpose)?;
                self.write_once(pages)
            }
            other => other,
        }
    }

    /// One write, one sync.
    fn write_once(&mut self, pages: u32) -> Result<(u32, u32), SpoolError> {
        let floor = self.floor_now();
        // Taken out: unless everything goes well, nobody writes to or syncs this segment again.
        let Some(mut active) = self.active.take() else { return Err(SpoolError::Closed) };
        let (sequence, first_page) = (active.sequence, active.next_page);
        let file = FileName::Segment(sequence);
        let frame = Frame { nonce: active.nonce, segment: sequence, floor };
        let octets = self.builder.finish(&frame);
        let written = self.disk.write_at(file, first_page, octets).map_err(|e| SpoolError::io(Step::Write, file, &e));
        let end = first_page + pages;
        if let Err(error) = &written
            && error.is_refusal()
        {
            // No octet of it was synced and a page of it is missing: it is a torn tail, which the next
            // batch overwrites. Everything before it is as it was.
            self.active = Some(active);
            return Err(error.clone());
        }
        self.segments.reaches(sequence, end);
        if let Err(error) = written.and_then(|()| self.sync(file)) {
            self.counters.poisoned += 1;
            self.segments.poison(sequence);
            return Err(error);
        }
        self.counters.commits += 1;
        self.counters.octets_written += u64::from(pages) * PAGE_OCTETS as u64;
        self.floor = floor;
        active.next_page = end;
        self.acknowledged = (sequence, end);
        self.acknowledged_sequence = self.builder.sequence();
        self.checkpoints.note_growth(u64::from(pages) * PAGE_OCTETS as u64);
        if let Some(segment) = self.segments.get_mut(sequence) {
            segment.end = end;
        }
        self.active = Some(active);
        Ok((sequence, first_page))
    }

    /// Enters what was appended into the index; a receipt for each message, in order.
    fn note_appended(&mut self, segment: u32, first_page: u32, batch: &Batch) -> Vec<Durable> {
        let base = first_page * PAGE_OCTETS as u32;
        let mut durable = Vec::with_capacity(self.builder.written.len());
        let appended = batch.appends.iter().flatten();
        for (Written { id, offset, index, share }, sealed) in self.builder.written.drain(..).zip(appended) {
            let place = Place { segment, offset: base + offset, index };
            let found = Live {
                id,
                due: sealed.due,
                place,
                share,
                size: u32::try_from(sealed.head.len() + sealed.body.len()).unwrap_or(u32::MAX),
                attempts: 0,
                recipients: u16::try_from(sealed.envelope.recipients.len()).unwrap_or(u16::MAX),
                settled: Settled::default(),
                is_recovered: false,
            };
            let queue = (self.settings.queue_of)(&sealed.envelope, &sealed.meta);
            self.segments.add(segment, share);
            if let Some(old) = self.index.insert(found, &queue) {
                self.segments.subtract(old.place.segment, old.share);
            }
            durable.push(Durable::synced(id, place));
        }
        durable
    }

    /// Enters the new places of survivors that were copied forward into the index.
    pub(crate) fn note_moved(&mut self, segment: u32, first_page: u32) {
        let base = first_page * PAGE_OCTETS as u32;
        for Written { id, offset, index, share } in self.builder.written.drain(..) {
            let place = Place { segment, offset: base + offset, index };
            if let Some((old, old_share)) = self.index.relocate(&id, place, share) {
                self.segments.add(segment, share);
                self.segments.subtract(old.segment, old_share);
            }
        }
    }

    /// The oldest segment still needed, or to be moved to `corrupt/` first.
    pub(crate) fn floor_now(&self) -> u32 {
        if self.is_recovering() {
            // What of the old segments is needed is not known yet.
            return self.floor;
        }
        let newest = self.segments.newest().unwrap_or(0);
        let live = self.segments.oldest_live(self.floor).unwrap_or(newest);
        self.segments.oldest_damaged(self.floor).map_or(live, |damaged| damaged.min(live))
    }

    /// Syncs a file.
    pub(crate) fn sync(&mut self, file: FileName) -> Result<(), SpoolError> {
        self.counters.syncs += 1;
        self.disk.sync(file).map_err(|e| SpoolError::io(Step::Sync, file, &e))
    }

    /// Applies a durable mark.
    fn apply(&mut self, mark: &Mark) {
        if let Some(old) = self.index.apply(mark) {
            self.segments.subtract(old.place.segment, old.share);
        }
    }
}

/// A sealed message as a part of a new transaction.
fn new_part(sealed: &Sealed) -> Part<'_> {
    Part {
        id: sealed.id,
        due: sealed.due,
        attempts: 0,
        flags: 0,
        settled: &[],
        state: State::New(&sealed.envelope, &sealed.meta),
        head: &sealed.head,
    }
}
