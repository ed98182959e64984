//! Each verb against real spool directories: dead, in use, damaged, cut short, and none at all.

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Sealed, TlsDemand};
use serde_json::Value;
use smtp_wire::{Mailbox, ReversePath};
use spool::{Mark, Settings};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use store::{Options, SpoolHandle};
use tempfile::TempDir;

/// With an end of its own behind the queue's name.
fn queue_of(envelope: &Envelope, _: &Meta) -> String {
    format!("{}\u{0}1790000000000000", envelope.recipients[0].domain())
}

/// Small segments, so that a test has several.
fn options() -> Options {
    Options {
        settings: Settings { queue_of, ..Settings::with_segment(64 << 10) },
        fit_disk: false,
        ..Options::default()
    }
}

/// The verb's text and exit code.
fn run(spool: &Path, arguments: &[&str]) -> anyhow::Result<(String, u8)> {
    let mut all: Vec<OsString> = ["postrider spool", "--spool"].map(OsString::from).to_vec();
    all.push(spool.into());
    all.extend(arguments.iter().map(OsString::from));
    let mut out = Vec::new();
    let defaults = cli::Defaults { spool_dir: PathBuf::from("no such place"), queue_of };
    let code = cli::spool_to(all, defaults, &mut out)?;
    Ok((String::from_utf8_lossy(&out).into_owned(), code))
}

fn good(spool: &Path, arguments: &[&str]) -> String {
    let (text, code) = run(spool, arguments).expect("runs");
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// Of a damaged spool.
fn incomplete(spool: &Path, arguments: &[&str]) -> String {
    let (text, code) = run(spool, arguments).expect("runs");
    assert_eq!(code, 1, "{arguments:?}: {text}");
    text
}

fn bad(spool: &Path, arguments: &[&str]) -> String {
    format!("{:#}", run(spool, arguments).expect_err("refused"))
}

fn id(number: u32) -> MessageId {
    let mut octets = [9; 16];
    octets[..4].copy_from_slice(&number.to_be_bytes());
    MessageId::from_bytes(octets)
}

fn body(number: u32) -> String {
    format!("\r\nBody of {number}.\r\n{}\r\n", "x".repeat(number as usize * 100 % 9000))
}

/// Message `number`, for two people at `d<number % 3>.example`.
fn sealed(number: u32) -> Sealed {
    let mailbox = |user: &str| Mailbox::parse(&format!("{user}@d{}.example", number % 3)).expect("an address");
    let sender = ReversePath(Some(Mailbox::parse("sender@example.com").expect("an address")));
    let mut meta = Meta::new();
    meta.set("tenant", format!("t{number}"));
    Sealed {
        id: id(number),
        envelope: Envelope {
            sender,
            recipients: vec![mailbox("ann"), mailbox("bob")],
            dsn: None,
            tls: TlsDemand::Usual,
        },
        meta,
        head: Bytes::from(format!("Subject: number {number}\r\n")),
        body: body(number).into(),
        due: WallTime::from_unix_secs(2_000_000_000 + i64::from(number)),
    }
}

fn eml(number: u32) -> String {
    format!("Subject: number {number}\r\n{}", body(number))
}

async fn append(spool: &SpoolHandle, numbers: impl Iterator<Item = u32>) {
    for number in numbers {
        let _ = spool.append(vec![vec![sealed(number)]]).await.expect("durable");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Messages 1 to 30; number 2 was tried twice, its first recipient is settled; every third is removed.
fn filled() -> TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    runtime().block_on(async {
        let (spool, _) = store::open(dir.path(), options()).expect("opens");
        append(&spool, 1..=30).await;
        spool.mark(Mark::Attempt { id: id(2), attempts: 2, due: WallTime::from_unix_secs(2_100_000_000) });
        spool.mark(Mark::RecipientsDone { id: id(2), recipients: vec![0] });
        (1..=10).for_each(|n| spool.mark(Mark::Removed { id: id(n * 3) }));
        spool.flush().await.expect("durable");
        spool.close().await.expect("ends well");
    });
    dir
}

fn alive() -> impl Iterator<Item = u32> {
    (1..=30).filter(|n| n % 3 != 0)
}

/// Changes the octet at `at` of a file.
fn flip(path: &Path, at: usize) {
    let mut octets = fs::read(path).expect("there");
    octets[at] ^= 1;
    fs::write(path, octets).expect("writes");
}

/// The segment that holds a text, and where.
fn find(spool: &Path, text: &str) -> (PathBuf, usize) {
    let mut files: Vec<_> = fs::read_dir(spool).expect("lists").map(|e| e.expect("an entry").path()).collect();
    files.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("seg-")));
    let at = |p: &PathBuf| fs::read(p).expect("reads").windows(text.len()).position(|w| w == text.as_bytes());
    files.into_iter().find_map(|p| at(&p).map(|at| (p, at))).expect("somewhere")
}

