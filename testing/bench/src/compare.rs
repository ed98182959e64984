//! `compare`: two builds of the program, run in turn on the same work, so that the machine's moods hit both alike.
//!
//! Generator and sink are those of build A for both. In: two programs. Out: CPU per message pair by pair, the ratio
//! B/A of each pair, and their median.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::clock_factor::Clock;
use crate::generator::Order;
use crate::relay::Relay;
use crate::round::{Round, Running};
use crate::sink::Sink;
use crate::stage::{Place, Programs, Stage};
use crate::stats::median;
use crate::table::{Table, figure};
use crate::workload::{Duty, Signing};

/// Options of `compare`.
#[derive(clap::Args)]
pub struct Options {
    /// The `postrider` to compare with
    #[arg(long, value_name = "FILE")]
    a: PathBuf,
    /// The `postrider` that is compared
    #[arg(long, value_name = "FILE")]
    b: PathBuf,
    /// Pairs of runs, A then B
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Messages of 10 KB in a run
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    #[command(flatten)]
    place: Place,
}

/// One build at work.
struct Side<'a> {
    name: &'static str,
    /// Where generator and sink come from.
    tools: &'a Programs,
    relay: Relay,
    sink: Sink,
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
        let mut a = Side::start(stage, "a", &first, &first)?;
        let mut b = Side::start(stage, "b", &first, &second)?;
        let mut table = Table::new(&["pair", "A us/msg", "B us/msg", "B/A", "A msg/s", "B msg/s"]);
        let mut ratios = Vec::new();
        for number in 0..=options.pairs {
            let left = a.round(stage, &clock, options.messages, number)?;
            let right = b.round(stage, &clock, options.messages, number)?;
            // The first pair warms up both.
            if number > 0 {
                ratios.push(right.cpu_us / left.cpu_us);
                table.row(row(number, &left, &right));
            }
        }
        a.stop(stage)?;
        b.stop(stage)?;
        print!("{}", table.text());
        let ratio = median(ratios).context("no pairs")?;
        println!("CPU per message, median of B/A over {} pairs: {ratio:.3}", options.pairs);
        Ok(())
    })
}

impl<'a> Side<'a> {
    fn start(stage: &Stage, name: &'static str, tools: &'a Programs, build: &Programs) -> anyhow::Result<Side<'a>> {
        let sink = Sink::start(stage, tools, name)?;
        let relay = Relay::start(stage, build, name, Duty::Relay(Signing::Unsigned), Some(sink.address))?;
        Ok(Side { name, tools, relay, sink })
    }

    fn round(&mut self, stage: &Stage, clock: &Clock, messages: u64, number: u32) -> anyhow::Result<Round> {
        eprintln!("{} {number}", self.name);
        let name = format!("{}{number}", self.name);
        let order =
            Order { name, octets: OCTETS, messages, concurrency: CONCURRENCY, domains: Vec::new(), persistent: false };
        let running = Running::begin(stage, self.tools, clock, &self.relay, &order)?;
        running.finish(&mut self.relay, Some(&mut self.sink))
    }

    fn stop(self, stage: &Stage) -> anyhow::Result<()> {
        self.relay.stop(stage)?;
        match self.sink.stop()?.fault(false) {
            None => Ok(()),
            Some(fault) => bail!("the figures are void: build {}: {fault}", self.name),
        }
    }
}

fn row(number: u32, left: &Round, right: &Round) -> Vec<String> {
    vec![
        number.to_string(),
        figure(Some(left.cpu_us), 1),
        figure(Some(right.cpu_us), 1),
        figure(Some(right.cpu_us / left.cpu_us), 3),
        figure(Some(left.accepted_per_s), 0),
        figure(Some(right.accepted_per_s), 0),
    ]
}

/// Of a message.
const OCTETS: u64 = 10 << 10;
/// Connections of the generator.
const CONCURRENCY: u32 = 100;
