//! The power goes while the program works: what was answered 250 is on the disk that is left.
//!
//! The program runs over a library that writes down all it does to its spool; the disk it finds after each cut is made
//! from that (see `e2e::power_cut`). Two controls let syncs do nothing: they must lose mail, else this test is blind.

use e2e::kumod::Launch;
use e2e::mount::Tmpfs;
use e2e::power_cut::{Disk, Model};
use e2e::preload;
use e2e::scratch::Scratch;
use e2e::torture::{Account, Load, Mix, Stage, seed};
use e2e::until::LATER;
use std::fs;
use std::path::Path;
use std::time::Duration;

#[test]
fn nothing_acknowledged_is_lost_in_power_cuts() {
    survive(None, Model::Strict);
}

#[test]
fn nothing_acknowledged_is_lost_in_power_cuts_that_tear() {
    let seed = seed();
    survive(None, Model::Torn(fastrand::Rng::with_seed(seed)));
}

#[test]
fn nothing_acknowledged_is_lost_in_power_cuts_with_a_file_a_message() {
    survive(Some("LocalDisk"), Model::Strict);
}

#[test]
fn nothing_acknowledged_is_lost_in_power_cuts_that_tear_with_a_file_a_message() {
    let seed = seed();
    survive(Some("LocalDisk"), Model::Torn(fastrand::Rng::with_seed(seed)));
}

#[test]
fn a_disk_that_lies_about_content_loses_mail() {
    for kind in [None, Some("LocalDisk")] {
        let account = cut(kind, &mut Model::Strict, Some("files"), 1);
        assert!(!account.lost.is_empty(), "nothing was synced and nothing lost: {account}");
    }
}

#[test]
fn a_disk_that_lies_about_names_loses_mail() {
    for kind in [None, Some("LocalDisk")] {
        let account = cut(kind, &mut Model::Strict, Some("names"), 1);
        assert!(!account.lost.is_empty(), "no name was synced and nothing lost: {account}");
    }
}

fn survive(kind: Option<&str>, mut model: Model) {
    let account = cut(kind, &mut model, None, CUTS);
    println!("{CUTS} cuts: {account}");
    assert!(account.is_clean(), "{account}");
    let most = CUTS * DUPLICATES_PER_CUT_MAX;
    assert!(account.duplicates <= most, "{} duplicates, at most {most} expected", account.duplicates);
}

/// A life, a cut, the next life on what is left, and so on; the last one settles.
fn cut(kind: Option<&str>, model: &mut Model, lie: Option<&str>, cuts: usize) -> Account {
    let scratch = Scratch::new();
    // Small, so that segments are: the whole of it is rebuilt after each cut.
    let disk = Tmpfs::mount(&scratch, "disk", "size=256m");
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let stage = Stage::new(disk.path(), seed).kind(kind).env("TORTURE_LOGS", scratch.join("logs"));
    let (data, record) = (scratch.join("disk/data"), scratch.join("record"));
    fs::create_dir(&data).expect("a folder of ours");
    let recorder = preload::library(&scratch, "recorder");
    let mut recorded = stage.launch.clone().env("LD_PRELOAD", recorder).env("RECORDER_FILE", &record);
    recorded = recorded.env("RECORDER_FOLDER", &data).env("RECORDER_LIE", lie.unwrap_or_default());
    for _ in 0..cuts {
        live_and_die(&stage, &recorded, &data, &record, &mut random, model);
    }
    let relay = stage.launch.start();
    let account = match lie {
        None => stage.settle(&relay),
        Some(_) => stage.settle_with_losses(&relay),
    };
    relay.stop();
    account
}

fn live_and_die(
    stage: &Stage,
    launch: &Launch,
    data: &Path,
    record: &Path,
    random: &mut fastrand::Rng,
    model: &mut Model,
) {
    let mut before = Disk::read(data);
    let mut relay = launch.start();
    // Recipients of several domains make several messages of one transaction: all or none of them.
    let mix = Mix { stuck_percent: 20, trouble_percent: 40, ..Mix::varied() };
    let load = Load::start(&stage.book, stage.address, SENDERS, LETTERS_PER_SECOND, &mix);
    stage.book.await_acked(stage.book.acked() + random.usize(20..=120), LATER);
    // Not always right behind a reply: also while a commit is under way.
    std::thread::sleep(CUT_WITHIN.mul_f64(random.f64()));
    relay.process.kill();
    stage.book.next_epoch();
    load.stop();
    let written = fs::read(record).unwrap_or_else(|e| panic!("the program recorded nothing: {e}"));
    fs::remove_file(record).expect("a file of ours");
    before.play(&written, model);
    before.write(data);
}

const CUTS: usize = 6;
const SENDERS: usize = 12;
const LETTERS_PER_SECOND: usize = 300;
/// From a 250 to the cut.
const CUT_WITHIN: Duration = Duration::from_millis(10);
/// Deliveries whose marks were not yet synced: those of a few milliseconds.
const DUPLICATES_PER_CUT_MAX: usize = 10;
