//! `kumo.kafka`, against librdkafka's own broker.

use e2e::brokers::{Away, ask, holds, launch};
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
    kafka.process.signal(Signal::SIGSTOP);
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