/// Leaves the log alone.
fn forget_checkpoints(spool: &Path) {
    for entry in fs::read_dir(spool).expect("lists").map(|e| e.expect("an entry")) {
        if entry.file_name().to_string_lossy().starts_with("index-") {
            fs::remove_file(entry.path()).expect("there");
        }
    }
}

#[test]
fn verify_and_list_a_sound_spool() {
    let dir = filled();
    let text = good(dir.path(), &["verify"]);
    assert!(text.ends_with("sound\n") && text.contains("20 messages alive"), "{text}");
    assert!(text.starts_with(&format!("spool {}: not in use\n", dir.path().display())), "{text}");
    let report: Value = serde_json::from_str(&good(dir.path(), &["verify", "--json"])).expect("JSON");
    assert_eq!((&report["verdict"], &report["live_messages"]), (&"sound".into(), &20.into()));

    let lines = |arguments: &[&str]| good(dir.path(), arguments).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let ids: Vec<String> = lines(&["list"]).iter().map(|l| l[..32].to_owned()).collect();
    assert_eq!(ids, alive().map(|n| id(n).to_string()).collect::<Vec<_>>(), "oldest first");
    assert_eq!(lines(&["list", "--limit", "3"]).len(), 3);
    let queue = lines(&["list", "--queue", "d1.example"]);
    assert!(queue.len() == 10 && queue.iter().all(|l| l.ends_with("d1.example")), "{queue:?}");
    assert_eq!(lines(&["list", "--queue", "d0.example"]).len(), 0);
    let long = good(dir.path(), &["list", "--long", "--limit", "2"]);
    assert_eq!(long.matches("from <sender@example.com>").count(), 2);
    assert_eq!(long.matches("to <ann@").count(), 1, "number 2 has her settled: {long}");
    assert_eq!(long.matches("to <bob@").count(), 2, "{long}");
    let json = good(dir.path(), &["list", "--json", "--long"]);
    let second: Value = serde_json::from_str(json.lines().nth(1).expect("20 lines")).expect("JSON");
    assert_eq!(second["due"], "2036-07-18T13:20:00Z");
    assert_eq!((&second["attempts"], &second["recipients_left"]), (&2.into(), &1.into()));
    assert_eq!(second["to"], serde_json::json!(["bob@d2.example"]));
}

#[test]
fn cat_gives_the_octets_that_would_be_sent() {
    let dir = filled();
    assert_eq!(good(dir.path(), &["cat", &id(7).to_string()]), eml(7));
    let text = good(dir.path(), &["cat", "--envelope", &id(2).to_string()]);
    let (json, content) = text.split_once("\n\n").expect("an empty line");
    let json: Value = serde_json::from_str(json).expect("JSON");
    assert_eq!(content, eml(2));
    assert_eq!(json["sender"], "sender@example.com");
    assert_eq!(json["recipients"][0], serde_json::json!({"address": "ann@d2.example", "settled": true}));
    assert_eq!(json["recipients"][1]["settled"], false);
    assert_eq!((&json["meta"]["tenant"], &json["queue"]), (&"t2".into(), &"d2.example".into()));
    assert!(bad(dir.path(), &["cat", &id(3).to_string()]).contains("no message"), "removed");
    assert!(bad(dir.path(), &["cat", "xyz"]).contains("not a message id"));
}

