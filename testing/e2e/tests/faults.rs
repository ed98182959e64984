//! A disk that fails while the program runs: what is answered 250 stays safe, refusals come in time and with the right
//! reason, and mail is accepted again by itself once the disk is sound.

use e2e::mount::Tmpfs;
use e2e::preload::{Faults, How, Op};
use e2e::scratch::Scratch;
use e2e::torture::{Load, Mix, Refusal, Stage, seed};
use e2e::until::{LATER, SOON, until};
use nix::errno::Errno;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn a_sync_that_fails_once_costs_at_most_its_own_batch() {
    // The failed sync is never repeated: the kernel may have dropped the pages and would say yes the second time.
    for_each_kind(&[(Op::Sync, How::Error(Errno::EIO))], Some(1), Refusals::MayCome("451 4.3.0"));
}

#[test]
fn syncs_that_fail() {
    for_each_kind(&[(Op::Sync, How::Error(Errno::EIO))], None, Refusals::Come("451 4.3.0"));
}

#[test]
fn writes_that_find_no_room() {
    for_each_kind(&[(Op::Write, How::Error(Errno::ENOSPC))], None, Refusals::Come("452 4.3.1"));
}

#[test]
fn writes_that_find_room_for_a_part() {
    for_each_kind(&[(Op::Write, How::PartThen(Errno::ENOSPC))], None, Refusals::Come("452 4.3.1"));
}

#[test]
fn writes_that_do_only_a_part() {
    for_each_kind(&[(Op::Write, How::Part)], None, Refusals::None);
}

#[test]
fn a_file_system_that_turned_read_only() {
    let ops = [Op::Write, Op::Open, Op::Name, Op::Size, Op::Sync];
    for_each_kind(&ops.map(|op| (op, How::Error(Errno::EROFS))), None, Refusals::Come("451 4.3.0"));
}

#[test]
fn new_files_that_cannot_be_made() {
    // Without a new segment the one in use goes on: only when writes to it fail as well there is nothing left.
    let faults = [(Op::Open, How::Error(Errno::ENOSPC)), (Op::Write, How::Error(Errno::ENOSPC))];
    for_each_kind(&faults, None, Refusals::Come("452 4.3.1"));
}

#[test]
fn names_that_cannot_be_changed() {
    // The log changes one when a segment is full: on a small disk those are small.
    let faults = [(Op::Name, How::Error(Errno::EIO))];
    let scratch = Scratch::new();
    let disk = Tmpfs::mount(&scratch, "small", "size=256m");
    endure_in(disk.path(), None, &faults, None, Refusals::Come("451 4.3.0"));
    endure(Some("LocalDisk"), &faults, None, Refusals::Come("451 4.3.0"));
}

/// What clients may hear while the disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusals {
    None,
    MayCome(&'static str),
    Come(&'static str),
}

fn for_each_kind(ops: &[(Op, How)], times: Option<u32>, expected: Refusals) {
    endure(None, ops, times, expected);
    endure(Some("LocalDisk"), ops, times, expected);
}

fn endure(kind: Option<&str>, ops: &[(Op, How)], times: Option<u32>, expected: Refusals) {
    endure_in(Scratch::new().path(), kind, ops, times, expected);
}

/// A run with a fault in its middle; spool and logs lie in `folder`.
fn endure_in(folder: &Path, kind: Option<&str>, ops: &[(Op, How)], times: Option<u32>, expected: Refusals) {
    let scratch = Scratch::new();
    let faults = Faults::new(&scratch);
    let stage = Stage::new(folder, seed()).kind(kind);
    let faulty = stage.launch.clone();
    let relay = faulty
        .env("LD_PRELOAD", &faults.library)
        .env("FAULTS_FILE", &faults.switches)
        .env("FAULTS_FOLDER", folder.join("data"))
        .start();
    let mix = Mix { stuck_percent: 10, ..Mix::varied() };
    let load = Load::start(&stage.book, stage.address, SENDERS, LETTERS_PER_SECOND, &mix);
    stage.book.await_acked(50, LATER);

    let begun = Instant::now();
    ops.iter().for_each(|(op, how)| faults.arm(*op, *how, 3, times));
    let hits = || ops.iter().map(|(op, _)| faults.hits(*op)).sum::<i32>();
    until(SOON, "a call that failed on purpose", || (hits() > 0).then_some(()));
    if let Refusals::Come(_) = expected {
        stage.book.await_refusal(begun, REFUSED_WITHIN);
        // Not one session alone: whoever comes while it lasts.
        until(SOON, "more refusals", || (stage.book.refusals().len() >= 2 * SENDERS).then_some(()));
    }
    faults.clear();
    let acked = stage.book.acked();
    stage.book.await_acked(acked + SENDERS + 1, RESUMED_WITHIN);
    println!("{} calls failed, {} refusals", hits(), stage.book.refusals().len());
    for Refusal { took, reply, .. } in stage.book.refusals() {
        let in_order = match expected {
            Refusals::None => false,
            Refusals::MayCome(reason) | Refusals::Come(reason) => reply.starts_with(reason),
        };
        assert!(in_order && took < REFUSED_WITHIN, "{reply:?} after {took:?}");
    }

    // What the disk has is what counts, not what the process remembers.
    let mut relay = relay;
    relay.process.kill();
    let relay = stage.launch.start();
    load.stop();
    let account = stage.settle(&relay);
    println!("{account}");
    assert!(account.is_clean(), "{account}");
    relay.stop();
}

const SENDERS: usize = 8;
const LETTERS_PER_SECOND: usize = 100;
/// A client waits no longer for its no.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// From the end of a fault to the next letter answered 250.
const RESUMED_WITHIN: Duration = Duration::from_secs(5);
