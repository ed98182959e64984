//! The start of a log.

use crate::batch::Builder;
use crate::disk::{Disk, FileName};
use crate::log::SegmentLog;
use crate::page::PAGE_OCTETS;
use crate::recovery::{Recovered, Recovery, recover};
use crate::settings::{NonceSource, Settings};
use crate::stats::Counters;
use crate::{SpoolError, Step};

impl<D: Disk> SegmentLog<D> {
    /// Opens the spool on `disk`, syncs and recovers what is in it. Writes nothing: the first commit
    /// opens a new segment.
    ///
    /// # Errors
    /// `Io` when a file does not read, `NewerFormat` when a newer program wrote it.
    pub fn open(mut disk: D, settings: Settings, nonces: NonceSource) -> Result<(SegmentLog<D>, Recovery), SpoolError> {
        let files = disk.list().map_err(|e| SpoolError::io(Step::List, None, &e))?;
        // A process that was killed may have left written pages that no sync covers. What is
        // believed below must be on disk first: a later power cut must not take it back.
        for file in files.iter().map(|f| f.name).filter(|name| matches!(name, FileName::Segment(_))) {
            disk.sync(file).map_err(|e| SpoolError::io(Step::Sync, file, &e))?;
        }
        let reader = disk.reader();
        let recovered = recover(&files, &reader, settings.queue_of)?;
        let Recovered { recovery, index, segments, spares, floor, acknowledged, last_sequence, last_segment } =
            recovered;
        let spare_number = |name: &FileName| if let FileName::Spare(number) = name { *number } else { 0 };
        let pages = |octets: u64| u32::try_from(octets / PAGE_OCTETS as u64).unwrap_or(u32::MAX);
        let log = SegmentLog {
            reader,
            nonces,
            index,
            segments,
            active: None,
            acknowledged,
            next_segment: last_segment.saturating_add(1),
            next_batch: last_sequence + 1,
            floor,
            next_spare: spares.iter().map(|f| spare_number(&f.name)).max().unwrap_or(0).wrapping_add(1),
            spares: spares.iter().map(|f| (spare_number(&f.name), pages(f.octets))).collect(),
            filling: None,
            compaction: None,
            builder: Builder::default(),
            counters: Counters::default(),
            settings: settings.sound(),
            disk,
        };
        Ok((log, recovery))
    }
}
