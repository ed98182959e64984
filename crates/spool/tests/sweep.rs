//! Every call of every kind fails in its turn, the first two thousand of each, once or for good until the disk is mended:
//! nothing that was acknowledged is lost, nothing else appears, and on the mended disk the log goes on at once.
//!
//! Each kind has histories in which each call is the one to fail, so that what failed before is there too.
//! `SPOOL_FAULT=k` makes all but the k-th of them succeed. A failure prints kind and k.

mod common;

use common::rig::{Rig, Work};
use spool::fault::{Call, Fault};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lets `FAULTS` calls of a kind fail, one after the other; every one is followed by a look at everything.
fn sweep(call: Call, sticky: bool) {
    let only: Option<u64> = std::env::var("SPOOL_FAULT").ok().and_then(|k| k.parse().ok());
    let fault = Fault { call: Some(call), at: 1, sticky, errno: 5 };
    let work = Work { body_max: 3000, spoils: false, ..Work::default() };
    let mut rig = Rig::with(0, work);
    for k in 1..=FAULTS {
        if k % FAULTS_A_HISTORY == 0 {
            rig = Rig::with(k + u64::from(sticky), work);
        }
        let result = catch_unwind(AssertUnwindSafe(|| one(&mut rig, k, only.is_none_or(|only| only == k), fault)));
        assert!(result.is_ok(), "{call:?} {k}, sticky: {sticky}");
    }
}

fn one(rig: &mut Rig, k: u64, fails: bool, fault: Fault) {
    if matches!(fault.call, Some(Call::List | Call::Read)) && k.is_multiple_of(2) {
        // Those of a start.
        rig.stop();
    }
    if fails {
        rig.disk.inject(fault, k);
    }
    for step in 0.. {
        // Whether this step meets the fault is its own affair.
        let _ = rig.step();
        if !fails || !rig.disk.is_armed() {
            break;
        }
        if step % STEPS_A_LIFE == STEPS_A_LIFE - 1 {
            // A call that is made at starts and ends only.
            let _ = rig.finish();
            rig.stop();
        }
        assert!(step < 40 * STEPS_A_LIFE, "no such call is made");
    }
    if fault.sticky {
        (0..3).for_each(|_| _ = rig.step());
    }
    rig.disk.heal();
    match k % 4 {
        0 => rig.crash_and_check(k),
        1 => rig.goes_on(),
        2 => {
            rig.stop();
            rig.goes_on();
        }
        _ => {
            rig.goes_on();
            rig.crash_and_check(k);
        }
    }
}

#[test]
fn writes_fail() {
    [false, true].into_iter().for_each(|sticky| sweep(Call::Write, sticky));
}

#[test]
fn syncs_fail() {
    [false, true].into_iter().for_each(|sticky| sweep(Call::Sync, sticky));
}

#[test]
fn creates_fail() {
    [false, true].into_iter().for_each(|sticky| sweep(Call::Create, sticky));
}

#[test]
fn renames_fail() {
    [false, true].into_iter().for_each(|sticky| sweep(Call::Rename, sticky));
}

#[test]
fn removes_fail() {
    [false, true].into_iter().for_each(|sticky| sweep(Call::Remove, sticky));
}

#[test]
fn lists_fail() {
    [false, true].into_iter().for_each(|sticky| sweep(Call::List, sticky));
}

#[test]
fn reads_fail() {
    [false, true].into_iter().for_each(|sticky| sweep(Call::Read, sticky));
}

/// Calls of each kind that fail.
const FAULTS: u64 = 2000;
/// Calls that fail before a new spool is begun.
const FAULTS_A_HISTORY: u64 = 200;
/// Steps before the log is ended and begun again, when the call that is to fail is not made.
const STEPS_A_LIFE: u64 = 12;
