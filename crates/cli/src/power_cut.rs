//! `postrider selftest --power-cut`: does this engine, on this disk and file system, keep what it promised?
//!
//! Runs mail through the real engine over real files and records every write, sync and name with what was
//! acknowledged when ([`load`], [`recorder`]); then rebuilds in memory what a power cut could have left
//! ([`states`]), recovers from each such state with the real recovery and compares with the ledger
//! ([`ledger`], [`check`]). First a control: the same with syncs turned into lies must show losses, else
//! the test is blind and says so.
//! What it cannot see: a disk that says "synced" and has not. For that the power must really be cut.

mod check;
mod cuts;
mod failed;
mod ledger;
mod load;
mod mount;
mod recorder;
mod report;
mod states;

use crate::output::{WELL, WRONG, on_stdout, parsed};
use crate::spool_verbs::Defaults;
use anyhow::{Context, Result, ensure};
use cuts::{Cuts, Plan};
use load::{Load, Recording};
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Proves on this disk and file system that a power cut loses no acknowledged mail. Tests the log; not `kind = 'LocalDisk'`.
#[derive(Debug, clap::Parser)]
#[command(name = "postrider selftest", version)]
pub struct Options {
    /// The test with power cuts (the only one there is).
    #[arg(long, required = true)]
    power_cut: bool,
    /// A directory on the disk to be tested. Default: where `postrider serve` keeps its spool.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Messages to send through the engine.
    #[arg(long, value_name = "N", default_value_t = 40_000, value_parser = clap::value_parser!(u32).range(1..))]
    messages: u32,
    /// Moments at which the power is cut.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    cuts: u32,
    /// What the run's chance is made from. Default: the time.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Cut at this moment only: the number of the call to the disk.
    #[arg(long, value_name = "K")]
    cut: Option<usize>,
    /// Rebuild states for at most so long.
    #[arg(long, value_name = "T")]
    seconds: Option<u64>,
    /// Turns syncs into lies: exit 0 only when losses are found.
    #[arg(long)]
    control: bool,
    /// Checks a state again that an earlier run found wrong and kept.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["dir", "cut", "control"])]
    replay: Option<PathBuf>,
}

/// `postrider selftest` on stdout.
///
/// # Errors
/// None: they are told on stderr. The shape is that of the program's other tools.
pub fn run(arguments: Vec<OsString>, defaults: Defaults) -> Result<ExitCode> {
    Ok(on_stdout(|out| run_to(arguments, defaults, out)))
}

/// `postrider selftest`, its text to `out`; the exit code.
///
/// # Errors
/// Why it could not be run.
pub fn run_to(arguments: Vec<OsString>, defaults: Defaults, out: &mut dyn Write) -> Result<u8> {
    let options: Options = match parsed(arguments)? {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    if let Some(path) = &options.replay {
        let verdict = failed::replay(path)?;
        report::verdict(&verdict, out)?;
        return Ok(if verdict.is_good() { WELL } else { WRONG });
    }
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => defaults.spool_dir,
    };
    ensure!(dir.is_dir(), "{} is not a directory: --dir names one on the disk to be tested", dir.display());
    let seed = options.seed.unwrap_or_else(|| crate::output::now().unix_micros() as u64 & SEED_MAX);
    let recording = record(&dir, &options, seed, out)?;
    examine(&dir, &options, seed, &recording, out)
}

/// Runs the load in a directory of its own, and takes that away.
fn record(dir: &Path, options: &Options, seed: u64, out: &mut dyn Write) -> Result<Recording> {
    let scratch = dir.join(format!("postrider-power-cut-{}", std::process::id()));
    let made = DirBuilder::new().mode(0o700).create(&scratch);
    made.with_context(|| format!("cannot create {}", scratch.display()))?;
    report::place(dir, seed, out)?;
    out.flush()?;
    let recording = load::run(&scratch, &Load { messages: options.messages, seed });
    let removed = fs::remove_dir_all(&scratch);
    let recording = recording?;
    removed.with_context(|| format!("cannot remove {}", scratch.display()))?;
    report::load(&recording, out)?;
    out.flush()?;
    Ok(recording)
}

/// Cuts the power, first as a control, and judges.
fn examine(dir: &Path, options: &Options, seed: u64, recording: &Recording, out: &mut dyn Write) -> Result<u8> {
    if let Some(cut) = options.cut {
        let calls = recording.calls.len();
        ensure!(cut <= calls, "--cut {cut}: {calls} calls to the disk were recorded: expected no more");
    }
    let until = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let plan = |cuts, lies| Plan { cuts, lies, seed, only: options.cut, until };
    let control_cuts = if options.control { options.cuts } else { CONTROL_CUTS };
    let control = Cuts::new(recording).run(&Plan { only: None, ..plan(control_cuts, LIES) });
    report::control(&control, LIES, out)?;
    if control.lost() == 0 {
        writeln!(out, "BLIND: syncs that lie lost nothing: this run proves nothing")?;
        return Ok(WRONG);
    }
    if options.control {
        return Ok(WELL);
    }
    out.flush()?;
    let verdict = Cuts::new(recording).run(&plan(options.cuts, 0));
    report::cuts(&verdict, out)?;
    if let Some(failure) = verdict.failures.first() {
        let kept = failed::keep(dir, recording, failure)?;
        report::reproduce(failure, options, dir, seed, &kept, out)?;
    }
    report::verdict(&verdict, out)?;
    Ok(if verdict.is_good() && recording.refused.is_none() { WELL } else { WRONG })
}

/// Seeds that are chosen are short enough to be typed.
const SEED_MAX: u64 = 0xffff_ffff;
/// Cuts of the control that precedes every run.
const CONTROL_CUTS: u32 = 40;
/// Syncs before the cut that were lies, in a control: a cache of some moments that the cut empties.
const LIES: usize = 16;
