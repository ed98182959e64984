//! Postfix around us: its generator in front, its sink behind, its relay on either side.
//!
//! Every message has a recipient of its own, so that arriving once, twice and never can be told apart. Content is
//! compared elsewhere (`smtplib`, `dkim`).

use e2e::kumod::Launch;
use e2e::postfix::{Postfix, PostfixSink, smtp_source};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use std::collections::BTreeSet;

#[test]
fn from_smtp_source_to_postfix_smtp_sink() {
    let scratch = Scratch::new();
    let sink = PostfixSink::start(&scratch);
    let relay = Launch::relay(&scratch, sink.address).start();
    smtp_source(relay.smtp(), MESSAGES, &["-s", "20", "-l", "4096"]);
    // One connection a message is what the worst of clients do.
    one_connection_each(relay.smtp(), MESSAGES / 5);
    relay.await_empty(LATER);
    let recipients = sink.await_recipients(MESSAGES + MESSAGES / 5, LATER);
    assert_eq!(recipients.len(), MESSAGES + MESSAGES / 5, "messages at the sink");
    expect_all(recipients, numbered("rcpt", MESSAGES).union(&numbered("short", MESSAGES / 5)).cloned().collect());
    assert_eq!(relay.metric("total_messages_delivered{service=\"smtp_client\"}"), (MESSAGES + MESSAGES / 5) as f64);
    relay.stop();
}

#[test]
fn behind_a_postfix() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::relay(&scratch, sink.address).start();
    let postfix = Postfix::start(&scratch, relay.smtp());
    smtp_source(postfix.address, MESSAGES, &["-s", "20", "-l", "4096"]);
    expect_each_once(&sink);
    until(SOON, "an empty Postfix", || (postfix.queued() == 0).then_some(()));
    relay.stop();
}

#[test]
fn in_front_of_a_postfix() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let postfix = Postfix::start(&scratch, sink.address);
    let relay = Launch::relay(&scratch, postfix.address).start();
    smtp_source(relay.smtp(), MESSAGES, &["-s", "20", "-l", "4096"]);
    relay.await_empty(LATER);
    expect_each_once(&sink);
    assert_eq!(relay.metric("total_messages_transfail{service=\"smtp_client\"}"), 0.0, "Postfix refused something");
    relay.stop();
}

fn one_connection_each(to: std::net::SocketAddr, count: usize) {
    smtp_source(to, count, &["-d", "-s", "20", "-l", "1024", "-t", "short@target.test"]);
}

fn expect_each_once(sink: &Sink) {
    let arrivals = sink.await_arrivals(MESSAGES, LATER);
    assert_eq!(arrivals.len(), MESSAGES, "messages at the sink");
    expect_all(arrivals.into_iter().flat_map(|arrival| arrival.recipients).collect(), numbered("rcpt", MESSAGES));
}

fn expect_all(arrived: Vec<String>, wanted: BTreeSet<String>) {
    let arrived: BTreeSet<String> = arrived.into_iter().collect();
    let (missing, strange) = (&wanted - &arrived, &arrived - &wanted);
    assert!(missing.is_empty() && strange.is_empty(), "never arrived: {missing:?}; never sent: {strange:?}");
}

/// The recipients `smtp-source -N` makes.
fn numbered(name: &str, count: usize) -> BTreeSet<String> {
    (1..=count).map(|number| format!("{number}{name}@target.test")).collect()
}

const MESSAGES: usize = 500;
