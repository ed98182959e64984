//! Handlers that never end, grow without end or fail are stopped, and nobody else's mail is the worse for it.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::LATER;
use e2e::wire::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

/// What the handler of MAIL makes of a client whose sender is called so.
const AWAY: [&str; 5] = ["loop", "stubborn", "grow", "hoard", "fail"];

#[test]
fn a_runaway_handler_changes_nobody_elses_outcome() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let server = Launch::policy(policy_file("runaway.lua"))
        .env("RUNAWAY_DIR", scratch.join("server"))
        .env("RUNAWAY_TO", sink.address.to_string())
        // A state then has 64 MiB.
        .env("KUMOD_MEMORY_HARD_LIMIT", (1u64 << 30).to_string())
        .start();
    // From the first that is stopped on it is known what handlers of MAIL are like.
    AWAY.iter().for_each(|user| is_stopped(&server, user));
    let over = AtomicBool::new(false);
    let (sent, slowest) = scope(|scope| {
        let bystander = scope.spawn(|| send_until(&server, &over));
        let away = |user: &'static str| (0..2).map(move |_| user);
        let clients: Vec<_> =
            AWAY.into_iter().flat_map(away).map(|user| scope.spawn(|| is_stopped(&server, user))).collect();
        // These are not stopped as long as the test takes, and hold nothing but their clients.
        let waiting: Vec<Client> = (0..20).map(|_| greeted(&server)).collect();
        let waiting = waiting.into_iter().map(|mut client| {
            client.send("MAIL FROM:<wait@a.test>\r\n");
            client
        });
        let waiting: Vec<Client> = waiting.collect();
        clients.into_iter().for_each(|client| client.join().expect("was stopped"));
        over.store(true, Ordering::Relaxed);
        drop(waiting);
        bystander.join().expect("was served")
    });
    assert!(sent >= 3, "only {sent} messages got in beside");
    assert!(slowest < Duration::from_secs(5), "a message took {slowest:?}");
    sink.await_arrivals(sent, LATER);
    server.await_empty(LATER);
    assert_eq!(sink.arrivals().len(), sent);
    server.stop();
}

fn greeted(server: &Kumod) -> Client {
    let mut client = Client::connect(server.smtp());
    client.expect("EHLO client.test", 250);
    client
}

/// The answer is that of any error in a handler, and it is the session's last.
fn is_stopped(server: &Kumod, user: &str) {
    let mut client = greeted(server);
    client.expect(&format!("MAIL FROM:<{user}@a.test>"), 421);
    assert!(client.is_closed_silently(), "{user}");
}

/// Sends one message after the other; how many, and how long the slowest took from its first command to its 250.
fn send_until(server: &Kumod, over: &AtomicBool) -> (usize, Duration) {
    let (mut sent, mut slowest) = (0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let mut client = greeted(server);
        client.submit("bystander@a.test", "b@target.test", "one of many");
        client.expect("QUIT", 221);
        sent += 1;
        slowest = slowest.max(begun.elapsed());
    }
    (sent, slowest)
}
