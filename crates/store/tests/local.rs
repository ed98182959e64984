//! One file per message on real files: what goes in comes back, whatever ends the process in between.

mod support;

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Place, Resident, Sealed, Settled, TlsDemand};
use smtp_wire::{Mailbox, ReversePath};
use spool::{Mark, RecoveredMessage, Rewrite, Settings, SpoolError};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::{Kind, Options, Recovering, SpoolHandle, StoreError};
use support::until;

fn options() -> Options {
    let queue_of = |_: &Envelope, meta: &Meta| meta.get("n").map(|n| format!("q{n}")).unwrap_or_default();
    Options {
        kind: Kind::Files,
        settings: Settings { queue_of, ..Settings::default() },
        retry_interval: Duration::from_millis(20),
        ..Options::default()
    }
}

fn open(dir: &Path) -> (SpoolHandle, Recovering) {
    store::open(dir, options()).expect("opens")
}

fn id(number: u64) -> MessageId {
    let mut octets = [0x5a; 16];
    octets[..8].copy_from_slice(&number.to_be_bytes());
    MessageId::from_bytes(octets)
}

fn sealed(number: u64, recipients: usize) -> Sealed {
    let mailbox = |n| Mailbox::parse(&format!("r{n}@example.com")).expect("an address");
    let mut meta = Meta::new();
    meta.set("n", number);
    let body = id(number).as_bytes().iter().copied().cycle().take(1 + number as usize % 7 * 3000).collect::<Vec<u8>>();
    Sealed {
        id: id(number),
        envelope: Envelope {
            sender: ReversePath(None),
            recipients: (0..recipients).map(mailbox).collect(),
            dsn: None,
            tls: TlsDemand::Usual,
        },
        meta,
        head: Bytes::from(format!("Subject: {number}\r\n")),
        body: body.into(),
        due: WallTime::from_unix_micros(number as i64),
    }
}

fn resident(sealed: Sealed) -> Resident {
    let Sealed { envelope, meta, head, body, .. } = sealed;
    Resident { envelope, meta, head, body }
}

fn ids(found: &[RecoveredMessage]) -> BTreeSet<MessageId> {
    found.iter().map(|message| message.id).collect()
}

/// Files below `dir/msg`, the version apart.
fn files_in(dir: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(dir.join("msg")).expect("lists").map(|entry| entry.expect("reads").path());
    let files = folders.filter(|path| path.is_dir()).flat_map(|path| fs::read_dir(path).expect("lists"));
    files.map(|entry| entry.expect("reads").path()).collect()
}

/// Those of them that are messages, not being written and not kept for one.
fn messages_in(dir: &Path) -> Vec<PathBuf> {
    files_in(dir).into_iter().filter(|path| path.extension().is_none()).collect()
}

