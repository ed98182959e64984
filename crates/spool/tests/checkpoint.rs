//! Checkpoints: whatever happens while one is written, and whatever becomes of it, a start from it and a start from the
//! log alone find the same. A failure prints its seed.

mod common;

use common::rig::{Rig, Work};
use common::{from_log_alone, open};
use spool::fault::{Call, Fault, FaultDisk};
use spool::{Damage, Recovery, SegmentLog};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Opens copies of the disk with and without its checkpoints and compares; the former's recovery.
fn same_from_the_log(disk: &FaultDisk) -> Recovery {
    let (with, from_checkpoint) = open(&disk.copy(), 5).expect("a healthy disk opens");
    let (without, from_log) = from_log_alone(disk);
    assert_eq!((from_checkpoint.damage, from_log.damage), (Damage::default(), Damage::default()));
    for (a, b) in from_checkpoint.messages.iter().zip(&from_log.messages) {
        assert_eq!(a, b);
    }
    assert_eq!(from_checkpoint.messages.len(), from_log.messages.len());
    let figures = |log: &SegmentLog<FaultDisk>| {
        let stats = log.stats();
        (stats.live_messages, stats.live_octets, stats.segments, stats.labels)
    };
    assert_eq!(figures(&with), figures(&without));
    assert_eq!(from_log.checkpoint, None);
    from_checkpoint
}

/// Random work, faults and ends; how many starts found a checkpoint of use.
fn run(seed: u64) -> usize {
    let mut rig = Rig::with(seed, Work { spoils: false, ..Work::default() });
    for life in 0..4 {
        let steps = rig.below(60);
        for _ in 0..steps {
            if rig.below(12) == 0 {
                let call = [Call::Create, Call::Write, Call::Sync, Call::Rename, Call::Remove][rig.below(5) as usize];
                let (at, sticky) = (1 + rig.below(6), rig.below(3) == 0);
                rig.disk.inject(Fault { call: Some(call), at, sticky, errno: 5 }, seed);
            }
            if rig.step().is_err() && rig.below(2) == 0 {
                rig.disk.heal();
            }
        }
        if rig.below(3) == 0 {
            // It may fail; then it must not have done harm.
            let _ = rig.finish();
        }
        rig.stop();
        if rig.below(3) > 0 {
            rig.disk.crash(seed * 11 + life);
        } else {
            rig.disk.heal();
        }
        same_from_the_log(&rig.disk);
        match rig.below(4) {
            // The power fails again before anything is adopted, or soon after.
            0 => {
                rig.step().expect("a healthy disk begins");
                rig.crash(seed * 13 + life);
            }
            1 => continue,
            _ => {}
        }
        rig.opened().expect("a healthy disk opens");
    }
    rig.from_checkpoints
}

#[test]
fn three_thousand_histories_are_the_same_from_checkpoint_and_log() {
    let mut from_checkpoints = 0;
    for seed in std::env::var("SEED").map_or(0..3000, |s| s.parse::<u64>().map(|s| s..s + 1).unwrap()) {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        from_checkpoints += result.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(from_checkpoints > 3000, "{from_checkpoints} starts from a checkpoint");
}
