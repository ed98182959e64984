//! A real file system that is full: refusals come at once and say so, what was accepted is delivered and logged all the
//! same, and mail is accepted again by itself once deliveries have made room.
//!
//! A read-only remount is not here but in `faults.rs`: the kernel refuses it while the program has files open.

use e2e::kumod::Kumod;
use e2e::logs::Logs;
use e2e::mount::Tmpfs;
use e2e::scratch::Scratch;
use e2e::torture::{Fate, Load, Mix, Stage, seed};
use e2e::until::{LATER, SOON, until};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[test]
fn a_full_disk_refuses_in_time_and_recovers() {
    full(None);
}

#[test]
fn a_full_disk_refuses_in_time_and_recovers_with_a_file_a_message() {
    full(Some("LocalDisk"));
}

#[test]
fn a_disk_without_inodes_refuses_in_time_and_recovers() {
    without_inodes(None);
}

#[test]
fn a_disk_without_inodes_refuses_in_time_and_recovers_with_a_file_a_message() {
    without_inodes(Some("LocalDisk"));
}

/// Spool and logs on 64 MiB, messages of 1 MiB to somebody who is not there.
fn full(kind: Option<&str>) {
    let scratch = Scratch::new();
    let disk = Tmpfs::mount(&scratch, "disk", "size=64m");
    let mut stage = Stage::without_receiver(disk.path(), seed()).kind(kind);
    let mut relay = stage.launch.start();
    fill(&stage, 1 << 20);
    let acked = stage.book.acked();
    println!("{acked} messages of 1 MiB on 64 MiB");
    assert!(acked >= ACKED_MIN, "only {acked} messages were accepted");
    // Killed while the disk is full to its last page, it starts again and delivers.
    fs::write(disk.path().join("rest"), vec![0; 64 << 20]).expect_err("there is no room for that");
    relay.process.kill();
    let relay = stage.launch.start();
    fs::remove_file(disk.path().join("rest")).expect("what was written of it");
    stage.open_receiver();
    recover(&stage, &relay, disk.path());
    relay.stop();
}

/// Every inode taken by somebody else, then given back.
fn without_inodes(kind: Option<&str>) {
    let scratch = Scratch::new();
    let disk = Tmpfs::mount(&scratch, "disk", "size=64m,nr_inodes=300");
    let mut stage = Stage::without_receiver(disk.path(), seed()).kind(kind);
    let relay = stage.launch.start();
    let load = Load::start(&stage.book, stage.address, 1, 50, &Mix::plain(2_000));
    stage.book.await_acked(10, SOON);
    load.stop();
    let fillers = take_inodes(disk.path());
    fill(&stage, 1 << 20);
    fillers.iter().for_each(|path| fs::remove_file(path).expect("a file of ours"));
    stage.open_receiver();
    recover(&stage, &relay, disk.path());
    relay.stop();
}

/// Sends until no more is taken, which every sender must be told in time.
fn fill(stage: &Stage, octets: usize) {
    let begun = Instant::now();
    let load = Load::start(&stage.book, stage.address, SENDERS, 40, &Mix::plain(octets));
    stage.book.await_refusal(begun, LATER);
    until(SOON, "more refusals", || (stage.book.refusals().len() >= 3 * SENDERS).then_some(()));
    load.stop();
    for refusal in stage.book.refusals() {
        assert!(refusal.reply.starts_with("452 4.3.1"), "{}", refusal.reply);
        assert!(refusal.took < REFUSED_WITHIN, "{} after {:?}", refusal.reply, refusal.took);
    }
}

/// There is room again, or will be as soon as mail has gone out.
fn recover(stage: &Stage, relay: &Kumod, disk: &Path) {
    stage.book.await_arrivals(LATER);
    let gone = Instant::now();
    let acked = stage.book.acked();
    let load = Load::start(&stage.book, stage.address, 2, 20, &Mix::plain(100_000));
    stage.book.await_acked(acked + 5, RESUMED_WITHIN);
    println!("accepting again {:?} after the last delivery", gone.elapsed());
    load.stop();
    let account = stage.settle(relay);
    println!("{account}");
    assert!(account.is_clean() && account.duplicates == 0, "{account}");

    let wanted: HashSet<String> = stage.book.acked_recipients(Fate::Now).into_iter().collect();
    let logs = Logs::new(disk.join("logs"));
    for kind in ["Reception", "Delivery"] {
        until(SOON, &format!("a {kind} record for every message"), || {
            let records = logs.of_type(kind);
            let logged: HashSet<&str> = records.iter().filter_map(|record| record["recipient"].as_str()).collect();
            let missing = wanted.iter().filter(|recipient| !logged.contains(recipient.as_str())).count();
            (missing == 0).then_some(())
        });
    }
}

/// Makes empty files until there are no inodes left; returns them.
fn take_inodes(disk: &Path) -> Vec<PathBuf> {
    let folder = disk.join("others");
    fs::create_dir(&folder).expect("a folder for files of others");
    let mut made = Vec::new();
    loop {
        let path = folder.join(made.len().to_string());
        match fs::File::create(&path) {
            Ok(_) => made.push(path),
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
                return made;
            }
        }
    }
}

const SENDERS: usize = 4;
/// Messages of 1 MiB that 64 MiB must take: the rest is the reserve's, the logs' and unfinished segments'.
const ACKED_MIN: usize = 24;
/// A client waits no longer for its no.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// From there being room to letters answered 250.
const RESUMED_WITHIN: Duration = Duration::from_secs(5);
