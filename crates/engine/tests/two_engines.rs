//! Two engines in one process: one relays to the other, each with its own spool, logs, metrics.
//!
//! The cheapest proof that nothing is global, and of the whole path from a socket to a socket.

mod support;

use message::Draft;
use policy::{Answer, ConnMeta, Event, Interest, Policy, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{Report, ToNext, send, start};
use tokio::sync::mpsc;

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
    assert_eq!(delivered(&first), 1);
    assert_eq!(delivered(&last), 0);
}

/// Recipients delivered over SMTP.
fn delivered(engine: &engine::Engine) -> u64 {
    engine.metrics().tallies.of_protocol("smtp_client").delivered.load(std::sync::atomic::Ordering::Relaxed)
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
