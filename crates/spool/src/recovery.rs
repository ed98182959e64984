//! Opening: from the files on the disk to every message that was promised
//! (docs/spool-format.md section 6).
//!
//! Reads segments in order, one batch in memory at a time, bodies never kept. What does not
//! read is counted and its segment kept out of reuse; nothing is deleted here, and nothing
//! written at all.

use crate::disk::{FileInfo, FileName, ReadPages};
use crate::format::{BatchHeader, SegmentHeader};
use crate::index::{Entry, Index, Live};
use crate::mark::Mark;
use crate::page::{PAGE_OCTETS, Page, octets};
use crate::record::{Record, Records, Transaction};
use crate::scan::{Bounds, Found, Scan};
use crate::segments::{Segment, Segments};
use crate::settings::QueueOf;
use crate::{SpoolError, Step};
use clock::WallTime;
use message::{MessageId, Place, Settled, codec};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was found at the start.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Every message in our care, in the order of their records.
    pub messages: Vec<RecoveredMessage>,
    /// What did not read.
    pub damage: Damage,
    /// Octets of the batch that was being written when the last run ended; never promised.
    pub torn_tail_octets: u64,
    /// Segments read.
    pub segments: usize,
    /// Segments in `corrupt/`, from this run's start and earlier ones.
    pub set_aside: usize,
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
    /// Octets in all of these; sound records of a damaged batch included.
    pub octets: u64,
}

/// What the log starts from.
pub(crate) struct Recovered {
    pub recovery: Recovery,
    pub index: Index,
    pub segments: Segments,
    pub spares: Vec<FileInfo>,
    pub floor: u32,
    /// Newest segment and the page behind what is acknowledged in it; (0, 0) for a new spool.
    pub acknowledged: (u32, u32),
    pub last_sequence: u64,
    pub last_segment: u32,
}

/// Reads everything.
pub(crate) fn recover(
    files: &[FileInfo],
    disk: &Arc<dyn ReadPages>,
    queue_of: QueueOf,
) -> Result<Recovered, SpoolError> {
    let mut plan = BTreeMap::new();
    let mut recovery = Recovery::default();
    let mut spares = Vec::new();
    let mut last_segment = 0;
    for file in files {
        match file.name {
            FileName::Segment(sequence) => {
                plan.insert(sequence, Planned::read(disk, sequence, file.octets)?);
                last_segment = last_segment.max(sequence);
            }
            FileName::Spare(_) => spares.push(*file),
            FileName::Aside(sequence) => {
                recovery.set_aside += 1;
                last_segment = last_segment.max(sequence);
            }
        }
    }
    let ends = acknowledged_ends(&plan);
    let mut replay = Replay {
        recovery,
        index: Index::default(),
        undecoded: BTreeMap::new(),
        segments: Segments::default(),
        floor: 0,
        last_sequence: 0,
        queue_of,
    };
    let mut acknowledged = (0, 0);
    for (sequence, planned) in &plan {
        let end = replay.segment(disk, *sequence, planned, ends.get(sequence).copied())?;
        acknowledged = (*sequence, end);
        if let Some(header) = &planned.header {
            replay.floor = replay.floor.max(header.floor);
            last_segment = last_segment.max(header.previous);
        }
    }
    replay.recovery.segments = plan.len();
    Ok(replay.finish(spares, acknowledged, last_segment))
}

/// A segment's header page and what is known without reading on.
struct Planned {
    header: Option<SegmentHeader>,
    nonce: Option<u64>,
    file_pages: u32,
}

impl Planned {
    fn read(disk: &Arc<dyn ReadPages>, sequence: u32, file_octets: u64) -> Result<Planned, SpoolError> {
        let file = FileName::Segment(sequence);
        let mut pages = Page::zeros(2);
        disk.read_at(file, 0, &mut pages).map_err(|e| SpoolError::io(Step::Read, file, &e))?;
        let header = SegmentHeader::decode(octets(&pages[..1]), file)?.filter(|h| h.segment == sequence);
        let first = BatchHeader::decode(octets(&pages[1..])).filter(|h| h.segment == sequence);
        let nonce = header.map(|h| h.nonce).or(first.map(|h| h.nonce));
        let file_pages = u32::try_from(file_octets.div_ceil(PAGE_OCTETS as u64)).unwrap_or(u32::MAX);
        Ok(Planned { header, nonce, file_pages })
    }
}

/// Page behind the acknowledged part of each segment for which a later one says so.
fn acknowledged_ends(plan: &BTreeMap<u32, Planned>) -> BTreeMap<u32, u32> {
    let mut ends = BTreeMap::new();
    let mut later_headers_sound = true;
    for (later, (sequence, planned)) in plan.iter().rev().enumerate() {
        if later > 0 && later_headers_sound {
            // Nobody names it although there are later ones: it was opened and never used.
            ends.entry(*sequence).or_insert(1);
        }
        match planned.header {
            // The newest word on a segment stands.
            Some(header) => _ = ends.entry(header.previous).or_insert(header.previous_end),
            None => later_headers_sound = false,
        }
    }
    ends
}

/// Messages and segments as far as they were read.
struct Replay {
    recovery: Recovery,
    index: Index,
    segments: Segments,
    floor: u32,
    last_sequence: u64,
    queue_of: QueueOf,
    /// Messages whose envelope does not decode, with segment and share; not known to be removed.
    undecoded: BTreeMap<MessageId, (u32, u32)>,
}

impl Replay {
    /// Reads one segment; the page behind its last batch.
    fn segment(
        &mut self,
        disk: &Arc<dyn ReadPages>,
        sequence: u32,
        planned: &Planned,
        end: Option<u32>,
    ) -> Result<u32, SpoolError> {
        let file_pages = planned.file_pages;
        let mut segment =
            Segment { file_pages, nonce: planned.nonce, damaged: planned.header.is_none(), ..Segment::default() };
        if planned.header.is_none() {
            self.recovery.damage.headers += 1;
        }
        let Some(nonce) = planned.nonce else {
            self.recovery.damage.octets += u64::from(file_pages) * PAGE_OCTETS as u64;
            segment.end = file_pages;
            self.segments.insert(sequence, segment);
            return Ok(file_pages);
        };
        let mut scan =
            Scan::new(Arc::clone(disk), &Bounds { segment: sequence, nonce, end, file_pages }, self.last_sequence);
        loop {
            match scan.next()? {
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
                    segment.end = page;
                    break;
                }
            }
        }
        self.last_sequence = scan.last_sequence();
        let end = segment.end;
        self.segments.insert(sequence, segment);
        Ok(end)
    }

    /// Applies the sound records of one batch.
    fn batch(&mut self, segment: u32, page: u32, header: &BatchHeader, octets: &[u8]) {
        self.floor = self.floor.max(header.floor);
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

    /// Drops what lies below the floor, counts what is alive.
    fn finish(mut self, spares: Vec<FileInfo>, acknowledged: (u32, u32), last_segment: u32) -> Recovered {
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
            } else {
                self.segments.add(place.segment, share);
                order.push((place.segment, place.offset, place.index, slot));
            }
        }
        order.sort_unstable();
        let index = &mut self.index;
        self.recovery.messages = order.into_iter().filter_map(|(.., slot)| index.hand_out(slot)).collect();
        Recovered {
            recovery: self.recovery,
            index: self.index,
            segments: self.segments,
            spares,
            floor: self.floor,
            acknowledged,
            last_sequence: self.last_sequence,
            last_segment,
        }
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
