//! `kumo.spawn_task`: handlers that run beside the service.

use e2e::kumod::{Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;

#[test]
fn tasks_run_beside_the_service() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let server = Launch::policy(policy_file("tasks.lua"))
        .env("TASKS_DIR", scratch.join("tasks"))
        .env("TASKS_TO", sink.address.to_string())
        .start();
    for said in ["task `tasks.fail`", "no reason", "no handler of tasks.nobody", "event tasks.nobody has not been"] {
        server.process.await_stderr(said, SOON, |line| line.contains(said).then_some(()));
    }
    // One task never stops computing; the other sends what handlers hand it, in the state it has kept.
    for word in ["one", "two", "three"] {
        let mut client = Client::connect(server.smtp());
        client.expect("EHLO client.test", 250);
        client.expect(&format!("MAIL FROM:<{word}@a.test>"), 250);
    }
    sink.await_arrivals(3, LATER);
    let delivered = Logs::new(scratch.join("tasks/logs")).await_type("Delivery", 3, LATER);
    let mut to: Vec<&str> = delivered.iter().filter_map(|record| record["recipient"].as_str()).collect();
    to.sort_unstable();
    assert_eq!(to, ["one@sink.test", "three@sink.test", "two@sink.test"]);
    assert!(delivered.iter().all(|record| record["sender"] == "task@source.test"), "{delivered:?}");
    server.stop();
}
