//! The log's figures.

use crate::disk::Disk;
use crate::log::SegmentLog;
use crate::page::PAGE_OCTETS;

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub commits: u64,
    pub syncs: u64,
    pub octets_written: u64,
    pub poisoned: u64,
    pub released: u64,
    pub set_aside: u64,
    pub set_aside_messages: u64,
    pub octets_compacted: u64,
    pub checkpoints: u64,
    pub checkpoint_octets: u64,
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
    /// Live messages given up because they do not read.
    pub set_aside_messages: u64,
    /// Octets of survivors copied forward.
    pub octets_compacted: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Octets written for them, unfinished ones included.
    pub checkpoint_octets: u64,
    /// The mail of earlier runs is still being read; it is not among the figures yet.
    pub is_recovering: bool,
    /// Messages in our care.
    pub live_messages: u64,
    /// Octets they stand for.
    pub live_octets: u64,
    /// Names of queues they are in.
    pub labels: usize,
    /// Segments that hold the log.
    pub segments: usize,
    /// Spare files.
    pub spares: usize,
    /// Octets of all files, spares and checkpoints included.
    pub disk_octets: u64,
}

impl<D: Disk> SegmentLog<D> {
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
            set_aside_messages: c.set_aside_messages,
            octets_compacted: c.octets_compacted,
            checkpoints: c.checkpoints,
            checkpoint_octets: c.checkpoint_octets,
            live_messages: self.segments.live_messages(),
            live_octets: self.segments.live_octets(),
            labels: self.index.labels(),
            segments: self.segments.count(),
            spares: self.spares.len(),
            is_recovering: self.is_recovering(),
            disk_octets: self.unadopted_octets.unwrap_or(0)
                + self.checkpoints.disk_octets()
                + (self.segments.file_pages() + spare_pages + filling) * PAGE_OCTETS as u64,
        }
    }
    /// Octets of memory that the index of live messages holds, but for the names of queues. Adds up
    /// some hundred numbers: not for every commit.
    pub fn index_octets(&self) -> usize {
        self.index.octets()
    }
}