#[test]
fn export_writes_what_cat_shows_and_replaces_nothing() {
    let dir = filled();
    let to = tempfile::tempdir().expect("a scratch directory");
    let target = to.path().join("a/b");
    let path = target.to_str().expect("text");
    let text = good(dir.path(), &["export", &id(1).to_string(), &id(2).to_string(), "--to", path]);
    assert!(text.starts_with("2 messages written"), "{text}");
    assert_eq!(fs::read_to_string(target.join(format!("{}.eml", id(2)))).expect("there"), eml(2));
    let json = fs::read_to_string(target.join(format!("{}.json", id(2)))).expect("there");
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON")["attempts"], 2);
    let refused = bad(dir.path(), &["export", "--all", "--to", path]);
    assert!(refused.contains("--force") && refused.contains(&id(1).to_string()), "{refused}");
    fs::write(target.join(format!("{}.eml", id(1))), "mine").expect("writes");
    fs::remove_file(target.join(format!("{}.json", id(1)))).expect("there");
    assert!(bad(dir.path(), &["export", "--all", "--to", path]).contains(".eml is there already"));
    assert_eq!(fs::read_to_string(target.join(format!("{}.eml", id(1)))).expect("there"), "mine");
    assert!(good(dir.path(), &["export", "--all", "--force", "--to", path]).starts_with("20 messages"));
    for number in alive() {
        assert_eq!(fs::read_to_string(target.join(format!("{}.eml", id(number)))).expect("there"), eml(number));
    }
    assert_eq!(fs::read_dir(&target).expect("lists").count(), 40, "nothing but the two files each");
    assert!(bad(dir.path(), &["export", &id(3).to_string(), "--to", path]).contains("no message"));
}

#[test]
fn damage_is_told_with_its_place_and_the_rest_is_saved() {
    let dir = filled();
    forget_checkpoints(dir.path());
    // A message's body, in a segment that later ones vouch for.
    let (file, at) = find(dir.path(), "Body of 4.");
    flip(&file, at);
    let name = file.file_name().expect("a name").to_string_lossy().into_owned();
    let (text, code) = run(dir.path(), &["verify"]).expect("runs");
    assert_eq!(code, 1);
    assert!(text.ends_with("DAMAGED: postrider spool salvage saves what reads\n"), "{text}");
    assert!(text.contains(&format!("damage: {name} at octet {}: ", at / 4096 * 4096)), "{text}");
    let listed = incomplete(dir.path(), &["list"]);
    assert!(!listed.contains(&id(4).to_string()) && listed.contains(&id(5).to_string()), "{listed}");
    let gone = bad(dir.path(), &["cat", &id(4).to_string()]);
    assert!(gone.contains("or what held it does not read. the spool is damaged"), "{gone}");
    let some = tempfile::tempdir().expect("a scratch directory");
    let place = |name: &str| some.path().join(name).to_str().expect("text").to_owned();
    for words in [["export", "--all", "--to", &place("all")].as_slice(), &["salvage", "--into", &place("new")]] {
        let text = incomplete(dir.path(), words);
        assert!(text.ends_with("the spool is damaged and may have held more: `postrider spool verify` says where, `salvage --to` saves what reads there\n"), "{text}");
    }
    assert!(good(&some.path().join("new"), &["list"]).contains(&id(5).to_string()));

    let to = tempfile::tempdir().expect("a scratch directory");
    let path = to.path().to_str().expect("text");
    let (text, code) = run(dir.path(), &["salvage", "--to", path]).expect("runs");
    assert_eq!(code, 1, "something does not read: {text}");
    assert!(text.contains(&format!("not written: message {} (unaccounted) in {name}", id(4))), "{text}");
    assert!(!to.path().join(format!("{}.eml", id(4))).exists());
    assert_eq!(fs::read_to_string(to.path().join(format!("{}.eml", id(2)))).expect("there"), eml(2));
    assert!(!to.path().join(format!("{}.eml", id(3))).exists(), "removed");

    let removed = tempfile::tempdir().expect("a scratch directory");
    let path = removed.path().to_str().expect("text");
    let (text, _) = run(dir.path(), &["salvage", "--include-removed", "--to", path]).expect("runs");
    assert!(text.contains("written: 19 live, 0 unaccounted, 10 removed"), "{text}");
    let json = fs::read_to_string(removed.path().join(format!("{}.json", id(3)))).expect("there");
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON")["status"], "removed");
}

