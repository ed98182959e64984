//! Before the 250 to a message is written to its socket, the message's octets and the name of the file that has them
//! are on disk: seen from the kernel's side, for every kind of spool.

use e2e::kumod::Launch;
use e2e::preload;
use e2e::scratch::Scratch;
use e2e::torture::Stage;
use e2e::trace::{self, Violation, check, final_replies, parse, strace};
use e2e::wire::Client;
use std::path::Path;

#[test]
fn without_a_kind_a_message_is_on_disk_before_its_250() {
    assert_eq!(broken_promises(None, false), []);
}

#[test]
fn with_kind_rocksdb_a_message_is_on_disk_before_its_250() {
    assert_eq!(broken_promises(Some("RocksDB"), false), []);
}

#[test]
fn with_kind_localdisk_a_message_is_on_disk_before_its_250() {
    assert_eq!(broken_promises(Some("LocalDisk"), false), []);
}

#[test]
fn a_program_that_does_not_sync_is_found_out() {
    for kind in [None, Some("LocalDisk")] {
        let broken = broken_promises(kind, true);
        assert_eq!(broken.len(), 2 * (SINGLE + TOGETHER * EACH), "two marks a message, all broken: {broken:?}");
        let not_synced = |violation: &&Violation| matches!(violation, Violation::NotSynced { .. });
        assert_eq!(broken.iter().filter(not_synced).count(), broken.len(), "{broken:?}");
    }
}

/// What is wrong with the messages of a run: a few on a line of their own, many at the same time.
fn broken_promises(kind: Option<&str>, lie: bool) -> Vec<Violation> {
    let scratch = Scratch::new();
    let out = scratch.join("trace");
    let library = lie.then(|| preload::library(&scratch, "lie"));
    let stage = Stage::without_receiver(scratch.path(), 0).kind(kind);
    let launch = stage.launch.clone().under(strace(&out, library.as_deref()));
    let peers = send(&launch, &stage);
    let events = read(&out);
    let mut broken = Vec::new();
    for (peer, marks) in &peers {
        let replies = final_replies(&events, peer);
        assert_eq!(replies.len(), marks.len(), "{peer}: {replies:?}");
        for (mark, (line, reply)) in marks.iter().zip(&replies) {
            assert!(reply.starts_with("250"), "{reply}");
            let verdicts = ["head", "tail"].map(|end| check(&events, &format!("{mark}-{end}"), *line));
            broken.extend(verdicts.into_iter().filter_map(Result::err));
        }
    }
    broken
}

/// Sends the messages to a traced relay and stops it. Returns each client's address and the marks of its messages.
fn send(launch: &Launch, stage: &Stage) -> Vec<(String, Vec<String>)> {
    let relay = launch.start();
    let send = |name: &str, count: usize, octets: usize| {
        let mut client = Client::connect(stage.address);
        client.expect("EHLO client.test", 250);
        let marks: Vec<String> = (0..count).map(|number| format!("mark-{name}-{number}")).collect();
        for mark in &marks {
            client.expect("MAIL FROM:<a@source.test>", 250);
            client.expect("RCPT TO:<b@now.test>", 250);
            client.expect("DATA", 354);
            let filling = "filling\r\n".repeat(octets / 9);
            client.expect(&format!("Subject: {mark}-head\r\n\r\n{filling}{mark}-tail\r\n."), 250);
        }
        (client.local().to_string(), marks)
    };
    let mut peers = vec![send("single", SINGLE, 10_000)];
    let together = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..TOGETHER).map(|number| scope.spawn(move || send(&format!("together{number}"), EACH, 500))).collect();
        clients.into_iter().map(|client| client.join().expect("a client")).collect::<Vec<_>>()
    });
    peers.extend(together);
    relay.stop();
    peers
}

fn read(out: &Path) -> Vec<trace::Event> {
    let text = std::fs::read(out).unwrap_or_else(|e| panic!("{}: {e}", out.display()));
    parse(&String::from_utf8_lossy(&text))
}

const SINGLE: usize = 4;
const TOGETHER: usize = 8;
const EACH: usize = 3;
