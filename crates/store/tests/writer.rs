//! The writer thread over a disk in memory that can be held and broken.

mod support;

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, MessageId, Meta, Sealed, Settled, TlsDemand};
use smtp_wire::{Mailbox, ReversePath};
use spool::fault::FaultDisk;
use spool::{Disk, FileInfo, FileName, Mark, Page, ReadPages, Recovery, Rewrite, SegmentLog, Settings, SpoolError};
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use store::{Options, SpoolHandle};
use support::until;

/// A disk whose syncs of segments can be held. Housekeeping fills spare files meanwhile.
#[derive(Clone, Default)]
struct GateDisk {
    disk: FaultDisk,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    held: bool,
    waiting: bool,
}

impl GateDisk {
    /// Holds all syncs from now on.
    fn hold(&self) {
        self.gate.state.lock().expect("no panic").held = true;
    }

    /// Lets them go.
    fn let_go(&self) {
        self.gate.state.lock().expect("no panic").held = false;
        self.gate.changed.notify_all();
    }

    /// Returns once a sync is being held.
    async fn reached(&self) {
        let gate = Arc::clone(&self.gate);
        let wait = move || {
            let mut state = gate.state.lock().expect("no panic");
            while !state.waiting {
                state = gate.changed.wait(state).expect("no panic");
            }
        };
        tokio::task::spawn_blocking(wait).await.expect("no panic");
    }
}

impl Disk for GateDisk {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        self.disk.list()
    }
    fn create(&mut self, file: FileName) -> io::Result<()> {
        self.disk.create(file)
    }
    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        self.disk.write_at(file, at, pages)
    }
    fn sync(&mut self, file: FileName) -> io::Result<()> {
        let mut state = self.gate.state.lock().expect("no panic");
        while state.held && matches!(file, FileName::Segment(_)) {
            state.waiting = true;
            self.gate.changed.notify_all();
            state = self.gate.changed.wait(state).expect("no panic");
        }
        state.waiting = false;
        drop(state);
        self.disk.sync(file)
    }
    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&mut self, file: FileName) -> io::Result<()> {
        self.disk.remove(file)
    }
    fn reader(&self) -> Arc<dyn ReadPages> {
        self.disk.reader()
    }
}

fn options() -> Options {
    let settings = Settings { compact_margin_octets: 128 << 10, ..Settings::with_segment(64 << 10) };
    Options { settings, fit_disk: false, retry_interval: Duration::from_millis(10), ..Options::default() }
}

fn start(disk: &GateDisk, options: Options) -> (SpoolHandle, Recovery) {
    let mut nonce = 77_u64;
    let nonces = Box::new(move || {
        nonce = nonce.wrapping_mul(0x5851_f42d_4c95_7f2d) + 1;
        nonce
    });
    let (log, recovery) = SegmentLog::open(disk.clone(), options.settings, nonces).expect("opens");
    (store::start(log, options).expect("a thread"), recovery)
}

fn id(number: u32) -> MessageId {
    let mut octets = [7; 16];
    octets[..4].copy_from_slice(&number.to_be_bytes());
    MessageId::from_bytes(octets)
}

fn sealed(number: u32, octets: usize) -> Sealed {
    let mailbox = Mailbox::parse("someone@example.com").expect("an address");
    let envelope = Envelope { sender: ReversePath(None), recipients: vec![mailbox], dsn: None, tls: TlsDemand::Usual };
    let (head, body) = (Bytes::from(format!("N: {number}\r\n")), Bytes::from(vec![number as u8; octets]));
    Sealed { id: id(number), envelope, meta: Meta::new(), head, body: body.into(), due: WallTime::EPOCH }
}

fn spawn_append(spool: &SpoolHandle, number: u32, octets: usize) -> tokio::task::JoinHandle<Result<(), SpoolError>> {
    let spool = spool.clone();
    tokio::spawn(async move { spool.append(vec![vec![sealed(number, octets)]]).await.map(|_| ()) })
}

