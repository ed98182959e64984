//! Too little memory, too little free disk: new mail is refused in time and in KumoMTA's words, what was accepted is
//! delivered, and new mail is taken again by itself.

use e2e::http;
use e2e::kumod::Kumod;
use e2e::mount::Tmpfs;
use e2e::scratch::Scratch;
use e2e::torture::{Load, Mix, Stage, seed};
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn memory_stays_below_its_hard_limit() {
    let scratch = Scratch::new();
    let mut stage = Stage::without_receiver(scratch.path(), seed())
        .env("KUMOD_MEMORY_HARD_LIMIT", HARD_OCTETS.to_string())
        .env("TORTURE_LOGS", scratch.join("logs"));
    // Somebody who lets one connect, and says nothing.
    let mute = TcpListener::bind(stage.receiver_address).expect("the receiver's port is free");
    let relay = stage.launch.start();
    assert_eq!(relay.metric("memory_limit") as u64, HARD_OCTETS / 100 * 75);
    let begun = Instant::now();
    let load = Load::start(&stage.book, stage.address, BIG_SENDERS, 1_000, &Mix::plain(BIG_OCTETS));
    stage.book.await_refusal(begun, LATER);
    until(LATER, "more refusals", || (stage.book.refusals().len() >= BIG_SENDERS).then_some(()));
    load.stop();
    for refusal in stage.book.refusals() {
        let known = ["421 4.3.2 relay.test load shedding", "452 4.3.1"];
        assert!(known.iter().any(|text| refusal.reply.starts_with(text)), "{}", refusal.reply);
        // The time it took to send content until it was cut is the sender's own.
        assert!(refusal.took < SOON, "{} after {:?}", refusal.reply, refusal.took);
    }
    let shed = relay.metric("postrider_content_shed");
    println!("{} accepted, {} refused, {shed} cut", stage.book.acked(), stage.book.refusals().len());

    // With nobody sending there is room again, whatever waits in the queues.
    taken_again(&stage, Mix::plain(100_000));
    drop(mute);
    stage.open_receiver();
    let account = stage.settle(&relay);
    println!("{account}");
    assert!(account.is_clean() && account.duplicates == 0, "{account}");
    let most = resident_most(&relay);
    println!("{} MiB resident at most, of {} MiB", most >> 20, HARD_OCTETS >> 20);
    assert!(most < HARD_OCTETS, "{most} octets resident, the hard limit is {HARD_OCTETS}");
    relay.stop();
}

#[test]
fn a_disk_with_too_little_free_space_takes_no_mail() {
    too_full("size=64m", |folder| {
        let filler = folder.join("others");
        fs::write(&filler, vec![1; 40 << 20]).expect("there is room");
        vec![filler]
    });
}

#[test]
fn a_disk_with_too_few_free_inodes_takes_no_mail() {
    too_full("size=64m,nr_inodes=300", |folder| {
        let paths: Vec<_> = (0..180).map(|number| folder.join(format!("other-{number}"))).collect();
        paths.iter().for_each(|path| fs::write(path, "").expect("there are inodes"));
        paths
    });
}

/// A spool that must keep half of its disk free, on a disk that others fill and empty again.
fn too_full(options: &str, fill: impl FnOnce(&Path) -> Vec<std::path::PathBuf>) {
    let scratch = Scratch::new();
    let disk = Tmpfs::mount(&scratch, "disk", options);
    let stage =
        Stage::new(disk.path(), seed()).env("TORTURE_LOGS", scratch.join("logs")).env("TORTURE_MIN_FREE", "50%");
    let relay = stage.launch.start();
    taken_again(&stage, Mix { stuck_percent: 50, ..Mix::plain(2_000) });
    let mut open = Client::connect(stage.address);
    open.expect("EHLO client.test", 250);

    let others = fill(disk.path());
    let filled = Instant::now();
    until(REFUSED_WITHIN, "a refusal", || {
        let greeting = Client::connect_mute(stage.address).reply();
        (greeting.code == 421).then(|| assert_eq!(greeting.text(), TOO_FULL))
    });
    println!("refused {:?} after the disk was filled", filled.elapsed());
    let reply = open.say("MAIL FROM:<a@source.test>");
    assert_eq!((reply.code, reply.text().as_str()), (421, TOO_FULL));
    assert!(open.is_closed_silently(), "421 is the last word");
    let (status, reason) = http::get(relay.http(), LIVENESS);
    assert_eq!((status, reason.as_str()), (503, "storage is too full"));
    assert_eq!(http::get(relay.http(), READINESS), (status, reason));
    // What is in the queues goes out all the same.
    stage.book.release();
    stage.book.await_arrivals(LATER);

    others.iter().for_each(|path| fs::remove_file(path).expect("a file of ours"));
    taken_again(&stage, Mix::plain(2_000));
    assert_eq!(http::get(relay.http(), LIVENESS), (200, "OK".to_owned()));
    assert_eq!(http::get(relay.http(), READINESS), (200, "OK".to_owned()));
    let account = stage.settle(&relay);
    assert!(account.is_clean() && account.duplicates == 0, "{account}");
    relay.stop();
}

/// Mail is answered 250, within seconds.
fn taken_again(stage: &Stage, mix: Mix) {
    let acked = stage.book.acked();
    let load = Load::start(&stage.book, stage.address, 2, 50, &mix);
    stage.book.await_acked(acked + 10, RESUMED_WITHIN);
    load.stop();
}

/// The most memory a process ever had resident, in octets.
fn resident_most(relay: &Kumod) -> u64 {
    let path = format!("/proc/{}/status", relay.process.pid());
    let status = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel tells");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
    kib * 1024
}

/// What the server may use: a fraction of what is offered to it at once.
const HARD_OCTETS: u64 = 150_000_000;
const BIG_SENDERS: usize = 48;
const BIG_OCTETS: usize = 4 << 20;
const TOO_FULL: &str = "4.3.2 relay.test disk is too full. Try later";
const LIVENESS: &str = "/api/check-liveness/v1";
const READINESS: &str = "/api/check-readiness/v1";
/// A client waits no longer for its no, nor a disk that is too full to be noticed.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// From there being room to letters answered 250.
const RESUMED_WITHIN: Duration = Duration::from_secs(5);
