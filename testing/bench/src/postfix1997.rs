//! `postfix1997`: the experiments Postfix was presented with in 1997, done here: one message to a list of remote recipients,
//! the relay of messages with one recipient each, over few connections, and local delivery of the same. In: the built program.
//! Out: tables that put the published figures, a Postfix in the same run, and ours side by side.

use crate::mailing_list::{self, Figures, Mode};
use crate::measure::{Bench, Row, faults};
use crate::postfix::{Peers, Wanted};
use crate::round::Round;
use crate::series::{Measured, Report, Series};
use crate::table::{Table, figure};
use crate::workload::{Duty, Signing, Workload};

/// Options of `postfix1997`.
#[derive(clap::Args)]
pub struct Options {
    /// A fifth of the recipients and messages: for trying out
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    peers: Wanted,
    #[command(flatten)]
    series: Series,
}

/// Runs the experiments.
///
/// # Errors
/// A program fails, or a message was lost, doubled or damaged.
pub fn postfix1997(options: &Options) -> anyhow::Result<()> {
    let peers = options.peers.fetch()?;
    let report = Report {
        suffix: "-postfix1997",
        title: "The experiments of Postfix, 1997",
        legend: LEGEND.to_owned(),
        whole: peers.is_some() && !options.quick,
    };
    let part = if options.quick { QUICK } else { 1 };
    options.series.measure(report, |bench| {
        let lists = lists(bench, peers.as_ref(), part)?;
        let (relays, mut faults) = relays(bench, peers.as_ref(), Duty::Relay(Signing::Unsigned), part)?;
        let (locals, more) = self::relays(bench, peers.as_ref(), Duty::Local, part)?;
        faults.extend(more);
        Ok(Measured { tables: vec![lists, relays, locals], faults })
    })
}

/// A `part` of 5 is a fifth of the recipients.
fn lists(bench: &Bench, peers: Option<&Peers>, part: u64) -> anyhow::Result<Table> {
    let mut table = Table::new(&LIST_COLUMNS);
    for (mode, whole, target_s) in LISTS {
        let recipients = whole / part;
        let name = format!("{recipients} recipients, {}", mode.words());
        eprintln!("list: {name}");
        let ours = mailing_list::ours(bench, mode, recipients)?;
        let theirs = peers.map(|peers| mailing_list::postfix(bench, mode, recipients, peers)).transpose()?;
        let published = (recipients == 1000 && mode == Mode::Singly).then_some(PUBLISHED_LIST_S);
        let per_s = recipients as f64 / ours.seconds;
        table.row(list_cells(name, (published, target_s, per_s), &ours, theirs.as_ref()));
    }
    Ok(table)
}

fn list_cells(
    name: String,
    (published, target_s, per_s): (Option<f64>, f64, f64),
    ours: &Figures,
    theirs: Option<&Figures>,
) -> Vec<String> {
    vec![
        name,
        figure(published, 0),
        figure(theirs.map(|figures| figures.seconds), 3),
        figure(Some(ours.seconds), 3),
        figure(Some(ours.spread), 0),
        figure(Some(target_s), 2),
        figure(Some(per_s), 0),
        figure(theirs.map(|figures| figures.cpu_us), 0),
        figure(Some(ours.cpu_us), 1),
        figure(Some(ours.clock), 2),
        ours.load.words(),
    ]
}

fn relays(bench: &Bench, peers: Option<&Peers>, duty: Duty, part: u64) -> anyhow::Result<(Table, Vec<String>)> {
    let (what, published) = match duty {
        Duty::Local => ("local", None),
        _ => ("relay", Some(PUBLISHED_RELAYS_PER_S)),
    };
    let mut columns = RELAY_COLUMNS;
    columns[0] = if duty == Duty::Local { "into one Maildir, 1 KB" } else { columns[0] };
    let mut table = Table::new(&columns);
    let mut void = Vec::new();
    for messages in [100, 10_000].map(|messages| messages / part) {
        for concurrency in [5, 10, 20] {
            let work = Workload { duty, concurrency, ..Workload::relay(1, Signing::Unsigned, messages) };
            let name = format!("{messages} messages, {concurrency} connections in");
            eprintln!("{what}: {name}");
            let file = format!("{what}-{messages}-{concurrency}");
            let ours = bench.relay(&work, &file)?;
            let settings = mailing_list::OUT_100;
            let theirs = peers.map(|peers| bench.postfix(&work, messages, peers, settings, &file)).transpose()?;
            void.extend(faults(&ours, theirs.as_ref()));
            table.row(relay_cells(name, published, &ours, theirs.as_ref()));
        }
    }
    Ok((table, void))
}

