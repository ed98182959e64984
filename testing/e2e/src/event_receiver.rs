//! A receiver of event streams: `peers/event_receiver.py`, and what it wrote down.

use crate::peers;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A running receiver.
#[derive(Debug)]
pub struct EventReceiver {
    /// Where it listens.
    pub address: SocketAddr,
    /// The process itself.
    pub process: Process,
    journal: PathBuf,
}

/// The key that it verifies signatures with.
pub const SECRET: &str = "s3cret of the tests";

impl EventReceiver {
    /// Starts one that fails as `faults` says; `name` tells several of one test apart.
    pub fn start(scratch: &Scratch, name: &str, faults: &str) -> EventReceiver {
        EventReceiver::with(scratch, name, &["--faults", faults])
    }

    /// The same with other options.
    pub fn with(scratch: &Scratch, name: &str, options: &[&str]) -> EventReceiver {
        let journal = scratch.join(&format!("{name}.journal"));
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/event-stream.md");
        let mut command = peers::script("event_receiver.py");
        command.arg("--journal").arg(&journal).arg("--docs").arg(docs).args(["--secret", SECRET]).args(options);
        let process = Process::spawn("event_receiver.py", command);
        let address = process
            .await_stderr("its address", SOON, |line| line.split_once("events are taken on ")?.1.trim().parse().ok());
        EventReceiver { address, process, journal }
    }

    /// Another one in its place, with the same journal: this one is killed.
    pub fn again(mut self, scratch: &Scratch, name: &str, faults: &str) -> EventReceiver {
        self.process.kill();
        let port = self.address.port().to_string();
        EventReceiver::with(scratch, name, &["--port", &port, "--faults", faults])
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    /// All requests so far; one that is being written down is not there yet.
    pub fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.journal).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// The records of all batches, each batch once, in the order in which they first came. Panics unless a batch that came again
    /// was the same, and every batch but the last was taken in the end, before the next one came.
    pub fn records(&self) -> Vec<Value> {
        let mut batches: HashMap<String, Value> = HashMap::new();
        let (mut all, mut open) = (Vec::new(), None::<String>);
        for request in self.requests() {
            assert_eq!((&request["verified"], &request["forged"]), (&true.into(), &false.into()), "the signature");
            let id = request["batch"].as_str().expect("an id").to_owned();
            let records = request["records"].clone();
            if let Some(before) = batches.get(&id) {
                assert_eq!(*before, records, "batch {id} came again with other records");
            } else {
                assert_eq!(open, None, "another batch before the one in hand was taken");
                all.extend(records.as_array().expect("a list").iter().cloned());
                batches.insert(id.clone(), records);
            }
            open = (request["became"] != "ok").then_some(id);
        }
        all
    }

    /// The records, once there are so many.
    pub fn await_records(&self, count: usize, within: Duration) -> Vec<Value> {
        until(within, &format!("{count} records"), || Some(self.records()).filter(|records| records.len() >= count))
    }

    /// Waits until so many requests came.
    pub fn await_requests(&self, count: usize, within: Duration) {
        until(within, &format!("{count} requests"), || (self.requests().len() >= count).then_some(()));
    }

    /// What the journal says when records are only counted.
    pub fn count(&self) -> u64 {
        fs::read_to_string(&self.journal).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    }
}
