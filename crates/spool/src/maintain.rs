//! Housekeeping: what is done between commits, in small steps, and in which order.
//!
//! Owns the order and the release of segments that nobody needs: to the spares, or to `corrupt/` when something in
//! them does not read. Copying survivors is in `compact.rs`, spares in `reserve.rs`.
//! What can fail is the disk; a file that cannot be released does not keep the rest from being done.
//! Deliberately absent: pace. The caller knows who waits and what the clock says.

use crate::compact::{Cycle, Incompressible};
use crate::disk::{Disk, FileName};
use crate::log::SegmentLog;
use crate::reserve::Purpose;
use crate::{SpoolError, Step};
use message::MessageId;
use std::io::{self, ErrorKind};

/// What one step of [`SegmentLog::maintain`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// What was done.
    pub work: Work,
    /// Octets read and written for it.
    pub octets: u64,
    /// The next step should come before the next commit, however many wait: the reserve is not
    /// whole, or on a full disk marks will soon have no room, or mail comes in faster than old segments are
    /// emptied and the bound on disk use is at stake.
    pub urgent: bool,
}

/// Kinds of housekeeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// There is nothing to do before the next commit.
    Nothing,
    /// A file that nobody needs was given up.
    Released,
    /// A segment in which something does not read was moved to `corrupt/`.
    SetAside,
    /// A batch without records, so that the floor is durable.
    Floor,
    /// Survivors were looked for in an old or bad segment and copied forward.
    Compacted,
    /// A part of a checkpoint was written.
    Checkpointed,
    /// Zeros were written to a spare.
    Filled,
}

/// What housekeeping remembers from step to step.
#[derive(Default)]
pub(crate) struct Reclaim {
    /// What the disk said when it last refused something new; `None` since it took it.
    pub lacking: Option<SpoolError>,
    /// Segments that could not be opened.
    pub failed_opens: u64,
    /// How often the batch in doubt did not read.
    pub doubt_tries: u32,
    /// Why the batch in doubt could not be synced where it stands.
    pub doubt_unsynced: Option<SpoolError>,
    /// Files to be removed once that can be done.
    pub litter: Vec<FileName>,
    /// Messages given up and not yet told to the caller.
    pub set_aside: Vec<MessageId>,
    /// Octets of old segments to be gone through before the log may grow further, see `compact.rs`.
    pub debt_octets: i64,
    /// The cycle of compaction that is under way.
    pub cycle: Option<Cycle>,
    /// What the last cycle left beyond live messages.
    pub incompressible: Incompressible,
}

impl Maintenance {
    /// True when another step may find something to do.
    pub fn has_more(&self) -> bool {
        self.work != Work::Nothing
    }
}

impl<D: Disk> SegmentLog<D> {
    /// One step of housekeeping: of about `octets_max` octets read and written, at most one batch, two syncs
    /// and one change of names. To be called after every commit and, until [`Work::Nothing`] is the answer, whenever
    /// nobody waits. While commits wait the caller may pace it as it likes (some MB/s), but not what is `urgent`.
    /// Afterwards [`SegmentLog::take_set_aside`] says what had to be given up.
    ///
    /// # Errors
    /// The disk refused. Nothing is lost by it; try again in a second or so.
    pub fn maintain(&mut self, octets_max: usize) -> Result<Maintenance, SpoolError> {
        let (work, octets) = self.housekeep(octets_max)?;
        let is_behind = self.reclaim.debt_octets > 0 && self.outweighs();
        let is_short = if self.is_full() { self.marks_are_short() } else { !self.has_reserve() };
        let urgent = work != Work::Nothing && (is_short || is_behind);
        Ok(Maintenance { work, octets, urgent })
    }

    /// Notes that a live message does not read at its place. Its segment is emptied: what reads after all
    /// is kept, what does not is given up with the segment, which ends in `corrupt/`.
    pub fn set_aside(&mut self, id: MessageId) {
        let Some(place) = self.locate(id) else { return };
        self.segments.damage(place.segment);
        if self.active.as_ref().is_some_and(|active| active.sequence == place.segment) {
            // Nothing is emptied while it grows.
            self.active = None;
        }
    }

    /// Messages that were given up since the last call, because no try could read them. The log knows them no
    /// more; their octets, whatever is left of them, are in a segment that ends in `corrupt/`.
    pub fn take_set_aside(&mut self) -> Vec<MessageId> {
        core::mem::take(&mut self.reclaim.set_aside)
    }

