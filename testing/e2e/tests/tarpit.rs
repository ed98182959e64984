//! Destinations that take connections and say nothing: they hold up nobody but themselves.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::traffic::Traffic;
use e2e::until::LATER;
use nix::sys::signal::Signal;
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
    assert!(relay.metric("message_count") >= (TARPITS * EACH) as f64, "the tarpits still hold theirs");
    relay.process.signal(Signal::SIGKILL);
}

const TARPITS: usize = 200;
const EACH: usize = 5;
const GOOD_MESSAGES: usize = 1000;
/// What one run may take longer than another by chance.
const GRACE: Duration = Duration::from_millis(100);