#[tokio::test]
async fn what_was_appended_comes_back_with_its_marks() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, recovering) = open(dir.path());
    assert_eq!(recovering.all().await.expect("nothing yet").0, []);
    let groups = vec![
        vec![sealed(1, 3)],
        vec![sealed(2, 1)],
        (3..23).map(|n| Sealed { body: Bytes::from_static(b"b").into(), ..sealed(n, 1) }).collect(),
    ];
    let appended = spool.append(groups).await.expect("durable");
    let order: Vec<_> = (1..23).map(id).collect();
    assert_eq!(appended.sealed.iter().map(|s| s.id).collect::<Vec<_>>(), order);
    assert_eq!(appended.durable.iter().map(|d| d.id()).collect::<Vec<_>>(), order);
    assert!(appended.durable.iter().all(|d| d.place() == Place::OWN_FILE));
    assert!(spool.load(id(1), Place::OWN_FILE).await.expect("reads") == resident(sealed(1, 3)));
    spool.mark(Mark::RecipientsDone { id: id(1), recipients: vec![0] });
    spool.mark(Mark::Attempt { id: id(1), attempts: 4, due: WallTime::from_unix_micros(77) });
    spool.mark(Mark::RecipientsDone { id: id(1), recipients: vec![2] });
    (3..23).for_each(|n| spool.mark(Mark::Removed { id: id(n) }));
    spool.flush().await.expect("durable");
    assert_eq!(
        (messages_in(dir.path()).len(), files_in(dir.path()).len()),
        (2, 22),
        "the files of settled messages are kept for others"
    );
    assert_eq!(spool.load(id(3), Place::OWN_FILE).await, Err(SpoolError::NoSuchMessage { id: id(3) }));
    let stats = spool.stats();
    assert_eq!((stats.appended_messages, stats.log.live_messages, stats.marks), (22, 2, 23));
    spool.close().await.expect("ends well");
    assert_eq!(files_in(dir.path()).len(), 2, "at the end they go");
    assert_eq!((spool.stats().queued, spool.stats().hints_failed), (0, 0));
    spool.close().await.expect("ends well again");
    assert!(matches!(spool.append(vec![vec![sealed(99, 1)]]).await, Err(SpoolError::Closed)));

    let (spool, recovering) = open(dir.path());
    // Mail is accepted before that of earlier runs is read, and is not found a second time.
    spool.append(vec![vec![sealed(50, 1)]]).await.expect("durable");
    let (found, report) = recovering.all().await.expect("reads");
    assert_eq!((ids(&found), &*report.read), ([id(1), id(2)].into(), "2 message files"));
    assert_eq!((report.unfinished, report.damage, report.strange), (None, None, None));
    let first = found.iter().find(|message| message.id == id(1)).expect("just found");
    assert_eq!((&*first.queue, first.attempts, first.due.unix_micros(), first.recipients), ("q1", 4, 77, 3));
    assert_eq!([0, 1, 2].map(|r| first.settled.contains(r)), [true, false, true]);
    assert_eq!(spool.stats().log.live_messages, 3);
    spool.close().await.expect("ends well");
}

