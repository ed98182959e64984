//! `kumomta`: the experiments KumoMTA's makers publish, done here: so many messages over 2 000 connections to a sink, or
//! received and thrown away. In: the built program. Out: a table that puts what they published, the hardware of that, a
//! Postfix in the same run, and ours side by side.

use anyhow::bail;

use crate::mailing_list::OUT_100;
use crate::measure::{Bench, Row, faults};
use crate::postfix::{Peers, Wanted};
use crate::series::{Measured, Report, Series};
use crate::table::{Table, figure};
use crate::workload::{Duty, Signing, Workload};

/// Options of `kumomta`.
#[derive(clap::Args)]
pub struct Options {
    /// Messages of a run
    #[arg(long, value_name = "N", default_value_t = MESSAGES, value_parser = clap::value_parser!(u64).range(2000..))]
    messages: u64,
    /// Only experiments whose name contains this, such as `100 KB unsigned`
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    #[command(flatten)]
    peers: Wanted,
    #[command(flatten)]
    series: Series,
}

/// What somebody published for a kind of work.
struct Record {
    size_kib: u32,
    duty: Duty,
    /// Messages a second.
    published: Option<f64>,
    hardware: &'static str,
    /// What else was, and on what.
    also: &'static str,
}

/// Runs the experiments.
///
/// # Errors
/// A program fails, or a message was lost, doubled or damaged.
pub fn kumomta(options: &Options) -> anyhow::Result<()> {
    let wanted = |record: &&Record| options.only.as_ref().is_none_or(|part| record.work(1).name().contains(part));
    let records: Vec<&Record> = RECORDS.iter().filter(wanted).collect();
    if records.is_empty() {
        bail!("--only {:?}: no experiment is called so", options.only.as_deref().unwrap_or_default());
    }
    let peers = options.peers.fetch()?;
    let report = Report {
        suffix: "-kumomta",
        title: "The experiments KumoMTA publishes",
        legend: LEGEND.replace("COUNT", &options.messages.to_string()),
        whole: options.messages >= MESSAGES && options.only.is_none() && peers.is_some(),
    };
    options.series.measure(report, |bench| measure(bench, &records, options.messages, peers.as_ref()))
}

fn measure(bench: &Bench, records: &[&Record], messages: u64, peers: Option<&Peers>) -> anyhow::Result<Measured> {
    let mut table = Table::new(&COLUMNS);
    let mut void = Vec::new();
    for (number, record) in records.iter().enumerate() {
        let work = record.work(messages);
        let file = format!("k{number}");
        eprintln!("{} of {}: {}", number + 1, records.len(), work.name());
        let ours = bench.relay(&work, &file)?;
        let peers = peers.filter(|_| work.duty == UNSIGNED);
        let theirs =
            peers.map(|peers| bench.postfix(&work, messages / PEER_SHARE, peers, OUT_100, &file)).transpose()?;
        void.extend(faults(&ours, theirs.as_ref()));
        table.row(cells(record, &ours, theirs.as_ref()));
    }
    Ok(Measured { tables: vec![table], faults: void })
}

impl Record {
    fn work(&self, messages: u64) -> Workload {
        let (size_kib, duty) = (self.size_kib, self.duty);
        Workload { duty, concurrency: CONNECTIONS, ..Workload::relay(size_kib, Signing::Unsigned, messages) }
    }
}

fn cells(record: &Record, ours: &Row, theirs: Option<&Row>) -> Vec<String> {
    let ratio = ours.rate().zip(record.published).map(|(here, there)| here / there);
    vec![
        ours.name.clone(),
        figure(record.published, 0),
        record.hardware.to_owned(),
        record.also.to_owned(),
        figure(theirs.and_then(Row::rate), 0),
        figure(theirs.and_then(|row| row.middle(|round| round.cpu_us)), 0),
        figure(ours.rate(), 0),
        figure(ours.spread(crate::round::Round::rate), 0),
        figure(ratio, 2),
        figure(ours.middle(|round| round.cpu_us), 1),
        figure(ours.middle(|round| round.clock), 2),
        figure(ours.middle(|round| round.cpu_us / round.clock), 1),
        figure(ours.middle(|round| round.latency.p99_ms), 1),
        figure(ours.middle(|round| round.generator_us), 1),
        figure(ours.some(|round| round.sink_us), 1),
        ours.ledger(),
        ours.limit(),
    ]
}

