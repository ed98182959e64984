//! `spool`: the spool by itself. Durable appends and removals at many writers, and what one client waits beyond the
//! device.
//!
//! The real spool (`store::open`) runs in this process, so its figures hold no SMTP: writers append a message, wait for
//! its receipt, and remove it some messages later. In: sizes, writers, seconds. Out: tables on stdout, and for a complete
//! benchmark a file in `bench/results`. CPU is that of the whole process, the writers' own work included.

mod bare;
mod letters;
mod writers;

use anyhow::Context as _;

use crate::clock_factor::{Clock, REFERENCE_US, factor};
use crate::disk_stat::Device;
use crate::machine::Facts;
use crate::proc_file;
use crate::results::{Keep, Results};
use crate::stage::{Place, Stage};
use crate::stats::{median, percentile};
use crate::table::{Table, figure};

use bare::Alone;
use letters::Letters;
use writers::Writers;

/// Options of `spool`.
#[derive(clap::Args)]
pub struct Options {
    /// Octets of a message, head and body (repeatable) [default: 10240 and 102400]
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u32).range(1024..=64 << 20))]
    size: Vec<u32>,
    /// Concurrent writers
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    writers: u32,
    /// Length of a run
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Runs that count, after one that does not
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Octets of appends after which a commit takes no more [default: the spool's own]
    #[arg(long, value_name = "OCTETS", value_parser = clap::value_parser!(u32).range(4096..=256 << 20))]
    batch_octets: Option<u32>,
    /// Appends of a single client that are timed
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    alone: u32,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// The figures of a run.
#[derive(Debug, Clone, Copy, Default)]
struct Shift {
    messages: f64,
    seconds: f64,
    /// User and system time of the process, in microseconds.
    cpu_us: f64,
    /// Of it, the spool's writer thread.
    writer_us: f64,
    /// Of it, the threads of the runtime: handles, wake-ups, and the benchmark's own work.
    runtime_us: f64,
    commits: f64,
    /// Written by the spool's own count.
    spool_octets: f64,
    /// Written to the device, by anybody.
    device_octets: Option<f64>,
    p50_ms: f64,
    p99_ms: f64,
    clock: f64,
}

/// Measures.
///
/// # Errors
/// The spool refuses something.
pub fn spool(options: &Options) -> anyhow::Result<()> {
    options.place.act(|stage| {
        let facts = Facts::gather(&stage.logs())?;
        let clock = Clock::new()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("runtime")?;
        let sizes = if options.size.is_empty() { SIZES.to_vec() } else { options.size.clone() };
        let mut load = Table::new(&LOAD_COLUMNS);
        let mut alone = Table::new(&ALONE_COLUMNS);
        for size in sizes {
            let shifts = runtime.block_on(loaded(options, stage, &clock, size))?;
            load.row(load_row(options.writers, size, &shifts));
            alone.row(alone_row(size, &runtime.block_on(single(options, stage, size))?));
        }
        let complete = options.size.is_empty()
            && options.batch_octets.is_none()
            && options.runs >= 5
            && options.seconds >= 3
            && options.alone >= 2000;
        let legend = LEGEND.replace("RUNS", &options.runs.to_string()).replace("REFERENCE", &REFERENCE_US.to_string());
        let tables = [load, alone];
        let results = Results { suffix: "-spool", title: "Spool", facts: &facts, tables: &tables, legend: &legend };
        options.keep.conclude(complete, &results)
    })
}

/// The runs that count, after one that does not: it fills the segments that the others find ready for reuse.
async fn loaded(options: &Options, stage: &Stage, clock: &Clock, size: u32) -> anyhow::Result<Vec<Shift>> {
    let folder = stage.spool(&format!("load-{size}"))?;
    let device = Device::of(&folder)?;
    let mut writers = Writers::open(&folder, options.store(), options.writers, Letters::new(size as usize)).await?;
    let mut shifts = Vec::new();
    for number in 0..=options.runs {
        let shift = shift(options, &mut writers, device, clock).await?;
        eprintln!("  {size} octets, run {number}: {:.0} msg/s", shift.messages / shift.seconds);
        if number > 0 {
            shifts.push(shift);
        }
    }
    writers.close().await?;
    stage.sweep(&folder);
    Ok(shifts)
}

async fn shift(options: &Options, writers: &mut Writers, device: Device, clock: &Clock) -> anyhow::Result<Shift> {
    let signature_us = clock.signature_us()?;
    let before = Reading::take(writers, device)?;
    let started = std::time::Instant::now();
    let mut waits_ms = writers.work(std::time::Duration::from_secs(options.seconds)).await?;
    let seconds = started.elapsed().as_secs_f64();
    let after = Reading::take(writers, device)?;
    let spent = |of: fn(&Reading) -> f64| of(&after) - of(&before);
    Ok(Shift {
        messages: waits_ms.len() as f64,
        seconds,
        cpu_us: spent(|reading| reading.cpu_us),
        writer_us: spent(|reading| reading.writer_us),
        runtime_us: spent(|reading| reading.runtime_us),
        commits: spent(|reading| reading.commits),
        spool_octets: spent(|reading| reading.spool_octets),
        device_octets: after.device_octets.zip(before.device_octets).map(|(after, before)| (after - before) as f64),
        p50_ms: percentile(&mut waits_ms, 50.0).unwrap_or_default(),
        p99_ms: percentile(&mut waits_ms, 99.0).unwrap_or_default(),
        clock: factor((signature_us + clock.signature_us()?) / 2.0),
    })
}

/// Counters at one moment.
struct Reading {
    cpu_us: f64,
    writer_us: f64,
    runtime_us: f64,
    commits: f64,
    spool_octets: f64,
    device_octets: Option<u64>,
}

impl Options {
    /// The spool's own settings but for what is tried out.
    fn store(&self) -> store::Options {
        let own = store::Options::default();
        let batch_octets_max = self.batch_octets.map_or(own.batch_octets_max, |octets| octets as usize);
        store::Options { batch_octets_max, ..own }
    }
}

impl Reading {
    fn take(writers: &Writers, device: Device) -> anyhow::Result<Reading> {
        let own = std::process::id();
        let threads = proc_file::thread_cpu_us(own)?;
        let of = |name: &str| threads.iter().filter(|(is, _)| is.starts_with(name)).map(|(_, us)| us).sum();
        let log = writers.stats().log;
        Ok(Reading {
            cpu_us: proc_file::cpu_us(own)?,
            writer_us: of("spool-writer"),
            runtime_us: of("tokio"),
            commits: log.commits as f64,
            spool_octets: log.octets_written as f64,
            device_octets: device.octets_written()?,
        })
    }
}

async fn single(options: &Options, stage: &Stage, size: u32) -> anyhow::Result<Alone> {
    let folder = stage.spool(&format!("alone-{size}"))?;
    let mut writers =
        Writers::open(&folder.join("spool"), options.store(), options.writers, Letters::new(size as usize)).await?;
    writers.settle().await?;
    let alone = bare::compare(&mut writers, &folder, size as usize, options.alone as usize).await?;
    writers.close().await?;
    stage.sweep(&folder);
    Ok(alone)
}

fn load_row(writers: u32, size: u32, shifts: &[Shift]) -> Vec<String> {
    let middle = |pick: &dyn Fn(&Shift) -> f64| median(shifts.iter().map(pick));
    let target = TARGETS.iter().find(|(octets, ..)| *octets == size);
    let mail = f64::from(size);
    vec![
        format!("{} KB, {writers} writers", size / 1024),
        figure(middle(&|s| s.messages / s.seconds), 0),
        figure(target.map(|(_, rate, _)| *rate), 0),
        figure(middle(&|s| s.cpu_us / s.messages), 2),
        figure(middle(&|s| s.clock), 2),
        figure(middle(&|s| s.cpu_us / s.messages / s.clock), 2),
        figure(target.map(|(.., us)| *us), 0),
        figure(middle(&|s| s.writer_us / s.messages), 2),
        figure(middle(&|s| s.runtime_us / s.messages), 2),
        figure(middle(&|s| s.spool_octets / s.messages / mail), 3),
        figure(median(shifts.iter().filter_map(|s| Some(s.device_octets? / s.messages / mail))), 3),
        figure(middle(&|s| s.commits / s.seconds), 0),
        figure(middle(&|s| s.messages / s.commits), 1),
        figure(middle(&|s| s.p50_ms), 2),
        figure(middle(&|s| s.p99_ms), 2),
    ]
}

fn alone_row(size: u32, alone: &Alone) -> Vec<String> {
    let us = |value| figure(Some(value), 0);
    vec![
        format!("{} KB, 1 writer", size / 1024),
        alone.appends.to_string(),
        us(alone.append_p50_us),
        us(alone.append_p99_us),
        us(alone.bare_p50_us),
        us(alone.bare_p99_us),
        us(alone.append_p50_us - alone.bare_p50_us),
        us(ADDED_US_TARGET),
    ]
}

/// 10 KB and 100 KB, in octets.
const SIZES: [u32; 2] = [10 << 10, 100 << 10];
/// Size, messages a second at least, CPU at most.
const TARGETS: [(u32, f64, f64); 2] = [(SIZES[0], 60_000.0, 8.0), (SIZES[1], 10_000.0, 25.0)];
/// What a single client may wait beyond the device.
const ADDED_US_TARGET: f64 = 200.0;
const LOAD_COLUMNS: [&str; 15] = [
    "spool",
    "msg/s",
    "target >=",
    "CPU us/msg",
    "clock factor",
    "CPU/factor",
    "target <=",
    "writer us",
    "runtime us",
    "WA spool",
    "WA device",
    "commits/s",
    "msg/commit",
    "p50 ms",
    "p99 ms",
];
const ALONE_COLUMNS: [&str; 8] = [
    "latency",
    "appends",
    "append p50 us",
    "append p99 us",
    "bare p50 us",
    "bare p99 us",
    "added us (p50)",
    "target <=",
];
const LEGEND: &str = "\
Medians over RUNS run(s) after a warm-up. Each writer appends a message, waits for its receipt, and removes it 16 of its
messages later; bodies are incompressible. No SMTP, no queue: the spool and its callers alone, in one process.

- CPU us/msg: user and system time of the process, the making of the messages included; writer and runtime: the part of
  the spool's writer thread and of the runtime's threads. The kernel counts both; they are not divided by the factor.
- clock factor: the CPU of one RSA-2048 signature beside the run, divided by REFERENCE us.
- WA: octets written for an octet of mail, by the spool's own count and by the device's (which counts other programs too).
- latency: one client; append is the time until the receipt; bare is one write of as many pages to a file written before,
  with one fdatasync, by hand on the same file system, in turn with the appends.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_their_columns_and_carry_the_targets() {
        let shift = Shift {
            messages: 100_000.0,
            seconds: 2.0,
            cpu_us: 500_000.0,
            writer_us: 300_000.0,
            runtime_us: 200_000.0,
            commits: 1000.0,
            spool_octets: 100_000.0 * 10_240.0 * 1.25,
            device_octets: None,
            p50_ms: 1.0,
            p99_ms: 2.0,
            clock: 0.5,
        };
        let row = load_row(64, 10 << 10, &[shift, shift, shift]);
        let want = "10 KB, 64 writers|50000|60000|5.00|0.50|10.00|8|3.00|2.00|1.250|-|500|100.0|1.00|2.00";
        assert_eq!(row.join("|"), want);
        assert_eq!(row.len(), LOAD_COLUMNS.len());
        let none = load_row(64, 2048, &[]);
        assert_eq!((none[1].as_str(), none[2].as_str()), ("-", "-"));
        let alone =
            Alone { appends: 2000, append_p50_us: 90.0, append_p99_us: 200.0, bare_p50_us: 60.0, bare_p99_us: 99.0 };
        let row = alone_row(100 << 10, &alone);
        assert_eq!(row.join("|"), "100 KB, 1 writer|2000|90|200|60|99|30|200");
        assert_eq!(row.len(), ALONE_COLUMNS.len());
    }

    /// The whole verb, small: everything that is printed is there and plausible.
    #[test]
    fn a_short_shift() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("scratch folder");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let letters = Letters::new(4096);
            let mut writers = Writers::open(&folder.path().join("spool"), store::Options::default(), 8, letters)
                .await
                .expect("opens");
            let waits = writers.work(std::time::Duration::from_millis(200)).await.expect("works");
            // The writer publishes its figures behind its last answers.
            let all = || Ok((writers.stats().appended_messages == waits.len() as u64).then_some(()));
            crate::wait::until("the figures", std::time::Duration::from_secs(20), all).expect("come");
            let stats = writers.stats();
            assert!(stats.log.octets_written > 4096 * waits.len() as u64);
            let live = stats.log.live_messages;
            // Removals ride a later commit, so some of those done may not count yet.
            assert!(live as usize >= 8 * writers::KEPT.min(waits.len() / 16), "{live} of {}", waits.len());
            let alone = bare::compare(&mut writers, folder.path(), 4096, 100).await.expect("compares");
            assert_eq!(alone.appends, 100);
            assert!(alone.append_p50_us > 0.0 && alone.bare_p50_us > 0.0, "{alone:?}");
            writers.close().await.expect("closes");
        });
    }
}
