//! Two engines in one process: one relays to the other, each with its own spool, logs, metrics.
//!
//! The cheapest proof that nothing is global, and of the whole path from a socket to a socket.

use bytes::Bytes;
use config::{EgressPath, EsmtpListener, LocalLogs, QueueConfig};
use engine::{Engine, EngineParts, EngineSettings, EsmtpService};
use message::{Draft, Meta};
use net::dns::{HickoryResolver, MxCache, MxCacheLimits, ResolverConfig};
use policy::{Answer, ConnMeta, Event, Interest, Policy, QueueParts, ready};
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use telemetry::{LogWriter, Metrics};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Sends every queue to `next`.
struct ToNext {
    next: SocketAddr,
}

/// Reports every message and drops it.
struct Report {
    seen: mpsc::UnboundedSender<(Meta, Bytes)>,
}

impl Policy for ToNext {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::QueueConfig).with(Event::EgressPathConfig)
    }

    fn get_queue_config(&self, _parts: QueueParts) -> Answer<'_, QueueConfig> {
        let list = json!([{"name": "next.test", "addr": self.next.to_string()}]);
        let options = json!({"protocol": {"smtp": {"mx_list": list}}});
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

async fn start(policy: Arc<dyn Policy>, dir: &Path) -> (Engine, SocketAddr) {
    let (spool, recovery) = store::open(&dir.join("spool"), store::Options::default()).expect("a fresh spool");
    let nobody = HickoryResolver::from_config(&ResolverConfig::new(vec![([127, 0, 0, 1], 9).into()])).expect("sound");
    let logs = LocalLogs { log_dir: dir.join("log"), ..LocalLogs::default() };
    let engine = Engine::new(EngineParts {
        policy,
        spool,
        mx: MxCache::new(Arc::new(nobody), MxCacheLimits::default()),
        connectors: net::tls::Connectors::new().expect("roots"),
        logs: vec![LogWriter::open(logs).expect("a fresh directory")],
        metrics: Metrics::new().expect("a registry"),
        pressure: engine::pressure::Pressure::unlimited(),
        settings: EngineSettings {
            hostname: "mx.test".to_owned(),
            node_id: uuid::Uuid::from_u128(1),
            resident_bytes_max: 1 << 20,
            seed: 7,
        },
    });
    engine.start(recovery);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    let service = EsmtpService::new(engine.clone(), EsmtpListener::default()).expect("defaults");
    tokio::spawn(service.serve(listener));
    (engine, address)
}

async fn send(to: SocketAddr, content: &str) -> String {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_message_crosses_two_engines_and_is_gone_from_both() {
    let dirs = [tempfile::tempdir().expect("scratch"), tempfile::tempdir().expect("scratch")];
    let (seen, mut arrivals) = mpsc::unbounded_channel();
    let (last, last_address) = start(Arc::new(Report { seen }), dirs[0].path()).await;
    let (first, first_address) = start(Arc::new(ToNext { next: last_address }), dirs[1].path()).await;

    let answers = send(first_address, "Subject: across\r\n\r\n..dotted\r\n.\r\n").await;
    let accepted = answers.lines().last().unwrap_or_default();
    assert!(accepted.starts_with("250 OK ids="), "{answers}");

    let (meta, data) =
        tokio::time::timeout(Duration::from_secs(30), arrivals.recv()).await.expect("in time").expect("open");
    let text = String::from_utf8_lossy(&data);
    assert!(text.ends_with("Subject: across\r\n\r\n.dotted\r\n"), "{text}");
    assert_eq!(text.matches("\r\nReceived: ").count() + usize::from(text.starts_with("Received: ")), 2, "{text}");
    assert!(text.contains("with ESMTPS (TLSv1_3:"), "opportunistic TLS was not used: {text}");
    assert_eq!(meta.string("reception_protocol"), Ok(Some("ESMTP")));

    first.drain(Duration::from_secs(10)).await;
    last.drain(Duration::from_secs(10)).await;
    let (_, mut left) = store::open(&dirs[1].path().join("spool"), store::Options::default()).expect("closed before");
    assert_eq!(left.next().await.map_or(0, |chunk| chunk.len()), 0, "a delivered message is still in the spool");
    assert_eq!(first.metrics().total_messages_delivered.with_label_values(&["smtp_client"]).get(), 1);
    assert_eq!(last.metrics().total_messages_delivered.with_label_values(&["smtp_client"]).get(), 0);
}

/// A policy whose handler panics must cost its own session only.
struct Panics(Mutex<u32>);

impl Policy for Panics {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::MessageReceived)
    }

    fn smtp_server_message_received(&self, mut draft: Draft, _conn: ConnMeta) -> Answer<'_, Draft> {
        let mut calls = self.0.lock().expect("not held across the panic");
        *calls += 1;
        let first = *calls == 1;
        drop(calls);
        assert!(!first, "a fault in a handler");
        draft.meta.set("queue", "null");
        ready(draft)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_session_leaves_the_others_alone() {
    let dir = tempfile::tempdir().expect("scratch");
    let (engine, address) = start(Arc::new(Panics(Mutex::new(0))), dir.path()).await;
    let broken = send(address, "Subject: one\r\n\r\nx\r\n.\r\n");
    assert!(tokio::spawn(broken).await.is_err(), "the connection of the first session is cut");
    let answers = send(address, "Subject: two\r\n\r\nx\r\n.\r\n").await;
    assert!(answers.contains("\n250 OK ids="), "{answers}");
    engine.drain(Duration::from_secs(10)).await;
}
