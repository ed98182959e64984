//! Each verb against real spools of one file per message: dead, in use, damaged.

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Sealed, TlsDemand};
use serde_json::Value;
use smtp_wire::{Mailbox, ReversePath};
use spool::{Mark, Settings};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use store::{Kind, Options, SpoolHandle};
use tempfile::TempDir;

/// With an end of its own behind the queue's name.
fn queue_of(envelope: &Envelope, _: &Meta) -> String {
    format!("{}\u{0}1790000000000000", envelope.recipients[0].domain())
}

fn options() -> Options {
    Options { kind: Kind::Files, settings: Settings { queue_of, ..Settings::default() }, ..Options::default() }
}

/// The verb's text and exit code. It changes nothing in the spool.
fn run(spool: &Path, arguments: &[&str]) -> anyhow::Result<(String, u8)> {
    let before = snapshot(spool);
    let mut all: Vec<OsString> = ["postrider spool", "--spool"].map(OsString::from).to_vec();
    all.push(spool.into());
    all.extend(arguments.iter().map(OsString::from));
    let mut out = Vec::new();
    let defaults = cli::Defaults { spool_dir: PathBuf::from("no such place"), queue_of };
    let code = cli::spool_to(all, defaults, &mut out);
    assert_eq!(snapshot(spool), before, "{arguments:?} changed the spool");
    Ok((String::from_utf8_lossy(&out).into_owned(), code?))
}

fn good(spool: &Path, arguments: &[&str]) -> String {
    let (text, code) = run(spool, arguments).expect("runs");
    assert_eq!(code, 0, "{arguments:?}: {text}");
    text
}

/// Everything below a directory, with its content.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in fs::read_dir(dir).expect("lists").map(|entry| entry.expect("reads").path()) {
        match path.is_dir() {
            true => found.extend(snapshot(&path)),
            false => _ = found.insert(path.clone(), fs::read(&path).expect("reads")),
        }
    }
    found
}

fn id(number: u32) -> MessageId {
    let mut octets = [9; 16];
    octets[..4].copy_from_slice(&number.to_be_bytes());
    MessageId::from_bytes(octets)
}

