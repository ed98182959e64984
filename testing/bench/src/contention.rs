//! `contention`: what sharing costs. The relay with as many worker threads as cores, with one, and with many more than there
//! are cores, where whoever holds a lock is often not running; then what all cores share, by itself. In: the built program. Out:
//! CPU and context switches a message, how often each shared lock was found taken, and how much of a message's work is done by
//! the threads of which there is only one: what bounds the rate however many cores there are.

use crate::load::Load;
use crate::machine::cores;
use crate::measure::Bench;
use crate::metrics::Metrics;
use crate::proc_file::{switches, thread_cpu_us};
use crate::relay::{Relay, WRITER};
use crate::round::{Round, Running, Subject as _};
use crate::series::{Report, Series};
use crate::shared_objects::shared_objects;
use crate::sink::Sink;
use crate::stats::{median, spread};
use crate::table::{Table, figure};
use crate::workload::{Duty, Over, Signing, Workload};

use anyhow::{Context as _, bail};

/// Options of `contention`.
#[derive(clap::Args)]
pub struct Options {
    /// Messages of a run
    #[arg(long, value_name = "N", default_value_t = MESSAGES, value_parser = clap::value_parser!(u64).range(100..))]
    messages: u64,
    #[command(flatten)]
    series: Series,
}

/// What is read of the relay beside a run.
#[derive(Debug, Clone, Copy, Default)]
struct Sharing {
    /// Times a thread gave its core up, to wait for something.
    voluntary: f64,
    /// Times one was pushed off it.
    involuntary: f64,
    /// CPU of the thread that writes the spool, in microseconds.
    writer_us: f64,
    /// Of the thread that compresses and writes the log.
    log_us: f64,
    /// How often each of [`LOCKS`] was found taken.
    lock_waits: [f64; LOCKS.len()],
}

/// Measures.
///
/// # Errors
/// A program fails, or a message was lost, doubled or damaged.
pub fn contention(options: &Options) -> anyhow::Result<()> {
    let report = Report {
        suffix: "-contention",
        title: "What sharing costs",
        legend: LEGEND.to_owned(),
        whole: options.messages >= MESSAGES,
    };
    options.series.measure(report, |bench| {
        let part = if options.messages >= MESSAGES { 1 } else { 100 };
        let (mut table, mut locks) = (Table::new(&COLUMNS), Table::new(&LOCK_COLUMNS));
        for size_kib in [10, 1] {
            let work = Workload::relay(size_kib, Signing::Unsigned, options.messages);
            for threads in [1, cores(), 8 * cores(), 32 * cores()] {
                let rounds = rounds(bench, &work, threads)?;
                table.row(cells(size_kib, threads, &rounds));
                locks.row(lock_cells(size_kib, threads, &rounds));
            }
        }
        Ok(vec![table, locks, shared_objects(bench.runs, part)?].into())
    })
}

fn rounds(bench: &Bench, work: &Workload, threads: usize) -> anyhow::Result<Vec<(Round, Sharing)>> {
    let name = format!("contention-{}-{threads}", work.size_kib);
    let mut sink = Sink::start(bench.stage, &bench.programs, &name)?;
    let environment = vec![("KUMO_AVAILABLE_PARALLELISM", threads.to_string().into())];
    let duty = Duty::Relay(Signing::Unsigned);
    let mut relay = Relay::start_with(bench.stage, &bench.programs, &name, duty, Some(sink.address), environment)?;
    let mut rounds: Vec<(Round, Sharing)> = Vec::new();
    for number in 0..=bench.runs {
        eprintln!("{} KB, {threads} threads: {number} of {}", work.size_kib, bench.runs);
        let order = work.order(&format!("{name}-{number}"));
        let before = Sharing::of(&relay)?;
        let running = Running::begin(bench.stage, &bench.programs, &bench.clock, &relay, Some(&mut sink), &order)?;
        let round = running.finish(&mut relay, Some(&mut sink))?;
        round.ensure_empty()?;
        rounds.push((round, Sharing::of(&relay)?.since(before, work.messages)));
    }
    rounds.remove(0);
    relay.stop(bench.stage)?;
    match sink.stop()?.fault(false) {
        Some(fault) => bail!("the figures are void: {threads} threads: {fault}"),
        None => Ok(rounds),
    }
}

impl Sharing {
    fn of(relay: &Relay) -> anyhow::Result<Sharing> {
        let metrics = Metrics::scrape(relay.address(Over::Bulk))?;
        let mut lock_waits = [0.0; LOCKS.len()];
        for (waits, lock) in lock_waits.iter_mut().zip(LOCKS) {
            let series = format!("postrider_lock_waits{{lock=\"{lock}\"}}");
            *waits = metrics.value(&series).with_context(|| format!("no {series}"))?;
        }
        Ok(Sharing { lock_waits, ..Sharing::read(relay.pid())? })
    }

    fn read(pid: u32) -> anyhow::Result<Sharing> {
        let (voluntary, involuntary) = switches(pid)?;
        let threads = thread_cpu_us(pid)?;
        let of = |name: &str| threads.iter().filter(|(is, _)| is == name).map(|(_, us)| us).sum();
        Ok(Sharing { voluntary, involuntary, writer_us: of(WRITER), log_us: of("logs"), ..Sharing::default() })
    }

    /// What happened since then, a message.
    fn since(self, then: Sharing, messages: u64) -> Sharing {
        let each = |now: f64, then: f64| (now - then) / messages as f64;
        Sharing {
            voluntary: each(self.voluntary, then.voluntary),
            involuntary: each(self.involuntary, then.involuntary),
            writer_us: each(self.writer_us, then.writer_us),
            log_us: each(self.log_us, then.log_us),
            lock_waits: std::array::from_fn(|lock| each(self.lock_waits[lock], then.lock_waits[lock])),
        }
    }
}

