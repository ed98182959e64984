//! What the log's tests share: messages made from a number (`messages`), and a rig (`rig.rs`) that runs a log against
//! a model of what it has promised.
#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]

#[path = "../messages/mod.rs"]
mod messages;
pub mod rig;

pub use messages::{Random, body, due, id, is_same, pending, queue_of, resident, sealed};
use spool::fault::FaultDisk;
use spool::{Disk, FileName, NonceSource, Recovery, SegmentLog, Settings, SpoolError};

pub fn small_settings() -> Settings {
    Settings {
        segment_octets: 64 << 10,
        compact_margin_octets: 128 << 10,
        checkpoint_octets: 60_000,
        checkpoint_factor: 2,
        queue_of,
    }
}

/// Opens the log on `disk`; nonces follow from `seed`.
pub fn open(disk: &FaultDisk, seed: u64) -> Result<(SegmentLog<FaultDisk>, Recovery), SpoolError> {
    SegmentLog::open(disk.clone(), small_settings(), nonces(seed))
}

/// Files of `disk` that are checkpoints.
pub fn checkpoints(disk: &FaultDisk) -> Vec<FileName> {
    let files = disk.copy().list().expect("a healthy disk lists");
    files.iter().map(|f| f.name).filter(|name| matches!(name, FileName::Checkpoint(_))).collect()
}

/// What the log alone says: everything recovered from a copy of `disk` without its checkpoints.
pub fn from_log_alone(disk: &FaultDisk) -> (SegmentLog<FaultDisk>, Recovery) {
    let mut alone = disk.copy();
    for file in checkpoints(disk) {
        alone.remove(file).expect("there");
    }
    open(&alone, 77).expect("a healthy disk opens")
}

/// Nonces that follow from `seed`.
pub fn nonces(seed: u64) -> NonceSource {
    let mut random = Random::new(seed ^ 0x5eed);
    Box::new(move || random.below(u64::MAX))
}

/// Housekeeping until there is nothing to do.
pub fn maintain_all(log: &mut SegmentLog<FaultDisk>) {
    for _ in 0..10_000 {
        if !log.maintain(1 << 20).expect("a healthy disk").has_more() {
            return;
        }
    }
    panic!("housekeeping never ends");
}