    fn housekeep(&mut self, octets_max: usize) -> Result<(Work, u64), SpoolError> {
        if self.is_recovering() {
            return self.fill_step(octets_max).map(filled);
        }
        // A file that cannot be released now must not keep the others, nor the rest, from being done.
        let mut failed = None;
        let failed_opens = self.reclaim.failed_opens;
        for tidy in [Self::release_one, Self::set_aside_one, Self::trim_one] {
            match tidy(self) {
                Ok(None) => {}
                Ok(Some(work)) => return Ok((work, 0)),
                Err(error) => failed = Some(error),
            }
        }
        let is_passed =
            |error: &SpoolError| error.is_refusal() || matches!(error, SpoolError::Io { step: Step::Read, .. });
        if self.is_full() {
            self.give_up_checkpoint();
            // Before the floor: the next batch of survivors brings it along, where a batch of its own would take a page.
            match self.compact_step(octets_max) {
                Ok(None) => {}
                Ok(Some(octets)) => return Ok((Work::Compacted, octets)),
                Err(error) if is_passed(&error) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        if self.floor_now() > self.floor {
            // An empty batch makes the new floor durable, so that idle spools shrink too.
            self.begin_batch(0);
            match self.write_batch(Purpose::Floor) {
                Ok(_) => return Ok((Work::Floor, 0)),
                Err(error) if is_passed(&error) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        if self.reclaim.lacking.is_none() && !self.has_reserve() {
            let octets = self.fill_step(octets_max)?;
            if octets > 0 {
                return Ok((Work::Filled, octets));
            }
        }
        if self.reclaim.lacking.is_none() {
            // On a full disk there are better things to do with what is left.
            match self.checkpoint_step(octets_max) {
                Ok(None) => {}
                Ok(Some(octets)) => return Ok((Work::Checkpointed, octets)),
                Err(error) => failed = Some(error),
            }
        }
        if !self.is_full() {
            match self.compact_step(octets_max) {
                Ok(None) => {}
                Ok(Some(octets)) => return Ok((Work::Compacted, octets)),
                Err(error) if is_passed(&error) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        let octets = self.fill_step(octets_max)?;
        match failed {
            // A spare that the next try takes and spoils like this one is no reason to go on at once.
            Some(error) if octets == 0 || self.reclaim.failed_opens > failed_opens => Err(error),
            _ => Ok(filled(octets)),
        }
    }

    /// Gives up a segment that lies below the durable floor.
    fn release_one(&mut self) -> Result<Option<Work>, SpoolError> {
        let Some(sequence) = self.segments.below(self.floor) else { return Ok(None) };
        // That nobody needs it may be known from the batch in doubt alone.
        self.settle_doubt()?;
        let Some(segment) = self.segments.get_mut(sequence) else { return Ok(None) };
        segment.tries += 1;
        if segment.damaged {
            // Found damaged at the start, after the floor had passed it.
            return self.move_aside(sequence).map(|()| Some(Work::SetAside));
        }
        let (file, pages, poisoned) = (FileName::Segment(sequence), segment.file_pages, segment.poisoned);
        // On a full disk one that was never filled is worth more as free space: two of them make a whole spare.
        let is_usual =
            if self.reclaim.lacking.is_some() { pages == self.segment_pages() } else { pages <= self.segment_pages() };
        let is_spare = is_usual && !poisoned && self.wants_spare();
        let spare = self.next_spare;
        let (step, result) = if is_spare {
            (Step::Rename, self.disk.rename(file, FileName::Spare(spare)))
        } else {
            (Step::Remove, self.disk.remove(file))
        };
        match result {
            // An earlier try did it and could not say so.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(SpoolError::io(step, file, &e)),
            Ok(()) if is_spare => {
                self.next_spare = spare.wrapping_add(1);
                self.spares.push((spare, pages));
            }
            Ok(()) => {}
        }
        self.counters.released += 1;
        self.segments.remove(sequence);
        Ok(Some(Work::Released))
    }

    /// Moves the oldest segment to `corrupt/` when something in it does not read and nothing in it is alive any
    /// more. Only the oldest: a younger one may hold marks about older ones. And before the floor passes it:
    /// after a cut nobody would know that it must not be used again.
    fn set_aside_one(&mut self) -> Result<Option<Work>, SpoolError> {
        let active = self.active.as_ref().map(|a| a.sequence);
        let Some((sequence, segment)) = self.segments.oldest(self.floor) else { return Ok(None) };
        if !segment.damaged || segment.live_messages > 0 || Some(sequence) == active {
            return Ok(None);
        }
        self.settle_doubt()?;
        self.move_aside(sequence).map(|()| Some(Work::SetAside))
    }

    /// Renames a segment to a free name in `corrupt/`.
    fn move_aside(&mut self, sequence: u32) -> Result<(), SpoolError> {
        let file = FileName::Segment(sequence);
        let listed = self.disk.list().map_err(|e| SpoolError::io(Step::List, None, &e))?;
        let is_taken = |copy: &u16| listed.iter().any(|info| info.name == FileName::Aside(sequence, *copy));
        let free = (0..=u16::MAX).find(|copy| !is_taken(copy));
        let renamed = match free {
            Some(copy) => self.disk.rename(file, FileName::Aside(sequence, copy)),
            None => Err(io::Error::from(ErrorKind::AlreadyExists)),
        };
        match renamed {
            // An earlier try did it and could not say so.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(SpoolError::io(Step::Rename, file, &e)),
            Ok(()) => {}
        }
        self.counters.set_aside += 1;
        self.segments.remove(sequence);
        Ok(())
    }

    fn trim_one(&mut self) -> Result<Option<Work>, SpoolError> {
        Ok(self.trim_spares()?.then_some(Work::Released))
    }
}

fn filled(octets: u64) -> (Work, u64) {
    (if octets > 0 { Work::Filled } else { Work::Nothing }, octets)
}
