//! Spare files: the next segments, and the reserve that keeps a full disk from stopping everything.
//!
//! Owns which files are ready to become segments, fills them with zeros ahead of time, and remembers
//! why the disk took nothing new. Four filled spares are the reserve: batches with appends leave all, batches
//! of marks two, moved survivors one; the last is for the floor, and for the batch in doubt after a start. So deliveries are noted, and space is made, on a disk
//! with no octet left. While the reserve is not whole and the disk refuses, appends are refused.
//! What can fail is the disk; what cannot be removed now is removed later.
//! Deliberately absent: waiting. The caller tries again ([`SegmentLog::ready`], [`SegmentLog::maintain`]).

use crate::disk::{Disk, FileName};
use crate::log::SegmentLog;
use crate::page::{PAGE_OCTETS, Page};
use crate::{SpoolError, Step};
use std::io::ErrorKind;

/// What a batch is for: how deep it may reach into the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Mail to be accepted.
    Appends,
    /// Marks alone.
    Marks,
    /// Survivors on their way out of an old segment, which gives more space back than they take.
    Survivors,
    /// The floor: what is below it can be used again.
    Floor,
}

/// A spare that is being filled with zeros.
pub(crate) struct Filling {
    pub number: u32,
    /// Pages filled.
    pub pages: u32,
}

