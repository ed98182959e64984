//! Power cuts at random moments: whatever happens, the spool keeps what it promised and nothing else.
//! Random histories of commits, marks, housekeeping, messages that do not read, starts in two parts, failing calls and
//! cuts; what a cut makes of unsynced octets and of names in doubt is random too.
//!
//! A failure prints its seed; `SPOOL_SEED=n cargo test -p spool --test crash` repeats it alone.

mod common;

use common::rig::Rig;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Random work, now and then a fault, a cut; several lives a seed.
fn run(seed: u64) {
    let mut rig = Rig::new(seed);
    for life in 0..LIVES {
        for _ in 0..rig.below(STEPS_MAX) {
            if rig.below(12) == 0 {
                let (k, sticky) = (1 + rig.below(6), rig.below(3) == 0);
                rig.disk.fail(k, sticky, seed);
            }
            if rig.step().is_err() && rig.below(3) == 0 {
                rig.disk.heal();
            }
        }
        match rig.below(4) {
            // In the middle of a start, now and then: after some of its calls, or between its two parts.
            0 => {
                rig.crash(seed * 11 + life);
                let k = 1 + rig.below(12);
                rig.disk.fail(k, true, seed);
                let _ = rig.step();
                rig.crash_and_check(seed * 13 + life);
            }
            1 => {
                rig.stop();
                rig.disk.heal();
                rig.opened().expect("a healthy disk opens");
            }
            _ => rig.crash_and_check(seed * 7 + life),
        }
    }
}

fn run_all(seeds: std::ops::Range<u64>) {
    let only = std::env::var("SPOOL_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in seeds.filter(|seed| only.is_none_or(|only: u64| only == *seed)) {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed)));
        assert!(result.is_ok(), "seed {seed}: SPOOL_SEED={seed} cargo test -p spool --test crash");
    }
}

/// With the three thousand of `checkpoint.rs` it is ten thousand histories.
#[test]
fn power_cuts_lose_nothing_1() {
    run_all(0..3500);
}

#[test]
fn power_cuts_lose_nothing_2() {
    run_all(3500..7000);
}

#[test]
fn the_work_is_varied_enough() {
    let (mut compacted, mut released, mut aside, mut given_up, mut rewritten) = (0, 0, 0, 0, 0);
    for seed in 0..30 {
        let mut rig = Rig::new(seed);
        for _ in 0..150 {
            rig.step().expect("no faults");
        }
        let stats = rig.stats();
        compacted += stats.octets_compacted;
        released += stats.released;
        aside += stats.set_aside;
        given_up += rig.given_up;
        rewritten += rig.rewritten;
    }
    assert!(compacted > 100_000 && released > 100, "{compacted} octets compacted, {released} segments released");
    assert!(rewritten > 100, "{rewritten} messages written anew");
    assert!(aside > 20 && given_up > 20, "{aside} segments set aside, {given_up} messages given up");
}

const LIVES: u64 = 3;
const STEPS_MAX: u64 = 40;
