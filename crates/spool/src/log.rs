//! The segment log: commit, read, locate. One owner, one thread; the disk is behind [`Disk`].
//!
//! [`SegmentLog::commit`] is the only place in the program where responsibility for a message
//! is taken: one write, one sync, then receipts. Its index mirrors what is durable and nothing
//! else: it changes after a successful sync only.
//! What reclaims space is in `compact.rs`, what reads at the start in `recovery.rs`.

use crate::batch::{Batch, Builder, Frame, Part, State, Written};
use crate::compact::{Compaction, Filling};
use crate::disk::{Disk, FileName, ReadPages};
use crate::format::{SEQUENCE_MAX, SegmentHeader};
use crate::index::{Done, Entry, Index};
use crate::mark::Mark;
use crate::page::{PAGE_OCTETS, Page, octets_mut};
use crate::receipt::Durable;
use crate::recovery::{Recovered, Recovery, recover};
use crate::segments::{Segment, Segments};
use crate::{SpoolError, Step, read_message};
use message::{Envelope, MessageId, Meta, Place, Resident, Sealed};
use std::sync::Arc;

/// How the log lays itself out.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Octets of a segment, a multiple of 4096. Default 64 MiB.
    pub segment_octets: u32,
    /// Compaction begins when segments take more than twice the live octets and this. Default 8 segments.
    pub compact_margin_octets: u64,
    /// Names the queue of a message, so that a restart can queue it without reading it. Default: the empty name.
    pub queue_of: QueueOf,
}

/// A message's queue name, from what is stored of it.
pub type QueueOf = fn(&Envelope, &Meta) -> String;

/// Makes the random number that a use of a segment file is known by. Must not be guessable by peers.
pub type NonceSource = Box<dyn FnMut() -> u64 + Send>;

/// The log. See the file's head.
pub struct SegmentLog<D> {
    pub(crate) disk: D,
    pub(crate) reader: Arc<dyn ReadPages>,
    pub(crate) settings: Settings,
    nonces: NonceSource,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) active: Option<Active>,
    /// Newest segment that was opened and the page behind what is acknowledged in it; (0, 0) for none.
    acknowledged: (u32, u32),
    next_segment: u32,
    next_batch: u64,
    /// Floor of the newest synced batch: segments below it may be reused.
    pub(crate) floor: u32,
    /// Files ready for use, by number, with their length in pages.
    pub(crate) spares: Vec<(u32, u32)>,
    pub(crate) next_spare: u32,
    pub(crate) filling: Option<Filling>,
    pub(crate) compaction: Option<Compaction>,
    pub(crate) builder: Builder,
    pub(crate) counters: Counters,
}

/// The segment that batches go to.
pub(crate) struct Active {
    pub sequence: u32,
    nonce: u64,
    /// Page of the next batch.
    pub next_page: u32,
    /// Pages it may have.
    pub capacity: u32,
}

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub commits: u64,
    pub syncs: u64,
    pub octets_written: u64,
    pub poisoned: u64,
    pub released: u64,
    pub set_aside: u64,
    pub octets_compacted: u64,
}

/// The log's figures at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogStats {
    /// Batches made durable.
    pub commits: u64,
    /// Sync calls, whatever for.
    pub syncs: u64,
    /// Octets written, whatever for.
    pub octets_written: u64,
    /// Segments given up after a failed write or sync.
    pub poisoned: u64,
    /// Segments released for reuse.
    pub released: u64,
    /// Segments moved to `corrupt/`.
    pub set_aside: u64,
    /// Octets of survivors copied forward.
    pub octets_compacted: u64,
    /// Messages in our care.
    pub live_messages: u64,
    /// Octets they stand for.
    pub live_octets: u64,
    /// Segments that hold the log.
    pub segments: usize,
    /// Spare files.
    pub spares: usize,
    /// Octets of all files, spares included.
    pub disk_octets: u64,
}

