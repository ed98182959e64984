//! Writing a checkpoint in small steps between commits, and in one go at a clean end.
//!
//! The position in the log is noted at the beginning, each slot of the index written as it is when the step reaches it: what
//! changes meanwhile is in the log behind the position and is applied again at the start. Nobody waits for a
//! checkpoint and nothing depends on it: what fails is given up and done anew later.

use crate::checkpoint::{
    CHUNK_HEADER_OCTETS, CheckpointHeader, ChunkHeader, END, ENTRY_OCTETS, EntryRow, MESSAGES, Position, SegmentRow,
    put_label, seal_chunk,
};
use crate::disk::{Disk, FileName};
use crate::format::put_u64;
use crate::index::Index;
use crate::log::SegmentLog;
use crate::page::{PAGE_OCTETS, PageBuf};
use crate::segments::Segments;
use crate::{SpoolError, Step};
use std::io::ErrorKind;

/// What the log knows of its checkpoints.
#[derive(Default)]
pub(crate) struct Checkpoints {
    /// The one being written.
    writing: Option<Writing>,
    /// Files there are, with their octets, the newest last: one is of use, the others are to be removed.
    files: Vec<(u32, u64)>,
    next_number: u32,
    /// Octets of log since the position of the newest one.
    since_octets: u64,
    /// Where reading begins after the newest one of this run.
    newest: Option<Position>,
}

/// A checkpoint being written.
struct Writing {
    header: CheckpointHeader,
    spare: u32,
    /// Pages written.
    pages: u32,
    chunks: u32,
    /// The next slot to be looked at.
    slot: u32,
    entries: u64,
    unsynced_octets: usize,
}

impl Checkpoints {
    /// At the start: what files there are.
    pub fn found(files: &[(u32, u64)]) -> Checkpoints {
        let mut files = files.to_vec();
        files.sort_unstable();
        let next_number = files.last().map_or(1, |(number, _)| number.wrapping_add(1).max(1));
        Checkpoints { files, next_number, ..Checkpoints::default() }
    }

    /// Counts what the log grew by.
    pub fn note_growth(&mut self, octets: u64) {
        self.since_octets += octets;
    }

    /// Octets of all its files.
    pub fn disk_octets(&self) -> u64 {
        let writing = self.writing.as_ref().map_or(0, |w| u64::from(w.pages) * PAGE_OCTETS as u64);
        self.files.iter().map(|(_, octets)| octets).sum::<u64>() + writing
    }
}

impl<D: Disk> SegmentLog<D> {
    /// Writes a checkpoint of everything, so that the next start need not read the log. To be called when no more commits
    /// will come; harmless otherwise. Does nothing while recovery is pending.
    ///
    /// # Errors
    /// The disk refused. The next start takes longer; nothing else depends on it.
    pub fn finish(&mut self) -> Result<(), SpoolError> {
        if self.is_recovering() || self.doubt.is_some() {
            // Nothing was written since the start.
            return Ok(());
        }
        self.give_up_checkpoint();
        let nothing_new = self.checkpoints.newest == Some(self.position());
        if nothing_new || (self.index.len() == 0 && self.checkpoints.files.is_empty()) {
            return Ok(());
        }
        self.start_checkpoint()?;
        while self.checkpoints.writing.is_some() {
            self.write_checkpoint(CHUNK_OCTETS_MAX)?;
        }
        Ok(())
    }

    /// One step of a checkpoint when one is due or being written: the octets written; `None` when there is nothing to do.
    pub(crate) fn checkpoint_step(&mut self, octets_max: usize) -> Result<Option<u64>, SpoolError> {
        if self.checkpoints.writing.is_none() {
            let size = (self.index.len() * ENTRY_OCTETS) as u64;
            let wait_octets = self.settings.checkpoint_octets.max(size * u64::from(self.settings.checkpoint_factor));
            if self.checkpoints.since_octets <= wait_octets || self.is_recovering() || self.doubt.is_some() {
                return Ok(None);
            }
            self.start_checkpoint()?;
        }
        self.write_checkpoint(octets_max.clamp(PAGE_OCTETS, CHUNK_OCTETS_MAX)).map(Some)
    }

