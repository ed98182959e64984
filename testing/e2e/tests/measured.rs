//! `relay.lua` and `sink.lua` as they run on KumoMTA, octet for octet, one before the other.

use e2e::certificate::DkimKey;
use e2e::dump::Dump;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::peers;
use e2e::port::free_port;
use e2e::process::run;
use e2e::scratch::Scratch;
use e2e::traffic::Traffic;
use e2e::until::{LATER, SOON};
use std::net::SocketAddr;

#[test]
fn the_relay_delivers_to_the_sink_whatever_it_took() {
    let scratch = Scratch::new();
    let sink = sink(&scratch);
    let relay = relay(&scratch, sink.smtp()).start();
    Traffic::send(&scratch, "made", relay.smtp(), MESSAGES, &["--concurrency", "8", "--body-size", "10k"]);
    relay.await_empty(LATER);
    assert_eq!(sink.metric("total_messages_received{service=\"esmtp_listener\"}"), MESSAGES as f64);
    assert_eq!(sink.metric("message_count"), 0.0, "a sink keeps nothing");
    relay.stop();
    sink.stop();
    let logs = Logs::new(scratch.join("relay/logs"));
    assert_eq!((logs.of_type("Reception").len(), logs.of_type("Delivery").len()), (MESSAGES, MESSAGES));
    assert_eq!(logs.of_type("Delivery")[0]["peer_address"]["name"], "sink.test");
}

#[test]
fn the_sink_takes_requests_too() {
    let scratch = Scratch::new();
    let sink = sink(&scratch);
    let request = serde_json::json!({
        "envelope_sender": "a@source.test", "content": "Subject: x\r\n\r\nx\r\n", "recipients": [{"email": "b@target.test"}],
    });
    let told = e2e::http::json(sink.http(), "POST", "/api/inject/v1", &request);
    assert_eq!(told["success_count"], 1, "{told}");
    sink.await_empty(SOON);
    assert_eq!(sink.metric("total_messages_received{service=\"http_listener\"}"), 1.0);
    sink.stop();
}

#[test]
fn the_relay_signs_and_asks_again_after_the_interval_it_is_given() {
    let scratch = Scratch::new();
    let (key, record) = DkimKey::Rsa.make(&scratch);
    let port = free_port();
    let relay = relay(&scratch, SocketAddr::from(([127, 0, 0, 1], port)))
        .env("RELAY_DKIM_KEY", key)
        .env("RELAY_RETRY", "1s")
        .start();
    Traffic::send(&scratch, "made", relay.smtp(), 1, &["--body-size", "10k"]);
    relay.await_metric("total_messages_transfail{service=\"smtp_client\"}", 1.0, SOON);
    let dump = Dump::start_on(&scratch, port);
    let files = dump.await_messages(1, SOON);
    relay.await_empty(SOON);
    relay.stop();
    let mut command = peers::script("dkim_verify.py");
    command.arg("--key").arg(format!("s1._domainkey.bench.test={record}")).args(&files);
    let told = run("dkim_verify.py", command, LATER).success();
    assert!(told.stdout.starts_with("pass "), "{}", told.stdout);
}

fn sink(scratch: &Scratch) -> Kumod {
    let launch = Launch::policy(policy_file("../../../bench/policies/sink.lua"))
        .env("SINK_PORT", "0")
        .env("SINK_HTTP", "127.0.0.1:0");
    launch.env("SINK_DIR", scratch.join("sink")).start()
}

fn relay(scratch: &Scratch, to: SocketAddr) -> Launch {
    let launch = Launch::policy(policy_file("measured/relay.lua")).env("RELAY_PORT", "0");
    let launch = launch.env("RELAY_HTTP", "127.0.0.1:0").env("RELAY_DIR", scratch.join("relay"));
    launch.env("RELAY_TO", to.to_string())
}

const MESSAGES: usize = 200;
