//! A broker that speaks Kafka's protocol, and what is in its topics: `peers/kafka_peer.py`, where it is said what kind of broker.

use crate::nats::lines;
use crate::peers;
use crate::process::{Process, run};
use crate::until::{LATER, SOON};
use serde_json::Value;

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
        let process = Process::spawn("kafka_peer.py serve", command);
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
