//! `check-readiness` says whether new mail is taken at once, and all that stands in its way; both probes answer to the end. Who
//! asks for messages before those of earlier runs are back in their queues is not told that there are none.

mod support;

use config::{AcctLog, HttpListener, LocalLogs, LogHook, MemoryLimits, MinFree};
use engine::Engine;
use engine::pressure::{Memory, Pressure, PressureSettings, Volume};
use message::Draft;
use policy::{Answer, Event, Interest, Policy, Startup, StaticPolicy};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{ask, engine, engine_before_recovery, engine_of, serve};

const READY: &str = "GET /api/check-readiness/v1";
const ALIVE: &str = "GET /api/check-liveness/v1";

/// Memory of which so much is in use.
struct Used(u64);

impl Memory for Used {
    fn used(&self) -> Option<u64> {
        Some(self.0)
    }

    fn purge(&self) {}
}

/// A policy that is asked about records and never answers.
struct Mute;

impl Policy for Mute {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::ShouldEnqueueLogRecord)
    }

    fn should_enqueue_log_record(&self, _: Draft, _: String) -> Answer<'_, Option<Draft>> {
        Box::pin(std::future::pending())
    }
}

async fn text(server: SocketAddr, request: &str) -> String {
    String::from_utf8(ask(server, request, "", b"").await).expect("text")
}

/// Body of an answer that is 503.
fn reasons(answer: &str) -> Vec<&str> {
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1.lines().collect()
}

/// Asks for a message.
async fn inject(server: SocketAddr) -> Vec<u8> {
    let body = br#"{"envelope_sender": "a@from.test", "recipients": [{"email": "b@to.test"}], "content": "Subject: x\r\n\r\nx"}"#;
    ask(server, "POST /api/inject/v1", "Content-Type: application/json\r\n", body).await
}

fn volume(path: &Path, min_free_space: MinFree) -> Volume {
    let (name, path) = ("data spool".to_owned(), path.to_owned());
    Volume { name, path, min_free_space, min_free_inodes: MinFree::Percent(0), must_stay: false }
}

