//! One file per message: power cuts and kills at random moments, and every single file call failing once or for good.
//! Whatever happens, the spool keeps what it promised and nothing else. A failure prints its seed.

mod local_rig;

use local_rig::{Counts, Rig};
use std::panic::{AssertUnwindSafe, catch_unwind};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Random work, now and then a fault, a cut or a kill; three lives a seed.
fn run(seed: u64) -> Counts {
    let mut rig = Rig::new(seed);
    for life in 0..3 {
        let faults = rig.below(3) > 0;
        for _ in 0..rig.below(80) {
            if faults && rig.below(15) == 0 {
                let (k, sticky) = (1 + rig.below(8), rig.below(3) == 0);
                let errno = if rig.below(2) == 0 { EIO } else { ENOSPC };
                rig.fail(k, sticky, errno, seed);
            }
            if rig.step().is_err() && rig.below(2) == 0 {
                rig.files.heal();
            }
        }
        if rig.below(4) == 0 {
            rig.kill_and_check();
        }
        rig.crash_and_check(seed * 7 + life);
    }
    rig.counts.reused = rig.files.reuses();
    rig.counts
}

#[test]
fn fifteen_thousand_power_cuts_lose_nothing() {
    let mut all = Counts::default();
    for seed in 0..5000 {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let Ok(counts) = result else { panic!("seed {seed}") };
        all.acknowledged += counts.acknowledged;
        all.refused += counts.refused;
        all.removed += counts.removed;
        all.noted += counts.noted;
        all.recovered += counts.recovered;
        all.unfinished += counts.unfinished;
        all.torn_marks += counts.torn_marks;
        all.undone_at_start += counts.undone_at_start;
        all.rewritten += counts.rewritten;
        all.reused += counts.reused;
        all.together += counts.together;
    }
    println!("{all:?}");
    let Counts { acknowledged, refused, removed, noted, recovered, .. } = all;
    let Counts { unfinished, torn_marks, undone_at_start, rewritten, reused, together, .. } = all;
    let least = [
        acknowledged,
        refused,
        removed,
        noted,
        recovered,
        unfinished,
        torn_marks,
        undone_at_start,
        rewritten,
        reused,
        together,
    ];
    assert!(least.iter().all(|count| *count > 200), "the work is varied enough: {all:?}");
}

#[test]
fn every_call_may_fail_once_or_for_good() {
    for seed in 0..6 {
        for sticky in [false, true] {
            let mut reached_the_end = false;
            for k in 1..CALLS_MAX {
                let errno = if k % 2 == 0 { EIO } else { ENOSPC };
                let mut rig = Rig::new(seed);
                rig.fail(k, sticky, errno, seed + k);
                for _ in 0..STEPS {
                    let _ = rig.step();
                }
                if rig.files.calls() < k {
                    reached_the_end = true;
                    break;
                }
                rig.crash_and_check(seed * 31 + k);
                // It must be of use again.
                for _ in 0..10 {
                    rig.step().unwrap_or_else(|e| panic!("seed {seed} k {k} sticky {sticky}: {e}"));
                }
                rig.crash_and_check(seed * 37 + k);
            }
            assert!(reached_the_end, "seed {seed}: more than {CALLS_MAX} calls");
        }
    }
}

/// Steps of a run in which each call fails once.
const STEPS: usize = 60;
/// More calls than such a run makes.
const CALLS_MAX: u64 = 5_000;