impl<D: Disk> SegmentLog<D> {
    /// Opens the spool on `disk`, syncs and recovers what is in it. Writes nothing: the first commit
    /// opens a new segment.
    ///
    /// # Errors
    /// `Io` when a file does not read, `NewerFormat` when a newer program wrote it.
    pub fn open(mut disk: D, settings: Settings, nonces: NonceSource) -> Result<(SegmentLog<D>, Recovery), SpoolError> {
        let files = disk.list().map_err(|e| SpoolError::io(Step::List, None, &e))?;
        // A process that was killed may have left written pages that no sync covers. What is
        // believed below must be on disk first: a later power cut must not take it back.
        for file in files.iter().map(|f| f.name).filter(|name| matches!(name, FileName::Segment(_))) {
            disk.sync(file).map_err(|e| SpoolError::io(Step::Sync, file, &e))?;
        }
        let reader = disk.reader();
        let recovered = recover(&files, &reader, settings.queue_of)?;
        let Recovered { recovery, index, segments, spares, floor, acknowledged, last_sequence, last_segment } =
            recovered;
        let spare_number = |name: &FileName| if let FileName::Spare(number) = name { *number } else { 0 };
        let pages = |octets: u64| u32::try_from(octets / PAGE_OCTETS as u64).unwrap_or(u32::MAX);
        let log = SegmentLog {
            reader,
            nonces,
            index,
            segments,
            active: None,
            acknowledged,
            next_segment: last_segment.saturating_add(1),
            next_batch: last_sequence + 1,
            floor,
            next_spare: spares.iter().map(|f| spare_number(&f.name)).max().unwrap_or(0).wrapping_add(1),
            spares: spares.iter().map(|f| (spare_number(&f.name), pages(f.octets))).collect(),
            filling: None,
            compaction: None,
            builder: Builder::default(),
            counters: Counters::default(),
            settings: settings.sound(),
            disk,
        };
        Ok((log, recovery))
    }

    /// Makes a batch durable: one write, one sync. The receipts come in the order of the
    /// messages. Marks of unknown messages are passed over.
    ///
    /// # Errors
    /// Nothing of the batch is acknowledged then: the appends must be refused, the marks
    /// committed again. A later commit goes to another segment.
    pub fn commit(&mut self, batch: &Batch) -> Result<Vec<Durable>, SpoolError> {
        batch.check()?;
        self.begin_batch();
        let none_done = Done::default();
        for transaction in &batch.appends {
            let part = |i: usize| new_part(&transaction[i], &none_done);
            self.builder.transaction(transaction.len(), part, &transaction[0].body);
        }
        let index = &self.index;
        let known = batch.marks.iter().filter_map(|mark| Some((mark, index.get(&mark.id())?.place.segment)));
        self.builder.marks(known);
        let (segment, first_page) = self.write_batch()?;
        let mut durable = Vec::with_capacity(self.builder.written.len());
        self.note_written(segment, first_page, |id, place| durable.push(Durable::synced(id, place)));
        batch.marks.iter().for_each(|mark| self.apply(mark));
        Ok(durable)
    }