#[tokio::test]
async fn a_message_written_anew_keeps_its_marks_and_its_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, recovering) = open(dir.path());
    recovering.all().await.expect("nothing yet");
    spool.append(vec![vec![sealed(1, 3)]]).await.expect("durable");
    // Waits in the queue of the thread that writes it anew.
    spool.mark(Mark::Attempt { id: id(1), attempts: 1, due: WallTime::from_unix_micros(5) });
    let mut settled = Settled::default();
    settled.insert(2);
    let changed = Sealed { id: id(1), due: WallTime::from_unix_micros(9), ..sealed(4, 3) };
    let rewrite = Rewrite { sealed: changed.clone(), attempts: 3, settled };
    assert_eq!(spool.rewrite(rewrite.clone()).await, Ok(Place::OWN_FILE));
    spool.mark(Mark::RecipientsDone { id: id(1), recipients: vec![0] });
    assert!(spool.load(id(1), Place::OWN_FILE).await.expect("reads") == resident(changed.clone()));
    let of_nobody = Rewrite { sealed: sealed(7, 1), attempts: 0, settled: Settled::default() };
    assert_eq!(spool.rewrite(of_nobody).await, Err(SpoolError::NoSuchMessage { id: id(7) }));
    assert_eq!(files_in(dir.path()).len(), 1);
    spool.close().await.expect("ends well");
    assert_eq!(spool.rewrite(rewrite).await, Err(SpoolError::Closed));

    let (spool, recovering) = open(dir.path());
    let (found, _) = recovering.all().await.expect("reads");
    let [message] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&*message.queue, message.attempts, message.due.unix_micros(), message.recipients), ("q4", 3, 9, 3));
    assert_eq!([0, 1, 2].map(|r| message.settled.contains(r)), [true, false, true]);
    assert!(spool.load(id(1), Place::OWN_FILE).await.expect("reads") == resident(changed));
    spool.close().await.expect("ends well");
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_writers_at_once_lose_and_mix_up_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, recovering) = open(dir.path());
    recovering.all().await.expect("nothing yet");
    let tasks: Vec<_> = (0..64_u64)
        .map(|task| {
            let spool = spool.clone();
            tokio::spawn(async move {
                for round in 0..8 {
                    let number = task * 100 + round * 2;
                    let groups = match round % 4 {
                        0 => vec![vec![sealed(number, 1)], vec![sealed(number + 1, 2)]],
                        _ => vec![vec![sealed(number, 1)]],
                    };
                    let appended = spool.append(groups).await.expect("durable");
                    let read = spool.load(id(number), Place::OWN_FILE).await.expect("reads");
                    assert!(read == resident(appended.sealed[0].clone()));
                    spool.mark(Mark::Attempt { id: id(number), attempts: 1, due: WallTime::EPOCH });
                    if round % 2 == 1 {
                        spool.mark(Mark::Removed { id: id(number) });
                        // Whoever still reads it has it whole, or learns that it is gone, whatever is done with its file.
                        while let Ok(read) = spool.load(id(number), Place::OWN_FILE).await {
                            assert!(read == resident(appended.sealed[0].clone()));
                        }
                        let gone = spool.load(id(number), Place::OWN_FILE).await.expect_err("removed");
                        assert_eq!(gone, SpoolError::NoSuchMessage { id: id(number) });
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("ends well");
    }
    spool.close().await.expect("ends well");
    let (spool, recovering) = open(dir.path());
    let (found, report) = recovering.all().await.expect("reads");
    assert_eq!((found.len(), report.damage), (64 * 6, None));
    for message in &found {
        let number = u64::from_be_bytes(message.id.as_bytes()[..8].try_into().expect("8 octets"));
        let recipients = usize::from(message.recipients);
        assert_eq!(message.attempts, u16::from(number % 2 == 0), "{number}");
        let read = spool.load(message.id, message.place).await.expect("reads");
        assert!(read == resident(sealed(number, recipients)), "{number}");
    }
    spool.close().await.expect("ends well");
}

#[tokio::test]
async fn an_append_that_nobody_waits_for_is_removed_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, _recovering) = open(dir.path());
    let append = spool.append(vec![vec![sealed(1, 1)]]);
    // Polled once, so that it begins, and dropped.
    assert!(futures_poll_once(append).await);
    spool.close().await.expect("waits for what is on its way");
    assert_eq!(files_in(dir.path()), Vec::<PathBuf>::new());
    assert_eq!(spool.stats().appended_messages, 1);
    let (spool, _recovering) = open(dir.path());
    assert!(futures_poll_once(spool.append_accepted(vec![vec![sealed(2, 1)]])).await);
    spool.close().await.expect("waits for what is on its way");
    assert_eq!(files_in(dir.path()).len(), 1, "that was accepted before");
}

/// True when the future is not ready at once.
async fn futures_poll_once(future: impl Future) -> bool {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_damaged_message_is_reported_and_set_aside() {
    let dir = tempfile::tempdir().expect("a directory");
    // Recovery may find the damage too.
    let (spool, _recovering) = open(dir.path());
    spool.append(vec![vec![sealed(1, 1)]]).await.expect("durable");
    let path = files_in(dir.path()).remove(0);
    let mut octets = fs::read(&path).expect("reads");
    *octets.last_mut().expect("not empty") ^= 1;
    fs::write(&path, &octets).expect("writes");
    let error = spool.load(id(1), Place::OWN_FILE).await.expect_err("damaged");
    assert!(matches!(error, SpoolError::Damaged { .. }), "{error}");
    spool.set_aside(id(1));
    spool.close().await.expect("ends well");
    let stats = spool.stats();
    assert_eq!((stats.log.set_aside, stats.set_aside_messages, stats.log.live_messages), (1, 1, 0));
    let aside: Vec<_> = fs::read_dir(dir.path().join("corrupt")).expect("lists").collect();
    let aside = aside[0].as_ref().expect("reads").path();
    assert_eq!(fs::read(aside).expect("reads"), octets, "kept as it was");
    let (spool, recovering) = open(dir.path());
    assert_eq!(recovering.all().await.expect("reads").0, []);
    assert_eq!(spool.stats().log.set_aside, 1, "counted at the next start too");
    spool.close().await.expect("ends well");
}

#[tokio::test]
async fn a_transaction_that_was_cut_off_is_taken_away_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, _recovering) = open(dir.path());
    spool.append((1..5).map(|n| vec![sealed(n, 1)]).collect()).await.expect("durable");
    spool.close().await.expect("ends well");
    let lines: String = (2..4).map(|n| format!("{}\n", id(n))).collect();
    let crc = crc32fast::hash(lines.as_bytes());
    let intent = format!("postrider-transaction 1 crc={crc:08x} count=2\n{lines}");
    fs::write(dir.path().join("tx").join(id(2).to_string()), intent).expect("writes");
    let (spool, recovering) = open(dir.path());
    assert_eq!(ids(&recovering.all().await.expect("reads").0), [id(1), id(4)].into());
    assert_eq!(fs::read_dir(dir.path().join("tx")).expect("lists").count(), 0);
    spool.close().await.expect("ends well");
}

/// Everything below a directory, with its content.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("lists").map(|entry| entry.expect("reads").path());
    let mut found = BTreeMap::new();
    for path in entries {
        match path.is_dir() {
            true => found.extend(snapshot(&path)),
            false => _ = found.insert(path.clone(), fs::read(&path).expect("reads")),
        }
        found.entry(path).or_default();
    }
    found
}

