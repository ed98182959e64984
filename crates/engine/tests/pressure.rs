//! An engine whose memory and disks are short, as SMTP clients meet it over real sockets.

mod support;

use config::{LocalLogs, MemoryLimits, MinFree};
use engine::Engine;
use engine::pressure::{Memory, Pressure, PressureSettings, Volume};
use policy::StaticPolicy;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::until;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const MIB: u64 = 1 << 20;

/// Memory that is as full as a test says.
#[derive(Default)]
struct Said {
    used: AtomicU64,
    purges: AtomicUsize,
}

impl Memory for Said {
    fn used(&self) -> Option<u64> {
        Some(self.used.load(Ordering::Relaxed))
    }

    fn purge(&self) {
        self.purges.fetch_add(1, Ordering::Relaxed);
    }
}

/// Hard 1000 MiB, soft 750, low 600, cut 975.
async fn start(memory: &Arc<Said>, dir: &Path, volumes: Vec<Volume>) -> (Engine, SocketAddr) {
    let pressure = Pressure::new(PressureSettings {
        limits: MemoryLimits { hard: Some(1000 * MIB), ..MemoryLimits::default() },
        memory: memory.clone(),
        volumes,
        delivers_when_spool_unhealthy: false,
    });
    let engine = support::engine(Arc::new(StaticPolicy), dir, Vec::new(), pressure);
    engine.watch_pressure().await;
    let address = support::listen(&engine).await;
    (engine, address)
}

/// A client and the first line it hears.
async fn connect(to: SocketAddr) -> (BufReader<TcpStream>, String) {
    let mut stream = BufReader::new(TcpStream::connect(to).await.expect("listening"));
    let mut banner = String::new();
    stream.read_line(&mut banner).await.expect("a banner");
    (stream, banner)
}

