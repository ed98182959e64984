//! `destinations`: what a destination costs the whole program in memory. One message to each of very many domains, every one
//! with a host of its own; each is tried once, turned away, and waits for its retry.
//!
//! In: how many. Out: resident octets a destination, and the same after its metrics were read; once with hosts found by MX,
//! once with hosts that each queue's own configuration names. The figures are void unless every destination was tried and
//! every message is still held.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::admin::overview;
use crate::daemon::Daemon;
use crate::injector::Injector;
use crate::machine::Facts;
use crate::results::{Keep, Results};
use crate::stage::{Place, Programs, Stage, built_program};
use crate::table::{Table, figure};
use crate::wait::until;

/// Options of `destinations`.
#[derive(clap::Args)]
pub struct Options {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// Destination domains
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(1000..=60_000))]
    destinations: u64,
    /// Seconds of silence before memory is read: an allocator gives back late
    #[arg(long, value_name = "S", default_value_t = 70)]
    pause: u64,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// Resident octets a destination.
#[derive(Debug, Clone, Copy)]
struct Figures {
    waiting: f64,
    read: f64,
}

/// Measures.
///
/// # Errors
/// A program fails, a destination is not tried, or a message is gone.
pub fn destinations(options: &Options) -> anyhow::Result<()> {
    let binary = built_program(options.bin.as_deref())?;
    options.place.act(|stage| {
        let programs = stage.install(&binary, "bin")?;
        let facts = Facts::gather(&stage.logs())?;
        let by_mx = play(options, stage, &programs, true)?;
        let by_list = play(options, stage, &programs, false)?;
        let tables = [table(options, by_mx, by_list)];
        let title = "Destinations";
        let results = Results { suffix: "-destinations", title, facts: &facts, tables: &tables, legend: LEGEND };
        options.keep.conclude(options.destinations >= 50_000, &results)
    })
}

fn play(options: &Options, stage: &Stage, programs: &Programs, by_mx: bool) -> anyhow::Result<Figures> {
    let wall = Wall::start()?;
    let name = if by_mx { "destinations-mx" } else { "destinations-list" };
    let all = WARM + options.destinations;
    let folder = stage.spool(name)?;
    let mut environment =
        vec![("BACKLOG_DIR", folder.clone().into()), ("BACKLOG_BULK", wall.address.to_string().into())];
    environment.extend(by_mx.then(|| ("BACKLOG_COUNT", all.to_string().into())));
    let mut daemon = Daemon::start(stage, programs, name, "destinations.lua", environment)?;
    let mut fill = |from: u64, to: u64| {
        inject(daemon.smtp, from..to)?;
        until("a try at each destination", TRY_LIMIT, || {
            daemon.ensure_alive()?;
            Ok((wall.turned_away() >= to).then_some(()))
        })
        .with_context(|| format!("{} of {to} were tried", wall.turned_away()))?;
        std::thread::sleep(Duration::from_secs(options.pause));
        daemon.rss_octets()
    };
    let idle = fill(0, WARM)?;
    let waiting = fill(WARM, all)?;
    let metrics = daemon.metrics()?;
    let overview = overview(daemon.http)?;
    std::thread::sleep(Duration::from_secs(options.pause));
    let read = daemon.rss_octets()?;
    daemon.stop()?;
    stage.sweep(&folder);
    let held = metrics.value("message_count").unwrap_or_default() as u64;
    // Not all of them have series of their own.
    let waiting_at = overview["ready_queues"].as_u64().unwrap_or_default();
    let tried = metrics.of_service("total_messages_transfail", "smtp_client").unwrap_or_default() as u64;
    if [held, waiting_at, tried] != [all; 3] {
        bail!(
            "the figures are void: of {all} messages {held} are held, {tried} were tried, {waiting_at} have ready queues"
        );
    }
    let each = |octets: f64| (octets - idle) / options.destinations as f64;
    Ok(Figures { waiting: each(waiting), read: each(read) })
}

/// Whoever connects is told to come again later.
struct Wall {
    address: SocketAddr,
    turned_away: Arc<AtomicU64>,
}

impl Wall {
    fn start() -> anyhow::Result<Wall> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("a listener")?;
        let address = listener.local_addr()?;
        let turned_away = Arc::new(AtomicU64::new(0));
        let count = turned_away.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                // Who has gone already is turned away as well.
                let _ = stream.write_all(b"421 4.3.2 not now\r\n");
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Wall { address, turned_away })
    }

    fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }
}

/// Sends a message to the domain of each number, a bounded number on a connection.
fn inject(to: SocketAddr, mut numbers: std::ops::Range<u64>) -> anyhow::Result<()> {
    while !numbers.is_empty() {
        let mut injector = Injector::open(to)?;
        for number in numbers.by_ref().take(PER_CONNECTION) {
            let recipient = format!("user@d{number:06}.bench.test");
            let sent = injector.send(&[recipient], "Subject: one of many\r\n\r\nhello\r\n");
            sent.with_context(|| format!("message {number}"))?;
        }
        injector.quit()?;
    }
    Ok(())
}

fn table(options: &Options, by_mx: Figures, by_list: Figures) -> Table {
    let mut table = Table::new(&["destinations", "measured", "target"]);
    let mut row = |name: &str, value: String, target: &str| table.row(vec![name.into(), value, target.into()]);
    row("destinations", options.destinations.to_string(), "");
    row("RSS octets each, found by MX, one message waiting for its retry", figure(Some(by_mx.waiting), 0), "2048");
    row("... after a scrape of /metrics", figure(Some(by_mx.read), 0), "");
    row("RSS octets each, named by a configuration of its own", figure(Some(by_list.waiting), 0), "");
    row("... after a scrape of /metrics", figure(Some(by_list.read), 0), "");
    table
}

/// Destinations before the first reading: what the first ones need is not counted.
const WARM: u64 = 2_000;
/// A listener's default limit is twice that.
const PER_CONNECTION: usize = 5_000;
const TRY_LIMIT: Duration = Duration::from_secs(120);
const LEGEND: &str = "\
One run each: a message to each of so many domains, every one with a host and a rate of its own. Each is tried once, turned
away with 421, and waits for its retry in an hour.

- One path, source and pool are what policy says of all of them; each of its own would add the size of one, 1.3 KB.
- RSS octets each: resident set beyond that of the same daemon with 2 000 destinations, divided by those added. The message
  itself, its ready queue, its metrics and what the allocator keeps are in it.
- found by MX: the zone is the program's own (`kumo.dns.configure_test_resolver`), so a resolver's cache is not in it.
- named by a configuration of its own: an `mx_list` that differs from queue to queue, so that none is shared.
";