    /// The end of what is durable.
    fn position(&self) -> Position {
        let (segment, page) = self.acknowledged;
        Position { segment, page, sequence: self.acknowledged_sequence }
    }

    /// Makes the file and notes the position.
    fn start_checkpoint(&mut self) -> Result<(), SpoolError> {
        // Not tried again before as much was written once more, should it fail.
        self.checkpoints.since_octets = 0;
        let spare = self.new_spare()?;
        let number = self.checkpoints.next_number;
        self.checkpoints.next_number = number.wrapping_add(1).max(1);
        let (position, floor) = (self.position(), self.floor);
        let segment_nonce = self.segments.get(position.segment).and_then(|segment| segment.nonce);
        let header = CheckpointHeader { number, nonce: (self.nonces)(), position, floor, segment_nonce };
        let mut buffer = PageBuf::default();
        buffer.put(&header.encode());
        self.checkpoints.writing =
            Some(Writing { header, spare, pages: 0, chunks: 0, slot: 0, entries: 0, unsynced_octets: 0 });
        self.put_checkpoint_pages(&mut buffer).map(|_| ())
    }

    /// The next chunk; after the last one the checkpoint gets its name. The octets written.
    fn write_checkpoint(&mut self, octets_max: usize) -> Result<u64, SpoolError> {
        let Some(writing) = &mut self.checkpoints.writing else { return Ok(0) };
        let mut buffer = PageBuf::default();
        if writing.slot < self.index.end() {
            put_messages(writing, &mut self.index, octets_max, &mut buffer);
            return self.put_checkpoint_pages(&mut buffer);
        }
        put_end(writing, &self.segments, &mut buffer);
        let octets = self.put_checkpoint_pages(&mut buffer)?;
        self.name_checkpoint()?;
        Ok(octets)
    }

    /// Writes pages behind those that are there.
    fn put_checkpoint_pages(&mut self, buffer: &mut PageBuf) -> Result<u64, SpoolError> {
        let Some(writing) = &mut self.checkpoints.writing else { return Ok(0) };
        let file = FileName::Spare(writing.spare);
        let pages = buffer.finish();
        let octets = pages.len() * PAGE_OCTETS;
        let mut result =
            self.disk.write_at(file, writing.pages, pages).map_err(|e| SpoolError::io(Step::Write, file, &e));
        writing.pages += pages.len() as u32;
        writing.unsynced_octets += octets;
        self.counters.octets_written += octets as u64;
        self.counters.checkpoint_octets += octets as u64;
        if result.is_ok() && writing.unsynced_octets >= UNSYNCED_OCTETS_MAX {
            writing.unsynced_octets = 0;
            result = self.sync(file);
        }
        if result.is_err() {
            self.give_up_checkpoint();
        }
        result.map(|()| octets as u64)
    }

    /// The checkpoint is written: syncs it, gives it its name, removes those before it.
    fn name_checkpoint(&mut self) -> Result<(), SpoolError> {
        let Some(writing) = self.checkpoints.writing.take() else { return Ok(()) };
        let (spare, file) = (FileName::Spare(writing.spare), FileName::Checkpoint(writing.header.number));
        let named = self
            .sync(spare)
            .and_then(|()| self.disk.rename(spare, file).map_err(|e| SpoolError::io(Step::Rename, spare, &e)));
        let older = self.checkpoints.files.len();
        self.checkpoints.files.push((writing.header.number, u64::from(writing.pages) * PAGE_OCTETS as u64));
        if let Err(error) = named {
            // Which of the two names it has is unknown; whole as it is, it may stay. Best effort.
            let _ = self.disk.remove(spare);
            return Err(error);
        }
        self.counters.checkpoints += 1;
        self.checkpoints.newest = Some(writing.header.position);
        for _ in 0..older {
            let file = FileName::Checkpoint(self.checkpoints.files[0].0);
            match self.disk.remove(file) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(SpoolError::io(Step::Remove, file, &e)),
                _ => _ = self.checkpoints.files.remove(0),
            }
        }
        Ok(())
    }

    /// Forgets the checkpoint being written.
    pub(crate) fn give_up_checkpoint(&mut self) {
        if let Some(writing) = self.checkpoints.writing.take() {
            // Best effort: a spare that stays is found again at the next start.
            let _ = self.disk.remove(FileName::Spare(writing.spare));
        }
    }
}

