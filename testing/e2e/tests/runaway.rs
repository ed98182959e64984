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
    let slowest = scope(|scope| {
        // These come again and again, more of them than there are threads.
        for user in AWAY.into_iter().flat_map(|user| [user, user]) {
            let over = &over;
            let server = &server;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    is_stopped(server, user);
                }
            });
        }
        // These are not stopped as long as the test takes, and hold nothing but their clients.
        let mut waiting: Vec<Client> = (0..20).map(|_| greeted(&server)).collect();
        waiting.iter_mut().for_each(|client| client.send("MAIL FROM:<wait@a.test>\r\n"));
        // Also when one is not taken: else the others would go on for ever.
        let _end = Ends(&over);
        (0..SENT).map(|_| send_one(&server)).max().unwrap_or_default()
    });
    assert!(slowest < Duration::from_secs(5), "a message took {slowest:?}");
    sink.await_arrivals(SENT, LATER);
    server.await_empty(LATER);
    assert_eq!(sink.arrivals().len(), SENT);
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

/// Tells the others at its end.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends a message; how long it took from its first command to its 250.
fn send_one(server: &Kumod) -> Duration {
    let begun = Instant::now();
    let mut client = greeted(server);
    client.submit("bystander@a.test", "b@target.test", "one of many");
    client.expect("QUIT", 221);
    begun.elapsed()
}

/// Messages of the bystander, all of them beside handlers that run away.
const SENT: usize = 10;
