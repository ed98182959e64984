//! Destinations that take connections and say nothing: they hold up nobody but themselves.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::{LATER, until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// How long it takes until so many messages to the good destination have arrived.
fn deliver(scratch: &Scratch, relay: &Kumod, sink: &Sink, name: &str) -> Duration {
    let before = sink.arrivals().len();
    let begun = Instant::now();
    let options = ["--domain", "good.test", "--domain-suffix", "", "--concurrency", "10"];
    Traffic::send(scratch, name, relay.smtp(), GOOD_MESSAGES, &options);
    sink.await_arrivals(before + GOOD_MESSAGES, LATER);
    begun.elapsed()
}

#[test]
fn two_hundred_silent_destinations_slow_the_good_one_by_a_factor_of_two_at_most() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let relay = Launch::policy(policy_file("tarpit.lua"))
        .env("TARPIT_DIR", scratch.join("relay"))
        .env("TARPIT_GOOD", sink.address.to_string())
        .env("TARPIT_SILENT", silent.local_addr().expect("its address").to_string())
        .start();
    deliver(&scratch, &relay, &sink, "warm");
    let alone = deliver(&scratch, &relay, &sink, "alone").min(deliver(&scratch, &relay, &sink, "again"));
    let domains: Vec<String> = (0..TARPITS).map(|n| format!("tarpit{n}.test")).collect();
    let mut options = vec!["--concurrency", "10", "--domain-suffix", ""];
    domains.iter().for_each(|domain| options.extend(["--domain", domain]));
    Traffic::send(&scratch, "tarpits", relay.smtp(), TARPITS * EACH, &options);
    relay.await_metric("connection_count{service=\"smtp_client\"}", TARPITS as f64, LATER);
    let beside = deliver(&scratch, &relay, &sink, "beside").min(deliver(&scratch, &relay, &sink, "once-more"));
    // The better of two runs each: other work on the machine comes and goes.
    assert!(beside <= 2 * alone + GRACE, "{beside:?} beside tarpits, {alone:?} alone");
    assert_eq!(relay.metric("total_messages_transfail{service=\"smtp_client\"}"), 0.0, "no tarpit was given up");
    assert!(relay.metric("message_count") >= (TARPITS * EACH) as f64, "the tarpits still hold theirs");
    relay.process.signal(Signal::SIGKILL);
}

#[test]
fn a_dead_destination_costs_a_few_attempts_and_not_one_for_every_message() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = Launch::policy(policy_file("tarpit.lua"))
        .env("TARPIT_DIR", scratch.join("relay"))
        .env("TARPIT_GOOD", sink.address.to_string())
        .env("TARPIT_SILENT", "127.0.0.1:1")
        .env("TARPIT_FEEDBACK", "1")
        .start();
    let options = ["--domain", "dead.test", "--domain-suffix", "", "--concurrency", "2"];
    Traffic::send(&scratch, "dead", relay.smtp(), 100, &options);
    let queue = || -> Value {
        let (_, text) = http::get(relay.http(), "/api/admin/inspect-sched-q/v1?queue_name=dead.test&limit=100");
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
    };
    let given_up = |message: &&Value| message["why"] == "DestinationIsDead" && message["message"]["num_attempts"] == 0;
    until(LATER, "a destination that is given up", || {
        let queue = queue();
        let messages = queue["messages"].as_array().expect("a list");
        (messages.len() == 100 && messages.iter().filter(given_up).count() >= 90).then_some(())
    });
    let tried = relay.metric("total_messages_transfail{service=\"smtp_client\"}");
    assert!((4.0..=10.0).contains(&tried), "two connections, then one at a time, three times more: {tried}");
    deliver(&scratch, &relay, &sink, "good");
    relay.stop();
}

const TARPITS: usize = 200;
const EACH: usize = 5;
const GOOD_MESSAGES: usize = 1000;
/// What one run may take longer than another by chance.
const GRACE: Duration = Duration::from_millis(100);
