//! A process that is killed with -9 while it appends: whatever it was told is durable is there
//! afterwards, whatever it was told is removed stays away. The child is this test binary again.

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Sealed, TlsDemand};
use smtp_wire::{Mailbox, ReversePath};
use spool::{Mark, Settings};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use store::{Kind, Options};

const DIR: &str = "SPOOL_KILL_TEST_DIR";
const ROUND: &str = "SPOOL_KILL_TEST_ROUND";
const FILES: &str = "SPOOL_KILL_TEST_FILES";

fn options(kind: Kind) -> Options {
    Options { kind, settings: Settings::with_segment(1 << 20), fit_disk: false, ..Options::default() }
}

fn body(id: MessageId) -> Bytes {
    let octets = id.as_bytes();
    let length = 1 + usize::from(octets[7]) * 100;
    octets.iter().copied().cycle().take(length).collect::<Vec<u8>>().into()
}

fn sealed(id: MessageId) -> Sealed {
    let mailbox = Mailbox::parse("someone@example.com").expect("an address");
    let envelope = Envelope { sender: ReversePath(None), recipients: vec![mailbox], dsn: None, tls: TlsDemand::Usual };
    let head = Bytes::from(format!("Subject: {id}\r\n"));
    Sealed { id, envelope, meta: Meta::new(), head, body: body(id).into(), due: WallTime::EPOCH }
}

/// The child: appends for ever from 16 tasks and says so, a line each: `+` durable, `?` removal begun, `-` removal noted.
#[test]
#[ignore = "run by the test below, as a process to be killed"]
fn child() {
    let dir = std::env::var(DIR).expect("set by the parent");
    let kind = if std::env::var_os(FILES).is_some() { Kind::Files } else { Kind::Log };
    let round: u32 = std::env::var(ROUND).expect("set by the parent").parse().expect("a number");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (spool, _) = store::open(Path::new(&dir), options(kind)).expect("opens");
        let tasks: Vec<_> = (0..16_u32)
            .map(|task| {
                let spool = spool.clone();
                tokio::spawn(async move {
                    for number in 0_u32.. {
                        let mut octets = [0; 16];
                        octets[..4].copy_from_slice(&round.to_be_bytes());
                        octets[4..8].copy_from_slice(&number.to_be_bytes());
                        octets[8..12].copy_from_slice(&task.to_be_bytes());
                        let id = MessageId::from_bytes(octets);
                        spool.append(vec![vec![sealed(id)]]).await.expect("durable");
                        say('+', id);
                        if number % 3 != 0 {
                            say('?', id);
                            spool.mark(Mark::Removed { id });
                            // Every other one is only noted: that, too, outlives the process.
                            if number % 2 == 0 {
                                spool.flush().await.expect("durable");
                            }
                            say('-', id);
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("for ever");
        }
    });
}

fn say(what: char, id: MessageId) {
    // One write a line, so that a kill leaves whole lines.
    let line = format!("{what}{id}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent listens");
}

#[test]
fn killed_processes_lose_nothing_they_were_promised() {
    kill_again_and_again(Kind::Log, &[1, 700, 30, 2500, 5, 1200, 1, 100]);
}

#[test]
fn killed_processes_lose_nothing_with_a_file_per_message() {
    kill_again_and_again(Kind::Files, &[1, 500, 30, 1500, 5, 1, 100]);
}

fn kill_again_and_again(kind: Kind, rounds: &[usize]) {
    let dir = tempfile::tempdir().expect("a scratch directory");
    let (mut durable, mut maybe_gone, mut gone) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for (round, acks) in rounds.iter().enumerate() {
        for line in run_and_kill(kind, dir.path(), round, *acks) {
            let Some((what, id)) = line.split_at_checked(1) else { continue };
            let Ok(id) = id.parse::<MessageId>() else { continue };
            match what {
                "+" => _ = durable.insert(id),
                "?" => _ = maybe_gone.insert(id),
                "-" => _ = gone.insert(id),
                _ => {}
            }
        }
        runtime.block_on(check(kind, dir.path(), &durable, &maybe_gone, &gone));
    }
    assert!(gone.len() > 500, "removals were tried: {}", gone.len());
}

/// Starts a child, kills it at the `acks`-th acknowledgement; all it said.
fn run_and_kill(kind: Kind, dir: &Path, round: usize, acks: usize) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    if kind == Kind::Files {
        command.env(FILES, "1");
    }
    let mut child = command
        .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut said = Vec::new();
    let mut acknowledged = 0;
    while acknowledged < acks {
        let line = lines.next().expect("the child runs for ever").expect("text");
        acknowledged += usize::from(line.starts_with('+'));
        said.push(line);
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("ends");
    // What it had said before it died counts too.
    said.extend(lines.map_while(Result::ok).filter(|line| line.len() == 33));
    said
}

async fn check(
    kind: Kind,
    dir: &Path,
    durable: &BTreeSet<MessageId>,
    maybe_gone: &BTreeSet<MessageId>,
    gone: &BTreeSet<MessageId>,
) {
    let (spool, recovering) = store::open(dir, options(kind)).expect("opens after a kill");
    let (messages, report) = recovering.all().await.expect("recovers");
    assert_eq!(report.damage, None);
    let found: BTreeSet<MessageId> = messages.iter().map(|m| m.id).collect();
    for id in durable.difference(maybe_gone) {
        assert!(found.contains(id), "{id} was acknowledged and is lost");
    }
    assert_eq!(found.intersection(gone).count(), 0, "removed messages came back");
    for message in &messages {
        let read = spool.load(message.id, message.place).await.expect("reads");
        let expected = sealed(message.id);
        assert!(
            read.head == expected.head && read.body == expected.body && read.envelope == expected.envelope,
            "content of {}",
            message.id
        );
    }
    spool.close().await.expect("ends well");
}
