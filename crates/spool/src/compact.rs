//! Copying what is alive out of old segments, and out of bad ones.
//!
//! Two reasons: dead octets outweigh live ones, then the oldest segment is emptied, because segments are
//! released oldest first; or a segment is bad (a write or sync of it failed, or something in it does not read), then
//! that one is emptied wherever it stands. What cannot be read in any try is given up: its segment ends in
//! `corrupt/`, and no later segment waits for it.
//! Deliberately absent: the rate. What is due is counted here ([`SegmentLog::note_growth`]), when it is done the caller says.

use crate::SpoolError;
use crate::batch::{Part, State};
use crate::disk::Disk;
use crate::format::{RECORD_HEADER_OCTETS, TABLE_ENTRY_OCTETS, TableEntry};
use crate::log::SegmentLog;
use crate::page::PAGE_OCTETS;
use crate::record::{Record, Records, Transaction};
use crate::reserve::Purpose;
use crate::scan::{Bounds, Found, Scan};
use crate::segments::Segment;
use message::{Place, codec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A segment being emptied.
pub(crate) struct Compaction {
    source: u32,
    /// Something in it does not read: what does is looked at twice.
    is_damaged: bool,
    scan: Scan,
}

/// Emptying every segment there is, once.
pub(crate) struct Cycle {
    /// The newest segment when it began.
    end: u32,
    /// Octets appended since.
    grown_octets: u64,
}

/// What a whole cycle could not make smaller: a part that grows with what is alive, such as the ends of segments behind
/// large messages, and the rest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Incompressible {
    /// For 1024 octets of live messages; at most as much as these.
    per_1024: u64,
    octets: u64,
}

impl Incompressible {
    /// Of `waste` octets beside `live` ones.
    pub fn new(waste: u64, live: u64) -> Incompressible {
        let per_1024 = (waste / (live / 1024).max(1)).min(1024);
        Incompressible { per_1024, octets: waste.saturating_sub(live / 1024 * per_1024) }
    }

