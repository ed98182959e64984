//! `run`: every workload, measured from outside, medians of several runs in one table.
//!
//! In: the built program, and which workloads. Out: a table on stdout and, for a complete benchmark, a file in `bench/results`. A workload
//! that fails is shown as such and makes the exit code 1; the others still run.

use anyhow::bail;

use crate::measure::{Bench, Row};
use crate::postfix::{Peers, Wanted};
use crate::round::Round;
use crate::series::{Measured, Report, Series};
use crate::table::{Table, figure};
use crate::workload::{self, Workload};

/// Options of `run`.
#[derive(clap::Args)]
pub struct Options {
    /// One run of a quarter of the messages: for trying out
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
    /// Only workloads whose name contains this, such as `10 KB unsigned`
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Messages of a run, instead of a number for each workload
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    #[command(flatten)]
    peers: Wanted,
    #[command(flatten)]
    series: Series,
}

/// Runs the benchmark.
///
/// # Errors
/// No workload is chosen, a program is missing, or a workload failed.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let workloads = chosen(options)?;
    let peers = options.peers.fetch()?;
    let series = if options.quick { options.series.once() } else { options.series.clone() };
    let whole = !options.quick && options.only.is_none() && options.messages.is_none();
    let report = Report { suffix: "", title: "Benchmark", legend: LEGEND.to_owned(), whole };
    series.measure(report, |bench| measure(bench, &workloads, peers.as_ref()))
}

fn measure(bench: &Bench, workloads: &[Workload], peers: Option<&Peers>) -> anyhow::Result<Measured> {
    let mut table = Table::new(&COLUMNS);
    let mut faults = Vec::new();
    for (number, workload) in workloads.iter().enumerate() {
        eprintln!("{} of {}: {}", number + 1, workloads.len(), workload.name());
        let file = format!("w{}", number + 1);
        note(&mut table, &mut faults, workload.name(), bench.relay(workload, &file));
        if let Some(peers) = peers.filter(|_| workload.suits_peers()) {
            let name = format!("Postfix: {}", workload.name());
            eprintln!("{name}");
            let messages = (workload.messages / PEER_SHARE).max(u64::from(workload.concurrency));
            note(&mut table, &mut faults, name, bench.postfix(workload, messages, peers, &[], &file));
        }
    }
    Ok(Measured { tables: vec![table], faults })
}

fn chosen(options: &Options) -> anyhow::Result<Vec<Workload>> {
    let mut workloads = workload::all();
    if let Some(part) = &options.only {
        let names: Vec<String> = workloads.iter().map(Workload::name).collect();
        workloads.retain(|workload| workload.name().contains(part.as_str()));
        if workloads.is_empty() {
            bail!("--only {part:?}: no workload is called so; there are:\n  {}", names.join("\n  "));
        }
    }
    for workload in &mut workloads {
        let quick = if options.quick { workload.messages / 4 } else { workload.messages };
        workload.messages = options.messages.unwrap_or(quick).max(u64::from(workload.concurrency));
    }
    Ok(workloads)
}

fn note(table: &mut Table, faults: &mut Vec<String>, name: String, outcome: anyhow::Result<Row>) {
    match outcome {
        Ok(row) => {
            faults.extend(row.fault());
            table.row(cells(&row));
        }
        Err(error) => {
            eprintln!("  failed: {error:#}");
            table.row(vec![name.clone(), "failed".to_owned()]);
            faults.push(format!("{name}: {error:#}"));
        }
    }
}

fn cells(row: &Row) -> Vec<String> {
    vec![
        row.name.clone(),
        figure(row.middle(|round| round.accepted_per_s), 0),
        figure(row.some(|round| round.delivered_per_s), 0),
        figure(row.spread(Round::rate), 0),
        figure(row.middle(|round| round.cpu_us), 1),
        figure(row.middle(|round| round.clock), 2),
        figure(row.middle(|round| round.cpu_us / round.clock), 1),
        figure(row.spread(|round| round.cpu_us / round.clock), 0),
        figure(row.middle(|round| round.latency.p50_ms), 2),
        figure(row.middle(|round| round.latency.p99_ms), 2),
        figure(row.middle(|round| round.generator_us), 1),
        figure(row.some(|round| round.sink_us), 1),
        figure(row.peak_rss_mib, 0),
        figure(row.some(|round| round.syncs), 4),
        figure(row.some(|round| round.written), 3),
        figure(row.some(|round| round.device_written), 3),
        row.ledger(),
        row.limit(),
    ]
}

