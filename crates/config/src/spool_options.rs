//! The options of a spool.
//!
//! Owns [`SpoolOptions`], the argument of `kumo.define_spool`, and [`RocksParams`], the tuning it may carry. `RocksDB`
//! is served by our own log; tuning that has no meaning for it is read, checked and kept for showing.

use crate::choices::{RocksCompression, RocksLogLevel, SpoolKind};
use crate::duration::Duration;
use crate::min_free::MinFree;
use crate::options::options;
use std::path::PathBuf;

options! {
    /// `kumo.define_spool`
    pub struct SpoolOptions check check_spool {
        /// `data` (bodies) or `meta` (envelopes and metadata).
        name: String;
        /// The directory.
        path: PathBuf;
        /// `LocalDisk`: one file per message. `RocksDB`, and no kind at all: Postrider's own log.
        kind: Option<SpoolKind> = None;
        /// Flush at each write; every message is synced before 250 whatever is said here.
        flush: bool = false;
        /// Below it reception is refused (421 4.3.2, HTTP 503): `"N%"` or bytes.
        min_free_space: MinFree = MinFree::Percent(10);
        /// The same for inodes: `"N%"` or a count.
        min_free_inodes: MinFree = MinFree::Percent(10);
        /// RocksDB tuning.
        rocks_params: Option<RocksParams> = None;
    }
}

options! {
    /// `rocks_params` of a spool; unknown keys are skipped, as KumoMTA does
    pub struct RocksParams as tolerant {
        /// Background threads.
        increase_parallelism: Option<i64> = None;
        /// Memtable budget for level compaction (bytes).
        optimize_level_style_compaction: Option<u64> = None;
        /// Memtable budget for universal compaction (bytes).
        optimize_universal_style_compaction: Option<u64> = None;
        /// Verify more.
        paranoid_checks: bool = false;
        /// Compression of data blocks.
        compression_type: RocksCompression = RocksCompression::Snappy;
        /// Read-ahead of compactions (bytes).
        compaction_readahead_size: Option<u64> = None;
        /// Balance levels dynamically.
        level_compaction_dynamic_level_bytes: bool = false;
        /// Most open files; -1 for no bound.
        max_open_files: Option<i64> = None;
        /// Memtable size (bytes).
        write_buffer_size: Option<u64> = None;
        /// Level-0 files at which writes stop.
        level0_stop_writes_trigger: Option<i64> = None;
        /// Verbosity of RocksDB's own log.
        log_level: RocksLogLevel = RocksLogLevel::Info;
        /// Huge page size of memtables (bytes).
        memtable_huge_page_size: Option<u64> = None;
        /// Age at which that log is rotated.
        log_file_time_to_roll: Duration = Duration::from_hours(24);
        /// How often obsolete files are removed.
        obsolete_files_period: Duration = Duration::from_hours(6);
        /// Most stores being retried at once.
        limit_concurrent_stores: Option<u64> = None;
        /// Most loads at once.
        limit_concurrent_loads: Option<u64> = None;
        /// Most removes being retried at once.
        limit_concurrent_removes: Option<u64> = None;
        /// Longest wait of a store under back pressure.
        store_deadline: Duration = Duration::from_secs(30);
        /// How long errors last before the spool counts as unhealthy.
        error_latch_duration: Duration = Duration::from_secs(15);
        /// How long without errors before it counts as healthy again.
        error_unlatch_duration: Duration = Duration::from_minutes(5);
        /// Let it become healthy again by itself.
        allow_error_unlatch: bool = true;
    }
}

fn check_spool(spool: &SpoolOptions) -> Result<(), String> {
    if spool.name.is_empty() {
        return Err("invalid name \"\": expected \"data\" or \"meta\"".to_owned());
    }
    if spool.path.as_os_str().is_empty() {
        return Err("invalid path \"\": expected a directory".to_owned());
    }
    Ok(())
}
