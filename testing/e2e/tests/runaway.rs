//! Handlers that never end, grow without end or fail are stopped, and nobody else's mail is the worse for it.

use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, until};
use e2e::wire::Client;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

/// What the handler of MAIL makes of a client whose sender is called so.
const AWAY: [&str; 6] = ["loop", "stubborn", "grow", "hoard", "search", "fail"];

/// One after the other: each takes all the processors there are.
#[test]
fn a_runaway_handler_changes_nobody_elses_outcome() {
    in_one_event_again_and_again();
    in_every_event_in_any_order();
}

fn start(scratch: &Scratch, sink: &Sink) -> Kumod {
    Launch::policy(policy_file("runaway.lua"))
        .env("RUNAWAY_DIR", scratch.join("server"))
        .env("RUNAWAY_TO", sink.address.to_string())
        // A state then has 64 MiB.
        .env("KUMOD_MEMORY_HARD_LIMIT", (1u64 << 30).to_string())
        .start()
}

fn in_one_event_again_and_again() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let server = start(&scratch, &sink);
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
    println!("a message took {slowest:?} at most beside one event's");
    assert!(slowest < BYSTANDER_MAX, "a message took {slowest:?}");
    sink.await_arrivals(SENT, LATER);
    server.await_empty(LATER);
    assert_eq!(sink.arrivals().len(), SENT);
    server.stop();
}

/// Whatever a handler of whatever event does, in whatever order: its own client or message has the outcome of an error, and
/// every other message its 250 and its delivery.
fn in_every_event_in_any_order() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let server = start(&scratch, &sink);
    let seed = std::time::UNIX_EPOCH.elapsed().map_or(1, |since| since.subsec_nanos());
    println!("seed {seed}");
    let all: Vec<(&str, &str)> = EVENTS.iter().flat_map(|event| AWAY.map(|what| (what, *event))).collect();
    let order = shuffled(all, seed);
    let over = AtomicBool::new(false);
    let (sent, accepted) = scope(|scope| {
        let bystander = scope.spawn(|| {
            let _end = Ends(&over);
            let mut slowest = (0, Duration::ZERO);
            while !over.load(Ordering::Relaxed) {
                slowest = (slowest.0 + 1, slowest.1.max(send_one(&server)));
            }
            slowest
        });
        let _end = Ends(&over);
        let halves = order.chunks(order.len().div_ceil(2)).map(|half| {
            let server = &server;
            scope.spawn(move || half.iter().filter(|(what, event)| misbehaves(server, what, event)).count())
        });
        let halves: Vec<_> = halves.collect();
        let accepted: usize = halves.into_iter().map(|half| half.join().expect("outcomes as they are due")).sum();
        over.store(true, Ordering::Relaxed);
        let (sent, slowest) = bystander.join().expect("a bystander is served");
        println!("a message took {slowest:?} at most beside every event's");
        assert!(slowest < BYSTANDER_MAX, "a message took {slowest:?}");
        (sent, accepted)
    });
    // A handler that hears of a record cannot hold up its message.
    sink.await_arrivals(sent + AWAY.len(), LATER);
    assert_eq!(sink.arrivals().len(), sent + AWAY.len());
    // Those that were accepted, and about which policy has no answer, wait; all but those whose records alone nobody hears of.
    assert!((3 * AWAY.len()..=4 * AWAY.len()).contains(&accepted), "{accepted}");
    let waiting = (accepted - AWAY.len()) as f64;
    until(LATER, "nothing waits besides", || (server.metric("message_count") == waiting).then_some(()));
    server.stop();
}

/// One client whose handler of that event runs away; whether its message was accepted.
fn misbehaves(server: &Kumod, what: &str, event: &str) -> bool {
    let name = format!("{what}-{event}");
    let mut client = patient(server);
    let is_away = |client: &mut Client, command: &str| {
        client.expect(command, 421);
        assert!(client.is_closed_silently(), "{name}");
        false
    };
    if event == "ehlo" {
        return is_away(&mut client, &format!("EHLO {name}"));
    }
    client.expect("EHLO client.test", 250);
    if event == "mail" {
        return is_away(&mut client, &format!("MAIL FROM:<{name}@a.test>"));
    }
    client.expect("MAIL FROM:<someone@a.test>", 250);
    if event == "rcpt" {
        return is_away(&mut client, &format!("RCPT TO:<{name}@target.test>"));
    }
    let domain = if event == "path" { format!("{name}.test") } else { "target.test".to_owned() };
    client.expect(&format!("RCPT TO:<{name}@{domain}>"), 250);
    client.expect("DATA", 354);
    let code = client.say("Subject: x\r\n\r\nHello.\r\n.").code;
    let may_be: &[u16] = match event {
        "throttle" | "path" | "logged" => &[250],
        // What is not known of its queue within a second is waited for there.
        "queue" => &[250, 421],
        _ => &[421],
    };
    assert!(may_be.contains(&code), "{name}: {code}");
    code == 250
}

/// Fisher and Yates, by a generator that the seed begins.
fn shuffled<T>(mut list: Vec<T>, seed: u32) -> Vec<T> {
    let mut state = u64::from(seed) | 1;
    for last in (1..list.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(last, (state >> 33) as usize % (last + 1));
    }
    list
}

fn greeted(server: &Kumod) -> Client {
    let mut client = Client::connect(server.smtp());
    client.expect("EHLO client.test", 250);
    client
}

/// Waits for an answer as long as clients do (RFC 5321, 4.5.3.2.2): those that run away wait for one another, and nobody else for
/// them.
fn patient(server: &Kumod) -> Client {
    let mut client = Client::connect(server.smtp());
    client.waits_for(Duration::from_secs(300));
    client
}

/// The answer is that of any error in a handler, and it is the session's last.
fn is_stopped(server: &Kumod, user: &str) {
    let mut client = patient(server);
    client.expect("EHLO client.test", 250);
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

/// Events whose handlers misbehave, as `runaway.lua` calls them.
const EVENTS: [&str; 8] = ["ehlo", "mail", "rcpt", "received", "queue", "throttle", "path", "logged"];
/// How long a message may take beside them: five times what it took where one of them is stopped after five seconds.
const BYSTANDER_MAX: Duration = Duration::from_secs(5);
/// Messages of the bystander, all of them beside handlers that run away.
const SENT: usize = 10;
