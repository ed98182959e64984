//! Reading the mail of earlier runs back, on any thread, while the log is in use already
//! (docs/spool-format.md section 6).
//!
//! [`Recovering`] comes from [`SegmentLog::begin`](crate::SegmentLog::begin), reads the old segments through [`ReadPages`] and
//! becomes [`Recovered`], which [`SegmentLog::adopt`](crate::SegmentLog::adopt) takes over. Nothing is
//! written here and nothing deleted; what does not read is counted and its segment kept out of reuse.

use crate::SpoolError;
use crate::checkpoint_read::{Checkpoint, read_checkpoint};
use crate::disk::{FileInfo, FileName, ReadPages};
use crate::index::Index;
use crate::replay::Replay;
use crate::segments::Segments;
use crate::settings::QueueOf;
use crate::tail::{Fences, Planned, Tail};
use clock::WallTime;
use core::fmt;
use message::{MessageId, Place, Settled};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was found at the start.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Every message in our care, in the order of their records. Filled by
    /// [`SegmentLog::open`](crate::SegmentLog::open) alone; else they come by [`SegmentLog::next_recovered`](crate::SegmentLog::next_recovered).
    pub messages: Vec<RecoveredMessage>,
    /// How many messages there are.
    pub live_messages: u64,
    /// What did not read.
    pub damage: Damage,
    /// Octets of the batch that was being written when the last run ended; never promised.
    pub torn_tail_octets: u64,
    /// Segments found.
    pub segments: usize,
    /// Segments in `corrupt/`, from this run's start and earlier ones.
    pub set_aside: usize,
    /// Octets of the log that were read.
    pub replayed_octets: u64,
    /// The checkpoint that reading began from; `None`: all of the log was read.
    pub checkpoint: Option<u32>,
    /// Checkpoints that do not read or do not fit the log, and were passed over.
    pub checkpoints_ignored: usize,
}

/// A message as the spool knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecoveredMessage {
    /// Identity.
    pub id: MessageId,
    /// The queue it belongs to, as [`Settings::queue_of`](crate::Settings) names it.
    pub queue: Arc<str>,
    /// Where the content is.
    pub place: Place,
    /// Octets of head and body.
    pub size: u32,
    /// Attempts made so far.
    pub attempts: u16,
    /// First moment it may be tried next.
    pub due: WallTime,
    /// Recipients of its envelope.
    pub recipients: u16,
    /// Those of them that are settled.
    pub settled: Settled,
}

/// Promised octets that do not read. All are kept: their segments end in `corrupt/`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Segments whose header page does not read.
    pub headers: u64,
    /// Batches, or runs of pages, that are not whole.
    pub batches: u64,
    /// Messages whose envelope does not decode.
    pub states: u64,
    /// Messages of a checkpoint whose segment is not there.
    pub missing: u64,
    /// Octets in all of these; sound records of a damaged batch included.
    pub octets: u64,
    /// Pages that the disk refused to read, twice.
    pub unreadable_pages: u64,
}

/// The long part of the start, to be run on any thread. Until its result is adopted, the log takes commits, and nothing
/// old is released.
#[derive(Clone)]
#[must_use = "the mail of earlier runs waits for it"]
pub struct Recovering {
    pub(crate) disk: Arc<dyn ReadPages>,
    pub(crate) queue_of: QueueOf,
    pub(crate) listing: Listing,
    pub(crate) tail: Tail,
}

/// What [`Recovering::run`] found, for [`SegmentLog::adopt`](crate::SegmentLog::adopt).
#[must_use = "to be adopted by its log"]
pub struct Recovered {
    pub(crate) recovery: Recovery,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) floor: u32,
    /// Slots of the messages, oldest first.
    pub(crate) order: Vec<u32>,
}

/// The files of a spool, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// Octets of each segment.
    pub segments: BTreeMap<u32, u64>,
    /// Number and octets.
    pub spares: Vec<(u32, u64)>,
    pub asides: Vec<u32>,
    /// Number and octets, the newest last.
    pub checkpoints: Vec<(u32, u64)>,
}

