//! `backlog`: what a large queue costs. Memory a message, restarts after a stop and after a kill while mail comes in, limits
//! kept when everything is due at once, disk.
//!
//! The real program holds the backlog; mail for one domain goes out meanwhile. In: how many messages, of what size, to how
//! many domains. Out: a table with a column a scenario, and for a complete benchmark a file in `bench/results`. The figures
//! are void if one message was lost, doubled or damaged, or a limit was exceeded.

mod limits;
mod scenario;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::machine::Facts;
use crate::probe::Latencies;
use crate::results::{Keep, Results};
use crate::stage::{Place, built_program};
use crate::table::{Table, figure};

use scenario::{Figures, Play, Restart, Scenario};

/// Options of `backlog`.
#[derive(clap::Args)]
pub struct Options {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// Messages of the backlog
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    messages: u64,
    /// Octets of a message, head (some 450) and body
    #[arg(long, value_name = "OCTETS", default_value_t = 750, value_parser = clap::value_parser!(u64).range(512..))]
    size: u64,
    /// Domains to spread them over, each a queue (repeatable) [default: 1 and 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000))]
    domains: Vec<u32>,
    /// Seconds from the start until all messages are due; 0: at once, they wait for the way to open
    /// [default: 60, and one for each 10 000 messages]
    #[arg(long, value_name = "S")]
    due_in: Option<u64>,
    /// Seconds of silence before memory is read again: an allocator gives back late
    #[arg(long, value_name = "S", default_value_t = 70)]
    pause: u64,
    /// Seconds for which the limits are watched
    #[arg(long, value_name = "S", default_value_t = 10)]
    limited: u64,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// Measures.
///
/// # Errors
/// A program fails, mail is lost, or a limit is exceeded.
pub fn backlog(options: &Options) -> anyhow::Result<()> {
    let binary = built_program(options.bin.as_deref())?;
    options.place.act(|stage| {
        let programs = stage.install(&binary, "bin")?;
        let facts = Facts::gather(&stage.logs())?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.context("runtime")?;
        let domains = if options.domains.is_empty() { DOMAINS.to_vec() } else { options.domains.clone() };
        let mut done = Vec::new();
        for domains in domains {
            let scenario = options.scenario(domains);
            eprintln!("{} messages to {domains} domain(s)", scenario.messages);
            let figures = Play::begin(stage, &programs, &runtime, &scenario)?.play()?;
            done.push((scenario, figures));
        }
        let complete = options.messages >= 1_000_000 && options.domains.is_empty();
        let tables = [table(&done)];
        let results = Results { suffix: "-backlog", title: "Backlog", facts: &facts, tables: &tables, legend: LEGEND };
        let faults: Vec<String> = done.iter().filter_map(|(_, figures)| figures.fault()).collect();
        options.keep.conclude(complete && faults.is_empty(), &results)?;
        if !faults.is_empty() {
            bail!("the figures are void: {}", faults.join("; "));
        }
        Ok(())
    })
}

impl Options {
    fn scenario(&self, domains: u32) -> Scenario {
        Scenario {
            messages: self.messages,
            octets: self.size,
            domains,
            due_in_s: self.due_in.unwrap_or(60 + self.messages / 10_000),
            pause: Duration::from_secs(self.pause),
            limited: Duration::from_secs(self.limited),
        }
    }
}

impl Figures {
    fn fault(&self) -> Option<String> {
        let mut faults: Vec<String> = self.verdict.fault(false).into_iter().chain(self.observed.fault()).collect();
        for probe in [self.stopped.probe, self.killed.probe] {
            if probe.arrived < probe.accepted {
                faults.push(format!("{} of {} probes never arrived", probe.accepted - probe.arrived, probe.accepted));
            }
        }
        (!faults.is_empty()).then(|| faults.join(", "))
    }
}

/// A row a quantity, a column a scenario, and the targets.
fn table(done: &[(Scenario, Figures)]) -> Table {
    let heads: Vec<String> =
        done.iter().map(|(scenario, _)| format!("{} x {} domain(s)", scenario.messages, scenario.domains)).collect();
    let mut header = vec!["backlog"];
    header.extend(heads.iter().map(String::as_str));
    header.push("target");
    let mut table = Table::new(&header);
    let mut row = |name: &str, target: &str, value: Cell| {
        let mut cells = vec![name.to_owned()];
        cells.extend(done.iter().map(|(scenario, figures)| value(scenario, figures)));
        cells.push(target.to_owned());
        table.row(cells);
    };
    row("accepted/s", "", &|_, f| whole(f.accepted_per_s));
    row("idle RSS, MiB", "", &|_, f| whole(f.idle_octets / MIB));
    row("RSS octets a message, at the last 250", "", &|_, f| whole(f.message_octets_full));
    row("... after a pause", "300", &|_, f| whole(f.message_octets));
    row("10 M messages at this, GiB", "2.8", &|_, f| figure(Some(f.message_octets * 1e7 / MIB / 1024.0), 2));
    row("stop, s", "2", &|_, f| seconds(f.stop_s));
    restart_rows(&mut row, "stop", |figures| &figures.stopped);
    restart_rows(&mut row, "kill", |figures| &figures.killed);
    row("limits: messages in any second", "400", &|_, f| f.observed.messages_per_s.to_string());
    row("... connections opened in any second", "10", &|_, f| f.observed.connections_per_s.to_string());
    row("... connections at once", "4", &|_, f| f.observed.connections.to_string());
    row("... messages in all", "", &|_, f| f.observed.messages.to_string());
    row("spool on disk at most, MiB", "", &|_, f| whole(f.disk.octets_max / MIB));
    row("... beyond 2 x live mail at most, MiB", "1024", &|_, f| whole(f.disk.over_max / MIB));
    row("octets written by the spool an octet of mail", "", &|_, f| figure(f.written, 2));
    row("lost/doubled/damaged", "0/0/0", &|_, f| {
        format!("{}/{}/{}", f.verdict.lost, f.verdict.doubled, f.verdict.damaged)
    });
    table
}

/// Makes a cell of a scenario's figures.
type Cell<'a> = &'a dyn Fn(&Scenario, &Figures) -> String;

fn restart_rows(row: &mut dyn FnMut(&str, &str, Cell), after: &str, of: fn(&Figures) -> &Restart) {
    let mut add = |name: &str, target: &str, value: &dyn Fn(&Scenario, &Restart) -> String| {
        row(&format!("after a {after}: {name}"), target, &|scenario, figures| value(scenario, of(figures)));
    };
    add("first 220, s", "0.5", &|_, r| seconds(r.first_220_s));
    add("all queued, s", "10 for 1 M", &|_, r| seconds(r.queued_s));
    add("10 M at this rate, s", "", &|scenario, r| whole(r.queued_s * 1e7 / scenario.messages as f64));
    add("RSS octets a message, all queued", "", &|_, r| whole(r.message_octets_full));
    add("... at the peak", "", &|_, r| whole(r.message_octets_peak));
    add("... after a pause", "300", &|_, r| whole(r.message_octets));
    add("probes accepted, arrived", "all", &|_, r| format!("{}, {}", r.probe.accepted, r.probe.arrived));
    let pair = |of: fn(&Latencies) -> (f64, f64)| {
        move |_: &Scenario, r: &Restart| {
            let (p50, max) = of(&r.probe);
            format!("{p50:.0} / {max:.0}")
        }
    };
    add("probe to 250, p50 / max ms", "", &pair(|probe| (probe.accept_p50_ms, probe.accept_max_ms)));
    add("probe to arrival, p50 / max ms", "", &pair(|probe| (probe.arrive_p50_ms, probe.arrive_max_ms)));
}

fn whole(value: f64) -> String {
    figure(Some(value), 0)
}

fn seconds(value: f64) -> String {
    figure(Some(value), 2)
}

const DOMAINS: [u32; 2] = [1, 1000];
const MIB: f64 = 1024.0 * 1024.0;
const LEGEND: &str = "\
One run a column. The backlog is accepted over SMTP, is due at one moment, and survives a stop and a kill before that;
meanwhile a probe for another domain is sent each 100 ms. Generator, server and receivers share the
cores, the generator under SCHED_BATCH (bench/README.md).

- RSS octets a message: resident set beyond that of the same daemon before the backlog, divided by its messages.
- first 220: from the start of the process until a client that tries to connect each millisecond has read it.
- all queued: from the same moment until `/metrics` counts as many queued messages as before.
- limits: at the receiver, from a start at which everything was due: 400 messages/s, 10 connections/s, 4 at once. In any
  second 5 % and one more may arrive than may leave.
- beyond 2 x live mail: the worst moment; live mail is messages x size, without what the spool adds.
- lost/doubled/damaged: after all of it was let out to a sink, from the ledgers of both ends.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Verdict;
    use limits::Observed;