impl Purpose {
    /// Pages that must be left in the last segment there is room for: one for the floor, without which nothing is freed.
    fn pages_left(self) -> u32 {
        u32::from(self != Purpose::Floor)
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Whether appends are taken now. When not: commit marks alone, call [`SegmentLog::maintain`] until it has nothing to do,
    /// and [`SegmentLog::ready`] each second; one of them succeeds once there is space.
    ///
    /// # Errors
    /// Why not: what the disk said when it last refused something new.
    pub fn accepts_appends(&self) -> Result<(), SpoolError> {
        let Some(error) = &self.reclaim.lacking else { return Ok(()) };
        let (spares, room_min) = (self.filled_spares(), self.segment_pages() / ROOM_PART);
        let has_next = spares > RESERVE_SPARES;
        let has_room = spares == RESERVE_SPARES && self.prewritten_pages() >= room_min;
        if error.is_full() && (has_next || has_room) { Ok(()) } else { Err(error.clone()) }
    }

    /// Makes sure that a segment is open for the next batch with appends. After the disk refused, makes
    /// the reserve whole first, and one more spare: up to three segments of zeros are written.
    ///
    /// # Errors
    /// When it cannot be done: nothing can be accepted now.
    pub fn ready(&mut self) -> Result<(), SpoolError> {
        while self.reclaim.lacking.is_some() {
            self.fill_step(FILL_PAGES_MAX * PAGE_OCTETS)?;
        }
        self.room_for(1, Purpose::Appends)
    }

    /// A file for a segment of `capacity` pages, with its length in pages.
    pub(crate) fn take_spare(&mut self, capacity: u32, purpose: Purpose) -> Result<(u32, u32), SpoolError> {
        if capacity != self.segment_pages() {
            // A batch larger than a segment: nothing was prepared for it.
            return self.reclaim.lacking.clone().map_or_else(|| self.new_spare(), Err).map(|number| (number, 0));
        }
        if self.filled_spares() > RESERVE_SPARES {
            return self.take_filled().ok_or(SpoolError::Closed);
        }
        if self.reclaim.lacking.is_none() {
            if let Some(begun) = self.take_begun() {
                return Ok(begun);
            }
            match self.new_spare() {
                Ok(number) => return Ok((number, 0)),
                Err(error) => self.reclaim.lacking = Some(error),
            }
        }
        if purpose != Purpose::Appends {
            if self.filled_spares() > self.spares_left(purpose) {
                return self.take_filled().ok_or(SpoolError::Closed);
            }
            // Better than nothing: as far as it was filled it has its place on the disk.
            if let Some(begun) = self.take_begun() {
                return Ok(begun);
            }
        }
        Err(self.reclaim.lacking.clone().unwrap_or(SpoolError::Closed))
    }

    /// Before appends open a segment: the reserve is made whole, unless the log is empty and there is nothing to free.
    pub(crate) fn reserve_first(&mut self) -> Result<(), SpoolError> {
        while !self.is_new() && self.reclaim.lacking.is_none() && self.filled_spares() < RESERVE_SPARES {
            self.fill_to(RESERVE_SPARES, FILL_PAGES_MAX * PAGE_OCTETS)?;
        }
        Ok(())
    }

    /// Fills some of the next spare with zeros: the reserve as soon as a segment is open, one more when the
    /// active segment will soon be full or after the disk refused. The octets written; 0 when there is nothing to do.
    pub(crate) fn fill_step(&mut self, octets_max: usize) -> Result<u64, SpoolError> {
        let pages = self.segment_pages();
        let soon = self.active.as_ref().is_some_and(|a| a.capacity == pages && a.next_page > pages / 2);
        let lacking = self.reclaim.lacking.is_some();
        let wanted = if soon || lacking { RESERVE_SPARES + 1 } else { RESERVE_SPARES };
        if (self.is_new() && !lacking) || self.filled_spares() >= wanted {
            self.reclaim.lacking = None;
            return Ok(0);
        }
        self.fill_to(wanted, octets_max)
    }

    /// One write of zeros towards `wanted` filled spares.
    fn fill_to(&mut self, wanted: usize, octets_max: usize) -> Result<u64, SpoolError> {
        let filled = self.fill_some(octets_max);
        if let Err(error) = &filled
            && (error.is_refusal() || self.filled_spares() < RESERVE_SPARES)
        {
            self.reclaim.lacking = Some(error.clone());
        } else if self.filled_spares() >= wanted {
            self.reclaim.lacking = None;
        }
        filled
    }

    fn fill_some(&mut self, octets_max: usize) -> Result<u64, SpoolError> {
        let (number, done) = match self.take_begun() {
            Some(begun) => begun,
            None => (self.new_spare()?, 0),
        };
        let (file, capacity) = (FileName::Spare(number), self.segment_pages());
        let pages = (octets_max / PAGE_OCTETS).clamp(1, FILL_PAGES_MAX).min((capacity - done) as usize);
        if let Err(error) = self.disk.write_at(file, done, &Page::zeros(pages)) {
            let error = SpoolError::io(Step::Write, file, &error);
            if error.is_refusal() {
                // What it has it keeps: the next try goes on from there.
                self.filling = Some(Filling { number, pages: done });
            } else {
                self.discard(file);
            }
            return Err(error);
        }
        let octets = (pages * PAGE_OCTETS) as u64;
        self.counters.octets_written += octets;
        let done = done + pages as u32;
        if done < capacity {
            self.filling = Some(Filling { number, pages: done });
            return Ok(octets);
        }
        // So that the first commits into it do not pay for its place on the disk.
        if let Err(error) = self.sync(file) {
            self.discard(file);
            return Err(error);
        }
        self.spares.push((number, done));
        Ok(octets)
    }

    /// Makes an empty spare.
    pub(crate) fn new_spare(&mut self) -> Result<u32, SpoolError> {
        let number = self.next_spare;
        self.next_spare = number.wrapping_add(1);
        let file = FileName::Spare(number);
        self.disk.create(file).map_err(|e| {
            let error = SpoolError::io(Step::Create, file, &e);
            // Done or not is unknown.
            self.discard(file);
            error
        })?;
        Ok(number)
    }

    /// Removes a spare that is of no use: left by an earlier run with larger segments, or one too many. True when one was.
    pub(crate) fn trim_spares(&mut self) -> Result<bool, SpoolError> {
        let pages = self.segment_pages();
        let large = self.spares.iter().position(|(_, length)| *length > pages);
        let surplus = large.or_else(|| (self.spares.len() > SPARES_MAX).then_some(0));
        if let Some(at) = surplus {
            let (number, _) = self.spares.swap_remove(at);
            self.discard(FileName::Spare(number));
        }
        let Some(file) = self.reclaim.litter.last().copied() else { return Ok(surplus.is_some()) };
        match self.disk.remove(file) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(SpoolError::io(Step::Remove, file, &e)),
            _ => {
                self.reclaim.litter.pop();
                Ok(true)
            }
        }
    }

    /// Removes a file that holds nothing; later, when it cannot be done now.
    pub(crate) fn discard(&mut self, file: FileName) {
        if self.disk.remove(file).is_err_and(|e| e.kind() != ErrorKind::NotFound) {
            self.remember(file);
        }
    }

    /// Notes a file that is to be removed once that can be done.
    pub(crate) fn remember(&mut self, file: FileName) {
        // Beyond the bound it is found again at the next start.
        if self.reclaim.litter.len() < LITTER_MAX {
            self.reclaim.litter.push(file);
        }
    }

