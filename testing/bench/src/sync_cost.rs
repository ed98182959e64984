//! `sync-cost`: what durability costs. The same relay with and without syncing, in turn.
//!
//! The product has no switch for it. So a few lines of C, compiled here and preloaded into the second relay alone, turn its
//! syncs into successes that did nothing. In: how much work. Out: CPU per message of both, the ratio, and what reached the
//! disk.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::clock_factor::{Clock, REFERENCE_US};
use crate::machine::Facts;
use crate::results::{Keep, Results};
use crate::round::Round;
use crate::side::Side;
use crate::stage::{Place, built_program};
use crate::stats::median;
use crate::table::{Table, figure};
use crate::workload::{Signing, Workload};

/// Options of `sync-cost`.
#[derive(clap::Args)]
pub struct Options {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// Pairs of runs that count, synced then not, after one that does not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Messages of 10 KB in a run
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(100..))]
    messages: u64,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// Measures.
///
/// # Errors
/// There is no C compiler, a program fails, or mail is lost.
pub fn sync_cost(options: &Options) -> anyhow::Result<()> {
    let binary = built_program(options.bin.as_deref())?;
    options.place.act(|stage| {
        let programs = stage.install(&binary, "bin")?;
        let facts = Facts::gather(&stage.logs())?;
        let clock = Clock::new()?;
        let lie = compile(&stage.logs())?;
        let preload = vec![("LD_PRELOAD", lie.clone().into())];
        let work = Workload::relay(10, Signing::Unsigned, options.messages);
        let mut synced = Side::start(stage, "synced", &programs, &programs, &work, Vec::new())?;
        let mut unsynced = Side::start(stage, "unsynced", &programs, &programs, &work, preload)?;
        ensure_loaded(unsynced.pid(), &lie)?;
        let mut rounds = (Vec::new(), Vec::new());
        for number in 0..=options.pairs {
            let pair = (synced.round(stage, &clock, number)?, unsynced.round(stage, &clock, number)?);
            // The first pair warms up both.
            if number > 0 {
                rounds.0.push(pair.0);
                rounds.1.push(pair.1);
            }
        }
        synced.stop(stage)?;
        unsynced.stop(stage)?;
        let legend =
            LEGEND.replace("PAIRS", &options.pairs.to_string()).replace("REFERENCE", &REFERENCE_US.to_string());
        let tables = [table(&rounds.0, &rounds.1)];
        let results = Results {
            suffix: "-sync-cost",
            title: "What syncing costs",
            facts: &facts,
            tables: &tables,
            legend: &legend,
        };
        options.keep.conclude(options.pairs >= 5 && options.messages >= 40_000, &results)
    })
}

/// Makes the library that lies.
fn compile(folder: &Path) -> anyhow::Result<PathBuf> {
    let (source, library) = (folder.join("lie.c"), folder.join("lie.so"));
    std::fs::write(&source, LIE)?;
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .output();
    let output = output.context("cannot start cc: a C compiler is needed")?;
    if !output.status.success() {
        bail!("cc failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(library)
}

/// A loader that ignored the library would make the two relays the same.
fn ensure_loaded(pid: u32, library: &Path) -> anyhow::Result<()> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).context("the relay's maps")?;
    if !maps.contains(&*library.to_string_lossy()) {
        bail!("{} was not loaded into the relay: nothing can be compared", library.display());
    }
    Ok(())
}

fn table(synced: &[Round], unsynced: &[Round]) -> Table {
    let mut table = Table::new(&COLUMNS);
    for (name, rounds) in [("10 KB, 100 connections, synced", synced), ("the same, syncing off", unsynced)] {
        let middle = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick));
        let some = |pick: fn(&Round) -> Option<f64>| median(rounds.iter().filter_map(pick));
        table.row(vec![
            name.to_owned(),
            figure(middle(|round| round.cpu_us), 1),
            figure(middle(|round| round.clock), 2),
            figure(middle(|round| round.cpu_us / round.clock), 1),
            figure(middle(|round| round.accepted_per_s), 0),
            figure(middle(|round| round.latency.p50_ms), 2),
            figure(some(|round| round.syncs), 4),
            figure(some(|round| round.written), 3),
            figure(some(|round| round.device_written), 3),
        ]);
    }
    // Pair by pair, so that the machine's moods hit both sides alike.
    let ratio = median(synced.iter().zip(unsynced).map(|(with, without)| with.cpu_us / without.cpu_us));
    table.row(vec!["CPU with / without".to_owned(), figure(ratio, 3)]);
    table.row(vec!["target".to_owned(), RATIO_TARGET.to_owned()]);
    table
}

const LIE: &str = include_str!("lie.c");
const RATIO_TARGET: &str = "1.15";
const COLUMNS: [&str; 9] = [
    "relay",
    "CPU us/msg",
    "clock factor",
    "CPU/factor",
    "accepted/s",
    "p50 ms",
    "commits/msg",
    "WA spool",
    "WA device",
];
const LEGEND: &str = "\
Medians over PAIRS pair(s) of runs after a warm-up, synced and not in turn; the ratio is the median of the pairs' ratios.
Generator and sink share the cores under SCHED_BATCH (bench/README.md).
`syncing off` is the same program with a preloaded library whose fsync and fdatasync do nothing.

- CPU us/msg: user and system time of the relay, in microseconds a message; clock factor: the CPU of one RSA-2048
  signature beside the run, divided by REFERENCE us.
- WA: octets written for an octet of mail, by the spool's own count (no logs) and by the device's (logs, ledgers and other
  programs included); at most 1.15 by the spool's count is aimed at.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_that_of_the_pairs() {
        let round = |cpu_us| Round { cpu_us, ..Round::default() };
        let text = table(&[round(66.0), round(120.0), round(63.0)], &[round(60.0), round(100.0), round(60.0)]).text();
        let ratio = text.lines().find(|line| line.starts_with("CPU with")).expect("a ratio");
        assert!(ratio.ends_with("1.100"), "{text}");
    }

    /// The library is loaded and its calls do nothing: a sync of a file descriptor that is none succeeds.
    #[test]
    fn a_preloaded_program_does_not_sync() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let library = compile(folder.path()).expect("a library");
        // `sync FILE` calls fsync; on a pipe that is an error, unless nobody asks the kernel.
        let sync = |preload: Option<&Path>| {
            let mut command = Command::new("sync");
            command.arg("/dev/stdin").stdin(std::process::Stdio::piped());
            command.envs(preload.map(|path| ("LD_PRELOAD", path)));
            command.output().expect("sync runs").status.success()
        };
        assert!(!sync(None), "a pipe cannot be synced");
        assert!(sync(Some(&library)));
    }
}
