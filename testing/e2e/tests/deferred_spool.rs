//! `deferred_spool`: what a crash may lose and what it may not, and that a stop loses nothing.

use e2e::kumod::{Kumod, Launch};
use e2e::ledger::Arrival;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use nix::sys::signal::Signal;
use std::net::{SocketAddr, TcpListener};

fn deferring(scratch: &Scratch, to: SocketAddr) -> Launch {
    Launch::relay(scratch, to).env("RELAY_RETRY", "1s").env("RELAY_DEFERRED", "1")
}

/// One message, answered 250.
fn submit(relay: &Kumod, to: &str, subject: &str) {
    let reply = Client::connect(relay.smtp()).submit("a@source.test", &format!("{to}@target.test"), subject);
    assert_eq!(reply.code, 250, "{reply:?}");
}

fn names(arrivals: &[Arrival]) -> Vec<String> {
    let mut names: Vec<String> = arrivals.iter().flat_map(|a| a.recipients.clone()).collect();
    names.sort();
    names
}

#[test]
fn a_kill_loses_what_was_in_memory_only_and_nothing_else() {
    let scratch = Scratch::new();
    // The answer to the final dot comes after longer than this test takes: deliveries stay in hand.
    let slow = Sink::start(&scratch, "slow", &["--delay-ms", "60000"]);
    let mut relay = deferring(&scratch, slow.address).start();
    submit(&relay, "volatile", "in memory");
    slow.await_arrivals(1, SOON);
    assert_eq!(relay.metric("postrider_spool_commits"), 0.0, "nothing was written for it");
    submit(&relay, "forced", "sync me");
    // Policy wanted this one on the disk.
    relay.await_metric("postrider_spool_commits", 1.0, SOON);
    relay.process.kill();

    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = deferring(&scratch, sink.address).start();
    submit(&relay, "marker", "after the kill");
    assert_eq!(names(&sink.await_arrivals(2, SOON)), ["forced@target.test", "marker@target.test"]);
    relay.await_empty(SOON);
    assert_eq!(sink.arrivals().len(), 2);
    relay.stop();
}

#[test]
fn a_message_that_had_to_wait_survives_a_kill() {
    let scratch = Scratch::new();
    // Nobody listens there: the first attempt fails, and what is accepted waits for the next.
    let away = "127.0.0.1:1".parse().expect("an address");
    let mut relay = deferring(&scratch, away).env("RELAY_RETRY", "1h").start();
    submit(&relay, "waits", "not yet");
    relay.await_metric("postrider_spool_commits", 1.0, SOON);
    relay.process.kill();

    let sink = Sink::start(&scratch, "sink", &[]);
    let looked = Launch::verb("spool").arg("list").arg("--spool").arg(scratch.join("relay/data")).run().success();
    assert!(looked.stdout.contains("target.test"), "{}", looked.stdout);
    // Its due time survived as well: with an hour to wait, only a new message goes out.
    let relay = deferring(&scratch, sink.address).start();
    submit(&relay, "marker", "after the kill");
    assert_eq!(names(&sink.await_arrivals(1, SOON)), ["marker@target.test"]);
    let is_alone = || relay.metric("postrider_spool_recovering") == 0.0 && relay.metric("message_count") == 1.0;
    until(SOON, "only the one that waits", || is_alone().then_some(()));
    assert_eq!(sink.arrivals().len(), 1);
    relay.stop();
}

#[test]
fn a_message_that_the_spool_never_takes_keeps_no_other_from_the_disk() {
    let scratch = Scratch::new();
    let away = "127.0.0.1:1".parse().expect("an address");
    let mut relay = deferring(&scratch, away).env("RELAY_RETRY", "1h").env("RELAY_KIND", "LocalDisk").start();
    submit(&relay, "huge", "huge");
    let stays = |line: &str| line.contains("stay in memory only").then_some(());
    relay.process.await_stderr("that it cannot be written", SOON, stays);
    for to in ["one", "two"] {
        submit(&relay, to, "not yet");
    }
    let list = || {
        let verb = Launch::verb("spool").arg("list").arg("--long").arg("--spool");
        verb.arg(scratch.join("relay/data")).run().success()
    };
    until(LATER, "both others on the disk", || {
        let there = list().stdout;
        (there.contains("one@target.test") && there.contains("two@target.test")).then_some(())
    });
    relay.process.kill();
    assert!(!list().stdout.contains("huge@target.test"));
}

#[test]
fn a_stop_loses_nothing_that_was_in_memory_only() {
    let scratch = Scratch::new();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("its address");
    let relay = deferring(&scratch, address).start();
    for number in 0..MESSAGES {
        submit(&relay, &format!("r{number:02}"), "in memory");
    }
    // Connected, and waiting for a banner: all of them stand in the ready queue.
    let (connection, _) = silent.accept().expect("a connection");
    assert_eq!(relay.metric("postrider_spool_commits"), 0.0, "nothing was written before the stop");
    relay.stop();
    drop(connection);

    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = deferring(&scratch, sink.address).start();
    let expected: Vec<String> = (0..MESSAGES).map(|number| format!("r{number:02}@target.test")).collect();
    assert_eq!(names(&sink.await_arrivals(MESSAGES, SOON)), expected);
    relay.await_empty(SOON);
    assert_eq!(sink.arrivals().len(), MESSAGES, "none twice");
    relay.stop();
}

#[test]
fn what_is_in_hand_at_a_stop_is_spooled_when_the_grace_ends() {
    let scratch = Scratch::new();
    let slow = Sink::start(&scratch, "slow", &["--delay-ms", "60000"]);
    let mut relay = deferring(&scratch, slow.address).start();
    submit(&relay, "in-hand", "in hand");
    slow.await_arrivals(1, SOON);
    relay.process.signal(Signal::SIGTERM);
    relay.process.finish(LATER).success();

    // Whether it was delivered nobody knows: it is sent again.
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = deferring(&scratch, sink.address).start();
    assert_eq!(names(&sink.await_arrivals(1, SOON)), ["in-hand@target.test"]);
    relay.stop();
}

/// Messages in memory when the stop comes: fewer than five seconds' worth.
const MESSAGES: usize = 20;