/// Sends a line; the last line of the reply.
async fn say(stream: &mut BufReader<TcpStream>, line: &str) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).await.expect("writes");
    let mut answer = "----".to_owned();
    while answer.as_bytes().get(3) == Some(&b'-') {
        answer.clear();
        stream.read_line(&mut answer).await.expect("an answer");
    }
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_room_makes_unused_memory_go_back_to_the_system() {
    let dir = tempfile::tempdir().expect("scratch");
    let memory = Arc::new(Said::default());
    // Not low, yet with less left than what is wanted would need, however long it waits.
    memory.used.store(590 * MIB, Ordering::Relaxed);
    let (engine, _) = start(&memory, dir.path(), Vec::new()).await;
    let waiting = tokio::spawn({
        let pressure = engine.pressure().clone();
        async move { drop(pressure.room_to_load(200 * MIB).await) }
    });
    // Nobody waiting, the second one would come 10 s behind the first.
    let begun = Instant::now();
    until("purges", || memory.purges.load(Ordering::Relaxed) > 1).await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    memory.used.store(100 * MIB, Ordering::Relaxed);
    tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("there is room").expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_memory_goes_back_before_it_makes_memory_low() {
    let dir = tempfile::tempdir().expect("scratch");
    let memory = Arc::new(Said::default());
    memory.used.store(440 * MIB, Ordering::Relaxed);
    let (engine, _) = start(&memory, dir.path(), Vec::new()).await;
    let shown = |octets: u64| engine.metrics().process.memory_usage.get() == octets as i64;
    memory.used.store(445 * MIB, Ordering::Relaxed);
    until("a look", || shown(445 * MIB)).await;
    memory.used.store(446 * MIB, Ordering::Relaxed);
    until("another look", || shown(446 * MIB)).await;
    assert_eq!(memory.purges.load(Ordering::Relaxed), 0);
    memory.used.store(450 * MIB, Ordering::Relaxed);
    until("a purge", || memory.purges.load(Ordering::Relaxed) > 0).await;
    assert_eq!(engine.metrics().process.memory_low_count.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn above_the_soft_limit_clients_hear_421_and_below_it_mail_is_taken_again() {
    let dir = tempfile::tempdir().expect("scratch");
    let memory = Arc::new(Said::default());
    let (engine, address) = start(&memory, dir.path(), Vec::new()).await;
    let (mut early, banner) = connect(address).await;
    assert!(banner.starts_with("220 "), "{banner}");
    assert_eq!(engine.metrics().process.memory_limit.get(), (750 * MIB) as i64);

    memory.used.store(760 * MIB, Ordering::Relaxed);
    until("load shedding", || engine.pressure().reason().is_some()).await;
    let (_, banner) = connect(address).await;
    assert_eq!(banner, "421 4.3.2 mx.test load shedding. Try later\r\n");
    assert!(say(&mut early, "EHLO client.test").await.starts_with("250 "), "only mail is refused");
    let answer = say(&mut early, "MAIL FROM:<a@b.test>").await;
    assert_eq!(answer, "421 4.3.2 mx.test load shedding. Try later\r\n");
    assert_eq!(engine.metrics().process.memory_over_limit_count.get(), 1);
    until("a purge", || memory.purges.load(Ordering::Relaxed) > 0).await;

    memory.used.store(690 * MIB, Ordering::Relaxed);
    until("room", || engine.pressure().reason().is_none()).await;
    let (mut late, banner) = connect(address).await;
    assert!(banner.starts_with("220 "), "{banner}");
    let answer = say(&mut late, &format!("MAIL FROM:<a@b.test> SIZE={}", 21 << 20)).await;
    assert!(answer.starts_with("552 "), "{answer}");
    let answer = say(&mut late, "MAIL FROM:<a@b.test> SIZE=1000").await;
    assert!(answer.starts_with("250 "), "{answer}");
    engine.drain(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_size_that_does_not_fit_is_refused_at_once() {
    let dir = tempfile::tempdir().expect("scratch");
    let memory = Arc::new(Said::default());
    memory.used.store(740 * MIB, Ordering::Relaxed);
    let (engine, address) = start(&memory, dir.path(), Vec::new()).await;
    let (mut client, _) = connect(address).await;
    let answer = say(&mut client, &format!("MAIL FROM:<a@b.test> SIZE={}", 10 * MIB + 1)).await;
    assert_eq!(answer, "452 4.3.1 no room for a message of this size now\r\n");
    let answer = say(&mut client, &format!("MAIL FROM:<a@b.test> SIZE={}", 10 * MIB)).await;
    assert!(answer.starts_with("250 "), "{answer}");
    engine.drain(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_in_progress_goes_on_above_the_soft_limit_and_is_cut_near_the_hard_one() {
    let dir = tempfile::tempdir().expect("scratch");
    let memory = Arc::new(Said::default());
    let (engine, address) = start(&memory, dir.path(), Vec::new()).await;
    let (mut finishes, _) = connect(address).await;
    let (mut cut, _) = connect(address).await;
    let (mut idle, _) = connect(address).await;
    for client in [&mut finishes, &mut cut] {
        for (line, code) in [("MAIL FROM:<a@b.test>", "250"), ("RCPT TO:<c@d.test>", "250"), ("DATA", "354")] {
            let answer = say(client, line).await;
            assert!(answer.starts_with(code), "{line}: {answer}");
        }
        client.write_all(b"Subject: half\r\n\r\nhalf of it\r\n").await.expect("writes");
    }
    memory.used.store(900 * MIB, Ordering::Relaxed);
    until("load shedding", || engine.pressure().reason().is_some()).await;
    let answer = say(&mut finishes, ".").await;
    assert!(answer.starts_with("250 OK ids="), "{answer}");

    // The client says nothing: it has to be told while it waits.
    memory.used.store(976 * MIB, Ordering::Relaxed);
    let mut rest = String::new();
    cut.read_to_string(&mut rest).await.expect("a reply and an orderly end");
    assert_eq!(rest, "421 4.3.2 mx.test load shedding. Try later\r\n");
    assert_eq!(engine.metrics().content_shed.get(), 1);
    let answer = say(&mut idle, "NOOP").await;
    assert!(answer.starts_with("250 "), "a session without content is left alone: {answer}");
    for service in ["esmtp_listener".to_owned(), format!("esmtp_listener:{address}")] {
        assert_eq!(engine.metrics().total_messages_received.with_label_values(&[&service]).get(), 1, "{service}");
    }
    engine.drain(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_cut_as_it_comes_whenever_memory_is_looked_at() {
    let dir = tempfile::tempdir().expect("scratch");
    let memory = Arc::new(Said::default());
    let (engine, address) = start(&memory, dir.path(), Vec::new()).await;
    let (mut client, _) = connect(address).await;
    for (line, code) in [("MAIL FROM:<a@b.test>", "250"), ("RCPT TO:<c@d.test>", "250"), ("DATA", "354")] {
        let answer = say(&mut client, line).await;
        assert!(answer.starts_with(code), "{line}: {answer}");
    }
    // Every look finds room for half a MiB: only what content takes between two looks is too much.
    memory.used.store(974 * MIB + MIB / 2, Ordering::Relaxed);
    until("load shedding", || engine.pressure().reason().is_some()).await;
    let content = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\r\n".repeat(65_536);
    // The server may stop listening before the end.
    let _ = client.write_all(content.as_bytes()).await;
    let mut answer = String::new();
    client.read_line(&mut answer).await.expect("an answer");
    assert_eq!(answer, "421 4.3.2 mx.test load shedding. Try later\r\n");
    assert_eq!(engine.metrics().content_shed.get(), 1);
    engine.drain(Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_that_find_a_log_full_are_counted_by_its_directory_and_refusals_by_their_listener() {
    let dir = tempfile::tempdir().expect("scratch");
    let log_dir = dir.path().join("log");
    let logs = vec![LocalLogs { log_dir: log_dir.clone(), back_pressure: 1, ..LocalLogs::default() }];
    let engine = support::engine(Arc::new(StaticPolicy), dir.path(), logs, Pressure::unlimited());
    let address = support::listen(&engine).await;
    // The folder is gone, and another cannot be made in its place: what is to be written there waits.
    std::fs::rename(&log_dir, dir.path().join("away")).expect("renamed");
    std::fs::write(&log_dir, "").expect("a file in its place");
    let page = || engine.metrics().text("").expect("encodes");
    let full = format!("\nlog_submit_full{{logger=\"dir-{}\"}} ", log_dir.display());
    let mut refusals = 0;
    let refused = async {
        while !page().contains(&full) {
            let (mut client, _) = connect(address).await;
            let answer = say(&mut client, "NONSENSE").await;
            assert!(answer.starts_with("50"), "{answer}");
            refusals += 1;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refused).await.expect("it is full at last");
    let page = page();
    for service in ["total".to_owned(), address.to_string()] {
        let series = format!("\nsmtp_server_rejections{{service=\"{service}\"}} {refusals}\n");
        assert!(page.contains(&series), "{series} in {page}");
    }
    engine.drain(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_the_room_it_shall_keep_refuses_mail_until_it_has_it() {
    let dir = tempfile::tempdir().expect("scratch");
    // Where the directory lies decides: procfs counts no space, so every minimum is met there.
    let path = dir.path().join("disk");
    symlink("/", &path).expect("symlink");
    let volume = Volume {
        name: "data spool".to_owned(),
        path: path.clone(),
        min_free_space: MinFree::Amount(u64::MAX),
        min_free_inodes: MinFree::Percent(0),
        must_stay: false,
    };
    let (engine, address) = start(&Arc::default(), dir.path(), vec![volume]).await;
    let (_, banner) = connect(address).await;
    assert_eq!(banner, "421 4.3.2 mx.test disk is too full. Try later\r\n", "known before the first client comes");
    assert_eq!(engine.pressure().reason().as_deref(), Some("storage is too full"));
    assert!(engine.metrics().disk_free_bytes.with_label_values(&["data spool"]).get() > 0);
    assert_eq!(engine.metrics().total_connections_denied.with_label_values(&["esmtp_listener"]).get(), 1);

    std::fs::remove_file(&path).expect("removes");
    symlink("/proc", &path).expect("symlink");
    let begun = Instant::now();
    until("room", || engine.pressure().reason().is_none()).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
    let (mut client, banner) = connect(address).await;
    assert!(banner.starts_with("220 "), "{banner}");

    std::fs::remove_file(&path).expect("removes");
    symlink("/", &path).expect("symlink");
    until("a full disk", || engine.pressure().reason().is_some()).await;
    let answer = say(&mut client, "MAIL FROM:<a@b.test>").await;
    assert_eq!(answer, "421 4.3.2 mx.test disk is too full. Try later\r\n");
    engine.drain(Duration::from_secs(10)).await;
}
