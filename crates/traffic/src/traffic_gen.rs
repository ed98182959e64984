//! `traffic-gen`: puts test mail into a server as fast as it is taken, and measures how fast that is.
//!
//! It owns the run: the clients, the counters they share, the ledgers, the report. In: a command line or a [`Plan`].
//! Out: a [`Report`]. The way of a message: `client` takes a ticket from `work` -> `letter` gives it an id ->
//! `smtp` or `http` sends it over `wire` -> `client` settles it in `tally` and ledger.
//!
//! What is told to a user as sent was answered 250, and nothing else was. It judges no server: a refusal is a number
//! in the report, not an error.

mod body;
mod client;
mod histogram;
mod http;
mod http_bulk;
mod letter;
mod options;
mod parse;
mod report;
mod smtp;
mod tally;
mod throttle;
mod tls;
mod wire;
mod work;

use std::ffi::OsString;
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use clap::Parser as _;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::ledger::Ledger;
use crate::process::{self, Termination};
use client::{Client, Run};
pub use histogram::Latency;
use letter::Stationery;
pub use options::{HttpPlan, Options, Plan, PlanError};
pub use parse::{HeaderField, Rate, WeightedDomain};
use report::Progress;
pub use report::Report;
pub use tally::Counts;
use tally::Tally;
use throttle::Throttle;
pub use work::Extent;
use work::Work;

/// Runs the tool with the given command line (the program's name first). The exit code is 0 even when messages
/// failed, as KumoMTA's is, and 1 when no connection could be had at all.
///
/// # Errors
/// The options make no sense together, or a file cannot be read or written.
pub fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(refusal) => {
            // With nobody to read it, the exit code still says it.
            let _ = refusal.print();
            return Ok(ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2)));
        }
    };
    let plan = options.into_plan()?;
    let sockets = process::make_room_for_sockets(u64::from(plan.concurrency));
    if sockets < u64::from(plan.concurrency) {
        eprintln!("traffic-gen: only {sockets} of {} connections can be open at once (ulimit -n)", plan.concurrency);
    }
    let json = plan.json.clone();
    let runtime = process::runtime(plan.threads)?;
    let report = runtime.block_on(async {
        let mut termination = Termination::listen()?;
        let stop = async {
            termination.next().await;
            // The first signal ends the run in order, the second at once.
            tokio::spawn(async move {
                termination.next().await;
                std::process::exit(EXIT_INTERRUPTED);
            });
        };
        generate(plan, stop).await
    })?;
    if let Some(path) = json {
        std::fs::write(&path, format!("{:#}\n", report.json()))
            .with_context(|| format!("traffic-gen cannot write {}", path.display()))?;
    }
    std::io::stdout().write_all(report.text().as_bytes())?;
    Ok(if report.ever_connected { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Carries out a plan, or as much of it as is done when `stop` completes: then messages under way are finished and
/// no new ones begun.
///
/// # Errors
/// The body file or a ledger cannot be used.
pub async fn generate(plan: Plan, stop: impl Future<Output = ()>) -> anyhow::Result<Report> {
    let run = Arc::new(Run::new(plan)?);
    let started = SystemTime::now();
    let mut clients = JoinSet::new();
    for number in 0..run.plan.concurrency as usize {
        clients.spawn(Client::new(Arc::clone(&run), number).run());
    }
    let mut progress = (!run.plan.quiet).then(|| Progress::new(run.plan.extent));
    let mut seconds = tokio::time::interval_at((run.started + SECOND).into(), SECOND);
    tokio::pin!(stop);
    let mut stopping = false;
    loop {
        tokio::select! {
            ended = clients.join_next() => match ended {
                Some(ended) => ended.context("a client of traffic-gen panicked")?,
                None => break,
            },
            _ = seconds.tick() => {
                if let Some(progress) = &mut progress {
                    progress.show(run.tally.counts(), run.started.elapsed());
                }
            }
            () = &mut stop, if !stopping => {
                stopping = true;
                run.work.stop();
            }
        }
    }
    let elapsed = run.started.elapsed();
    if let Some(progress) = &mut progress {
        progress.show(run.tally.counts(), elapsed);
        progress.finish();
    }
    for ledger in [&run.acknowledged, &run.unknown].into_iter().flatten() {
        ledger.close().context("traffic-gen cannot write its ledger")?;
    }
    Ok(Report {
        run: run.stationery.run().to_owned(),
        counts: run.tally.counts(),
        started,
        elapsed,
        latency: run.tally.latency(),
        last_failure: run.last_failure.lock().unwrap_or_else(PoisonError::into_inner).take(),
        ever_connected: run.ever_connected.load(Ordering::Relaxed),
        cpu: process::cpu_time(),
    })
}

impl Run {
    fn new(plan: Plan) -> anyhow::Result<Self> {
        let stationery = Stationery::new(&plan)?;
        let acknowledged = plan.ledger.as_deref().map(open_ledger).transpose()?;
        let unknown = plan.ledger.as_deref().map(|path| open_ledger(&unknown_path(path))).transpose()?;
        let tls = plan.starttls.then(tls::connector).transpose()?;
        let started = Instant::now();
        Ok(Self {
            stationery,
            work: Work::new(plan.extent, started),
            tally: Tally::new(plan.concurrency as usize),
            throttle: plan.throttle.map(if plan.open_loop { Throttle::timetable } else { Throttle::new }),
            started,
            acknowledged,
            unknown,
            tls,
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            last_failure: Mutex::new(None),
            ever_connected: AtomicBool::new(false),
            plan,
        })
    }
}

fn open_ledger(path: &Path) -> anyhow::Result<Ledger> {
    Ledger::create(path, LEDGER_INTERVAL)
        .with_context(|| format!("traffic-gen cannot create the ledger {}", path.display()))
}

/// Where the ids of messages whose answer was lost are written: the ledger's name with `.unknown` behind it.
fn unknown_path(ledger: &Path) -> PathBuf {
    let mut name = ledger.as_os_str().to_owned();
    name.push(".unknown");
    PathBuf::from(name)
}

const SECOND: Duration = Duration::from_secs(1);
/// Longest time a ledger line stays unwritten.
const LEDGER_INTERVAL: Duration = Duration::from_millis(500);
/// Connections being opened at once; well below any listen backlog.
const HANDSHAKES_MAX: usize = 64;
/// As a shell reports a program ended by SIGINT.
const EXIT_INTERRUPTED: i32 = 130;
