//! `check-liveness` says why no new mail is taken, and when to ask again.

mod support;

use config::{HttpListener, MemoryLimits, MinFree};
use engine::Engine;
use engine::pressure::{Memory, Pressure, PressureSettings, Volume};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Memory of which so much is in use.
struct Used(u64);

impl Memory for Used {
    fn used(&self) -> Option<u64> {
        Some(self.0)
    }

    fn purge(&self) {}
}

async fn engine(dir: &Path, used: u64, volumes: Vec<Volume>) -> Engine {
    let pressure = Pressure::new(PressureSettings {
        limits: MemoryLimits { soft: Some(1000), ..MemoryLimits::default() },
        memory: Arc::new(Used(used)),
        volumes,
        delivers_when_spool_unhealthy: false,
    });
    let engine = support::engine(dir, pressure);
    engine.watch_pressure().await;
    engine
}

/// The whole answer of a listener of this engine.
async fn check(engine: &Engine) -> String {
    let server = support::serve(engine, &HttpListener::default()).await;
    let answer = support::ask(server, "GET /api/check-liveness/v1", "", b"").await;
    String::from_utf8(answer).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_well_while_mail_is_taken_and_says_why_when_it_is_not() {
    let dirs = [(); 3].map(|()| tempfile::tempdir().expect("scratch"));
    let well = engine(dirs[0].path(), 900, Vec::new()).await;
    let answer = check(&well).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nOK"), "{answer}");

    let shedding = engine(dirs[1].path(), 1000, Vec::new()).await;
    let answer = check(&shedding).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\n\r\nload shedding"), "{answer}");
    assert!(answer.contains("\r\nretry-after: 5\r\n"), "{answer}");

    let volume = Volume {
        name: "data spool".to_owned(),
        path: dirs[2].path().to_owned(),
        min_free_space: MinFree::Amount(u64::MAX),
        min_free_inodes: MinFree::Percent(0),
        must_stay: false,
    };
    let full = engine(dirs[2].path(), 0, vec![volume]).await;
    let answer = check(&full).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\n\r\nstorage is too full"), "{answer}");
    for engine in [well, shedding, full] {
        engine.drain(Duration::from_secs(10)).await;
    }
}
