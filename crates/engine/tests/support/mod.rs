//! What tests of whole engines share: policies that send on or take in, an engine on loopback, a client.
#![allow(dead_code, reason = "each test binary uses its part")]

use bytes::Bytes;
use config::{EgressPath, EsmtpListener, LocalLogs, QueueConfig};
use engine::pressure::Pressure;
use engine::{Engine, EngineParts, EngineSettings, EsmtpService, Threads};
use message::{Draft, Meta};
use net::dns::{HickoryResolver, MxCache, MxCacheLimits};
use policy::{Answer, ConnMeta, Event, Interest, Policy, QueueParts, ready};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::SpoolHandle;
use telemetry::Metrics;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Sends every queue to `next`.
pub struct ToNext {
    pub next: SocketAddr,
}

/// Reports every message and drops it.
pub struct Report {
    pub seen: mpsc::UnboundedSender<(Meta, Bytes)>,
}

impl Policy for ToNext {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::QueueConfig).with(Event::EgressPathConfig)
    }

    fn get_queue_config(&self, _parts: QueueParts) -> Answer<'_, QueueConfig> {
        let list = json!([{"name": "next.test", "addr": self.next.to_string()}]);
        let options = json!({"protocol": {"smtp": {"mx_list": list}}, "retry_interval": "1s"});
        ready(config::parse("kumo.make_queue_config", options).expect("sound"))
    }

    fn get_egress_path_config(&self, _domain: String, _source: String, _site: String) -> Answer<'_, EgressPath> {
        let options = json!({"enable_tls": "OpportunisticInsecure", "prohibited_hosts": []});
        ready(config::parse("kumo.make_egress_path", options).expect("sound"))
    }
}

impl Policy for Report {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::MessageReceived)
    }

    fn smtp_server_message_received(&self, mut draft: Draft, _conn: ConnMeta) -> Answer<'_, Draft> {
        self.seen.send((draft.meta.clone(), draft.data())).expect("the test waits");
        draft.meta.set("queue", "null");
        ready(draft)
    }
}

/// An engine over `dir/spool` with a log, and its listener's address.
pub async fn start(policy: Arc<dyn Policy>, dir: &Path) -> (Engine, SocketAddr) {
    let logs = LocalLogs { log_dir: dir.join("log"), ..LocalLogs::default() };
    let logs = vec![logs];
    let engine = engine(policy, dir, logs, Pressure::unlimited());
    let address = listen(&engine).await;
    (engine, address)
}

/// An engine over `dir/spool` that runs.
pub fn engine(policy: Arc<dyn Policy>, dir: &Path, local_logs: Vec<LocalLogs>, pressure: Pressure) -> Engine {
    engine_on(Threads::current(), policy, dir, (local_logs, pressure))
}

/// The same, carried by these threads.
pub fn engine_on(
    threads: Threads,
    policy: Arc<dyn Policy>,
    dir: &Path,
    (local_logs, pressure): (Vec<LocalLogs>, Pressure),
) -> Engine {
    over(threads, policy, dir, store::Options::default(), (local_logs, pressure)).0
}

/// The same, over a spool with these options, which is given out too.
pub fn over(
    threads: Threads,
    policy: Arc<dyn Policy>,
    dir: &Path,
    mut options: store::Options,
    (local_logs, pressure): (Vec<LocalLogs>, Pressure),
) -> (Engine, SpoolHandle) {
    options.settings.queue_of = |envelope, meta| queue::schedule::label_for(envelope, meta).unwrap_or_default();
    let (spool, recovery) = store::open(&dir.join("spool"), options).expect("a spool nobody has open");
    let nobody = HickoryResolver::asking(&[([127, 0, 0, 1], 9).into()]).expect("sound");
    let engine = Engine::new(EngineParts {
        policy,
        spool: spool.clone(),
        mx: Arc::new(MxCache::new(Arc::new(nobody), MxCacheLimits::default())),
        connectors: net::tls::Connectors::new(None).expect("roots"),
        orders: store::OrdersFile::open(&dir.join("spool")).expect("no orders"),
        classifier: None,
        read_rules: |_| Err("no rules here".to_owned()),
        startup: policy::Startup { local_logs, ..policy::Startup::default() },
        metrics: Metrics::new().expect("a registry"),
        pressure,
        threads,
        settings: EngineSettings {
            hostname: "mx.test".to_owned(),
            spool_dir: dir.join("spool"),
            node_id: uuid::Uuid::from_u128(1),
            resident_bytes_max: 1 << 20,
            seed: 7,
        },
    });
    let engine = engine.expect("a fresh directory");
    engine.start(recovery);
    (engine, spool)
}

/// A listener with all defaults, on loopback.
pub async fn listen(engine: &Engine) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let service = EsmtpService::new(engine.clone(), EsmtpListener::default(), engine.interest()).expect("defaults");
    tokio::spawn(service.serve(listener, std::future::pending()));
    address
}

/// Lets other tasks run until `done`, which nobody announces; a test that hangs fails here.
pub async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Sends one message; the answers, the last being that to the final dot.
pub async fn send(to: SocketAddr, content: &str) -> String {
    let mut stream = BufReader::new(TcpStream::connect(to).await.expect("listening"));
    let mut answers = String::new();
    let script =
        ["EHLO client.test\r\n", "MAIL FROM:<a@sender.test>\r\n", "RCPT TO:<b@next.test>\r\n", "DATA\r\n", content];
    stream.read_line(&mut answers).await.expect("a banner");
    for step in script {
        stream.write_all(step.as_bytes()).await.expect("writes");
        let mut line = "-".repeat(4);
        while line.as_bytes()[3] == b'-' {
            line.clear();
            stream.read_line(&mut line).await.expect("an answer");
        }
        answers.push_str(&line);
    }
    answers
}