impl Recovering {
    /// Reads the old segments through another reader, made of the disk's own.
    pub fn reading_through(self, through: impl FnOnce(Arc<dyn ReadPages>) -> Arc<dyn ReadPages>) -> Recovering {
        Recovering { disk: through(self.disk), ..self }
    }

    /// Reads the old segments.
    ///
    /// # Errors
    /// `NewerFormat` when a newer program wrote one. The log goes on all the same: what
    /// was accepted since is in its care, the rest is left as it is.
    pub fn run(self) -> Result<Recovered, SpoolError> {
        let Recovering { disk, queue_of, listing, tail } = self;
        let mut plan = Plan::new();
        let mut fences = Fences::default();
        let mut floor = tail.floor;
        for (sequence, octets) in listing.segments.iter().rev() {
            let planned = Planned::read(&*disk, *sequence, *octets)?;
            // Where a checkpoint knows better, it is the newest segment's end that it knows.
            let fence = fences.of(*sequence, &planned).or((*sequence == tail.segment).then_some(tail.fence).flatten());
            fences.pass(planned.header.as_ref());
            floor = floor.max(planned.header.map_or(0, |header| header.floor));
            plan.insert(*sequence, (planned, fence));
        }
        let numbers = listing.checkpoints.iter().rev().map(|(number, _)| *number);
        let mut ignored = 0;
        let checkpoint = numbers.into_iter().find_map(|number| {
            let found = read_checkpoint(&*disk, number).filter(|checkpoint| fits(checkpoint, &plan));
            ignored += usize::from(found.is_none());
            found.map(|checkpoint| (number, checkpoint))
        });
        let number = checkpoint.as_ref().map(|(number, _)| *number);
        let mut replay = Replay::new(queue_of, floor, checkpoint.map(|(_, checkpoint)| checkpoint));
        for (sequence, (planned, fence)) in &plan {
            replay.segment(&disk, *sequence, planned, *fence);
        }
        let mut recovered = replay.finish(&listing.asides);
        if let Some(newest) = recovered.segments.get_mut(tail.segment) {
            // As the header of the segment behind it says by now.
            newest.end = newest.end.max(tail.end.min(newest.file_pages));
        }
        (recovered.recovery.checkpoint, recovered.recovery.checkpoints_ignored) = (number, ignored);
        recovered.recovery.segments = plan.len();
        recovered.recovery.set_aside = listing.asides.len();
        Ok(recovered)
    }
}

/// Segments with what their headers say, and their ends where those are known.
type Plan = BTreeMap<u32, (Planned, Option<u32>)>;

/// Whether a checkpoint is about this log: its segments, as far as they are there, are these.
fn fits(checkpoint: &Checkpoint, plan: &Plan) -> bool {
    checkpoint.segments.values().all(|row| {
        let there = plan.get(&row.sequence).and_then(|(planned, _)| planned.nonce);
        there.is_none() || row.nonce.is_none() || there == row.nonce
    })
}

impl Listing {
    /// Sorts the files.
    pub fn of(files: &[FileInfo]) -> Listing {
        let mut listing = Listing::default();
        for file in files {
            match file.name {
                // Segments are numbered from 1; the log never made such a file.
                FileName::Segment(0) => {}
                FileName::Segment(sequence) => _ = listing.segments.insert(sequence, file.octets),
                FileName::Spare(number) => listing.spares.push((number, file.octets)),
                FileName::Checkpoint(number) => listing.checkpoints.push((number, file.octets)),
                FileName::Aside(sequence, _) => listing.asides.push(sequence),
            }
        }
        listing.checkpoints.sort_unstable();
        listing
    }
}

impl fmt::Debug for Recovering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovering").field("listing", &self.listing).field("tail", &self.tail).finish_non_exhaustive()
    }
}

impl fmt::Debug for Recovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovered")
            .field("recovery", &self.recovery)
            .field("floor", &self.floor)
            .finish_non_exhaustive()
    }
}