fn relay_cells(name: String, published: Option<f64>, ours: &Row, theirs: Option<&Row>) -> Vec<String> {
    let cpu = |row: &Row| row.middle(|round| round.cpu_us);
    vec![
        name,
        figure(published, 1),
        figure(theirs.and_then(Row::rate), 0),
        figure(ours.rate(), 0),
        figure(ours.spread(Round::rate), 0),
        figure(theirs.and_then(cpu), 0),
        figure(cpu(ours), 1),
        figure(ours.middle(|round| round.clock), 2),
        figure(ours.middle(|round| round.latency.p99_ms), 1),
        ours.ledger(),
        ours.limit(),
    ]
}

/// What part of the work is done for trying out: still as many messages as there are connections.
const QUICK: u64 = 5;
/// With the seconds aimed at.
const LISTS: [(Mode, u64, f64); 6] = [
    (Mode::Batched, 1000, 0.03),
    (Mode::Batched, 2000, 0.06),
    (Mode::Batched, 5000, 0.15),
    (Mode::Singly, 1000, 0.10),
    (Mode::Singly, 2000, 0.20),
    (Mode::Singly, 5000, 0.50),
];
const PUBLISHED_LIST_S: f64 = 13.0;
const PUBLISHED_RELAYS_PER_S: f64 = 5.3;
const LIST_COLUMNS: [&str; 11] = [
    "one message to a list",
    "1997 s",
    "Postfix here s",
    "ours s",
    "spread %",
    "aim s",
    "recipients/s",
    "Postfix CPU us/recipient",
    "CPU us/recipient",
    "clock factor",
    "limited by",
];
const RELAY_COLUMNS: [&str; 11] = [
    "relay, 1 KB",
    "1997/s",
    "Postfix here/s",
    "ours/s",
    "spread %",
    "Postfix CPU us/msg",
    "CPU us/msg",
    "clock factor",
    "p99 ms",
    "lost/doubled/damaged",
    "limited by",
];
const LEGEND: &str = "\
Medians over RUNS run(s) after a warm-up. 1997: a P133 notebook on 10 Mbit Ethernet (76 list deliveries and 5.3 relayed
messages a second). Generator, server and sink share the cores, over loopback, the tools under
SCHED_BATCH: they do not push the server off a core (bench/README.md). Messages of 1 KB, on disk before their 250;
at most 100 connections to the sink; Postfix with `default_destination_concurrency_limit = 100` and otherwise its defaults.

- lists, s: from the connection that brings the message to the arrival of the last recipient's. batched: as many recipients
  in a transaction as the server is used to (ours 100, Postfix 50). singly: one recipient a transaction. Void unless each
  recipient got it once and whole.
- CPU: user and system time of the server. The kernel counts ours in steps of 10 ms: of 100 messages it says nothing.
  clock factor: the CPU of one RSA-2048 signature beside the run, divided by REFERENCE us.
- relay, /s: from the generator's first connection to the last arrival at the sink.
- into one Maildir, /s: to the last message moved to `new`. Ours and Postfix's (`virtual`) sync each file and its folder.
- lost/doubled/damaged: from the ledgers of both ends. limited by: what was at work at least 90 % of the time, and the shares
  of all cores' time, which the kernel counts in steps of 10 ms (so nothing is said of runs below 100 ms), and of the disk's; runs this short mostly wait.
  At lists the generator is the benchmark itself, which reads the sink's ledger meanwhile.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Load;

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let round = Round { delivered_per_s: Some(5300.0), cpu_us: 60.0, clock: 1.5, ..Round::default() };
        let row = Row { name: "n".into(), rounds: vec![round], peak_rss_mib: None, verdict: None };
        let cells = relay_cells("100".into(), Some(5.3), &row, None);
        assert_eq!(cells.len(), RELAY_COLUMNS.len());
        assert_eq!(cells[..7], ["100", "5.3", "-", "5300", "0", "-", "60.0"]);
        let ours = Figures { seconds: 0.02, spread: 7.0, cpu_us: 12.0, clock: 1.5, load: Load::default() };
        let theirs = Figures { seconds: 0.3, cpu_us: 200.0, ..ours };
        let cells = list_cells("1000".into(), (Some(13.0), 0.03, 50_000.0), &ours, Some(&theirs));
        assert_eq!(cells.len(), LIST_COLUMNS.len());
        assert_eq!(cells[..10], ["1000", "13", "0.300", "0.020", "7", "0.03", "50000", "200", "12.0", "1.50"]);
    }
}