    /// Spares with their whole place on the disk.
    pub(crate) fn filled_spares(&self) -> usize {
        let pages = self.segment_pages();
        self.spares.iter().filter(|(_, length)| *length >= pages).count()
    }

    /// Whether the reserve is there.
    pub(crate) fn has_reserve(&self) -> bool {
        self.filled_spares() >= RESERVE_SPARES
    }

    /// Whether the disk has no room for anything new.
    pub(crate) fn is_full(&self) -> bool {
        self.reclaim.lacking.as_ref().is_some_and(SpoolError::is_full)
    }

    /// Whether the log never had a segment: then there is nothing to be freed, and the first goes before the reserve.
    fn is_new(&self) -> bool {
        self.segments.count() == 0 && self.unadopted_octets.unwrap_or(0) == 0
    }

    /// Pages of a segment as it is usually.
    pub(crate) fn segment_pages(&self) -> u32 {
        self.settings.segment_octets / PAGE_OCTETS as u32
    }

    /// Whether another spare may be kept.
    pub(crate) fn wants_spare(&self) -> bool {
        self.spares.len() < SPARES_MAX
    }

    /// Pages left in the active segment that have their place on the disk.
    fn prewritten_pages(&self) -> u32 {
        let Some(active) = &self.active else { return 0 };
        let length = self.segments.get(active.sequence).map_or(0, |segment| segment.file_pages);
        length.min(active.capacity).saturating_sub(active.next_page)
    }

    /// Filled spares that a batch must leave.
    pub(crate) fn spares_left(&self, purpose: Purpose) -> usize {
        match purpose {
            Purpose::Appends => RESERVE_SPARES,
            // With one segment there is nothing to be emptied.
            Purpose::Marks => 2 * usize::from(self.segments.count() > 1),
            Purpose::Survivors => 1,
            Purpose::Floor => 0,
        }
    }

    /// Whether on a full disk there is little room left for marks: a quarter of a segment.
    pub(crate) fn marks_are_short(&self) -> bool {
        let rest = self.active.as_ref().map_or(0, |active| active.capacity - active.next_page);
        let spares = self.filled_spares().saturating_sub(self.spares_left(Purpose::Marks));
        spares == 0 && rest < self.segment_pages() / 4
    }

    /// Pages left in the active segment for survivors.
    pub(crate) fn survivor_pages(&self) -> u32 {
        let rest = self.active.as_ref().map_or(0, |active| active.capacity - active.next_page);
        rest.saturating_sub(self.pages_left(Purpose::Survivors))
    }

    /// Pages that a batch must leave in the segment it goes to.
    pub(crate) fn pages_left(&self, purpose: Purpose) -> u32 {
        if self.reclaim.lacking.is_some() && self.filled_spares() <= 1 { purpose.pages_left() } else { 0 }
    }

    /// Whether a batch with appends may go on in the active segment, which has room for it.
    pub(crate) fn may_append(&self, pages: u32) -> bool {
        self.reclaim.lacking.is_none() || self.prewritten_pages() >= pages
    }

    fn take_filled(&mut self) -> Option<(u32, u32)> {
        let pages = self.segment_pages();
        let at = self.spares.iter().rposition(|(_, length)| *length >= pages)?;
        Some(self.spares.swap_remove(at))
    }

    /// A spare that is filled in part.
    fn take_begun(&mut self) -> Option<(u32, u32)> {
        if let Some(Filling { number, pages }) = self.filling.take() {
            return Some((number, pages));
        }
        let pages = self.segment_pages();
        let at = self.spares.iter().position(|(_, length)| *length < pages)?;
        Some(self.spares.swap_remove(at))
    }
}

/// Filled spares that appends leave: two for marks, one for survivors, one for the floor. Survivors have the rest of the marks'
/// too as a rule, so that those of two segments can move before the first of these is released: then every batch of
/// survivors brings the floor for the one before, and no page is spent on a floor alone.
const RESERVE_SPARES: usize = 4;
/// Spare files kept, the reserve among them; more are removed.
const SPARES_MAX: usize = 5;
/// On a full disk appends go on while this part of a segment is left: 1 / 16.
const ROOM_PART: u32 = 16;
/// Pages of zeros written at once: 1 MiB.
const FILL_PAGES_MAX: usize = 256;
/// Files to be removed later that are remembered.
const LITTER_MAX: usize = 64;