#[test]
fn salvage_finds_what_recovery_cannot_know() {
    let dir = filled();
    // The header of a batch: recovery cannot believe the batch, its record is whole.
    let (file, at) = find(dir.path(), "Subject: number 4\r\n");
    let batch = at / 4096 * 4096;
    assert_eq!(&fs::read(&file).expect("reads")[batch..batch + 7], b"PRSPBAT");
    flip(&file, batch + 10);
    assert!(incomplete(dir.path(), &["list"]).contains(&id(4).to_string()), "the checkpoint knows where it is");
    assert_eq!(good(dir.path(), &["cat", &id(4).to_string()]), eml(4));
    assert_eq!(run(dir.path(), &["verify"]).expect("runs").1, 1, "the log is damaged all the same");
    forget_checkpoints(dir.path());
    assert!(!incomplete(dir.path(), &["list"]).contains(&id(4).to_string()));
    let to = tempfile::tempdir().expect("a scratch directory");
    let (text, code) = run(dir.path(), &["salvage", "--to", to.path().to_str().expect("text")]).expect("runs");
    assert_eq!(code, 1);
    assert!(text.contains("1 unaccounted"), "{text}");
    assert_eq!(fs::read_to_string(to.path().join(format!("{}.eml", id(4)))).expect("there"), eml(4));
    let json = fs::read_to_string(to.path().join(format!("{}.json", id(4)))).expect("there");
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON")["status"], "unaccounted");
}

#[test]
fn a_segment_set_aside_is_read_too() {
    let dir = filled();
    fs::rename(dir.path().join("seg-00000001"), dir.path().join("corrupt/seg-00000001")).expect("renames");
    flip(&dir.path().join("corrupt/seg-00000001"), 20);
    let (text, code) = run(dir.path(), &["verify"]).expect("runs");
    assert!(code == 1 && text.contains("corrupt/seg-00000001"), "{text}");
    assert!(text.contains("corrupt/seg-00000001 at octet 0: the header page does not read"), "{text}");
    // Recovery knew all that reads in it, so all of that was removed or has moved before it was set aside.
    flip(&dir.path().join("corrupt/seg-00000001"), 20);
    forget_checkpoints(dir.path());
    let to = tempfile::tempdir().expect("a scratch directory");
    let path = to.path().to_str().expect("text");
    assert!(run(dir.path(), &["salvage", "--to", path]).expect("runs").0.contains("written: 0 live, 0 unaccounted"));
    let (text, _) = run(dir.path(), &["salvage", "--include-removed", "--to", path]).expect("runs");
    assert!(!text.contains(" 0 removed") && to.path().join(format!("{}.eml", id(1))).exists(), "{text}");
}

#[test]
fn a_spool_cut_short_ends_where_it_was_cut() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    runtime().block_on(async {
        let (spool, _) = store::open(dir.path(), Options::default()).expect("opens");
        append(&spool, 1..=10).await;
        spool.close().await.expect("ends well");
    });
    let (path, at) = find(dir.path(), "Subject: number 7\r\n");
    fs::OpenOptions::new().write(true).open(&path).expect("opens").set_len(at as u64 + 5).expect("cuts");
    let text = good(dir.path(), &["verify"]);
    assert!(text.contains("octets of an unfinished commit") && text.ends_with("sound\n"), "{text}");
    let listed = good(dir.path(), &["list"]);
    assert!((1..=10).all(|n| listed.contains(&id(n).to_string()) == (n < 7)), "{listed}");
}