    /// Makes sure that a segment is open for the next batch.
    ///
    /// # Errors
    /// When none can be opened: nothing can be accepted now.
    pub fn ready(&mut self) -> Result<(), SpoolError> {
        self.room_for(1)
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

    /// The figures now.
    pub fn stats(&self) -> LogStats {
        let c = self.counters;
        let spare_pages: u64 = self.spares.iter().map(|(_, pages)| u64::from(*pages)).sum();
        let filling = self.filling.as_ref().map_or(0, |f| u64::from(f.pages));
        LogStats {
            commits: c.commits,
            syncs: c.syncs,
            octets_written: c.octets_written,
            poisoned: c.poisoned,
            released: c.released,
            set_aside: c.set_aside,
            octets_compacted: c.octets_compacted,
            live_messages: self.segments.live_messages(),
            live_octets: self.segments.live_octets(),
            segments: self.segments.count(),
            spares: self.spares.len(),
            disk_octets: (self.segments.file_pages() + spare_pages + filling) * PAGE_OCTETS as u64,
        }
    }

    /// Ends the log, gives the disk back.
    pub fn into_disk(self) -> D {
        self.disk
    }

    /// Starts the next batch in the builder.
    pub(crate) fn begin_batch(&mut self) {
        self.builder.begin(self.next_batch);
        self.next_batch += 1;
    }

    /// Writes and syncs what the builder has; the segment and page it went to.
    pub(crate) fn write_batch(&mut self) -> Result<(u32, u32), SpoolError> {
        let pages = self.builder.page_count();
        if self.next_batch > SEQUENCE_MAX {
            // begin_batch() has counted this one already; recovery would not believe its number.
            return Err(SpoolError::Exhausted);
        }
        self.room_for(pages)?;
        let floor = self.floor_now();
        // Taken out: unless everything goes well, nobody writes to or syncs this segment again.
        let Some(mut active) = self.active.take() else { return Err(SpoolError::Closed) };
        let file = FileName::Segment(active.sequence);
        let frame = Frame { nonce: active.nonce, segment: active.sequence, floor };
        let first_page = active.next_page;
        let octets = self.builder.finish(&frame);
        let written = self.disk.write_at(file, first_page, octets).map_err(|e| SpoolError::io(Step::Write, file, &e));
        let end = first_page + pages;
        self.segments.reaches(active.sequence, end);
        let synced = written.and_then(|()| self.sync(file));
        if let Err(error) = synced {
            self.counters.poisoned += 1;
            if let Some(segment) = self.segments.get_mut(active.sequence) {
                segment.poisoned = true;
            }
            return Err(error);
        }
        self.counters.commits += 1;
        self.counters.octets_written += u64::from(pages) * PAGE_OCTETS as u64;
        self.floor = floor;
        active.next_page = end;
        self.acknowledged = (active.sequence, end);
        if let Some(segment) = self.segments.get_mut(active.sequence) {
            segment.end = end;
        }
        let sequence = active.sequence;
        self.active = Some(active);
        Ok((sequence, first_page))
    }

    /// Enters what was written into the index; `each` sees every message and its place.
    pub(crate) fn note_written(&mut self, segment: u32, first_page: u32, mut each: impl FnMut(MessageId, Place)) {
        let base = first_page * PAGE_OCTETS as u32;
        for written in self.builder.written.drain(..) {
            let Written { id, offset, index, attempts, due, done, share } = written;
            let place = Place { segment, offset: base + offset, index };
            self.segments.add(segment, share);
            if let Some(old) = self.index.insert(id, Entry { place, attempts, share, due, done }) {
                self.segments.subtract(old.place.segment, old.share);
            }
            each(id, place);
        }
    }

    /// The oldest segment still needed.
    pub(crate) fn floor_now(&self) -> u32 {
        let newest = self.segments.newest().unwrap_or(0);
        self.segments.oldest_live(self.floor).unwrap_or(newest)
    }

    /// Syncs a file.
    pub(crate) fn sync(&mut self, file: FileName) -> Result<(), SpoolError> {
        self.counters.syncs += 1;
        self.disk.sync(file).map_err(|e| SpoolError::io(Step::Sync, file, &e))
    }

    /// Applies a durable mark.
    fn apply(&mut self, mark: &Mark) {
        if let Mark::Removed { id } = mark {
            if let Some(old) = self.index.remove(id) {
                self.segments.subtract(old.place.segment, old.share);
            }
        } else if let Some(entry) = self.index.get_mut(&mark.id()) {
            entry.apply(mark);
        }
    }

    /// Makes sure that the active segment has room for `pages`.
    fn room_for(&mut self, pages: u32) -> Result<(), SpoolError> {
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

impl Default for Settings {
    fn default() -> Settings {
        Settings::with_segment(64 << 20)
    }
}

impl Settings {
    /// The defaults for segments of `octets` octets.
    pub fn with_segment(octets: u32) -> Settings {
        Settings {
            segment_octets: octets,
            compact_margin_octets: u64::from(octets) * 8,
            queue_of: |_, _| String::new(),
        }
    }

    /// Within the format's bounds.
    fn sound(self) -> Settings {
        let octets = self.segment_octets.clamp(SEGMENT_OCTETS_MIN, SEGMENT_OCTETS_MAX);
        Settings { segment_octets: octets - octets % PAGE_OCTETS as u32, ..self }
    }
}

/// A sealed message as a part of a new transaction.
fn new_part<'a>(sealed: &'a Sealed, done: &'a Done) -> Part<'a> {
    Part {
        id: sealed.id,
        due: sealed.due,
        attempts: 0,
        flags: 0,
        done,
        state: State::New(&sealed.envelope, &sealed.meta),
        head: &sealed.head,
    }
}

/// Smallest segment, in octets.
const SEGMENT_OCTETS_MIN: u32 = 64 << 10;
/// Largest segment, in octets.
const SEGMENT_OCTETS_MAX: u32 = 2 << 30;