fn cells(size_kib: u32, threads: usize, rounds: &[(Round, Sharing)]) -> Vec<String> {
    let middle = |pick: &dyn Fn(&Round, &Sharing) -> f64| median(rounds.iter().map(|(round, of)| pick(round, of)));
    let loads: Vec<Load> = rounds.iter().map(|(round, _)| round.load).collect();
    let share = |pick: &dyn Fn(&Sharing) -> f64| middle(&|round, of| pick(of) * 100.0 / round.cpu_us);
    vec![
        format!("{size_kib} KB, {threads} worker threads"),
        figure(middle(&|round, _| round.rate()), 0),
        figure(spread(rounds.iter().map(|(round, _)| round.rate())), 0),
        figure(middle(&|round, _| round.cpu_us), 1),
        figure(middle(&|round, _| round.clock), 2),
        figure(middle(&|_, of| of.voluntary), 2),
        figure(middle(&|_, of| of.involuntary), 2),
        figure(middle(&|_, of| of.writer_us), 1),
        figure(share(&|of| of.writer_us), 1),
        figure(middle(&|_, of| of.log_us), 1),
        figure(share(&|of| of.log_us), 1),
        Load::median_of(&loads).words(),
    ]
}

fn lock_cells(size_kib: u32, threads: usize, rounds: &[(Round, Sharing)]) -> Vec<String> {
    let waits = |lock: usize| median(rounds.iter().map(|(_, of)| 1000.0 * of.lock_waits[lock]));
    let name = format!("{size_kib} KB, {threads} worker threads");
    std::iter::once(name).chain((0..LOCKS.len()).map(|lock| figure(waits(lock), 1))).collect()
}

/// Locks that all cores share, as `postrider_lock_waits` names them.
const LOCKS: [&str; 5] = ["queue", "ids", "spool", "log", "lua"];
const LOCK_COLUMNS: [&str; 6] =
    ["locks found taken, per 1000 messages", "queues", "ids", "spool's inbox", "log", "Lua states"];
/// Of a run whose figures are kept.
const MESSAGES: u64 = 20_000;
const COLUMNS: [&str; 12] = [
    "relay, 100 connections",
    "delivered/s",
    "spread %",
    "CPU us/msg",
    "clock factor",
    "waits/msg",
    "pushed off/msg",
    "spool writer us/msg",
    "% of CPU",
    "log us/msg",
    "% of CPU",
    "limited by",
];
const LEGEND: &str = "\
Medians over RUNS run(s) after a warm-up. Worker threads run sessions, deliveries and signing; beside them are one thread that
writes the spool and one that compresses the log. Generator, server and sink share the cores, generator and
sink under SCHED_BATCH: they do not push the server off a core (bench/README.md).

- CPU: user and system time of the server in microseconds a message. If locks or cache lines were fought for, it would rise with
  the threads. clock factor: the CPU of one RSA-2048 signature beside the run, divided by REFERENCE us.
- spread: of the rate, from the slowest to the fastest run. limited by: what was at work at least 90 % of the time, and the
  shares of all cores' time and of the disk's.
- waits: times a thread of the server gave its core up, for an event, a lock or the disk; pushed off: times the kernel took it.
- spool writer, log: CPU of those two threads a message, and their share of the server's. However many cores there are, neither
  can do more than one core's work; the writer waits for the disk's syncs besides.
- locks: how often a thread found one taken and had to wait, by the server's own count (postrider_lock_waits). A message takes
  that of the queues four times, of the spool's inbox twice, of the log twice, of ids once, of the Lua states once a handler.
- what all share, by itself: the real objects, and threads that do nothing else; CPU nanoseconds an operation. From one thread
  to two, each on a core of its own, it grows by the cache lines that move between cores and by what waiting costs: a machine
  without hardware counters shows no more. On one that has them, `perf c2c record` names the lines.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_single_threads_have_their_share() {
        let round = Round { delivered_per_s: Some(9000.0), cpu_us: 80.0, clock: 1.5, ..Round::default() };
        let now =
            Sharing { voluntary: 300.0, involuntary: 40.0, writer_us: 1100.0, log_us: 500.0, ..Sharing::default() };
        let then =
            Sharing { voluntary: 100.0, involuntary: 20.0, writer_us: 100.0, log_us: 100.0, ..Sharing::default() };
        let slower = Round { delivered_per_s: Some(8100.0), ..round };
        let cells = cells(10, 4, &[round, slower].map(|round| (round, now.since(then, 100))));
        assert_eq!(cells.len(), COLUMNS.len());
        let want =
            ["10 KB, 4 worker threads", "8550", "11", "80.0", "1.50", "2.00", "0.20", "10.0", "12.5", "4.0", "5.0"];
        assert_eq!(cells[..11], want);
        assert!(cells[11].starts_with("too short to tell"), "{}", cells[11]);
    }

    #[test]
    fn waits_are_those_of_a_thousand_messages() {
        let now = Sharing { lock_waits: [30.0, 0.0, 9.0, 2.0, 1.0], ..Sharing::default() };
        let then = Sharing { lock_waits: [10.0, 0.0, 8.0, 2.0, 0.0], ..Sharing::default() };
        let cells = lock_cells(10, 4, &[(Round::default(), now.since(then, 1000))]);
        assert_eq!(cells.len(), LOCK_COLUMNS.len());
        assert_eq!(cells, ["10 KB, 4 worker threads", "20.0", "0.0", "1.0", "0.0", "1.0"]);
    }

    #[test]
    fn a_process_can_be_read() {
        let of = Sharing::read(std::process::id()).expect("this process");
        assert!(of.voluntary + of.involuntary > 0.0, "{of:?}");
    }
}
