//! More scheduled queues than a scrape counts: they are counted before anybody asks.

mod support;

use config::{EgressPath, QueueConfig};
use engine::pressure::Pressure;
use policy::{Answer, Event, Interest, Policy, QueueParts, ready};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use support::{engine, listen, until};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Has a place to send everything to where nobody is, and an hour until the next attempt.
struct Nowhere;

impl Policy for Nowhere {
    fn interest(&self) -> Interest {
        Interest::NONE.with(Event::QueueConfig).with(Event::EgressPathConfig)
    }

    fn get_queue_config(&self, _parts: QueueParts) -> Answer<'_, QueueConfig> {
        let list = json!([{"name": "next.test", "addr": "127.0.0.1:1"}]);
        let options = json!({"protocol": {"smtp": {"mx_list": list}}, "retry_interval": "1h"});
        ready(config::parse("kumo.make_queue_config", options).expect("sound"))
    }

    fn get_egress_path_config(&self, _domain: String, _source: String, _site: String) -> Answer<'_, EgressPath> {
        ready(config::parse("kumo.make_egress_path", json!({"prohibited_hosts": []})).expect("sound"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_scrape_of_very_many_queues_finds_them_counted() {
    let dir = tempfile::tempdir().expect("scratch");
    let engine = engine(Arc::new(Nowhere), dir.path(), Vec::new(), Pressure::unlimited());
    let to = listen(&engine).await;
    fill(to, TRANSACTIONS - 1).await;
    let text = engine.metrics_text("").await.expect("a page");
    assert!(text.contains("\nscheduled_queue_count 20000\n"), "each is counted for a scrape");
    assert_eq!(engine.census_age(), None, "so few are not counted before");
    fill(to, TRANSACTIONS).await;
    until("they are counted", || engine.census_age().is_some()).await;
    // That may have been while they came; a scrape has them counted again for the next.
    let all = tokio::time::timeout(Duration::from_secs(20), async {
        loop {
            let text = engine.metrics_text("").await.expect("a page");
            if text.contains("\nscheduled_queue_count 21000\n") {
                return text;
            }
            tokio::task::yield_now().await;
        }
    });
    let text = all.await.expect("all of them");
    assert!(text.contains("\nscheduled_count{queue=\"other\"} "), "and the smallest under one name");
    engine.drain(Duration::from_secs(10)).await;
}

/// A message to each of a thousand domains, so many times; those that were there have one more.
async fn fill(to: SocketAddr, transactions: usize) {
    for transaction in 0..transactions {
        let mut stream = BufReader::new(TcpStream::connect(to).await.expect("listening"));
        reply(&mut stream, "220 ").await;
        stream.write_all(b"EHLO client.test\r\n").await.expect("writes");
        reply(&mut stream, "250 ").await;
        let recipients = (0..RECIPIENTS).map(|n| format!("RCPT TO:<a@d{transaction}-{n}.test>\r\n"));
        let all = format!("MAIL FROM:<a@sender.test>\r\n{}DATA\r\n", recipients.collect::<String>());
        stream.write_all(all.as_bytes()).await.expect("writes");
        reply(&mut stream, "354 ").await;
        stream.write_all(b"Subject: x\r\n\r\n.\r\n").await.expect("writes");
        reply(&mut stream, "250 OK ids=").await;
    }
}

/// Reads up to the reply that begins so.
async fn reply(stream: &mut BufReader<TcpStream>, begin: &str) {
    let mut line = String::new();
    while !line.starts_with(begin) {
        assert!(line.is_empty() || line.starts_with('2'), "{line}");
        line.clear();
        assert!(stream.read_line(&mut line).await.expect("an answer") > 0, "closed");
    }
}

const TRANSACTIONS: usize = 21;
const RECIPIENTS: usize = 1000;