    fn figures() -> Figures {
        let probe =
            Latencies { accepted: 20, arrived: 20, accept_p50_ms: 3.0, accept_max_ms: 40.0, ..Latencies::default() };
        let restart = Restart { first_220_s: 0.1, queued_s: 4.0, message_octets: 250.0, probe, ..Restart::default() };
        Figures {
            accepted_per_s: 20_000.0,
            idle_octets: 20.0 * MIB,
            message_octets_full: 500.0,
            message_octets: 290.0,
            stop_s: 1.0,
            stopped: restart,
            killed: restart,
            observed: Observed::default(),
            disk: Default::default(),
            written: None,
            verdict: Verdict::default(),
        }
    }

    #[test]
    fn a_column_a_scenario_and_the_targets() {
        let options = Options {
            bin: None,
            messages: 2_000_000,
            size: 750,
            domains: Vec::new(),
            due_in: None,
            pause: 0,
            limited: 0,
            keep: Keep::default(),
            place: Place::default(),
        };
        assert_eq!(options.scenario(1).due_in_s, 260);
        let done = [(options.scenario(1), figures()), (options.scenario(1000), figures())];
        let text = table(&done).markdown();
        let line = |name: &str| {
            let line = text.lines().find(|line| line.contains(name)).expect(name);
            line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line("backlog"), ["backlog", "2000000 x 1 domain(s)", "2000000 x 1000 domain(s)", "target"]);
        assert_eq!(line("10 M messages at this, GiB")[1..], ["2.70", "2.70", "2.8"]);
        assert_eq!(line("after a kill: 10 M at this rate")[1..], ["20", "20"]);
        assert_eq!(line("after a stop: probe to 250")[1..], ["3 / 40", "3 / 40"]);
    }

    #[test]
    fn every_fault_makes_the_figures_void() {
        assert_eq!(figures().fault(), None);
        let mut lost = figures();
        lost.verdict.lost = 1;
        let mut burst = figures();
        burst.observed.messages_per_s = 1000;
        let mut gone = figures();
        gone.killed.probe.arrived = 19;
        for (figures, word) in [(lost, "lost"), (burst, "400 allowed"), (gone, "1 of 20 probes")] {
            // The jitter allowance is part of what is allowed.
            let word = word.replace("400", "421");
            assert!(figures.fault().is_some_and(|fault| fault.contains(&word)), "{word}");
        }
    }
}
