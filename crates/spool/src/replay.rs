//! From the batches of the log to every message that was promised: transactions, then marks, in order.
//!
//! One batch in memory at a time; of a message only its entry of the index is kept: the envelope is
//! decoded, its queue named, and let go. Pure but for reading.

use crate::checkpoint::{Position, SegmentRow};
use crate::checkpoint_read::Checkpoint;
use crate::disk::ReadPages;
use crate::format::BatchHeader;
use crate::index::{Entry, Index, Live};
use crate::mark::Mark;
use crate::page::PAGE_OCTETS;
use crate::record::{Record, Records, Transaction};
use crate::recovery::{Recovered, Recovery};
use crate::scan::Found;
use crate::segments::{Segment, Segments};
use crate::settings::QueueOf;
use crate::tail::Planned;
use clock::WallTime;
use message::{MessageId, Place, Settled, codec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Messages and segments as far as they were read.
pub(crate) struct Replay {
    recovery: Recovery,
    index: Index,
    segments: Segments,
    floor: u32,
    queue_of: QueueOf,
    /// Messages whose envelope does not decode, with segment and share; not known to be removed.
    undecoded: BTreeMap<MessageId, (u32, u32)>,
    /// Where reading begins.
    from: Position,
    /// What the checkpoint says of the segments up to there.
    known: BTreeMap<u32, SegmentRow>,
}

impl Replay {
    /// Nothing of the log read yet; it begins where the checkpoint was made. Nothing below `floor` is needed.
    pub fn new(queue_of: QueueOf, floor: u32, checkpoint: Option<Checkpoint>) -> Replay {
        let (from, checkpoint_floor, index, known) = match checkpoint {
            Some(Checkpoint { position, floor, index, segments }) => (position, floor, index, segments),
            None => Default::default(),
        };
        Replay {
            recovery: Recovery::default(),
            index,
            segments: Segments::default(),
            floor: floor.max(checkpoint_floor),
            queue_of,
            undecoded: BTreeMap::new(),
            from,
            known,
        }
    }

    /// Reads one segment, up to `fence` when that is known; none of what the checkpoint has.
    pub fn segment(&mut self, disk: &Arc<dyn ReadPages>, sequence: u32, planned: &Planned, fence: Option<u32>) {
        let Planned { file_pages, nonce, .. } = *planned;
        let mut segment = Segment { file_pages, nonce, damaged: planned.header.is_none(), ..Segment::default() };
        // One that the checkpoint should have and has not was opened and never used.
        let known = self.known.get(&sequence).copied();
        if let Some(row) = known {
            segment.damaged |= row.damaged;
            segment.poisoned = row.poisoned;
            segment.nonce = row.nonce.or(nonce);
        }
        if planned.header.is_none() {
            self.recovery.damage.headers += 1;
            self.recovery.damage.unreadable_pages += u64::from(planned.is_unreadable);
        }
        if sequence < self.from.segment {
            segment.end = known.map_or(1, |row| row.end);
        } else if let Some(scan) = planned.scan(disk, sequence, fence) {
            let first_page = if sequence == self.from.segment { self.from.page } else { 1 };
            let mut scan = scan.starting_at(first_page);
            segment.end = loop {
                match scan.next() {
                    Found::Whole { page, header, octets } => self.batch(sequence, page, &header, octets),
                    Found::Damaged { page, pages, batch } => {
                        segment.damaged = true;
                        self.recovery.damage.batches += 1;
                        self.recovery.damage.octets += u64::from(pages) * PAGE_OCTETS as u64;
                        if let Some((header, octets)) = batch {
                            self.batch(sequence, page, &header, octets);
                        }
                    }
                    Found::End { page, torn_pages } => {
                        self.recovery.torn_tail_octets += u64::from(torn_pages) * PAGE_OCTETS as u64;
                        break page.min(file_pages);
                    }
                }
            };
            self.recovery.damage.unreadable_pages += scan.unread().pages;
        } else {
            self.recovery.damage.octets += u64::from(file_pages) * PAGE_OCTETS as u64;
            segment.end = file_pages;
        }
        self.segments.insert(sequence, segment);
    }

    /// Applies the sound records of one batch.
    fn batch(&mut self, segment: u32, page: u32, header: &BatchHeader, octets: &[u8]) {
        self.floor = self.floor.max(header.floor);
        self.recovery.replayed_octets += u64::from(header.pages) * PAGE_OCTETS as u64;
        let mut records = Records::new(octets, header);
        while let Some(record) = records.next() {
            match record {
                Ok(Record::Transaction(transaction)) => self.transaction(segment, page, &transaction),
                Ok(Record::Marks(marks)) => marks.iter().for_each(|(mark, _)| self.mark(mark)),
                Err(_) => {}
            }
        }
    }

    fn transaction(&mut self, segment: u32, page: u32, transaction: &Transaction<'_>) {
        let offset = page * PAGE_OCTETS as u32 + transaction.offset;
        let layout = &transaction.layout;
        for (index, (entry, state, _)) in layout.messages().enumerate() {
            let (bitmap, state) = transaction.state(&state, entry);
            let share = layout.share(entry);
            let Ok((envelope, meta)) = codec::decode(state) else {
                self.index.remove(&entry.id);
                self.undecoded.insert(entry.id, (segment, share));
                continue;
            };
            self.undecoded.remove(&entry.id);
            let recipients = u16::try_from(envelope.recipients.len()).unwrap_or(u16::MAX);
            let found = Live {
                id: entry.id,
                due: WallTime::from_unix_micros(entry.due),
                place: Place { segment, offset, index: index as u16 },
                share,
                size: entry.head_length.saturating_add(layout.body.len() as u32),
                attempts: entry.attempts,
                recipients,
                settled: settled_of(bitmap, recipients),
                is_recovered: true,
            };
            self.index.insert(found, &(self.queue_of)(&envelope, &meta));
        }
    }

    fn mark(&mut self, mark: &Mark) {
        if let Mark::Removed { id } = mark {
            self.undecoded.remove(id);
        }
        self.index.apply(mark);
    }

    /// Drops what lies below the floor and what went to `corrupt/`, counts what is alive.
    pub fn finish(mut self, asides: &[u32]) -> Recovered {
        for (segment, share) in self.undecoded.values() {
            // Kept out of the queue; its octets stay, because its segment is not reused.
            self.segments.damage(*segment);
            if *segment >= self.floor {
                self.recovery.damage.states += 1;
                self.recovery.damage.octets += u64::from(*share);
            }
        }
        let mut order = Vec::with_capacity(self.index.len());
        for slot in 0..self.index.end() {
            let Some(&Entry { id, place, share, .. }) = self.index.at(slot) else { continue };
            if place.segment < self.floor {
                self.index.remove(&id);
            } else if self.segments.get(place.segment).is_none() {
                self.index.remove(&id);
                // In `corrupt/` are also the marks that may have removed it; a log without checkpoint
                // does not know it either.
                if !asides.contains(&place.segment) {
                    self.recovery.damage.missing += 1;
                    self.recovery.damage.octets += u64::from(share);
                }
            } else {
                self.segments.add(place.segment, share);
                order.push(slot);
            }
        }
        let place = |slot: &u32| self.index.at(*slot).map(|e| (e.place.segment, e.place.offset, e.place.index));
        order.sort_unstable_by_key(place);
        self.recovery.live_messages = self.index.len() as u64;
        Recovered { recovery: self.recovery, index: self.index, segments: self.segments, floor: self.floor, order }
    }
}

/// From a stored bitmap; only recipients there are.
fn settled_of(bitmap: &[u8], recipients: u16) -> Settled {
    let whole = usize::from(recipients / 8);
    let mut octets = bitmap[..bitmap.len().min(whole + 1)].to_vec();
    if let Some(last) = octets.get_mut(whole) {
        *last &= (1 << (recipients % 8)) - 1;
    }
    Settled::from_bitmap(&octets)
}