/// Returns once housekeeping has nothing more to do: it would meet the fault that is meant for a commit.
async fn quiet(spool: &SpoolHandle) {
    let (mut octets, mut since) = (0, 0);
    until("housekeeping rests", || {
        let now = spool.stats().log.octets_written;
        since = if now == octets { since + 1 } else { 0 };
        octets = now;
        since > 50
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_rides_on_one_commit() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    spool.append(vec![vec![sealed(0, 10)]]).await.expect("durable");
    disk.hold();
    let first = spawn_append(&spool, 1, 10);
    disk.reached().await;
    let others: Vec<_> = (2..52).map(|n| spawn_append(&spool, n, 10)).collect();
    until("all are queued", || spool.stats().queued == 50).await;
    let before = spool.stats().log.commits;
    disk.let_go();
    first.await.expect("no panic").expect("durable");
    for other in others {
        other.await.expect("no panic").expect("durable");
    }
    spool.close().await.expect("ends well");
    let stats = spool.stats();
    assert_eq!(stats.appended_messages, 52);
    assert_eq!(stats.log.commits - before, 2, "{stats:?}");
}

/// Has a core compute until told to go on, and returns once it does; then it appends, or does not.
async fn computing(spool: &SpoolHandle, appends: bool) -> (std::sync::mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (begin, begun) = tokio::sync::oneshot::channel();
    let (go, goes) = std::sync::mpsc::channel();
    let spool = spool.clone();
    let task = tokio::spawn(async move {
        let preparing = async move {
            begin.send(()).expect("awaited");
            goes.recv().expect("told to go on");
        };
        let ((), coming) = spool.announced(preparing).await;
        if appends {
            spool.append_coming(vec![vec![sealed(2, 10)]], coming).await.expect("durable");
        }
    });
    begun.await.expect("it began");
    (go, task)
}

/// Waits that end no test by themselves.
fn patient() -> Options {
    let linger = store::Linger { few: Duration::from_secs(60), many: Duration::from_secs(60) };
    Options { linger, ..options() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_waits_for_the_append_that_a_core_computes() {
    let (spool, _) = start(&GateDisk::default(), patient());
    quiet(&spool).await;
    let before = spool.stats().log.commits;
    let (go, computes) = computing(&spool, true).await;
    let first = spawn_append(&spool, 1, 10);
    until("it waits", || spool.stats().queued == 1).await;
    go.send(()).expect("it computes");
    first.await.expect("no panic").expect("durable");
    computes.await.expect("no panic");
    // The figures are written behind the answers.
    spool.close().await.expect("ends well");
    assert_eq!(spool.stats().log.commits - before, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_waits_no_longer_for_an_append_that_will_not_come_or_waits_itself() {
    let (spool, _) = start(&GateDisk::default(), patient());
    let (go, computes) = computing(&spool, false).await;
    let first = spawn_append(&spool, 1, 10);
    until("it waits", || spool.stats().queued == 1).await;
    go.send(()).expect("it computes");
    let in_time = |append| tokio::time::timeout(Duration::from_secs(20), append);
    in_time(first).await.expect("soon").expect("no panic").expect("durable");
    computes.await.expect("no panic");
    let (begin, begun) = tokio::sync::oneshot::channel();
    let waits = tokio::spawn({
        let spool = spool.clone();
        let preparing = async move {
            begin.send(()).expect("awaited");
            std::future::pending::<()>().await;
        };
        async move { spool.announced(preparing).await.0 }
    });
    begun.await.expect("it began");
    in_time(spawn_append(&spool, 3, 10)).await.expect("soon").expect("no panic").expect("durable");
    waits.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_does_not_wait_for_who_waits_for_its_room_or_appends_elsewhere() {
    let options = || Options { queued_octets_max: 1024, ..patient() };
    let (spool, _) = start(&GateDisk::default(), options());
    let (go, computes) = computing(&spool, true).await;
    let first = spawn_append(&spool, 1, 10);
    until("it waits, and has all the room", || spool.stats().queued == 1).await;
    go.send(()).expect("it computes");
    let in_time = |append| tokio::time::timeout(Duration::from_secs(20), append);
    in_time(first).await.expect("soon").expect("no panic").expect("durable");
    tokio::time::timeout(Duration::from_secs(20), computes).await.expect("soon").expect("no panic");

    let (other, _) = start(&GateDisk::default(), options());
    let ((), coming) = spool.announced(std::future::ready(())).await;
    let elsewhere = other.append_coming(vec![vec![sealed(3, 10)]], coming);
    tokio::time::timeout(Duration::from_secs(20), elsewhere).await.expect("soon").expect("durable");
    for spool in [&spool, &other] {
        in_time(spawn_append(spool, 4, 10)).await.expect("soon").expect("no panic").expect("durable");
    }
}

#[tokio::test]
async fn a_failed_commit_refuses_its_appends_and_no_others() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    spool.append(vec![vec![sealed(1, 10)]]).await.expect("durable");
    quiet(&spool).await;
    spool.mark(Mark::Attempt { id: id(1), attempts: 3, due: WallTime::EPOCH });
    disk.disk.fail(2, false, 0);
    let refused = spool.append(vec![vec![sealed(2, 10)]]).await.map(|_| ());
    assert!(matches!(refused, Err(SpoolError::Io { step: spool::Step::Sync, .. })), "{refused:?}");
    spool.append(vec![vec![sealed(3, 10)]]).await.expect("durable, in another segment");
    spool.close().await.expect("ends well");
    assert_eq!((spool.stats().log.poisoned, spool.stats().failed_messages), (1, 1));
    let (_, recovery) = start(&disk, options());
    let found: Vec<_> = recovery.messages.iter().map(|m| (m.id, m.attempts)).collect();
    assert_eq!(found, [(id(1), 3), (id(3), 0)], "the mark of the failed commit was made good");
}

#[tokio::test]
async fn a_dead_disk_refuses_fast_and_comes_back_by_itself_with_its_marks() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    for number in 1..4 {
        spool.append(vec![vec![sealed(number, 10)]]).await.expect("durable");
    }
    disk.disk.fail(1, true, 0);
    assert!(spool.append(vec![vec![sealed(8, 10)]]).await.is_err());
    assert!(spool.append(vec![vec![sealed(9, 10)]]).await.is_err());
    spool.mark(Mark::Removed { id: id(1) });
    spool.mark(Mark::Attempt { id: id(2), attempts: 4, due: WallTime::from_unix_secs(99) });
    assert!(spool.flush().await.is_err(), "not durable yet");
    until("stopped", || spool.stats().stopped).await;
    disk.disk.heal();
    until("running", || !spool.stats().stopped).await;
    spool.append(vec![vec![sealed(5, 10)]]).await.expect("durable again");
    spool.flush().await.expect("durable again");
    spool.close().await.expect("ends well");
    disk.disk.crash(3);
    let (_, recovery) = start(&disk, options());
    let mut found: Vec<_> = recovery.messages.iter().map(|m| (m.id, m.attempts)).collect();
    // A checkpoint may have them in another order.
    found.sort_unstable();
    assert_eq!(found, [(id(2), 4), (id(3), 0), (id(5), 0)]);
}

#[tokio::test]
async fn a_mark_becomes_durable_without_any_append() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    spool.append(vec![vec![sealed(1, 10)]]).await.expect("durable");
    spool.mark(Mark::Removed { id: id(1) });
    until("the mark is durable", || spool.stats().marks == 1).await;
    disk.disk.crash(1);
    let (_, recovery) = start(&disk, options());
    assert_eq!(recovery.messages.len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_goes_away_leaves_no_message_behind() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    spool.append(vec![vec![sealed(1, 10)]]).await.expect("durable");
    disk.hold();
    let gone = spawn_append(&spool, 2, 10);
    disk.reached().await;
    gone.abort();
    assert!(gone.await.expect_err("aborted").is_cancelled());
    disk.let_go();
    until("removed again", || spool.stats().marks == 1).await;
    spool.close().await.expect("ends well");
    let (_, recovery) = start(&disk, options());
    assert_eq!(recovery.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [id(1)]);
}

#[tokio::test]
async fn a_receipt_that_came_to_nobody_leaves_no_message_behind() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    // On the one thread that runs tests: it is sent its receipt, and does not come to look at it.
    let gone = spawn_append(&spool, 2, 10);
    tokio::task::yield_now().await;
    while spool.stats().appended_messages == 0 {
        std::thread::yield_now();
    }
    gone.abort();
    assert!(gone.await.expect_err("aborted").is_cancelled());
    until("removed again", || spool.stats().marks == 1).await;
    spool.close().await.expect("ends well");
    let (_, recovery) = start(&disk, options());
    assert_eq!(recovery.messages, []);
}

#[tokio::test]
async fn what_was_accepted_before_it_was_written_stays_though_nobody_waits() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    let append = |number| {
        let spool = spool.clone();
        tokio::spawn(async move { spool.append_accepted(vec![vec![sealed(number, 10)]]).await.map(|_| ()) })
    };
    // One is sent its receipt and does not look at it, the other has gone before.
    let received = append(1);
    tokio::task::yield_now().await;
    while spool.stats().appended_messages == 0 {
        std::thread::yield_now();
    }
    received.abort();
    disk.hold();
    let gone = append(2);
    disk.reached().await;
    gone.abort();
    for task in [received, gone] {
        assert!(task.await.expect_err("aborted").is_cancelled());
    }
    disk.let_go();
    spool.close().await.expect("ends well");
    let (_, recovery) = start(&disk, options());
    assert_eq!(recovery.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [id(1), id(2)]);
}

/// `number` with other content, and who is settled.
fn rewrite(number: u32, settled: &[u16]) -> Rewrite {
    let mut done = Settled::default();
    settled.iter().for_each(|recipient| _ = done.insert(*recipient));
    let sealed = Sealed { id: id(number), due: WallTime::from_unix_micros(9), ..sealed(number + 1000, 50) };
    Rewrite { sealed, attempts: 3, settled: done }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_written_anew_is_there_once_whoever_waits() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    let places = spool.append(vec![vec![sealed(1, 10)], vec![sealed(2, 10)]]).await.expect("durable").durable;
    spool.mark(Mark::Attempt { id: id(1), attempts: 1, due: WallTime::from_unix_micros(5) });
    let place = spool.rewrite(rewrite(1, &[0])).await.expect("durable");
    assert_ne!(place, places[0].place());
    let read = spool.load(id(1), place).await.expect("reads");
    assert_eq!((read.body.len(), &*read.head), (50, &b"N: 1001\r\n"[..]));
    assert_eq!(spool.stats().log.live_messages, 2);
    // Nobody waits for this one.
    disk.hold();
    let (handle, other) = (spool.clone(), rewrite(2, &[]));
    let gone = tokio::spawn(async move { handle.rewrite(other).await });
    disk.reached().await;
    gone.abort();
    assert!(gone.await.expect_err("aborted").is_cancelled());
    disk.let_go();
    assert_eq!(spool.rewrite(rewrite(3, &[])).await, Err(SpoolError::NoSuchMessage { id: id(3) }));
    spool.close().await.expect("ends well");
    assert_eq!(spool.rewrite(rewrite(1, &[])).await, Err(SpoolError::Closed));
    let (_, recovery) = start(&disk, options());
    let found: Vec<_> = recovery.messages.iter().map(|m| (m.id, m.attempts, m.due, m.settled.contains(0))).collect();
    let due = WallTime::from_unix_micros(9);
    assert_eq!(found, [(id(1), 3, due, true), (id(2), 3, due, false)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_cannot_be_written_anew_stays_as_it_is() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    spool.append(vec![vec![sealed(1, 10)]]).await.expect("durable");
    disk.disk.fail(1, true, 1);
    assert!(spool.rewrite(rewrite(1, &[])).await.is_err());
    disk.disk.heal();
    until("it takes mail again", || spool.stopped().is_none()).await;
    let place = spool.rewrite(rewrite(1, &[])).await.expect("a healthy disk");
    assert_eq!(spool.load(id(1), place).await.expect("reads").body.len(), 50);
    spool.close().await.expect("ends well");
    let (_, recovery) = start(&disk, options());
    assert_eq!(recovery.messages.iter().map(|m| (m.id, m.attempts)).collect::<Vec<_>>(), [(id(1), 3)]);
}

/// Else the mark, which is older, would be the last word.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_not_written_anew_before_its_marks() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, Options { retry_interval: Duration::from_secs(3600), ..options() });
    spool.append(vec![vec![sealed(1, 10)], vec![sealed(2, 10)]]).await.expect("durable");
    quiet(&spool).await;
    disk.disk.fail(2, false, 0);
    spool.mark(Mark::Attempt { id: id(1), attempts: 1, due: WallTime::EPOCH });
    assert!(spool.flush().await.is_err(), "its sync failed");
    let refused = spool.rewrite(rewrite(1, &[])).await;
    assert!(matches!(refused, Err(SpoolError::Io { .. })), "{refused:?}");
    spool.rewrite(rewrite(2, &[])).await.expect("nothing is to be written before it");
    spool.close().await.expect("ends well");
    let (_, recovery) = start(&disk, options());
    let mut found: Vec<_> = recovery.messages.iter().map(|m| (m.id, m.attempts)).collect();
    found.sort_unstable();
    assert_eq!(found, [(id(1), 1), (id(2), 3)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_is_no_message_any_more_though_it_reads() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    spool.append(vec![vec![sealed(1, 10)], vec![sealed(2, 10)]]).await.expect("durable");
    spool.give_up(id(1));
    spool.set_aside(id(2));
    until("what reads after all is kept elsewhere", || spool.stats().log.live_messages == 1).await;
    until("the rest is set aside", || spool.stats().log.set_aside == 1).await;
    spool.close().await.expect("ends well");
    let (_, recovery) = start(&disk, options());
    assert_eq!(recovery.messages.iter().map(|m| m.id).collect::<Vec<_>>(), [id(2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_queued_is_bounded() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, Options { queued_octets_max: 100 << 10, ..options() });
    spool.append(vec![vec![sealed(0, 10)]]).await.expect("durable");
    disk.hold();
    let first = spawn_append(&spool, 1, 10);
    disk.reached().await;
    let others: Vec<_> = (2..12).map(|n| spawn_append(&spool, n, 30 << 10)).collect();
    until("the queue is full", || spool.stats().queued == 3).await;
    disk.let_go();
    first.await.expect("no panic").expect("durable");
    for other in others {
        other.await.expect("no panic").expect("durable");
    }
    spool.close().await.expect("ends well");
    let stats = spool.stats();
    // Three of 30 KiB fit into the queue at a time: ten need at least four commits behind the first two.
    assert!(stats.log.commits >= 6, "{stats:?}");
    // One that is larger than the whole queue is served alone.
    let (spool, _) = start(&disk, Options { queued_octets_max: 100 << 10, ..options() });
    spool.append(vec![vec![sealed(50, 400 << 10)]]).await.expect("durable");
    spool.close().await.expect("ends well");
}

#[tokio::test]
async fn reads_follow_messages_that_move_and_space_comes_back() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    let kept = spool.append(vec![vec![sealed(1, 5000)]]).await.expect("durable");
    let place = kept.durable[0].place();
    for number in 2..60 {
        spool.append(vec![vec![sealed(number, 9000)]]).await.expect("durable");
        spool.mark(Mark::Removed { id: id(number) });
    }
    spool.flush().await.expect("durable");
    until("the oldest segment is compacted", || spool.stats().log.octets_compacted > 0).await;
    until("space is back", || spool.stats().log.disk_octets <= 10 * (64 << 10)).await;
    let read = spool.load(id(1), place).await.expect("followed");
    assert!(read.head == kept.sealed[0].head && read.body == kept.sealed[0].body);
    spool.mark(Mark::Removed { id: id(1) });
    spool.flush().await.expect("durable");
    let lost = spool.load(id(1), place).await.map(|_| ());
    // Until its segment is reused the octets may still be there; the promise is only: no other mail.
    assert!(matches!(lost, Ok(()) | Err(SpoolError::NoSuchMessage { .. })), "{lost:?}");
    spool.close().await.expect("ends well");
}

#[tokio::test]
async fn refused_transactions_do_not_touch_others() {
    let disk = GateDisk::default();
    let (spool, _) = start(&disk, options());
    assert!(matches!(spool.append(vec![vec![]]).await, Err(SpoolError::MessageCount { .. })));
    let mixed = vec![sealed(1, 10), sealed(2, 11)];
    assert!(matches!(spool.append(vec![mixed]).await, Err(SpoolError::BodiesDiffer { .. })));
    spool.append(vec![vec![sealed(3, 10)]]).await.expect("durable");
    assert_eq!(spool.stats().log.poisoned, 0);
    spool.close().await.expect("ends well");
    spool.close().await.expect("twice is fine");
}