fn refused(dir: &Path, kind: Kind) -> StoreError {
    store::open(dir, Options { kind, ..options() }).map(|_| ()).expect_err("refused")
}

#[tokio::test]
async fn each_kind_refuses_the_other_and_changes_nothing() {
    for (own, other) in [(Kind::Files, Kind::Log), (Kind::Log, Kind::Files)] {
        let dir = tempfile::tempdir().expect("a directory");
        let (spool, _recovering) = store::open(dir.path(), Options { kind: own, ..options() }).expect("opens");
        spool.append(vec![vec![sealed(1, 1)]]).await.expect("durable");
        assert!(matches!(refused(dir.path(), own), StoreError::InUse { .. }));
        assert!(matches!(refused(dir.path(), other), StoreError::OtherKind { .. }), "also while it is in use");
        spool.close().await.expect("ends well");
        drop(spool);
        // Nothing but what holds mail, so that all that is made shows.
        ["lock", "recent"].iter().for_each(|name| fs::remove_file(dir.path().join(name)).expect("was there"));
        fs::remove_dir(dir.path().join("corrupt")).expect("empty");
        let before = snapshot(dir.path());
        let error = refused(dir.path(), other);
        assert!(matches!(error, StoreError::OtherKind { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("'RocksDB'") && text.contains("'LocalDisk'") && !text.contains('\n'), "{text}");
        assert_eq!(snapshot(dir.path()), before);
        let (spool, recovering) = store::open(dir.path(), Options { kind: own, ..options() }).expect("its own kind");
        assert_eq!(ids(&recovering.all().await.expect("reads").0), [id(1)].into());
        spool.close().await.expect("ends well");
    }
}

#[tokio::test]
async fn what_a_killed_process_had_noted_is_not_handed_out_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, _recovering) = open(dir.path());
    for number in 1..4 {
        spool.append(vec![vec![sealed(number, 3)]]).await.expect("durable");
    }
    let before = snapshot(&dir.path().join("msg"));
    spool.mark(Mark::Removed { id: id(1) });
    spool.mark(Mark::RecipientsDone { id: id(2), recipients: vec![1] });
    spool.close().await.expect("ends well");
    // As a kill leaves it that comes before the marks are written.
    let restore = || {
        for (path, octets) in before.iter().filter(|(path, _)| !path.is_dir()) {
            fs::write(path, octets).expect("writes");
        }
    };
    restore();
    let (spool, recovering) = open(dir.path());
    let (found, _) = recovering.all().await.expect("reads");
    assert_eq!(ids(&found), [id(2), id(3)].into());
    for message in &found {
        let settled: Vec<_> = (0..3).filter(|r| message.settled.contains(*r)).collect();
        assert_eq!(settled, if message.id == id(2) { vec![1] } else { vec![] });
    }
    spool.flush().await.expect("durable");
    assert_eq!((messages_in(dir.path()).len(), spool.stats().log.live_messages, spool.stats().marks), (2, 2, 2));
    spool.close().await.expect("ends well");
    // Now the files say so themselves, and say it once.
    let (spool, recovering) = open(dir.path());
    assert_eq!(recovering.all().await.expect("reads").0.len(), 2);
    spool.close().await.expect("ends well");
    assert_eq!(spool.stats().marks, 0);
    fs::remove_file(dir.path().join("recent")).expect("was there");
    let (spool, recovering) = open(dir.path());
    let (found, _) = recovering.all().await.expect("reads");
    assert!(found.iter().any(|message| message.id == id(2) && message.settled.contains(1)), "{found:?}");
    spool.close().await.expect("ends well");
    // Without the ring they would have been handed out.
    fs::remove_file(dir.path().join("recent")).expect("was there");
    restore();
    let (spool, recovering) = open(dir.path());
    assert_eq!(recovering.all().await.expect("reads").0.len(), 3, "what the test is about");
    spool.close().await.expect("ends well");
}