    /// What is to be expected beside `live` octets.
    pub fn of(self, live: u64) -> u64 {
        live / 1024 * self.per_1024 + self.octets
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Whether a segment is worth emptying: dead octets outweigh live ones, or it is bad and holds live messages.
    pub fn wants_compaction(&self) -> bool {
        !self.is_recovering() && self.next_source().is_some()
    }

    /// Counts what a batch with appends added: while segments are being emptied for their space, four times as
    /// much is to be gone through. So the log grows by at most a quarter of what was alive until all of that has moved.
    pub(crate) fn note_growth(&mut self, pages: u32) {
        let octets = u64::from(pages) * PAGE_OCTETS as u64;
        self.reclaim.debt_octets += octets as i64 * DEBT_FACTOR;
        if let Some(cycle) = &mut self.reclaim.cycle {
            cycle.grown_octets += octets;
        }
    }

    /// Copies survivors into a batch of about `octets_max` octets. The octets read and written; `None` when there is nothing to do.
    pub(crate) fn compact_step(&mut self, octets_max: usize) -> Result<Option<u64>, SpoolError> {
        self.follow_cycle();
        // One whose source was emptied otherwise has nothing more to find, nor perhaps a file to read.
        let is_needed = |c: &Compaction| self.segments.get(c.source).is_some_and(|s| s.live_messages > 0);
        let begun = self.compaction.take().filter(is_needed);
        let Some(mut compaction) = begun.or_else(|| self.start_compaction()) else {
            return Ok(None);
        };
        self.begin_batch(0);
        let (octets_read, ended) = self.gather_survivors(&mut compaction, octets_max);
        let mut octets_written = 0;
        if !self.builder.written.is_empty() {
            octets_written = self.builder.octets() as u64;
            let (segment, first_page) = self.write_batch(Purpose::Survivors)?;
            self.counters.octets_compacted += octets_written;
            self.note_moved(segment, first_page);
        }
        self.reclaim.debt_octets -= octets_read as i64;
        if ended {
            self.end_compaction(&compaction)?;
        } else {
            self.compaction = Some(compaction);
        }
        Ok(Some(octets_read as u64 + octets_written))
    }

    /// Puts survivors into the batch, as many as fit into the segment that it will go to. The octets read, and
    /// whether the source is at its end.
    fn gather_survivors(&mut self, compaction: &mut Compaction, octets_max: usize) -> (usize, bool) {
        let mut octets_read = 0;
        while octets_read < octets_max && self.builder.octets() < octets_max {
            match compaction.scan.next() {
                Found::Whole { page, header, octets } | Found::Damaged { page, batch: Some((header, octets)), .. } => {
                    octets_read += octets.len();
                    let mut records = Records::new(octets, &header);
                    while let Some(record) = records.next() {
                        if let Ok(Record::Transaction(transaction)) = record
                            && !self.copy_survivors(compaction.source, compaction.is_damaged, page, &transaction)
                        {
                            // From here again in the next batch: what is in this one has moved by then.
                            compaction.scan.rewind(page, header.sequence);
                            return (octets_read, false);
                        }
                    }
                }
                Found::Damaged { pages, .. } => octets_read += pages as usize * PAGE_OCTETS,
                Found::End { .. } => return (octets_read, true),
            }
        }
        (octets_read, false)
    }

    /// Whether dead octets outweigh live ones. The aim is 2 x live octets + the margin; it begins at 1.75 x, because
    /// the log grows while it is at work. What the last cycle could not make smaller (ends of segments and pages that
    /// nothing fits into) is not dead: else it would never end. When the disk is full, less is worth the work.
    pub(crate) fn outweighs(&self) -> bool {
        let live = self.segments.live_octets();
        let (waste, segment) = (self.waste_octets(), u64::from(self.settings.segment_octets));
        let known = self.reclaim.incompressible.of(live);
        let is_new = self.reclaim.cycle.is_some() || waste > known + live / 4 + segment * 2;
        let is_over = self.is_over(waste + self.checkpoints.disk_octets(), live);
        // Less than a segment when the marks have begun with theirs: at its end they find what that gives.
        let dead_min = if self.has_reserve() { live / 8 + segment } else { segment / 4 * 3 };
        (is_over && is_new) || (self.is_full() && self.segments.dead_octets() > dead_min)
    }

    /// Whether so much beyond live octets is too much.
    fn is_over(&self, waste: u64, live: u64) -> bool {
        waste > live / 4 * 3 + self.settings.compact_margin_octets
    }

    /// Octets of segments beyond those of live messages.
    fn waste_octets(&self) -> u64 {
        (self.segments.file_pages() * PAGE_OCTETS as u64).saturating_sub(self.segments.live_octets())
    }

    /// Begins and ends a cycle: all segments there were at its beginning are emptied once.
    fn follow_cycle(&mut self) {
        let oldest = self.segments.oldest(self.floor).map(|(sequence, _)| sequence);
        if let Some(cycle) = self.reclaim.cycle.take_if(|cycle| oldest.is_none_or(|oldest| oldest > cycle.end)) {
            // What was appended meanwhile may be dead by now.
            let (waste, live) = (self.waste_octets().saturating_sub(cycle.grown_octets), self.segments.live_octets());
            let is_over = self.is_over(waste, live);
            self.reclaim.incompressible =
                if is_over { Incompressible::new(waste, live) } else { Incompressible::default() };
        }
        if !self.outweighs() {
            (self.reclaim.cycle, self.reclaim.debt_octets) = (None, 0);
        } else if self.reclaim.cycle.is_none() {
            let end = self.segments.newest().unwrap_or(0);
            self.reclaim.cycle = Some(Cycle { end, grown_octets: 0 });
        }
    }

    /// The segment to be emptied next.
    fn next_source(&self) -> Option<u32> {
        let active = self.active.as_ref().map(|a| a.sequence);
        let bad = self.segments.bad(self.floor).filter(|(sequence, _)| Some(*sequence) != active);
        let oldest = || {
            let (sequence, segment) = self.segments.oldest(self.floor)?;
            let is_worth = Some(sequence) != active && segment.live_messages > 0 && self.outweighs();
            is_worth.then_some(sequence)
        };
        if self.is_full() {
            // What leaves any other segment gives nothing back before the older ones are gone.
            return oldest();
        }
        // One that did not read gives way to others.
        bad.min_by_key(|(sequence, segment)| (segment.tries, *sequence)).map(|(sequence, _)| sequence).or_else(oldest)
    }

    /// A walk through the next source.
    fn start_compaction(&mut self) -> Option<Compaction> {
        let source = self.next_source()?;
        let segment = self.segments.get(source)?;
        if self.reclaim.lacking.is_some() && !self.has_room_for_all(source, segment) {
            // Begun and not ended it would take what is left of the reserve and give nothing back.
            return None;
        }
        // A segment of unknown nonce has nothing that could be read.
        let (nonce, end) = segment.nonce.map_or((0, 0), |nonce| (nonce, segment.end));
        let bounds = Bounds { segment: source, nonce, end: Some(end), file_pages: end };
        let is_damaged = segment.damaged;
        Some(Compaction { source, is_damaged, scan: Scan::new(Arc::clone(&self.reader), &bounds) })
    }

    /// Whether all that is alive in a segment has room where nothing new is needed of the disk.
    fn has_room_for_all(&self, source: u32, segment: &Segment) -> bool {
        let pages = |octets: u64| (octets + octets / 64).div_ceil(PAGE_OCTETS as u64) + FLOOR_PAGES_USUAL;
        let segment_pages = u64::from(self.segment_pages() - 1);
        let spares = self.filled_spares().saturating_sub(self.spares_left(Purpose::Survivors));
        let spare_pages = spares as u64 * segment_pages;
        let room = u64::from(self.survivor_pages()) + spare_pages;
        let is_usual = segment.file_pages <= self.segment_pages();
        let (all, largest) = self.copies_of(source);
        // A copy is no larger than what it is a copy of.
        let all_pages = pages(all).min(u64::from(segment.end));
        all_pages <= room && (is_usual || pages(largest) <= segment_pages)
    }

    /// Octets of all that is alive in a segment once it is copied, and of its largest transaction, at most. Looks at all
    /// messages: there is no list by segment.
    fn copies_of(&self, source: u32) -> (u64, u64) {
        let mut transactions: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let entries = (0..self.index.end()).filter_map(|slot| self.index.at(slot));
        for entry in entries.filter(|entry| entry.place.segment == source) {
            let (shares, body) = transactions.entry(entry.place.offset).or_default();
            *shares += u64::from(entry.share);
            // Whoever has a share smaller than itself shares its body: with others, or with those who are gone.
            *body = (*body).max(if entry.share < entry.size { u64::from(entry.size) } else { 0 });
        }
        let octets = transactions.into_values().map(|(shares, body)| shares + body);
        octets.fold((0, 0), |(all, largest), octets| (all + octets, largest.max(octets)))
    }

    /// At the end of a walk: what is still alive in the segment did not read. It is tried again while the disk gives errors,
    /// [`READ_TRIES_MAX`] times; then, and at once when the disk gives octets that are wrong, it is given up. While the system has
    /// no means to read it says nothing of the disk.
    fn end_compaction(&mut self, compaction: &Compaction) -> Result<(), SpoolError> {
        let source = compaction.source;
        let Some(segment) = self.segments.get_mut(source).filter(|s| s.live_messages > 0) else { return Ok(()) };
        if let Some(error) = compaction.scan.unread().error.as_ref().filter(|error| error.will_pass()) {
            return Err(error.clone());
        }
        segment.tries += 1;
        let tries = segment.tries;
        let was_damaged = segment.damaged;
        if let Some(error) = &compaction.scan.unread().error
            && tries < READ_TRIES_MAX
        {
            return Err(error.clone());
        }
        self.segments.damage(source);
        if !was_damaged {
            // Once more, with the closer look that damaged segments get.
            return Ok(());
        }
        self.give_up(source);
        Ok(())
    }

    /// Forgets what is alive in a segment but does not read. Durable once the segment is in `corrupt/`; after
    /// a crash before that it may be known again, and is given up again.
    fn give_up(&mut self, source: u32) {
        // All entries are looked at: there is no list by segment, and this is rare.
        let entries = (0..self.index.end()).filter_map(|slot| self.index.at(slot));
        let lost: Vec<_> = entries.filter(|e| e.place.segment == source).map(|e| (e.id, e.share)).collect();
        for (id, share) in &lost {
            self.index.remove(id);
            self.segments.subtract(source, *share);
        }
        self.counters.set_aside_messages += lost.len() as u64;
        self.reclaim.set_aside.extend(lost.iter().map(|(id, _)| *id));
    }

    /// Puts what is alive of a transaction into the batch, still sharing the body; false when it does not fit any more.
    fn copy_survivors(&mut self, source: u32, is_damaged: bool, page: u32, transaction: &Transaction<'_>) -> bool {
        let offset = page * PAGE_OCTETS as u32 + transaction.offset;
        let layout = &transaction.layout;
        let survivors: Vec<_> = layout
            .messages()
            .enumerate()
            .filter_map(|(i, (entry, state, head))| {
                let place = Place { segment: source, offset, index: i as u16 };
                let live = self.index.get(&entry.id).filter(|live| live.place == place)?;
                let (_, state) = transaction.state(&state, entry);
                // What is right by its crc and still means nothing would be met again at every place it is copied to.
                let reads = !is_damaged || codec::decode(state).is_ok();
                reads.then(|| (entry, live, state, transaction.octets(&head)))
            })
            .collect();
        if survivors.is_empty() {
            return true;
        }
        let own = |(entry, _, _, head): &(&TableEntry, _, _, &[u8])| {
            TABLE_ENTRY_OCTETS + entry.state_length as usize + BITMAP_OCTETS_USUAL + head.len()
        };
        let more = RECORD_HEADER_OCTETS + survivors.iter().map(own).sum::<usize>() + layout.body.len();
        if !self.builder.written.is_empty() && !self.has_room_for_more(more) {
            return false;
        }
        let part = |i: usize| {
            let (entry, live, state, head) = survivors[i];
            Part {
                id: entry.id,
                due: live.due,
                attempts: live.attempts,
                flags: entry.flags,
                settled: self.index.bitmap(live),
                state: State::Stored(state),
                head,
            }
        };
        self.builder.transaction(survivors.len(), part, transaction.octets(&layout.body));
        true
    }

    /// Whether the batch of survivors, with so many octets more, still goes where it would go now: into the rest of the active
    /// segment, or into one segment of its own. So that no ends of segments are left over.
    fn has_room_for_more(&self, octets: usize) -> bool {
        let pages = |octets: usize| octets.div_ceil(PAGE_OCTETS) as u32;
        let rest = self.survivor_pages();
        let room = if pages(self.builder.octets()) <= rest { rest } else { self.segment_pages() - 1 };
        pages(self.builder.octets() + octets) <= room
    }
}

/// Octets of old segments to be gone through for each octet appended.
const DEBT_FACTOR: i64 = 4;
/// Octets of a bitmap of settled recipients, as a guess.
const BITMAP_OCTETS_USUAL: usize = 8;
/// Pages of the last segment that survivors leave, as a guess: for the floor, and for the ends of pages.
const FLOOR_PAGES_USUAL: u64 = 4;
/// Walks through a segment that does not read before the rest of it is given up: a minute, at a try a second.
pub(crate) const READ_TRIES_MAX: u32 = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cycle_left_beside_little_says_little_about_much() {
        const MIB: u64 = 1 << 20;
        let ends_of_segments = Incompressible::new(90 * MIB, 100 * MIB);
        assert_eq!(ends_of_segments.of(100 * MIB), 90 * MIB);
        assert_eq!(ends_of_segments.of(1000 * MIB) >> 20, 899, "grows with what is alive");
        let leftover = Incompressible::new(64 * MIB, MIB);
        assert_eq!(leftover.of(MIB), 64 * MIB);
        assert_eq!(leftover.of(10_000 * MIB), 10_063 * MIB, "never more than what is alive, and the rest");
        assert_eq!(Incompressible::default().of(u64::MAX), 0);
    }
}
