//! What tests of the HTTP listener share: an engine that does nothing of its own, a listener, and who asks it.
#![allow(dead_code, reason = "each test binary uses its part")]

use admin::HttpService;
use config::HttpListener;
use engine::pressure::Pressure;
use engine::{Engine, EngineParts, EngineSettings, Threads};
use net::dns::{HickoryResolver, MxCache, MxCacheLimits};
use policy::{Policy, Startup, StaticPolicy};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use telemetry::Metrics;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// An engine over `dir` that runs.
pub fn engine(dir: &Path, pressure: Pressure) -> Engine {
    engine_of(dir, pressure, (Arc::new(StaticPolicy), Startup::default()))
}

/// The same with a policy of its own, and what that wants started.
pub fn engine_of(dir: &Path, pressure: Pressure, of_policy: (Arc<dyn Policy>, Startup)) -> Engine {
    let (engine, recovering) = engine_before_recovery(dir, pressure, of_policy);
    engine.start(recovering);
    engine
}

/// The same that has yet to start with what is in its spool.
pub fn engine_before_recovery(
    dir: &Path,
    pressure: Pressure,
    (policy, startup): (Arc<dyn Policy>, Startup),
) -> (Engine, store::Recovering) {
    let (spool, recovery) = store::open(dir, store::Options::default()).expect("a fresh spool");
    let nobody = HickoryResolver::asking(&[([127, 0, 0, 1], 9).into()]).expect("sound");
    let engine = Engine::new(EngineParts {
        policy,
        spool,
        mx: Arc::new(MxCache::new(Arc::new(nobody), MxCacheLimits::default())),
        connectors: net::tls::Connectors::new(None).expect("roots"),
        orders: store::OrdersFile::open(dir).expect("no orders"),
        classifier: None,
        read_rules: |_| Err("no rules here".to_owned()),
        startup,
        metrics: Metrics::new().expect("a registry"),
        pressure,
        threads: Threads::current(),
        settings: EngineSettings {
            hostname: "mx.test".to_owned(),
            spool_dir: dir.to_owned(),
            node_id: uuid::Uuid::from_u128(1),
            resident_bytes_max: 1 << 20,
            seed: 7,
        },
    });
    (engine.expect("no logs"), recovery)
}

/// Where a listener of this engine is.
pub async fn serve(engine: &Engine, options: &HttpListener) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let service = HttpService::new(engine.clone(), options).expect("sound");
    tokio::spawn(service.serve(listener, std::future::pending()));
    address
}

/// The whole answer to a request; `fields` end with line ends.
pub async fn ask(server: SocketAddr, request: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(server).await.expect("listening");
    let length = body.len();
    let head =
        format!("{request} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).await.expect("writes");
    let mut answer = Vec::new();
    // One that is cut off after its answer has answered too: a body that is too long is not read to its end.
    let _: std::io::Result<usize> = stream.read_to_end(&mut answer).await;
    assert!(!answer.is_empty(), "no answer to {request}");
    answer
}
