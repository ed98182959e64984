//! A broker that speaks Kafka's protocol, and what is in its topics: `peers/kafka_peer.py`, where it is said what kind of broker.

use crate::certificate::Certificate;
use crate::nats::lines;
use crate::peers;
use crate::process::{Process, run};
use crate::until::{LATER, SOON};
use serde_json::Value;
use std::process::Command;

/// A running broker.
#[derive(Debug)]
pub struct RunningKafka {
    /// The process itself.
    pub process: Process,
    /// Where it listens.
    pub address: String,
}

impl RunningKafka {
    /// On a port of the system's choice.
    pub fn start() -> RunningKafka {
        let mut command = peers::script("kafka_peer.py");
        command.arg("serve");
        RunningKafka::listening("kafka_peer.py serve", command)
    }

    /// The same broker behind TLS and SCRAM-SHA-256, with these credentials and this certificate.
    pub fn behind_gate(&self, certificate: &Certificate, user: &str, password: &str) -> RunningKafka {
        let mut command = peers::script("kafka_gate.py");
        command.arg(&self.address).arg(&certificate.certificate).arg(&certificate.key).args([user, password]);
        RunningKafka::listening("kafka_gate.py", command)
    }

    fn listening(name: &str, command: Command) -> RunningKafka {
        let process = Process::spawn(name, command);
        let address = process.await_stderr("its address", SOON, |line| {
            line.split_once("kafka listener on ").map(|(_, address)| address.trim().to_owned())
        });
        RunningKafka { process, address }
    }

    /// The first messages of a topic.
    pub fn read(&self, topic: &str, count: usize) -> Vec<Value> {
        let mut peer = peers::script("kafka_peer.py");
        peer.args(["read", &self.address, topic, &count.to_string()]);
        lines(&run("kafka_peer.py read", peer, LATER).success().stdout)
    }
}
