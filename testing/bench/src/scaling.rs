//! `scaling`: how the figures change with cores, connections, queues, destination domains and the size of messages, and
//! latency with load. In: the built program. Out: a table each.

use anyhow::{Context as _, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::fit::Fit;
use crate::latency::latency;
use crate::measure::{Bench, Row};
use crate::round::Round;
use crate::series::{Report, Series};
use crate::table::{Table, figure};
use crate::workload::{Signing, Spread, Workload};

/// Options of `scaling`.
#[derive(clap::Args)]
pub struct Options {
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// A twentieth of the messages: for trying out
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    series: Series,
}

/// What is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// One core and all.
    Cores,
    /// Connections of the generator.
    Connections,
    /// Scheduled queues to one host.
    Queues,
    /// Destination domains with a host each.
    Domains,
    /// Octets of a message.
    Sizes,
    /// Messages a second that come whether or not earlier ones were answered.
    Latency,
}

/// Measures.
///
/// # Errors
/// A program fails, or a message was lost, doubled or damaged.
pub fn scaling(options: &Options) -> anyhow::Result<()> {
    let report = Report {
        suffix: "-scaling",
        title: "Scaling",
        legend: LEGEND.to_owned(),
        whole: options.only.is_none() && !options.quick,
    };
    options.series.measure(report, |bench| {
        let parts = PARTS.into_iter().filter(|part| options.only.is_none_or(|only| only == *part));
        let share = if options.quick { QUICK } else { 1 };
        let tables = parts.map(|part| tables(bench, part, share)).collect::<anyhow::Result<Vec<Vec<Table>>>>()?;
        Ok(tables.into_iter().flatten().collect::<Vec<Table>>().into())
    })
}

/// A `share` of 20 is a twentieth of the messages.
fn tables(bench: &Bench, part: Part, share: u64) -> anyhow::Result<Vec<Table>> {
    match part {
        Part::Cores => cores(bench, share),
        Part::Latency => Ok(vec![latency(bench, share)?]),
        Part::Connections | Part::Queues | Part::Domains | Part::Sizes => {
            let mut table = Table::new(&COLUMNS);
            for (number, work) in works(part).iter().map(|work| work.part(share)).enumerate() {
                eprintln!("{part:?}: {}", work.name());
                table.row(cells(sound(bench.relay(&work, &format!("{part:?}-{number}").to_lowercase())?)?));
            }
            Ok(vec![table])
        }
    }
}

fn works(part: Part) -> Vec<Workload> {
    let base = Workload::relay(10, Signing::Unsigned, 40_000);
    let with = |change: &dyn Fn(u32, &mut Workload), values: &[u32]| {
        let one = |value: &u32| {
            let mut work = base.clone();
            change(*value, &mut work);
            work
        };
        values.iter().map(one).collect()
    };
    match part {
        Part::Cores | Part::Latency => Vec::new(),
        Part::Connections => with(&|count, work| work.concurrency = count, &[1, 10, 100, 1000, 5000, 20_000]),
        Part::Queues => with(&|count, work| work.spread = Spread::Queues(count), &[1, 10, 100, 1000]),
        Part::Domains => with(&|count, work| work.spread = Spread::Domains(count), &[1, 10, 100, 1000, 5000]),
        Part::Sizes => with(
            &|size_kib, work| {
                work.size_kib = size_kib;
                work.messages = (MAIL_KIB_MAX / u64::from(size_kib)).min(work.messages);
            },
            &[1, 10, 100, 1024, 10_240],
        ),
    }
}

