//! A collector of OpenTelemetry metrics: `peers/otlp_collector.py`, and what it understood.

use crate::peers;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::{SOON, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A running collector.
#[derive(Debug)]
pub struct OtlpCollector {
    /// Where it listens.
    pub address: SocketAddr,
    /// The process itself.
    pub process: Process,
    journal: PathBuf,
}

impl OtlpCollector {
    /// Starts one that fails as `faults` says.
    pub fn start(scratch: &Scratch, faults: &str) -> OtlpCollector {
        let journal = scratch.join("collector.journal");
        let mut command = Command::new(peers::file("metrics/venv/bin/python", "metrics_parsers.sh"));
        command.arg(peers::own("otlp_collector.py")).arg("--journal").arg(&journal).args(["--faults", faults]);
        let process = Process::spawn("otlp_collector.py", command);
        let address = process
            .await_stderr("its address", SOON, |line| line.split_once("metrics are taken on ")?.1.trim().parse().ok());
        OtlpCollector { address, process, journal }
    }

    /// Where it takes metrics.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1/metrics", self.address)
    }

    /// All requests so far; panics when one could not be read.
    pub fn requests(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.journal).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let read =
            |line: &str| -> Value { serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")) };
        let all: Vec<Value> = whole.lines().map(read).collect();
        all.iter().for_each(|request| assert!(request["error"].is_null(), "not understood: {}", request["error"]));
        all
    }

    /// Waits until so many requests came.
    pub fn await_requests(&self, count: usize, within: Duration) -> Vec<Value> {
        until(within, &format!("{count} requests"), || Some(self.requests()).filter(|all| all.len() >= count))
    }
}

/// The metrics of a request, by name.
pub fn metrics(request: &Value) -> BTreeMap<String, &Value> {
    let metrics = request["metrics"].as_array().expect("metrics").iter();
    metrics.map(|metric| (metric["name"].as_str().expect("a name").to_owned(), metric)).collect()
}
