//! One file per message on real files: what goes in comes back, whatever ends the process in between.

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Place, Resident, Sealed};
use smtp_wire::{Mailbox, ReversePath};
use spool::{Mark, RecoveredMessage, Settings, SpoolError};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::{LocalSpool, Options, StoreError};

fn options() -> Options {
    let queue_of = |_: &Envelope, meta: &Meta| meta.get("n").map(|n| format!("q{n}")).unwrap_or_default();
    Options {
        settings: Settings { queue_of, ..Settings::default() },
        retry_interval: Duration::from_millis(20),
        ..Options::default()
    }
}

fn open(dir: &Path) -> (LocalSpool, store::LocalRecovering) {
    LocalSpool::open(dir, options()).expect("opens")
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
        envelope: Envelope { sender: ReversePath(None), recipients: (0..recipients).map(mailbox).collect() },
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

#[tokio::test]
async fn what_was_appended_comes_back_with_its_marks() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, recovering) = open(dir.path());
    assert_eq!(recovering.all().await.expect("nothing yet").0, []);
    let groups = vec![
        vec![sealed(1, 3)],
        vec![sealed(2, 1)],
        (3..23).map(|n| Sealed { body: Bytes::from_static(b"b"), ..sealed(n, 1) }).collect(),
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
    assert_eq!(files_in(dir.path()).len(), 2);
    assert_eq!(spool.load(id(3), Place::OWN_FILE).await, Err(SpoolError::NoSuchMessage { id: id(3) }));
    let stats = spool.stats();
    assert_eq!((stats.appended_messages, stats.log.live_messages, stats.marks, stats.queued), (22, 2, 23, 0));
    spool.close().await.expect("ends well");
    spool.close().await.expect("ends well again");
    assert!(matches!(spool.append(vec![vec![sealed(99, 1)]]).await, Err(SpoolError::Closed)));

    let (spool, recovering) = open(dir.path());
    // Mail is accepted before that of earlier runs is read, and is not found a second time.
    spool.append(vec![vec![sealed(50, 1)]]).await.expect("durable");
    let (found, report) = recovering.all().await.expect("reads");
    assert_eq!((ids(&found), report.messages), ([id(1), id(2)].into(), 2));
    let first = found.iter().find(|message| message.id == id(1)).expect("just found");
    assert_eq!((&*first.queue, first.attempts, first.due.unix_micros(), first.recipients), ("q1", 4, 77, 3));
    assert_eq!([0, 1, 2].map(|r| first.settled.contains(r)), [true, false, true]);
    assert_eq!(spool.stats().log.live_messages, 3);
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
    assert_eq!((found.len(), report.messages, report.set_aside), (64 * 6, 64 * 6, 0));
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
}

/// True when the future is not ready at once.
async fn futures_poll_once(future: impl Future) -> bool {
    let mut future = Box::pin(future);
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_damaged_message_is_reported_and_set_aside() {
    let dir = tempfile::tempdir().expect("a directory");
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
    assert_eq!((stats.log.set_aside, stats.log.live_messages), (1, 0));
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

#[tokio::test]
async fn a_directory_that_is_in_use_or_of_the_other_kind_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, _recovering) = open(dir.path());
    let refused = |kind: &str| match kind {
        "files" => LocalSpool::open(dir.path(), options()).map(|_| ()).expect_err("refused"),
        _ => store::open(dir.path(), options()).map(|_| ()).expect_err("refused"),
    };
    assert!(matches!(refused("files"), StoreError::InUse { .. }));
    assert!(matches!(refused("log"), StoreError::InUse { .. }));
    spool.close().await.expect("ends well");
    let error = refused("log");
    assert!(matches!(error, StoreError::OtherKind { .. }), "{error}");
    open(dir.path()).0.close().await.expect("its own kind opens");

    let dir = tempfile::tempdir().expect("a directory");
    let (log, _recovering) = store::open(dir.path(), options()).expect("opens");
    log.append(vec![vec![sealed(1, 1)]]).await.expect("durable");
    log.close().await.expect("ends well");
    drop(log);
    let error = LocalSpool::open(dir.path(), options()).map(|_| ()).expect_err("refused");
    assert!(matches!(error, StoreError::OtherKind { .. }), "{error}");
    assert!(!dir.path().join("msg").exists(), "and nothing was made in it");
}

#[tokio::test]
async fn closing_does_not_wait_for_messages_that_nobody_takes() {
    let dir = tempfile::tempdir().expect("a directory");
    let (spool, _recovering) = open(dir.path());
    for some in 0..60_u64 {
        let groups = (0..200).map(|n| vec![Sealed { body: Bytes::new(), ..sealed(some * 200 + n, 1) }]).collect();
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