/// Generator, server and sink together on one core, and on all; and what a model makes of that.
fn cores(bench: &Bench, share: u64) -> anyhow::Result<Vec<Table>> {
    let (mut table, mut model) = (Table::new(&CORE_COLUMNS), Table::new(&MODEL_COLUMNS));
    let all = sched_getaffinity(SELF).context("the cores of this process")?;
    let first = (0..CpuSet::count()).find(|core| all.is_set(*core).unwrap_or(false)).context("no core")?;
    let mut one = CpuSet::new();
    one.set(first)?;
    let count = crate::machine::cores();
    for work in [
        Workload::relay(10, Signing::Unsigned, 20_000),
        Workload::relay(10, Signing::Rsa, 8_000),
        Workload::relay(100, Signing::Unsigned, 8_000),
        Workload::discard(10, 50_000),
    ]
    .map(|work| work.part(share))
    {
        let on = |cores: &CpuSet, name: &str| {
            eprintln!("cores: {}, {name}", work.name());
            sched_setaffinity(SELF, cores).context("choosing cores")?;
            // Children inherit it, and find out for themselves how many cores they have.
            let row = bench.relay(&work, &format!("cores-{name}-{}-{}", work.size_kib, work.messages));
            sched_setaffinity(SELF, &all).context("choosing cores")?;
            sound(row?)
        };
        let alone = on(&one, "one")?;
        let together = on(&all, "all")?;
        table.row(core_cells(&work.name(), count, &alone, &together));
        model.row(model_cells(&work.name(), count, &alone, &together));
    }
    Ok(vec![table, model])
}

fn sound(row: Row) -> anyhow::Result<Row> {
    match row.fault() {
        Some(fault) => bail!("{fault}"),
        None => Ok(row),
    }
}

fn cells(row: Row) -> Vec<String> {
    vec![
        row.name.clone(),
        figure(row.middle(|round| round.accepted_per_s), 0),
        figure(row.some(|round| round.delivered_per_s), 0),
        figure(row.spread(Round::rate), 0),
        figure(row.middle(|round| round.cpu_us), 1),
        figure(row.middle(|round| round.clock), 2),
        figure(row.middle(|round| round.latency.p50_ms), 2),
        figure(row.middle(|round| round.latency.p99_ms), 2),
        figure(row.peak_rss_mib, 0),
        row.limit(),
    ]
}

fn model_cells(name: &str, cores: usize, alone: &Row, together: &Row) -> Vec<String> {
    // By the clock beside each run, where that says something.
    let cpu = |row: &Row| row.middle(|round| if round.clock > 0.0 { round.cpu_us / round.clock } else { round.cpu_us });
    let writer = together.some(|round| round.writer_us).filter(|us| *us > 0.0);
    let fit = cpu(alone).zip(cpu(together)).map(|(one, all)| Fit::of(one, all, cores, writer.unwrap_or_default()));
    let spread = together.spread(|round| round.cpu_us).zip(alone.spread(|round| round.cpu_us));
    let mut cells = vec![
        name.to_owned(),
        figure(fit.map(|fit| fit.alone_us), 1),
        figure(fit.map(|fit| fit.sharing * 100.0), 1),
        figure(spread.map(|(all, one)| all.max(one)), 0),
        figure(writer, 2),
        figure(fit.filter(|_| writer.is_some()).map(|fit| fit.bound()), 0),
    ];
    cells.extend(MODEL_CORES.map(|cores| figure(fit.map(|fit| fit.rate(cores)), 0)));
    cells
}

fn core_cells(name: &str, cores: usize, alone: &Row, together: &Row) -> Vec<String> {
    let cpu = |row: &Row| row.middle(|round| round.cpu_us);
    let ratio = |now: Option<f64>, then: Option<f64>| now.zip(then).map(|(now, then)| now / then);
    vec![
        name.to_owned(),
        figure(alone.rate(), 0),
        figure(together.rate(), 0),
        cores.to_string(),
        figure(ratio(together.rate(), alone.rate()), 2),
        figure(alone.spread(Round::rate).zip(together.spread(Round::rate)).map(|(one, all)| one.max(all)), 0),
        figure(cpu(alone), 1),
        figure(cpu(together), 1),
        figure(ratio(cpu(together), cpu(alone)), 2),
        figure(alone.middle(|round| round.clock), 2),
        figure(together.middle(|round| round.clock), 2),
        together.limit(),
    ]
}