/// Puts a chunk of messages, and the names of their queues that the file lacks.
fn put_messages(writing: &mut Writing, index: &mut Index, octets_max: usize, buffer: &mut PageBuf) {
    let (mut labels, mut entries, mut bitmaps) = (Vec::new(), Vec::new(), Vec::new());
    let (mut label_count, mut entry_count) = (0, 0);
    // Free slots count too, so that a step takes no longer where there are many.
    let last = index.end().min(writing.slot.saturating_add((octets_max / ENTRY_OCTETS) as u32));
    while writing.slot < last && labels.len() + entries.len() + bitmaps.len() < octets_max {
        let slot = writing.slot;
        writing.slot += 1;
        let Some(entry) = index.at(slot).copied() else { continue };
        if index.labels_mut().is_news_for(entry.label, writing.header.number) {
            put_label(entry.label, index.queue(&entry), &mut labels);
            label_count += 1;
        }
        let bitmap = index.bitmap(&entry);
        EntryRow::of(&entry, bitmap.len() as u16).encode(&mut entries);
        bitmaps.extend_from_slice(bitmap);
        entry_count += 1;
    }
    writing.entries += u64::from(entry_count);
    if entry_count > 0 {
        put_chunk(writing, (MESSAGES, label_count, entry_count), &[&labels, &entries, &bitmaps], buffer);
    }
}

/// Puts the last chunk.
fn put_end(writing: &mut Writing, segments: &Segments, buffer: &mut PageBuf) {
    let (mut total, mut rows, mut row_count) = (Vec::new(), Vec::new(), 0);
    put_u64(&mut total, writing.entries);
    for (sequence, segment) in segments.iter().filter(|(sequence, _)| *sequence <= writing.header.position.segment) {
        let (end, damaged, poisoned, nonce) = (segment.end, segment.damaged, segment.poisoned, segment.nonce);
        SegmentRow { sequence, end, damaged, poisoned, nonce }.encode(&mut rows);
        row_count += 1;
    }
    put_chunk(writing, (END, row_count, 0), &[&total, &rows], buffer);
}

/// Puts a chunk of these parts; `what` is its kind and its two counts.
fn put_chunk(writing: &mut Writing, what: (u32, u32, u32), parts: &[&[u8]], buffer: &mut PageBuf) {
    let (kind, rows, entries) = what;
    let octets = CHUNK_HEADER_OCTETS + parts.iter().map(|part| part.len()).sum::<usize>();
    let (nonce, number) = (writing.header.nonce, writing.chunks);
    writing.chunks += 1;
    let header = ChunkHeader { crc: 0, octets: octets as u32, nonce, number, kind, rows, entries };
    buffer.put(&header.encode());
    parts.iter().for_each(|part| buffer.put(part));
    seal_chunk(buffer.octets_mut());
}

/// Octets of messages in a chunk: a step of housekeeping may ask for less.
const CHUNK_OCTETS_MAX: usize = 1 << 20;
/// Octets written before a sync: on a buffered file system the sync at the end would else hold commits up.
const UNSYNCED_OCTETS_MAX: usize = 16 << 20;
