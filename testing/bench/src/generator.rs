//! `traffic-gen` as a child. In: an [`Order`]. Out: its own report and the ids it saw acknowledged.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::ledger;
use crate::process::Program;
use crate::stage::{Programs, Stage};
use crate::workload::Over;

/// What to send.
#[derive(Clone)]
pub struct Order {
    /// Names the run's files; must not repeat.
    pub name: String,
    /// Octets of a message, header and body.
    pub octets: u64,
    /// Messages.
    pub messages: u64,
    /// Connections.
    pub concurrency: u32,
    /// Recipient domains below `bench.test`, with `:WEIGHT` if wanted; none for the generator's own.
    pub domains: Vec<String>,
    /// Whether to go on after failed connections until all is sent.
    pub persistent: bool,
    /// Messages a second on a timetable, from which latencies count; none for as fast as they are taken.
    pub rate: Option<u64>,
    /// Whether commands go in groups.
    pub pipelined: bool,
    /// How they get in.
    pub over: Over,
}

/// Times from the final dot to its 250, in milliseconds; with a rate, from when a message was due.
#[derive(Debug, Clone, Copy, Default)]
pub struct Latency {
    /// The median.
    pub p50_ms: f64,
    /// 90 % were answered within this.
    pub p90_ms: f64,
    /// 99 %.
    pub p99_ms: f64,
    /// 99.9 %.
    pub p999_ms: f64,
    /// All.
    pub max_ms: f64,
}

/// A generator at work.
pub struct Generator {
    program: Program,
    json: PathBuf,
    ledger: PathBuf,
}

/// What it did.
pub struct Outcome {
    /// Messages answered 250.
    pub sent: u64,
    /// Messages refused.
    pub failed: u64,
    /// From its first connection to its last answer.
    pub seconds: f64,
    /// When it began, in microseconds since 1970.
    pub started_us: u64,
    /// User and system time of the generator, in microseconds.
    pub cpu_us: f64,
    /// How long answers took.
    pub latency: Latency,
    /// Text of the last refusal.
    pub last_failure: Option<String>,
    /// Ids answered 250.
    pub acknowledged: Vec<String>,
    /// Ids whose answer was lost with the connection.
    pub unknown: Vec<String>,
}

impl Generator {
    /// Starts sending to `target`.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(stage: &Stage, programs: &Programs, order: &Order, target: SocketAddr) -> anyhow::Result<Generator> {
        let json = stage.file(&format!("{}.json", order.name));
        let ledger = stage.file(&format!("{}.sent", order.name));
        let mut command = if order.rate.is_some() { programs.punctual_tool() } else { programs.yielding_tool() };
        command.arg("traffic-gen").args(["--quiet", "--sender", SENDER]);
        match order.over {
            Over::Smtp => command.args(["--target", &target.to_string()]),
            Over::Http(recipients) => command.args([
                "--http",
                "--target",
                &format!("http://{target}"),
                "--http-batch-size",
                &recipients.to_string(),
            ]),
            Over::Bulk => command.args(["--http", "--http-bulk", "--target", &format!("http://{target}")]),
        };
        command.args(["--body-size", &order.octets.to_string()]);
        command.args(["--message-count", &order.messages.to_string()]);
        command.args(["--concurrency", &order.concurrency.to_string()]);
        command.args(["--messages-per-connection", MESSAGES_PER_CONNECTION]);
        command.arg("--json").arg(&json).arg("--ledger").arg(&ledger);
        if !order.domains.is_empty() {
            command.args(["--domain-suffix", "bench.test"]);
            command.args(order.domains.iter().flat_map(|domain| ["--domain", domain.as_str()]));
        }
        if let Some(rate) = order.rate {
            command.args(["--throttle", &format!("{rate}/s"), "--open-loop"]);
        }
        if !order.pipelined {
            command.arg("--no-pipeline");
        }
        if order.persistent {
            command.arg("--reconnect-forever");
        }
        let program = Program::start(&stage.herd, &stage.logs(), &format!("{}-generator", order.name), &mut command)?;
        Ok(Generator { program, json, ledger })
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The kernel does not know it.
    pub fn ended(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.program.ended()
    }

    /// Its last lines on stderr.
    pub fn last_words(&self) -> String {
        self.program.last_words()
    }

    /// Reads the report of one that has ended, and removes its files.
    ///
    /// # Errors
    /// It failed, or the report is not one.
    pub fn outcome(mut self) -> anyhow::Result<Outcome> {
        self.program.finish(Duration::ZERO)?;
        let text = std::fs::read_to_string(&self.json).context("traffic-gen wrote no report")?;
        let mut outcome = parse(&text).with_context(|| format!("traffic-gen's report: {text}"))?;
        outcome.acknowledged = ledger::ids(&self.ledger)?;
        let mut unknown = self.ledger.clone().into_os_string();
        unknown.push(".unknown");
        let unknown = PathBuf::from(unknown);
        outcome.unknown = ledger::ids(&unknown)?;
        if outcome.acknowledged.len() as u64 != outcome.sent {
            bail!("traffic-gen reports {} sent, its ledger holds {}", outcome.sent, outcome.acknowledged.len());
        }
        for path in [&self.json, &self.ledger, &unknown] {
            // Only disk space.
            let _ = std::fs::remove_file(path);
        }
        Ok(outcome)
    }
}

fn parse(text: &str) -> anyhow::Result<Outcome> {
    let json: Value = serde_json::from_str(text)?;
    let number = |value: &Value, name: &str| value[name].as_f64().with_context(|| format!("no number {name}"));
    let latency = &json["latency_us"];
    Ok(Outcome {
        sent: json["sent"].as_u64().context("no number sent")?,
        failed: json["failed"].as_u64().context("no number failed")?,
        seconds: number(&json, "seconds")?,
        started_us: json["started_us"].as_u64().context("no number started_us")?,
        cpu_us: number(&json, "cpu_us")?,
        latency: Latency {
            p50_ms: number(latency, "p50")? / 1000.0,
            p90_ms: number(latency, "p90")? / 1000.0,
            p99_ms: number(latency, "p99")? / 1000.0,
            p999_ms: number(latency, "p99.9")? / 1000.0,
            max_ms: number(latency, "max")? / 1000.0,
        },
        last_failure: json["last_failure"].as_str().map(str::to_owned),
        acknowledged: Vec::new(),
        unknown: Vec::new(),
    })
}

/// In the domain the relay signs for.
const SENDER: &str = "sender@bench.test";
/// A listener's default limit: one beyond it would lose the connection.
const MESSAGES_PER_CONNECTION: &str = "10000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = r#"{"sent": 7, "failed": 1, "seconds": 0.5, "started_us": 17, "cpu_us": 300, "last_failure": "451 later",
            "latency_us": {"p50": 1500, "p90": 1600, "p99": 20000, "p99.9": 30000, "max": 40000}}"#;
        let outcome = parse(text).expect("sound");
        assert_eq!((outcome.sent, outcome.failed), (7, 1));
        assert_eq!((outcome.started_us, outcome.cpu_us), (17, 300.0));
        let Latency { p50_ms, p90_ms, p99_ms, p999_ms, max_ms } = outcome.latency;
        assert_eq!([p50_ms, p90_ms, p99_ms, p999_ms, max_ms], [1.5, 1.6, 20.0, 30.0, 40.0]);
        assert_eq!(outcome.last_failure.as_deref(), Some("451 later"));
        let error = parse(r#"{"sent": 7, "failed": 0, "seconds": 1, "started_us": 1, "cpu_us": 1}"#)
            .err()
            .map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("no number p50"));
    }
}
