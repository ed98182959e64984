//! `run`: every workload, measured from outside, medians of several runs in one table.
//!
//! A workload has one relay and one sink for all its runs, the first of which only warms up. In: the built program,
//! and which workloads. Out: a table on stdout and, for a complete benchmark, a file in `bench/results`. A workload
//! that fails is shown as such and makes the exit code 1; the others still run.

use std::path::PathBuf;

use anyhow::bail;

use crate::audit::Verdict;
use crate::clock_factor::{Clock, REFERENCE_US};
use crate::generator::Order;
use crate::machine::Facts;
use crate::postfix::{Peers, Postfix};
use crate::relay::Relay;
use crate::results::{Keep, Results};
use crate::round::{Round, Running, Subject};
use crate::sink::Sink;
use crate::stage::{Place, Programs, Stage, built_program};
use crate::stats::median;
use crate::table::{Table, figure};
use crate::workload::{self, Duty, Signing, Workload};

/// Options of `run`.
#[derive(clap::Args)]
pub struct Options {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// One run of a quarter of the messages: for trying out
    #[arg(long, conflicts_with = "runs")]
    quick: bool,
    /// Only workloads whose name contains this, such as `10 KB unsigned`
    #[arg(long, value_name = "SUBSTRING")]
    only: Option<String>,
    /// Runs that count, after one that does not
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Messages of a run, instead of a number for each workload
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// Also measure these servers at the unsigned work; known: postfix [default: $PEERS]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = ["postfix"])]
    peers: Vec<String>,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// What all workloads need.
struct Bench<'a> {
    stage: &'a Stage,
    programs: Programs,
    clock: Clock,
    runs: u32,
}

/// A line of the table.
struct Row {
    name: String,
    rounds: Vec<Round>,
    peak_rss_mib: Option<f64>,
    /// None where nothing is delivered.
    verdict: Option<Verdict>,
}

/// Runs the benchmark.
///
/// # Errors
/// No workload is chosen, a program is missing, or a workload failed.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let binary = built_program(options.bin.as_deref())?;
    let workloads = chosen(options)?;
    let peers = wants_postfix(options)?.then(Peers::fetch).transpose()?;
    options.place.act(|stage| {
        let programs = stage.install(&binary, "bin")?;
        let facts = Facts::gather(&stage.logs())?;
        let runs = if options.quick { 1 } else { options.runs };
        let bench = Bench { stage, programs, clock: Clock::new()?, runs };
        let mut table = Table::new(&COLUMNS);
        let mut faults = Vec::new();
        for (number, workload) in workloads.iter().enumerate() {
            eprintln!("{} of {}: {}", number + 1, workloads.len(), workload.name());
            let file = format!("w{}", number + 1);
            note(&mut table, &mut faults, workload.name(), bench.relay(workload, &file));
            let peers = peers.as_ref().filter(|_| workload.duty == Duty::Relay(Signing::Unsigned));
            if let Some(peers) = peers {
                let name = format!("Postfix: {}", workload.name());
                eprintln!("{name}");
                note(&mut table, &mut faults, name, bench.postfix(workload, peers, &format!("{file}-postfix")));
            }
        }
        conclude(options, runs, &facts, table, &faults)
    })
}

impl Bench<'_> {
    fn relay(&self, workload: &Workload, file: &str) -> anyhow::Result<Row> {
        let mut sink = match workload.duty {
            Duty::Relay(_) => Some(Sink::start(self.stage, &self.programs, file)?),
            Duty::Discard => None,
        };
        let to = sink.as_ref().map(|sink| sink.address);
        let mut relay = Relay::start(self.stage, &self.programs, file, workload.duty, to)?;
        let rounds = self.rounds(workload, &mut relay, sink.as_mut(), file)?;
        let peak_rss_mib = Some(relay.peak_rss_mib()?);
        relay.stop(self.stage)?;
        let verdict = sink.map(Sink::stop).transpose()?;
        Ok(Row { name: workload.name(), rounds, peak_rss_mib, verdict })
    }

    fn postfix(&self, workload: &Workload, peers: &Peers, file: &str) -> anyhow::Result<Row> {
        let mut sink = Sink::start(self.stage, &self.programs, file)?;
        let mut postfix = Postfix::start(self.stage, peers, file, sink.address)?;
        let messages = (workload.messages / PEER_SHARE).max(u64::from(workload.concurrency));
        let fewer = Workload { messages, ..workload.clone() };
        let rounds = self.rounds(&fewer, &mut postfix, Some(&mut sink), file)?;
        postfix.stop(self.stage)?;
        let verdict = Some(sink.stop()?);
        Ok(Row { name: format!("Postfix: {}", workload.name()), rounds, peak_rss_mib: None, verdict })
    }

    /// The runs that count, after one that does not.
    fn rounds(
        &self,
        workload: &Workload,
        subject: &mut dyn Subject,
        mut sink: Option<&mut Sink>,
        file: &str,
    ) -> anyhow::Result<Vec<Round>> {
        let mut rounds = Vec::new();
        for number in 0..=self.runs {
            let order = Order {
                name: format!("{file}-{number}"),
                octets: u64::from(workload.size_kib) * 1024,
                messages: workload.messages,
                concurrency: workload.concurrency,
                domains: Vec::new(),
                persistent: false,
            };
            let running = Running::begin(self.stage, &self.programs, &self.clock, subject, &order)?;
            let round = running.finish(subject, sink.as_deref_mut())?;
            eprintln!("  {}", progress(number, &round));
            if round.held > 0.0 {
                bail!("{} messages are held though all were delivered{}", round.held, subject.last_words());
            }
            rounds.push(round);
        }
        rounds.remove(0);
        Ok(rounds)
    }
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