async fn end(engine: &Engine) {
    engine.drain(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_reasons_are_told() {
    let (well_dir, dir) = (tempfile::tempdir().expect("scratch"), tempfile::tempdir().expect("scratch"));
    let well = engine(well_dir.path(), Pressure::unlimited());
    let answer = text(serve(&well, &HttpListener::default()).await, READY).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nOK"), "{answer}");

    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let pressure = Pressure::new(PressureSettings {
        limits: MemoryLimits { soft: Some(1000), ..MemoryLimits::default() },
        memory: Arc::new(Used(1000)),
        // Below a file is nothing that could be looked at.
        volumes: vec![volume(dir.path(), MinFree::Amount(u64::MAX)), volume(&file.join("x"), MinFree::Percent(0))],
        delivers_when_spool_unhealthy: false,
    });
    let short = engine(dir.path(), pressure);
    short.watch_pressure().await;
    let server = serve(&short, &HttpListener::default()).await;
    let answer = text(server, READY).await;
    assert_eq!(reasons(&answer), ["load shedding", "storage is too full", "storage does not answer"]);
    assert!(answer.contains("\r\nretry-after: 5\r\n"), "{answer}");
    assert_eq!(reasons(&text(server, ALIVE).await), ["load shedding"], "KumoMTA's probe tells one");
    end(&well).await;
    end(&short).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_without_room_is_a_reason() {
    let dir = tempfile::tempdir().expect("scratch");
    let hook = LogHook { name: "billing".to_owned(), back_pressure: 1, ..LogHook::default() };
    let startup = Startup { log_hooks: vec![hook], ..Startup::default() };
    let engine = engine_of(dir.path(), Pressure::unlimited(), (Arc::new(Mute), startup));
    let server = serve(&engine, &HttpListener::default()).await;
    assert!(text(server, READY).await.ends_with("\r\n\r\nOK"));
    let answer = String::from_utf8(inject(server).await).expect("text");
    assert!(answer.contains("\"success_count\":1"), "{answer}");
    // Its record waits for policy from before the answer on.
    assert_eq!(reasons(&text(server, READY).await), ["log hook billing: back_pressure records wait"]);
    assert!(text(server, ALIVE).await.ends_with("\r\n\r\nOK"), "KumoMTA's probe knows nothing of that");
    end(&engine).await;
}

/// The folder is gone, and another cannot be made in its place: what is to be written there waits.
fn take_away(folder: &Path) {
    std::fs::rename(folder, folder.with_extension("away")).expect("renamed");
    std::fs::write(folder, "").expect("a file in its place");
}

/// Readiness, once it ends so.
async fn ready_once(server: SocketAddr, is_wanted: impl Fn(&str) -> bool) -> String {
    let told = async {
        loop {
            let answer = text(server, READY).await;
            if is_wanted(&answer) {
                return answer;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is told")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_disk_takes_nothing_is_told_before_it_is_full() {
    let dir = tempfile::tempdir().expect("scratch");
    let log_dir = dir.path().join("logs");
    let log = LocalLogs { log_dir: log_dir.clone(), ..LocalLogs::default() };
    let startup = Startup { local_logs: vec![log], ..Startup::default() };
    let engine = engine_of(&dir.path().join("spool"), Pressure::unlimited(), (Arc::new(StaticPolicy), startup));
    let server = serve(&engine, &HttpListener::default()).await;
    take_away(&log_dir);
    inject(server).await;
    let degraded = format!("\r\n\r\nOK\ndegraded: log_dir {}: records wait, the disk takes none: ", log_dir.display());
    let answer = ready_once(server, |answer| answer.contains(&degraded)).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "mail is accepted: {answer}");
    std::fs::remove_file(&log_dir).expect("the file in its place");
    ready_once(server, |answer| answer.ends_with("\r\n\r\nOK")).await;
    end(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_without_room_is_a_reason() {
    let dir = tempfile::tempdir().expect("scratch");
    let log_dir = dir.path().join("logs");
    let log = LocalLogs { log_dir: log_dir.clone(), back_pressure: 1, ..LocalLogs::default() };
    let startup = Startup { local_logs: vec![log], ..Startup::default() };
    let engine = engine_of(&dir.path().join("spool"), Pressure::unlimited(), (Arc::new(StaticPolicy), startup));
    let server = serve(&engine, &HttpListener::default()).await;
    assert!(text(server, READY).await.ends_with("\r\n\r\nOK"));
    take_away(&log_dir);
    let expected = format!("log_dir {}: back_pressure records wait", log_dir.display());
    let told = async {
        loop {
            // One may wait until there is room again, which is never.
            tokio::spawn(inject(server));
            let answer = text(server, READY).await;
            if answer.starts_with("HTTP/1.1 503 ") {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is full at last");
    assert_eq!(reasons(&answer), [expected]);
    end(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accounting_log_without_room_is_a_reason() {
    let dir = tempfile::tempdir().expect("scratch");
    let log_dir = dir.path().join("accounts");
    let log = AcctLog { log_dir: log_dir.clone(), back_pressure: 1, ..AcctLog::default() };
    let startup = Startup { acct_log: Some(log), ..Startup::default() };
    let engine = engine_of(&dir.path().join("spool"), Pressure::unlimited(), (Arc::new(StaticPolicy), startup));
    let server = serve(&engine, &HttpListener::default()).await;
    take_away(&log_dir);
    let told = async {
        loop {
            // Each that is let ask is a record.
            let answer = text(server, READY).await;
            if !answer.ends_with("\r\n\r\nOK") {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is full at last");
    assert_eq!(reasons(&answer), ["the accounting log has no room for more records"]);
    end(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_probes_answer_to_the_end_and_nothing_else_does() {
    let dir = tempfile::tempdir().expect("scratch");
    let engine = engine(dir.path(), Pressure::unlimited());
    let server = serve(&engine, &HttpListener::default()).await;
    assert!(text(server, "GET /metrics").await.starts_with("HTTP/1.1 200 "));
    end(&engine).await;
    for probe in [READY, ALIVE] {
        let answer = text(server, probe).await;
        assert_eq!(reasons(&answer), ["shutting down"], "{probe}");
        assert!(!answer.contains("retry-after"), "{answer}");
    }
    for request in ["GET /metrics", "POST /api/inject/v1", "DELETE /api/admin/hold/v1", "GET /nothing"] {
        assert_eq!(reasons(&text(server, request).await), ["Error: shutting down"], "{request}");
    }
}

/// Of a message that is nowhere.
const ID: &str = "2063ba82e85911f199c7e77c9407c7c8";

#[tokio::test]
async fn a_message_that_may_be_in_the_spool_is_not_denied() {
    let dir = tempfile::tempdir().expect("a directory");
    let of_policy = (Arc::new(StaticPolicy) as Arc<_>, Startup::default());
    let (engine, recovering) = engine_before_recovery(dir.path(), Pressure::unlimited(), of_policy);
    let server = serve(&engine, &HttpListener::default()).await;
    let get = async |path: &str| {
        let answer = ask(server, &format!("GET {path}"), "", b"").await;
        String::from_utf8(answer).expect("text")
    };
    let (timeline, inspect) =
        (format!("/api/admin/timeline/v1?id={ID}"), format!("/api/admin/inspect-message/v1?id={ID}"));
    let search = format!("/api/admin/search/v1?id={ID}&among=queues");
    for path in [&timeline, &inspect] {
        let answer = get(path).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("on their way to their queues"), "{answer}");
    }
    let answer = get(&search).await;
    assert!(answer.contains(r#""messages":[]"#) && answer.contains("on their way to their queues"), "{answer}");
    engine.start(recovering);
    while engine.is_recovering() {
        tokio::task::yield_now().await;
    }
    for path in [&timeline, &inspect] {
        let answer = get(path).await;
        assert!(answer.starts_with("HTTP/1.1 404 ") && !answer.contains("on their way"), "{answer}");
    }
    let answer = get(&search).await;
    assert!(answer.contains(r#""messages":[]"#) && answer.contains(r#""not_searched":[]"#), "{answer}");
}
