//! `kumo.kafka`, against librdkafka's own broker.

use e2e::brokers::{Away, ask, holds, launch};
use e2e::certificate::Authority;
use e2e::kafka::RunningKafka;
use e2e::scratch::Scratch;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

#[test]
fn scripts_produce() {
    let scratch = Scratch::new();
    let kafka = RunningKafka::start();
    let server = launch(&scratch, &Away::new()).env("KAFKA", &kafka.address).start();
    ["kafka_send", "kafka_batch", "kafka_wrong"].iter().for_each(|act| holds(&server, act));
    let read = kafka.read("mail", 2);
    let headers = json!({"a": "MQ==", "b": "/g=="});
    assert_eq!(read[0], json!({"partition": 2, "offset": 0, "key": "a/8=", "headers": headers, "payload": "YQD/"}));
    assert_eq!(read[1], json!({"partition": 2, "offset": 1, "key": null, "headers": {}, "payload": ""}));
    let payloads: Vec<Value> = kafka.read("batch", 3).into_iter().map(|message| message["payload"].clone()).collect();
    assert_eq!(payloads, ["b25l", "dGhyZWU=", "Zm91cg=="]);
    // One that says nothing, and then speaks again.
    kafka.process.freeze();
    holds(&server, "kafka_away");
    kafka.process.signal(Signal::SIGCONT);
    assert_eq!(ask(&server, "kafka_once"), "0");
    drop(kafka);
    holds(&server, "kafka_away");
    let said = server.stop().stderr;
    let logged = |line: &str| line.contains(" kafka: ") && line.contains("refused");
    assert!(said.lines().any(logged), "librdkafka's complaints are in the log: {said}");
    assert!(!said.contains("%3|"), "and nowhere else: {said}");
}

/// Over TLS, with a password that is not sent; the other side of both is Python's.
#[test]
fn scripts_produce_in_private() {
    let scratch = Scratch::new();
    let (authority, other) = (Authority::make(&scratch), Scratch::new());
    let stranger = Authority::make(&other);
    let broker = RunningKafka::start();
    let gate = broker.behind_gate(&authority.issue(&scratch, &["127.0.0.1"]), "mail", "s3cret");
    let server = launch(&scratch, &Away::new())
        .env("KAFKA", &gate.address)
        .env("KAFKA_CA", &authority.own.certificate)
        .env("KAFKA_OTHER_CA", &stranger.own.certificate)
        .start();
    holds(&server, "kafka_secure");
    holds(&server, "kafka_stranger");
    assert_eq!(broker.read("secure", 1)[0]["payload"], "aW4gcHJpdmF0ZQ==");
    assert!(gate.process.stderr().contains("authenticated mail"));
    let said = server.stop().stderr;
    for reason in ["SASL authentication error", "certificate verify failed"] {
        assert!(said.contains(reason), "no {reason:?} in {said}");
    }
}