/// The makers state rates an hour; these are a second's.
const RECORDS: [Record; 8] = [
    Record {
        size_kib: 100,
        duty: UNSIGNED,
        published: Some(4_375.0),
        hardware: "36 cores (2025)",
        also: "917 on 8 (2025); 750, 1 222, 1 361, 1 417 on 2, 4, 8, 16 cores (2023)",
    },
    Record {
        size_kib: 10,
        duty: UNSIGNED,
        published: Some(18_333.0),
        hardware: "128 cores, 1 TB RAM (2025)",
        also: "NitroMTA 3 313 on 64 vCPU, on disk before accepting (2026)",
    },
    Record { size_kib: 100, duty: Duty::Relay(Signing::Rsa), published: None, hardware: "-", also: "-" },
    Record { size_kib: 10, duty: Duty::Relay(Signing::Rsa), published: None, hardware: "-", also: "-" },
    Record { size_kib: 100, duty: Duty::Relay(Signing::Ed25519), published: None, hardware: "-", also: "-" },
    Record { size_kib: 10, duty: Duty::Relay(Signing::Ed25519), published: None, hardware: "-", also: "-" },
    Record {
        size_kib: 100,
        duty: Duty::Discard,
        published: Some(36_389.0),
        hardware: "96 cores (2023)",
        also: "16 667 to a null device on 96 cores (2023)",
    },
    Record { size_kib: 10, duty: Duty::Discard, published: None, hardware: "-", also: "-" },
];
const UNSIGNED: Duty = Duty::Relay(Signing::Unsigned);
const CONNECTIONS: u32 = 2000;
const MESSAGES: u64 = 100_000;
/// A peer gets the same work but so few of the messages, as it takes many times as long for each.
const PEER_SHARE: u64 = 20;
const COLUMNS: [&str; 17] = [
    "experiment",
    "published/s",
    "on",
    "also published/s",
    "Postfix here/s",
    "Postfix CPU us/msg",
    "ours/s",
    "spread %",
    "ours / published",
    "CPU us/msg",
    "clock factor",
    "CPU/factor",
    "p99 ms",
    "generator us/msg",
    "sink us/msg",
    "lost/doubled/damaged",
    "limited by",
];
const LEGEND: &str = "\
COUNT messages a run over 2 000 connections; medians over RUNS run(s) after a warm-up. Generator, server and sink share the
cores, over loopback, generator and sink under SCHED_BATCH: they do not push the server off a core (bench/README.md). Every
message is on disk before its 250, ours and Postfix's, but for `discarded`, which stores nothing; nothing is said of
syncs in the published ones. Postfix gets a twentieth of the messages, as it takes many times as long for each, and may open 100 connections to the sink as ours does; else it has its own defaults.

- published/s: KumoMTA's makers, in messages a second. 100 KB unsigned is their 6.3 million an hour over the Internet, and
  `more than 2.5 times that` to a local sink. also published: their other figures for it, and those of others, whose
  size of message is not stated. Postfix has no signer of its own, and stands beside unsigned mail alone.
- /s: from the first connection to the last arrival at the sink; where nothing is delivered, to the last 250. spread: from the
  slowest to the fastest run.
- CPU us/msg: user and system time of the server alone; clock factor: the CPU of one RSA-2048 signature beside the run,
  divided by REFERENCE us; CPU/factor: for comparison between machines and their states (none where the machine makes
  signatures with other instructions). p99: from the final dot to its 250, the generator's wait for a core in it.
- generator, sink: CPU of the two tools a message.
- lost/doubled/damaged: from the ledgers of both ends; a run with another figure than 0 is void. Of what is thrown away the
  other end is the server's own count of messages that it has read to their end: as many as were acknowledged, or more, or
  fewer; nothing is known of their content.
- limited by: what was at work at least 90 % of the time, and the shares of all cores' time and of the disk's.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::Round;

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let round = Round { delivered_per_s: Some(8750.0), cpu_us: 200.0, clock: 1.25, ..Round::default() };
        let row = |name: &str| Row { name: name.into(), rounds: vec![round], peak_rss_mib: None, verdict: None };
        let cells = cells(&RECORDS[0], &row("ours"), Some(&row("theirs")));
        assert_eq!(cells.len(), COLUMNS.len());
        assert_eq!(cells[..3], ["ours", "4375", "36 cores (2025)"]);
        assert_eq!(cells[4..9], ["8750", "200", "8750", "0", "2.00"]);
    }
}