fn wants_postfix(options: &Options) -> anyhow::Result<bool> {
    if !options.peers.is_empty() {
        return Ok(true);
    }
    match std::env::var("PEERS").as_deref() {
        Err(_) | Ok("") => Ok(false),
        Ok("postfix") => Ok(true),
        Ok(other) => bail!("PEERS={other}: the only peer known is postfix"),
    }
}

fn note(table: &mut Table, faults: &mut Vec<String>, name: String, outcome: anyhow::Result<Row>) {
    match outcome {
        Ok(row) => {
            if let Some(fault) = row.verdict.and_then(|verdict| verdict.fault(false)) {
                faults.push(format!("{name} is void: {fault}"));
            }
            table.row(row.cells());
        }
        Err(error) => {
            eprintln!("  failed: {error:#}");
            table.row(vec![name.clone(), "failed".to_owned()]);
            faults.push(format!("{name}: {error:#}"));
        }
    }
}

fn conclude(options: &Options, runs: u32, facts: &Facts, table: Table, faults: &[String]) -> anyhow::Result<()> {
    if !faults.is_empty() {
        print!("{}", table.text());
        bail!("{}", faults.join("\n"));
    }
    let complete = !options.quick && options.only.is_none() && options.messages.is_none() && options.runs >= 3;
    let legend = LEGEND.replace("RUNS", &runs.to_string()).replace("REFERENCE", &REFERENCE_US.to_string());
    let results = Results { suffix: "", title: "Benchmark", facts, tables: &[table], legend: &legend };
    options.keep.conclude(complete, &results)
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let middle = |pick: fn(&Round) -> f64| median(self.rounds.iter().map(pick));
        let some = |pick: fn(&Round) -> Option<f64>| median(self.rounds.iter().filter_map(pick));
        vec![
            self.name.clone(),
            figure(middle(|round| round.accepted_per_s), 0),
            figure(some(|round| round.delivered_per_s), 0),
            figure(middle(|round| round.cpu_us), 1),
            figure(middle(|round| round.clock), 2),
            figure(middle(|round| round.cpu_us / round.clock), 1),
            figure(middle(|round| round.p50_ms), 2),
            figure(middle(|round| round.p99_ms), 2),
            figure(self.peak_rss_mib, 0),
            figure(some(|round| round.syncs), 4),
            figure(some(|round| round.written), 3),
            figure(some(|round| round.device_written), 3),
            self.verdict.map_or("-".to_owned(), |of| format!("{}/{}/{}", of.lost, of.doubled, of.damaged)),
        ]
    }
}

fn progress(number: u32, round: &Round) -> String {
    let name = if number == 0 { "warm-up".to_owned() } else { format!("run {number}") };
    format!(
        "{name}: {} accepted/s, {} delivered/s, {} us/msg, clock factor {}",
        figure(Some(round.accepted_per_s), 0),
        figure(round.delivered_per_s, 0),
        figure(Some(round.cpu_us), 1),
        figure(Some(round.clock), 2)
    )
}

/// A peer gets the same work but a quarter of the messages, as it takes many times as long for each.
const PEER_SHARE: u64 = 4;
const COLUMNS: [&str; 13] = [
    "workload",
    "accepted/s",
    "delivered/s",
    "CPU us/msg",
    "clock factor",
    "CPU/factor",
    "p50 ms",
    "p99 ms",
    "peak RSS MiB",
    "syncs/msg",
    "WA spool",
    "WA device",
    "lost/doubled/damaged",
];
const LEGEND: &str = "\
Medians over RUNS run(s) after a warm-up; generator, server and sink share the cores, over loopback. Every message is on
disk before its 250 (but for `discarded`, which stores nothing).

- accepted/s: messages answered 250 a second; delivered/s: from the start to the last arrival at the sink.
- CPU us/msg: user and system time of the server alone, in microseconds a message.
- clock factor: the time of one RSA-2048 signature beside the run, divided by REFERENCE us; CPU/factor is CPU divided
  by it, for comparison between machines and their states.
- p50, p99: from the final dot to its 250. peak RSS: over all runs of the workload.
- WA: octets written for an octet of mail, by the spool's own count (no logs) and by the device's (logs, ledgers and other
  programs included).
- lost/doubled/damaged: from the ledgers of both ends; a row with another figure than 0 is void.
";

#[cfg(test)]
mod tests {
    use super::*;
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
        assert_eq!(chosen(&options(&[])).expect("all").len(), 14);
        let unsigned = chosen(&options(&["--only", "10 KB unsigned", "--quick"])).expect("two");
        let counts: Vec<u64> = unsigned.iter().map(|workload| workload.messages).collect();
        assert_eq!(counts, [10_000, 10_000]);
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
            seconds: 1.0,
            cpu_us,
            syncs: Some(0.05),
            written: Some(1.05),
            device_written: None,
            p50_ms: 1.0,
            p99_ms: 2.0,
            clock: 2.0,
            held: 0.0,
        };
        let rounds = vec![round(100.0), round(900.0), round(110.0)];
        let row = Row { name: "n".to_owned(), rounds, peak_rss_mib: None, verdict: None };
        let cells = row.cells();
        assert_eq!(cells.len(), COLUMNS.len());
        let want = ["n", "8000", "7000", "110.0", "2.00", "55.0", "1.00", "2.00", "-", "0.0500", "1.050", "-", "-"];
        assert_eq!(cells, want);
    }
}