/// What part of the work is done for trying out.
const QUICK: u64 = 20;
const SELF: Pid = Pid::from_raw(0);
const PARTS: [Part; 6] = [Part::Cores, Part::Connections, Part::Queues, Part::Domains, Part::Sizes, Part::Latency];
/// Mail of a run, so that large messages do not take for ever.
const MAIL_KIB_MAX: u64 = 1_200_000;
const COLUMNS: [&str; 10] = [
    "workload",
    "accepted/s",
    "delivered/s",
    "spread %",
    "CPU us/msg",
    "clock factor",
    "p50 ms",
    "p99 ms",
    "peak RSS MiB",
    "limited by",
];
/// Cores that the model is asked about.
const MODEL_CORES: [f64; 4] = [2.0, 8.0, 32.0, 128.0];
const MODEL_COLUMNS: [&str; 10] = [
    "model",
    "c us/msg",
    "s %",
    "spread %",
    "w us/msg",
    "1/w /s",
    "2 cores /s",
    "8 cores /s",
    "32 cores /s",
    "128 cores /s",
];
const CORE_COLUMNS: [&str; 12] = [
    "workload",
    "one core: /s",
    "all cores: /s",
    "cores",
    "ratio",
    "spread %",
    "one core: CPU us/msg",
    "all cores: CPU us/msg",
    "ratio",
    "one core: clock factor",
    "all cores: clock factor",
    "limited by (all cores)",
];
const LEGEND: &str = "\
Medians over RUNS run(s) after a warm-up; a row whose ledgers do not agree ends the benchmark. Generator, server and sink share
the cores, over loopback, generator (but on a timetable) and sink under SCHED_BATCH: they do not push the server off a core
(bench/README.md). Every message is on disk before its 250 (but for `discarded`).

- cores: all three programs on one core, and on all. CPU us/msg: user and system time of the server, a message; spread: of the
  rates, the wider of the two.
- model: n cores, all of them the server's, do n / (c (1 + s (n - 1))) messages a second and at most 1 / w. c: its CPU on one core, by the clock factor;
  s: how much more a message costs for each further core, from the runs on all; spread: of the runs these are from, beyond
  which s says nothing; w: CPU of the one thread that writes the spool. Fitted to two counts of cores, so without a residual.
- clock factor: the CPU of one RSA-2048 signature beside the run, divided by REFERENCE us.
- connections: of the generator. Where they are many and messages few, opening them is most of the run.
- queues: that many domains, each with a scheduled queue, served by one host over at most 100 connections. domains: each with
  a host, and so a ready queue and connections of its own.
- delivered/s: from the first connection to the last arrival; spread: from the lowest to the highest run. p50, p99: from the
  final dot to its 250.
- open loop: sends keep a timetable, and a message's time counts from when it was due, so that a server that stalls is charged
  for all that had to wait; spread: of the 99th percentile. What is sustained is the highest rate on such a timetable of which 99 % are accepted in time and 97 % delivered, looked
  for downwards from what 100 connections that do wait get delivered; a row of which less is says `overload`. The
  generator's clock has steps of a millisecond, which are in these times.
- limited by: what was at work at least 90 % of the time, and the shares of all cores' time and of the disk's.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let round = |rate| Round { delivered_per_s: Some(rate), cpu_us: 60.0, clock: 1.0, ..Round::default() };
        let row = |rate| Row { name: "n".into(), rounds: vec![round(rate)], peak_rss_mib: None, verdict: None };
        assert_eq!(cells(row(5.0)).len(), COLUMNS.len());
        let model = model_cells("w", 2, &row(1000.0), &row(1900.0));
        assert_eq!(model.len(), MODEL_COLUMNS.len());
        assert_eq!(model[..3], ["w", "60.0", "0.0"]);
        let rounds = |cpu_us, clock, rates: [f64; 2]| Row {
            rounds: rates.map(|rate| Round { delivered_per_s: Some(rate), cpu_us, clock, ..Round::default() }).into(),
            ..row(0.0)
        };
        let cells = core_cells("w", 2, &rounds(60.0, 1.0, [900.0, 1100.0]), &rounds(90.0, 1.25, [1900.0, 1900.0]));
        assert_eq!(cells.len(), CORE_COLUMNS.len());
        assert_eq!(cells[..11], ["w", "1000", "1900", "2", "1.90", "20", "60.0", "90.0", "1.50", "1.00", "1.25"]);
    }

    #[test]
    fn every_part_changes_one_thing() {
        for part in [Part::Connections, Part::Queues, Part::Domains, Part::Sizes] {
            let works = works(part);
            let different: std::collections::HashSet<String> = works.iter().map(Workload::name).collect();
            assert!(different.len() == works.len() && works.len() > 3, "{part:?}: {different:?}");
        }
        assert_eq!(works(Part::Sizes).last().map(|work| work.messages), Some(117));
    }
}