fn sealed(number: u32) -> Sealed {
    let mailbox = |user: &str| Mailbox::parse(&format!("{user}@d{}.example", number % 3)).expect("an address");
    Sealed {
        id: id(number),
        envelope: Envelope {
            sender: ReversePath(None),
            recipients: vec![mailbox("ann"), mailbox("bob")],
            dsn: None,
            tls: TlsDemand::Usual,
        },
        meta: Meta::new(),
        head: Bytes::from(format!("Subject: number {number}\r\n")),
        body: Bytes::from(format!("\r\nBody of {number}.\r\n")).into(),
        due: WallTime::from_unix_secs(2_000_000_000 + i64::from(number)),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

async fn fill(dir: &Path) -> SpoolHandle {
    let (spool, _) = store::open(dir, options()).expect("opens");
    for number in 1..=12 {
        let _ = spool.append(vec![vec![sealed(number)]]).await.expect("durable");
    }
    spool.mark(Mark::Attempt { id: id(2), attempts: 2, due: WallTime::from_unix_secs(2_100_000_000) });
    spool.mark(Mark::RecipientsDone { id: id(2), recipients: vec![0] });
    (1..=4).for_each(|n| spool.mark(Mark::Removed { id: id(n * 3) }));
    spool.flush().await.expect("durable");
    spool
}

/// Messages 1 to 12; number 2 was tried twice, its first recipient is settled; every third is removed.
fn filled() -> TempDir {
    let dir = tempfile::tempdir().expect("a scratch directory");
    runtime().block_on(async { fill(dir.path()).await.close().await.expect("ends well") });
    dir
}

/// The file of a message.
fn file(dir: &Path, number: u32) -> PathBuf {
    let name = id(number).to_string();
    snapshot(dir).into_keys().find(|path| path.file_name().is_some_and(|n| *n == *name)).expect("there")
}

#[test]
fn a_sound_spool_is_read_whether_it_is_in_use_or_not() {
    let runtime = runtime();
    let dir = tempfile::tempdir().expect("a scratch directory");
    let spool = runtime.block_on(fill(dir.path()));
    for live in [true, false] {
        if !live {
            runtime.block_on(spool.close()).expect("ends well");
        }
        let text = good(dir.path(), &["verify"]);
        assert!(text.ends_with("sound\n") && text.contains("8 messages alive"), "{text}");
        assert_eq!(text.lines().next().expect("a line").contains("in use by pid"), live, "{text}");
        let report: Value = serde_json::from_str(&good(dir.path(), &["verify", "--json"])).expect("JSON");
        assert_eq!((&report["verdict"], &report["live_messages"]), (&"sound".into(), &8.into()));
        let list = good(dir.path(), &["list"]);
        let found: Vec<String> = list.lines().skip(1).map(|line| line[..32].to_owned()).collect();
        let mut alive: Vec<MessageId> = (1..=12).filter(|n| n % 3 != 0).map(id).collect();
        alive.sort_by_key(|id| (id.created(), *id));
        assert_eq!(found, alive.iter().map(MessageId::to_string).collect::<Vec<_>>());
        let row = list.lines().find(|line| line.starts_with(&id(2).to_string())).expect("listed");
        assert_eq!(row.split_whitespace().skip(2).take(2).collect::<Vec<_>>(), ["2", "1"], "{row}");
        assert!(row.ends_with("d2.example"), "{row}");
        assert_eq!(good(dir.path(), &["list", "--queue", "d1.example", "--json"]).lines().count(), 4);
    }
    assert_eq!(good(dir.path(), &["cat", &id(2).to_string()]), "Subject: number 2\r\n\r\nBody of 2.\r\n");
    let refused = run(dir.path(), &["cat", &id(3).to_string()]).expect_err("removed").to_string();
    assert!(refused.contains("no message"), "{refused}");
}

#[test]
fn export_writes_every_message() {
    let dir = filled();
    let target = tempfile::tempdir().expect("a scratch directory");
    let to = target.path().join("out");
    let text = good(dir.path(), &["export", "--all", "--to", to.to_str().expect("text")]);
    assert!(text.starts_with("8 messages written"), "{text}");
    let facts: Value =
        serde_json::from_slice(&fs::read(to.join(format!("{}.json", id(2)))).expect("written")).expect("JSON");
    assert_eq!((&facts["attempts"], &facts["recipients"][0]["settled"]), (&2.into(), &true.into()));
    assert_eq!(
        fs::read(to.join(format!("{}.eml", id(1)))).expect("written"),
        b"Subject: number 1\r\n\r\nBody of 1.\r\n"
    );
}

#[test]
fn damage_is_named_and_the_rest_is_saved() {
    let dir = filled();
    let damaged = file(dir.path(), 4);
    let mut octets = fs::read(&damaged).expect("reads");
    *octets.last_mut().expect("a body") ^= 1;
    fs::write(&damaged, octets).expect("writes");
    // Somebody moved a sound message away by hand: as salvage would find one whose disk reads again.
    let aside = dir.path().join("corrupt").join(format!("{}.00000000000000aa", id(5)));
    fs::rename(file(dir.path(), 5), aside).expect("renames");

    let (text, code) = run(dir.path(), &["verify"]).expect("runs");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("DAMAGED") && text.contains(&format!("{}: head or body", id(4))), "{text}");
    let report: Value = serde_json::from_str(&run(dir.path(), &["verify", "--json"]).expect("runs").0).expect("JSON");
    assert_eq!((&report["verdict"], &report["faults"][0]["what"]), (&"damaged".into(), &"content".into()));

    let target = tempfile::tempdir().expect("a scratch directory");
    let to = target.path().join("out");
    let (text, code) = run(dir.path(), &["salvage", "--to", to.to_str().expect("text")]).expect("runs");
    assert!(code == 1 && text.contains("written: 0 live, 1 unaccounted, 0 removed"), "{code} {text}");
    assert!(text.contains("not written: msg/") && text.contains(&id(4).to_string()), "{text}");
    let eml = fs::read(to.join(format!("{}.eml", id(5)))).expect("written");
    assert_eq!(eml, b"Subject: number 5\r\n\r\nBody of 5.\r\n");

    let new = target.path().join("new");
    let (text, code) = run(dir.path(), &["salvage", "--into", new.to_str().expect("text")]).expect("runs");
    assert!(
        code == 1 && text.contains("6 live messages written") && text.contains("1 live messages do not read"),
        "{text}"
    );
    assert!(new.join("msg").is_dir(), "of the same kind");
    let row = good(&new, &["list"]);
    let row = row.lines().find(|line| line.starts_with(&id(2).to_string())).expect("listed");
    assert_eq!(row.split_whitespace().skip(2).take(2).collect::<Vec<_>>(), ["2", "1"], "its marks came along: {row}");
}

#[test]
fn only_what_was_set_aside_is_damaged() {
    let dir = filled();
    fs::write(dir.path().join("corrupt").join(format!("{}.00000000000000aa", id(5))), "half").expect("writes");
    let (text, code) = run(dir.path(), &["verify"]).expect("runs");
    assert!(code == 1 && text.contains("8 messages alive") && !text.contains("DAMAGED:"), "{text}");
    let (text, _) = run(dir.path(), &["verify", "--json"]).expect("runs");
    assert!(text.contains("damaged_aside"), "{text}");
}
