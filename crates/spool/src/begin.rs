//! How a log starts: at once, with the mail of earlier runs joining later.
//!
//! [`SegmentLog::begin`] finds the end of the log and takes commits; [`Recovering::run`] reads the old segments on
//! any thread; [`SegmentLog::adopt`] joins both, after which housekeeping goes over all of it and
//! [`SegmentLog::next_recovered`] gives the messages out. Between begin and adopt nothing old is released.

use crate::batch::Builder;
use crate::checkpoint_read::read_header;
use crate::checkpoint_write::Checkpoints;
use crate::disk::Disk;
use crate::log::SegmentLog;
use crate::maintain::Reclaim;
use crate::page::PAGE_OCTETS;
use crate::recovery::{Listing, Recovered, RecoveredMessage, Recovering, Recovery};
use crate::segments::Segments;
use crate::settings::{NonceSource, Settings};
use crate::stats::Counters;
use crate::tail::{Tail, is_of};
use crate::{SpoolError, Step};

impl<D: Disk> SegmentLog<D> {
    /// Opens the spool on `disk` for commits, whatever the backlog: the time it takes is that of listing the files and of
    /// reading the newest segment from the last checkpoint on. Writes and syncs nothing: the first commit opens a new
    /// segment. What is to be run and adopted brings the mail of earlier runs.
    ///
    /// # Errors
    /// `Io` when the files do not list, `NewerFormat` when a newer program wrote it.
    pub fn begin(
        mut disk: D,
        settings: Settings,
        nonces: NonceSource,
    ) -> Result<(SegmentLog<D>, Recovering), SpoolError> {
        let files = disk.list().map_err(|e| SpoolError::io(Step::List, None, &e))?;
        let listing = Listing::of(&files);
        let reader = disk.reader();
        let mut checkpoints = Vec::new();
        for header in listing.checkpoints.iter().filter_map(|(number, _)| read_header(&*reader, *number)) {
            if is_of(&header, &*reader, &listing.segments)? {
                checkpoints.push(header);
            }
        }
        let mut tail = Tail::find(&reader, &listing.segments, &checkpoints)?;
        tail.heed_checkpoints(&checkpoints);
        let recovering =
            Recovering { disk: reader.clone(), queue_of: settings.queue_of, listing: listing.clone(), tail };
        let pages = |octets: u64| u32::try_from(octets / PAGE_OCTETS as u64).unwrap_or(u32::MAX);
        let last_segment = listing.asides.iter().copied().max().unwrap_or(0).max(tail.last_segment);
        let log = SegmentLog {
            reader,
            nonces,
            index: Default::default(),
            segments: Segments::default(),
            active: None,
            acknowledged: (tail.segment, tail.end),
            acknowledged_sequence: tail.last_sequence,
            next_segment: last_segment.saturating_add(1),
            next_batch: tail.last_sequence + 1,
            floor: tail.floor,
            next_spare: listing.spares.iter().map(|(number, _)| *number).max().unwrap_or(0).wrapping_add(1),
            spares: listing.spares.iter().map(|(number, octets)| (*number, pages(*octets))).collect(),
            filling: None,
            compaction: None,
            reclaim: Reclaim::default(),
            builder: Builder::default(),
            checkpoints: Checkpoints::found(&listing.checkpoints),
            counters: Counters::default(),
            doubt: tail.doubt,
            copied: None,
            unadopted_octets: Some(listing.segments.values().sum()),
            handing_out: Vec::new(),
            settings: settings.sound(),
            disk,
        };
        Ok((log, recovering))
    }

    /// Takes over what [`Recovering::run`] of this log found. From now on the messages can be read and marked, and
    /// [`SegmentLog::next_recovered`] gives them out.
    pub fn adopt(&mut self, recovered: Recovered) -> Recovery {
        let Recovered { recovery, index, segments, floor, order } = recovered;
        let newer = core::mem::replace(&mut self.index, index);
        let new_segments = core::mem::replace(&mut self.segments, segments);
        self.segments.absorb(new_segments);
        let segments = &mut self.segments;
        self.index.absorb(&newer, |old| segments.subtract(old.place.segment, old.share));
        self.floor = self.floor.max(floor);
        self.handing_out = order;
        self.handing_out.reverse();
        self.unadopted_octets = None;
        if let Some(copied) = self.copied.take() {
            self.follow_copied(copied);
        }
        self.checkpoints.note_growth(recovery.replayed_octets);
        recovery
    }

    /// The next recovered messages that are still in our care, oldest first, at most `max`; none at the end.
    /// Messages appended since the start are never among them.
    pub fn next_recovered(&mut self, max: usize) -> Vec<RecoveredMessage> {
        let mut messages = Vec::with_capacity(max.min(self.handing_out.len()));
        while messages.len() < max
            && let Some(slot) = self.handing_out.pop()
        {
            messages.extend(self.index.hand_out(slot));
        }
        if self.handing_out.is_empty() {
            self.handing_out = Vec::new();
        }
        messages
    }

    /// Opens the spool on `disk` and recovers what is in it, all in one go: for tools and tests, and where nobody waits.
    ///
    /// # Errors
    /// As [`SegmentLog::begin`] and [`Recovering::run`].
    pub fn open(disk: D, settings: Settings, nonces: NonceSource) -> Result<(SegmentLog<D>, Recovery), SpoolError> {
        let (mut log, recovering) = SegmentLog::begin(disk, settings, nonces)?;
        let mut recovery = log.adopt(recovering.run()?);
        recovery.messages = log.next_recovered(usize::MAX);
        Ok((log, recovery))
    }

    /// Whether the mail of earlier runs is still to be adopted.
    pub fn is_recovering(&self) -> bool {
        self.unadopted_octets.is_some()
    }
}