#[tokio::test]
async fn while_no_message_can_be_written_it_says_why_and_it_goes_on_by_itself() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, recovering) = open(dir.path());
    recovering.all().await.expect("nothing yet");
    spool.append(vec![vec![sealed(1, 1)]]).await.expect("durable");
    let (messages, away) = (dir.path().join("msg"), dir.path().join("away"));
    fs::rename(&messages, &away).expect("renames");
    let error = spool.append(vec![vec![sealed(2, 1)]]).await.map(|_| ()).expect_err("nowhere to write to");
    assert!(matches!(error, SpoolError::File { .. }), "{error}");
    until("stopped", || spool.stopped().is_some()).await;
    assert!(spool.stats().stopped);
    assert_eq!(
        spool.append(vec![vec![sealed(3, 1)]]).await.map(|_| ()).expect_err("refused"),
        spool.stopped().expect("why")
    );
    fs::rename(&away, &messages).expect("renames");
    let since = Instant::now();
    until("running", || spool.stopped().is_none()).await;
    assert!(since.elapsed() < Duration::from_secs(5), "within the time promised");
    spool.append(vec![vec![sealed(4, 1)]]).await.expect("durable again");
    spool.close().await.expect("ends well");
    assert_eq!(files_in(dir.path()).len(), 2, "nothing is left of what was refused, nor of the tries");
}

#[tokio::test]
async fn closing_does_not_wait_for_messages_that_nobody_takes() {
    // Twelve thousand files: in memory where there is such a file system.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let dir = dir.expect("a directory");
    let (spool, _recovering) = open(dir.path());
    for some in 0..60_u64 {
        let groups =
            (0..200).map(|n| vec![Sealed { body: Bytes::new().into(), ..sealed(some * 200 + n, 1) }]).collect();
        // One transaction each, so that making them takes little time.
        spool.append(groups).await.expect("durable");
    }
    spool.close().await.expect("ends well");
    let (spool, mut recovering) = open(dir.path());
    let first = recovering.next().await.expect("some");
    assert!(!first.is_empty() && first.len() < 12_000);
    spool.close().await.expect("ends well although most were not taken");
    while recovering.next().await.is_some() {}
    assert_eq!(recovering.report().await, Err(SpoolError::Closed), "it did not come to its end");
}
