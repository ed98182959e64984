//! Power cuts at random moments, and every single disk call failing once: whatever happens, the
//! spool keeps what it promised and nothing else. A failure prints its seed.

mod common;

use common::Rig;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Random work, now and then a fault, a cut; three lives a seed.
fn run(seed: u64) {
    let mut rig = Rig::new(seed);
    for life in 0..3 {
        for _ in 0..rig.below(60) {
            if rig.below(12) == 0 {
                let (k, sticky) = (1 + rig.below(6), rig.below(3) == 0);
                rig.disk.fail(k, sticky, seed);
            }
            if rig.step().is_err() && rig.below(2) == 0 {
                rig.disk.heal();
            }
        }
        rig.crash_and_check(seed * 7 + life);
    }
}

#[test]
fn two_thousand_power_cuts_lose_nothing() {
    for seed in 0..2000 {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn every_call_may_fail_once_or_for_good() {
    for seed in 0..3 {
        for sticky in [false, true] {
            let mut reached_the_end = false;
            for k in 1..CALLS_MAX {
                let mut rig = Rig::new(seed);
                rig.disk.fail(k, sticky, seed + k);
                for _ in 0..STEPS {
                    let _ = rig.step();
                }
                if rig.disk.calls() < k {
                    reached_the_end = true;
                    break;
                }
                rig.crash_and_check(seed * 31 + k);
                // It must be of use again.
                for _ in 0..5 {
                    rig.step().unwrap_or_else(|e| panic!("seed {seed} k {k} sticky {sticky}: {e}"));
                }
                rig.crash_and_check(seed * 37 + k);
            }
            assert!(reached_the_end, "seed {seed}: more than {CALLS_MAX} calls");
        }
    }
}

#[test]
fn the_work_is_varied_enough() {
    let (mut compacted, mut released) = (0, 0);
    for seed in 0..20 {
        let mut rig = Rig::new(seed);
        for _ in 0..150 {
            rig.step().expect("no faults");
        }
        let stats = rig.stats();
        compacted += stats.octets_compacted;
        released += stats.released;
    }
    assert!(compacted > 100_000 && released > 100, "{compacted} octets compacted, {released} segments released");
}

/// Steps of a run in which each call fails once.
const STEPS: usize = 60;
/// More calls than such a run makes.
const CALLS_MAX: u64 = 5_000;
