//! `compare`: two builds of the program, run in turn on the same work, so that the machine's moods hit both alike; of two pairs
//! one begins with A and one with B, so that what a run leaves behind hits both alike too.
//!
//! Generator and sink are those of build B for both: the harness knows their reports. In: two programs. Out: CPU per message pair by pair, the ratio
//! B/A of each pair, their median, and messages a second from the start to the last arrival.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::clock_factor::Clock;
use crate::round::Round;
use crate::side::Side;
use crate::stage::Place;
use crate::stats::median;
use crate::table::{Table, figure};
use crate::workload::{Duty, Over, Signing, Workload};

/// Options of `compare`.
#[derive(clap::Args)]
pub struct Options {
    /// The `postrider` to compare with
    #[arg(long, value_name = "FILE")]
    a: PathBuf,
    /// The `postrider` that is compared
    #[arg(long, value_name = "FILE")]
    b: PathBuf,
    /// Pairs of runs
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Messages of a run
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    /// Their size in units of 1024 octets
    #[arg(long, value_name = "KIB", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_240))]
    size: u32,
    /// Connections of the generator
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    /// Those for B, where they are others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections_of_b: Option<u32>,
    /// Let the generator send commands one at a time
    #[arg(long)]
    no_pipeline: bool,
    /// Over HTTP, a request for so many recipients, each of whom gets a message
    #[arg(long, value_name = "RECIPIENTS", value_parser = clap::value_parser!(u32).range(1..))]
    http: Option<u32>,
    /// How they are signed
    #[arg(long, value_enum, default_value = "unsigned")]
    signing: Signing,
    /// B relays by a policy in which everything goes through helpers, A by a plain one: what policy costs
    #[arg(long)]
    production: bool,
    /// Both put everything into a Maildir
    #[arg(long, conflicts_with = "production")]
    maildir: bool,
    #[command(flatten)]
    place: Place,
}

/// Compares.
///
/// # Errors
/// A program does not work, or a message was lost, damaged or doubled.
pub fn compare(options: &Options) -> anyhow::Result<()> {
    for (name, path) in [("--a", &options.a), ("--b", &options.b)] {
        if !path.is_file() {
            bail!("{name}: no program {}", path.display());
        }
    }
    options.place.act(|stage| {
        let first = stage.install(&options.a, "bin-a")?;
        let second = stage.install(&options.b, "bin-b")?;
        let clock = Clock::new()?;
        let work = Workload::relay(options.size, options.signing, options.messages);
        let duty = if options.maildir { Duty::Local } else { work.duty };
        let over = options.http.map_or(work.over, Over::Http);
        let work = Workload { duty, over, concurrency: options.connections, pipelined: !options.no_pipeline, ..work };
        let mut a = Side::start(stage, "a", &second, &first, &work, Vec::new())?;
        let duty = if options.production { Duty::Production(options.signing) } else { work.duty };
        let concurrency = options.connections_of_b.unwrap_or(options.connections);
        let work_of_b = Workload { duty, concurrency, ..work.clone() };
        let mut b = Side::start(stage, "b", &second, &second, &work_of_b, Vec::new())?;
        let mut table = Table::new(&COLUMNS);
        let (mut ratios, mut by_factor) = (Vec::new(), Vec::new());
        let (mut differences, mut rates) = (Vec::new(), Vec::new());
        for number in 0..=options.pairs {
            let (left, right);
            if number % 2 == 0 {
                left = a.round(stage, &clock, number)?;
                right = b.round(stage, &clock, number)?;
            } else {
                right = b.round(stage, &clock, number)?;
                left = a.round(stage, &clock, number)?;
            }
            // The first pair warms up both.
            if number > 0 {
                ratios.push(right.cpu_us / left.cpu_us);
                by_factor.push(ratio_by_factor(&left, &right));
                differences.push(right.cpu_us - left.cpu_us);
                rates.push(right.rate() / left.rate());
                table.row(row(number, &left, &right));
            }
        }
        a.stop(stage)?;
        b.stop(stage)?;
        print!("{}", table.text());
        let ratio = median(ratios).context("no pairs")?;
        let more = median(differences).context("no pairs")?;
        let (by_factor, rate) = (figure(median(by_factor), 3), figure(median(rates), 3));
        println!(
            "{}: CPU per message, median of B/A over {} pairs: {ratio:.3}, by the clock factor {by_factor}; of B-A: {more:.1} us; messages a second, of B/A: {rate}",
            work_of_b.name(),
            options.pairs
        );
        Ok(())
    })
}

fn row(number: u32, left: &Round, right: &Round) -> Vec<String> {
    vec![
        number.to_string(),
        figure(Some(left.cpu_us), 1),
        figure(Some(right.cpu_us), 1),
        figure(Some(right.cpu_us / left.cpu_us), 3),
        figure(Some(ratio_by_factor(left, right)), 3),
        figure(Some(left.rate()), 0),
        figure(Some(right.rate()), 0),
        format!("{} / {}", figure(Some(left.clock), 2), figure(Some(right.clock), 2)),
        right.load.words(),
    ]
}

/// The ratio of what both took, each by the clock factor beside it: what is left where the machine's state changes between the two.
fn ratio_by_factor(left: &Round, right: &Round) -> f64 {
    (right.cpu_us / right.clock) / (left.cpu_us / left.clock)
}

/// One a run of both.
const COLUMNS: [&str; 9] = [
    "pair",
    "A us/msg",
    "B us/msg",
    "B/A",
    "by the factor",
    "A msg/s",
    "B msg/s",
    "clock factor A / B",
    "B limited by",
];
