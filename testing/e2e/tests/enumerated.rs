//! Policy looks at the messages of earlier runs: `spool_message_enumerated`.

use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, until};
use e2e::wire::Client;

#[test]
fn policy_sees_the_messages_of_earlier_runs() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let launch = Launch::policy(policy_file("enumerated.lua"))
        .env("SEEN_DIR", scratch.path())
        .env("SEEN_SINK", sink.address.to_string());
    let node = launch.start();
    for (number, from) in ["moved", "stays", "gone", "fails"].iter().enumerate() {
        let mut client = Client::connect(node.smtp());
        client.begin(&format!("{from}@a.test"), "one@b.test");
        assert_eq!(client.say(&format!("Subject: x\r\n\r\nbody {number}\r\n.")).code, 250);
    }
    node.stop();
    let launch = launch.env("SEEN_LATER", "1");
    for run in 1..=2 {
        let node = launch.start();
        // What moved was due, and is delivered; what policy said nothing of, or failed about, waits as before.
        node.await_recovered(LATER);
        // What is counted may be two before the one that moved is.
        sink.await_arrivals(1, LATER);
        let waiting = until(LATER, "two that wait", || Some(node.metric("message_count")).filter(|n| *n == 2.0));
        assert_eq!(waiting, 2.0);
        if run == 1 {
            node.process.await_stderr("the failure", LATER, |line| {
                (line.contains("goes back to its queue as it was") && line.contains("no opinion")).then_some(())
            });
        }
        node.stop();
    }
    let seen = std::fs::read_to_string(scratch.join("seen")).expect("seen");
    let mut seen: Vec<&str> = seen.lines().collect();
    seen.sort_unstable();
    let twice = ["fails body 3", "fails body 3", "gone body 2", "moved body 0", "stays body 1", "stays body 1"];
    assert_eq!(seen, twice, "those that were delivered or discarded are gone");
    let deliveries = Logs::new(scratch.join("logs")).of_type("Delivery");
    assert_eq!(deliveries.len(), 1);
    assert_eq!((&deliveries[0]["queue"], &deliveries[0]["meta"]["seen"]), (&"elsewhere.test".into(), &"yes".into()));
    assert_eq!(sink.await_arrivals(1, LATER).len(), 1);
}
