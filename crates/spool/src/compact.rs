//! Reclaiming: releasing dead segments, copying survivors forward, keeping a spare ready.
//!
//! All of it is done in small steps between commits ([`SegmentLog::maintain`]), so that no
//! session ever waits for more than one step.

use crate::batch::{Part, State};
use crate::disk::{Disk, FileName};
use crate::log::SegmentLog;
use crate::page::{PAGE_OCTETS, Page};
use crate::record::{Record, Records, Transaction};
use crate::scan::{Bounds, Found, Scan};
use crate::{SpoolError, Step};
use message::Place;
use std::io::ErrorKind;
use std::sync::Arc;

/// A spare that is being filled with zeros.
pub(crate) struct Filling {
    pub number: u32,
    /// Pages filled.
    pub pages: u32,
}

/// The oldest segment being emptied.
pub(crate) struct Compaction {
    source: u32,
    scan: Scan,
}

impl<D: Disk> SegmentLog<D> {
    /// One step of housekeeping, of about `octets_max` octets read and written at most; true
    /// when there is more to do.
    ///
    /// # Errors
    /// The disk refused. Nothing is lost by it; try again later.
    pub fn maintain(&mut self, octets_max: usize) -> Result<crate::Maintenance, SpoolError> {
        Ok(crate::Maintenance { more: self.maintain0(octets_max)?, octets: 0 })
    }

    fn maintain0(&mut self, octets_max: usize) -> Result<bool, SpoolError> {
        if self.is_recovering() {
            return self.fill_step(octets_max);
        }
        if let Some(sequence) = self.segments.below(self.floor) {
            self.release(sequence)?;
            return Ok(true);
        }
        if self.floor_now() > self.floor && self.active.is_some() {
            // An empty batch makes the new floor durable, so that idle spools shrink too.
            self.begin_batch();
            self.write_batch()?;
            return Ok(true);
        }
        if self.compaction.is_some() || self.wants_compaction() {
            return self.compact_step(octets_max);
        }
        self.fill_step(octets_max)
    }

    /// Whether dead octets outweigh live ones so much that the oldest segment is worth emptying.
    pub fn wants_compaction(&self) -> bool {
        let disk = self.segments.file_pages() * PAGE_OCTETS as u64;
        let allowed = self.segments.live_octets() * 2 + self.settings.compact_margin_octets;
        let active = self.active.as_ref().map(|a| a.sequence);
        let oldest = self.segments.oldest(self.floor);
        disk > allowed
            && !self.is_recovering()
            && oldest.is_some_and(|(n, segment)| Some(n) != active && !segment.stuck && segment.live_messages > 0)
    }

    /// Copies survivors of the oldest segment into a batch of about `octets_max` octets; true
    /// when there is more to do.
    fn compact_step(&mut self, octets_max: usize) -> Result<bool, SpoolError> {
        let Some(mut compaction) = self.compaction.take().or_else(|| self.start_compaction()) else {
            return Ok(false);
        };
        self.begin_batch();
        let mut octets_read = 0;
        let mut ended = false;
        while octets_read < octets_max && self.builder.octets() < octets_max && !ended {
            match compaction.scan.next() {
                Found::Whole { page, header, octets } | Found::Damaged { page, batch: Some((header, octets)), .. } => {
                    octets_read += octets.len();
                    let mut records = Records::new(octets, &header);
                    while let Some(record) = records.next() {
                        if let Ok(Record::Transaction(transaction)) = record {
                            self.copy_survivors(compaction.source, page, &transaction);
                        }
                    }
                }
                Found::Damaged { batch: None, .. } => {}
                Found::End { .. } => ended = true,
            }
        }
        if !self.builder.written.is_empty() {
            self.counters.octets_compacted += self.builder.octets() as u64;
            let (segment, first_page) = self.write_batch()?;
            self.note_moved(segment, first_page);
        }
        if !ended {
            self.compaction = Some(compaction);
        } else if let Some(segment) = self.segments.get_mut(compaction.source)
            && segment.live_messages > 0
        {
            (segment.stuck, segment.damaged) = (true, true);
        }
        Ok(true)
    }