#[test]
fn salvage_into_keeps_attempts_due_times_and_settled_recipients() {
    let dir = filled();
    let home = tempfile::tempdir().expect("a scratch directory");
    let new = home.path().join("new");
    let path = new.to_str().expect("text");
    let text = good(dir.path(), &["salvage", "--into", path]);
    assert!(text.contains("20 live messages written to the new spool"), "{text}");
    let old = good(dir.path(), &["list", "--json", "--long"]);
    // `due_in_secs` counts down.
    let sorted = |text: &str| {
        let mut lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        lines.iter_mut().for_each(|l| l["due_in_secs"] = 0.into());
        lines.sort_by_key(|l| l["id"].to_string());
        lines
    };
    assert_eq!(sorted(&good(&new, &["list", "--json", "--long"])), sorted(&old));
    assert_eq!(good(&new, &["cat", &id(11).to_string()]), eml(11));
    assert!(bad(dir.path(), &["salvage", "--into", path]).contains("not empty"));
    runtime().block_on(async {
        let (spool, _) = store::open(dir.path(), options()).expect("opens");
        let other = home.path().join("other");
        let text = bad(dir.path(), &["salvage", "--into", other.to_str().expect("text")]);
        assert!(text.contains(&format!("in use by pid {}", std::process::id())), "{text}");
        assert!(!other.exists());
        spool.close().await.expect("ends well");
    });
}

#[test]
fn a_running_spool_is_read_while_it_is_written() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let runtime = runtime();
    let spool = runtime.block_on(async {
        let (spool, _) = store::open(dir.path(), options()).expect("opens");
        append(&spool, 1..=20).await;
        spool
    });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let writer = spool.clone();
    let flow = runtime.spawn(async move {
        let mut stopped = stopped;
        let mut number = 1000;
        while stopped.try_recv().is_err() {
            append(&writer, number..number + 4).await;
            (number..number + 4).for_each(|n| writer.mark(Mark::Removed { id: id(n) }));
            number += 4;
        }
        number
    });
    let to = tempfile::tempdir().expect("a scratch directory");
    let mut rounds = 0;
    while spool.stats().log.released < 40 || rounds < 3 {
        let text = good(dir.path(), &["verify"]);
        assert!(text.contains("in use by pid") && text.ends_with("sound\n"), "{text}");
        let listed = good(dir.path(), &["list", "--long"]);
        assert!((1..=20).all(|n| listed.contains(&id(n).to_string())), "{listed}");
        assert_eq!(good(dir.path(), &["cat", &id(5).to_string()]), eml(5));
        let out = to.path().join(rounds.to_string());
        let _ = good(dir.path(), &["export", "--all", "--to", out.to_str().expect("text")]);
        assert_eq!(fs::read_to_string(out.join(format!("{}.eml", id(20)))).expect("there"), eml(20));
        rounds += 1;
    }
    stop.send(()).expect("it runs");
    let written = runtime.block_on(async {
        let written = flow.await.expect("no panic");
        spool.close().await.expect("ends well");
        written
    });
    assert!(written > 1100, "mail flowed: {written}");
    assert!(good(dir.path(), &["verify"]).contains("20 messages alive"));
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let dir = tempfile::tempdir().expect("a scratch directory");
    assert!(bad(dir.path(), &["verify"]).contains("not a spool"));
    assert!(bad(&dir.path().join("none"), &["list"]).contains("No such file"));
    let filled = filled();
    let segment = filled.path().join("seg-00000001");
    let mut octets = fs::read(&segment).expect("there");
    octets[8] = 7;
    let crc = crc32fast::hash(&octets[..60]);
    octets[60..64].copy_from_slice(&crc.to_le_bytes());
    fs::write(&segment, octets).expect("writes");
    let text = bad(filled.path(), &["verify"]);
    assert!(text.contains("seg-00000001 has format version 7; this program knows up to"), "{text}");
    let (_, code) = run(filled.path(), &["cat"]).expect("a usage error");
    assert_eq!(code, 2);
}