/// A peer gets the same work but a quarter of the messages, as it takes many times as long for each.
const PEER_SHARE: u64 = 4;
const COLUMNS: [&str; 18] = [
    "workload",
    "accepted/s",
    "delivered/s",
    "spread %",
    "CPU us/msg",
    "clock factor",
    "CPU/factor",
    "spread %",
    "p50 ms",
    "p99 ms",
    "generator us/msg",
    "sink us/msg",
    "peak RSS MiB",
    "syncs/msg",
    "WA spool",
    "WA device",
    "lost/doubled/damaged",
    "limited by",
];
const LEGEND: &str = "\
Medians over RUNS run(s) after a warm-up; generator, server and sink share the cores, over loopback, generator and sink under
SCHED_BATCH: they do not push the server off a core (bench/README.md). Every message is on disk before its 250 (but for
`discarded`, which stores nothing) or before the answer to its request; over HTTP a message is a recipient of a request.
`LocalDisk` keeps one file per message, the rest one log.

- accepted/s: messages answered 250 a second; delivered/s: from the first connection to the last arrival at the sink.
- spread: from the lowest to the highest run, in percent of the median: of the rate, and of CPU/factor.
- CPU us/msg: user and system time of the server alone, in microseconds a message.
- clock factor: the CPU of one RSA-2048 signature beside the run, divided by REFERENCE us; CPU/factor is CPU divided
  by it, for comparison between machines and their states.
- p50, p99: from the final dot to its 250, the generator's own wait for a core in it. peak RSS: over all runs
  of the workload.
- WA: octets written for an octet of mail, by the spool's own count (no logs) and by the device's (logs, ledgers and other
  programs included).
- generator, sink: CPU of the two tools a message.
- lost/doubled/damaged: from the ledgers of both ends; a row with another figure than 0 is void. Of what is thrown away the
  other end is the server's own count of messages that it has read to their end: as many as were acknowledged, or more, or
  fewer; nothing is known of their content.
- limited by: what was at work at least 90 % of the time, and the shares of all cores' time and of the disk's.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Latency;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Line::try_parse_from(std::iter::once(&"run").chain(arguments)).map(|line| line.options).expect("sound")
    }

    #[test]
    fn workloads_are_chosen_by_name() {
        assert_eq!(chosen(&options(&[])).expect("all").len(), 18);
        let unsigned = chosen(&options(&["--only", "10 KB unsigned", "--quick"])).expect("six");
        let counts: Vec<u64> = unsigned.iter().map(|workload| workload.messages).collect();
        assert_eq!(
            counts, [10_000; 6],
            "over 100 and 2000 connections, by requests for 1 and for 100 and in streams, into message files"
        );
        let few = chosen(&options(&["--only", "2000", "--messages", "5"])).expect("six");
        assert!(few.iter().all(|workload| workload.messages == 2000), "at least one for each connection");
        let error = chosen(&options(&["--only", "nothing"])).expect_err("none").to_string();
        assert!(error.contains("10 KB discarded"), "{error}");
    }

    #[test]
    fn a_row_has_a_cell_for_every_column_and_shows_medians() {
        let round = |cpu_us: f64| Round {
            accepted_per_s: 8000.0,
            delivered_per_s: Some(7000.0),
            cpu_us,
            syncs: Some(0.05),
            written: Some(1.05),
            latency: Latency { p50_ms: 1.0, p99_ms: 2.0, ..Latency::default() },
            clock: 2.0,
            generator_us: 17.0,
            sink_us: Some(25.0),
            ..Round::default()
        };
        let rounds = vec![round(100.0), round(900.0), round(110.0)];
        let cells = cells(&Row { name: "n".to_owned(), rounds, peak_rss_mib: None, verdict: None });
        assert_eq!(cells.len(), COLUMNS.len());
        let want = [
            "n", "8000", "7000", "0", "110.0", "2.00", "55.0", "727", "1.00", "2.00", "17.0", "25.0", "-", "0.0500",
            "1.050", "-", "-",
        ];
        assert_eq!(cells[..17], want);
    }
}
