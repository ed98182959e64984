//! `check-liveness` says why no new mail is taken, and when to ask again.

use admin::HttpService;
use config::{HttpListener, MemoryLimits, MinFree};
use engine::pressure::{Memory, Pressure, PressureSettings, Volume};
use engine::{Engine, EngineParts, EngineSettings};
use net::dns::{HickoryResolver, MxCache, MxCacheLimits};
use policy::StaticPolicy;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Memory of which so much is in use.
struct Used(u64);

impl Memory for Used {
    fn used(&self) -> Option<u64> {
        Some(self.0)
    }

    fn purge(&self) {}
}

async fn engine(dir: &Path, used: u64, volumes: Vec<Volume>) -> Engine {
    let (spool, recovery) = store::open(dir, store::Options::default()).expect("a fresh spool");
    let nobody = HickoryResolver::asking(&[([127, 0, 0, 1], 9).into()]).expect("sound");
    let engine = Engine::new(EngineParts {
        policy: Arc::new(StaticPolicy),
        spool,
        mx: Arc::new(MxCache::new(Arc::new(nobody), MxCacheLimits::default())),
        connectors: net::tls::Connectors::new(None).expect("roots"),
        logs: Vec::new(),
        orders: store::OrdersFile::open(dir).expect("no orders"),
        classifier: None,
        disposition_hooks: Vec::new(),
        metrics: Metrics::new().expect("a registry"),
        pressure: Pressure::new(PressureSettings {
            limits: MemoryLimits { soft: Some(1000), ..MemoryLimits::default() },
            memory: Arc::new(Used(used)),
            volumes,
            delivers_when_spool_unhealthy: false,
        }),
        settings: EngineSettings {
            hostname: "mx.test".to_owned(),
            node_id: uuid::Uuid::from_u128(1),
            resident_bytes_max: 1 << 20,
            seed: 7,
        },
    });
    engine.start(recovery);
    engine.watch_pressure().await;
    engine
}

/// The whole answer of a listener of this engine.
async fn check(engine: &Engine) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address: SocketAddr = listener.local_addr().expect("bound");
    tokio::spawn(HttpService::new(engine.clone(), &HttpListener::default()).expect("sound").serve(listener));
    let mut stream = TcpStream::connect(address).await.expect("listening");
    let request = b"GET /api/check-liveness/v1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
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
    };
    let full = engine(dirs[2].path(), 0, vec![volume]).await;
    let answer = check(&full).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\n\r\nstorage is too full"), "{answer}");
    for engine in [well, shedding, full] {
        engine.drain(Duration::from_secs(10)).await;
    }
}