    /// A walk through the oldest segment.
    fn start_compaction(&mut self) -> Option<Compaction> {
        let (source, segment) = self.segments.oldest(self.floor)?;
        let (nonce, end) = (segment.nonce?, segment.end);
        let bounds = Bounds { segment: source, nonce, end: Some(end), file_pages: end };
        Some(Compaction { source, scan: Scan::new(Arc::clone(&self.reader), &bounds, 0) })
    }

    /// Puts what is alive of a transaction into the batch, still sharing the body.
    fn copy_survivors(&mut self, source: u32, page: u32, transaction: &Transaction<'_>) {
        let offset = page * PAGE_OCTETS as u32 + transaction.offset;
        let layout = &transaction.layout;
        let survivors: Vec<_> = layout
            .messages()
            .enumerate()
            .filter_map(|(i, (entry, state, head))| {
                let place = Place { segment: source, offset, index: i as u16 };
                let live = self.index.get(&entry.id).filter(|live| live.place == place)?;
                Some((entry, live, transaction.state(&state, entry).1, transaction.octets(&head)))
            })
            .collect();
        if survivors.is_empty() {
            return;
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
    }

    /// Gives up a segment that lies below the durable floor.
    fn release(&mut self, sequence: u32) -> Result<(), SpoolError> {
        let file = FileName::Segment(sequence);
        let Some(segment) = self.segments.get(sequence) else { return Ok(()) };
        let (damaged, pages) = (segment.damaged, segment.file_pages);
        let usual = pages <= self.settings.segment_octets / PAGE_OCTETS as u32;
        let reusable = usual && !segment.poisoned && self.spares.len() < SPARES_MAX;
        let spare = self.next_spare;
        let (step, result) = if damaged {
            (Step::Rename, self.disk.rename(file, FileName::Aside(sequence)))
        } else if reusable {
            (Step::Rename, self.disk.rename(file, FileName::Spare(spare)))
        } else {
            (Step::Remove, self.disk.remove(file))
        };
        match result {
            // An earlier try did it and could not say so.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(SpoolError::io(step, file, &e)),
            Ok(()) if damaged => self.counters.set_aside += 1,
            Ok(()) if reusable => {
                self.next_spare = spare.wrapping_add(1);
                self.spares.push((spare, pages));
            }
            Ok(()) => {}
        }
        self.counters.released += 1;
        self.segments.remove(sequence);
        Ok(())
    }

    /// Fills some of the next spare with zeros when the active segment will soon be full; true
    /// when there is more to do.
    fn fill_step(&mut self, octets_max: usize) -> Result<bool, SpoolError> {
        let capacity = self.settings.segment_octets / PAGE_OCTETS as u32;
        let soon = self.active.as_ref().is_some_and(|a| a.capacity == capacity && a.next_page > capacity / 2);
        if !soon || !self.spares.is_empty() {
            return Ok(false);
        }
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => Filling { number: self.new_spare()?, pages: 0 },
        };
        let file = FileName::Spare(filling.number);
        let pages = (octets_max / PAGE_OCTETS).clamp(1, FILL_PAGES_MAX).min((capacity - filling.pages) as usize);
        let written = self.disk.write_at(file, filling.pages, &Page::zeros(pages));
        if let Err(error) = written {
            // Best effort: an unfilled spare is found again at the next start.
            let _ = self.disk.remove(file);
            return Err(SpoolError::io(Step::Write, file, &error));
        }
        filling.pages += pages as u32;
        self.counters.octets_written += (pages * PAGE_OCTETS) as u64;
        if filling.pages < capacity {
            self.filling = Some(filling);
            return Ok(true);
        }
        // So that the first commits into it do not pay for its place on the disk.
        self.sync(file)?;
        self.spares.push((filling.number, filling.pages));
        Ok(false)
    }
}

/// Spare files kept; more are removed.
const SPARES_MAX: usize = 4;
/// Pages of zeros written at once: 1 MiB.
const FILL_PAGES_MAX: usize = 256;
