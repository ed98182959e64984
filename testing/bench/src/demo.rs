//! `demo`: tens of thousands of messages through a relay that syncs each before it says 250, and is killed once.
//!
//! Every run has a relay and a sink of its own. In: the built program. Out: a table, and exit code 1 if one
//! acknowledged message was lost, damaged or (but for the run with the kill) doubled.

use std::path::PathBuf;

use anyhow::bail;

use crate::audit::Verdict;
use crate::clock_factor::Clock;
use crate::generator::Order;
use crate::relay::Relay;
use crate::round::{Round, Running};
use crate::sink::Sink;
use crate::stage::{Place, Programs, Stage, built_program};
use crate::table::{Table, figure};
use crate::workload::{Duty, Over, Signing};

/// Options of `demo`.
#[derive(clap::Args)]
pub struct Options {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// Messages of 10 KB in a run; of 100 KB it is a tenth
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1000..))]
    messages: u64,
    #[command(flatten)]
    place: Place,
}

/// One line of the table.
struct Act {
    size_kib: u32,
    signing: Signing,
    killed: bool,
}

/// Runs the demonstration.
///
/// # Errors
/// A program does not work, or a message was lost, damaged or doubled.
pub fn demo(options: &Options) -> anyhow::Result<()> {
    let binary = built_program(options.bin.as_deref())?;
    options.place.act(|stage| {
        let programs = stage.install(&binary, "bin")?;
        let clock = Clock::new()?;
        println!("generator -> relay -> sink, three processes; the relay syncs each message to disk before its 250.");
        let mut table = Table::new(&COLUMNS);
        let mut faults = Vec::new();
        for (number, act) in ACTS.iter().enumerate() {
            eprintln!("{} of {}: {}", number + 1, ACTS.len(), act.name());
            let messages = if act.size_kib > 10 { options.messages / 10 } else { options.messages };
            let order = Order {
                name: format!("demo{}", number + 1),
                octets: u64::from(act.size_kib) * 1024,
                messages,
                concurrency: CONCURRENCY,
                domains: Vec::new(),
                persistent: act.killed,
                rate: None,
                pipelined: true,
                over: Over::Smtp,
            };
            match play(stage, &programs, &clock, act, &order) {
                Ok((round, verdict)) => {
                    table.row(row(act, &order, &round, &verdict));
                    faults.extend(fault(act, &round, &verdict));
                }
                Err(error) => {
                    print!("{}", table.text());
                    return Err(error.context(act.name()));
                }
            }
        }
        print!("\n{}", table.text());
        if !faults.is_empty() {
            bail!("{}", faults.join("; "));
        }
        println!("\nEvery acknowledged message arrived intact. A kill may double a message, and must not lose one.");
        Ok(())
    })
}

fn play(
    stage: &Stage,
    programs: &Programs,
    clock: &Clock,
    act: &Act,
    order: &Order,
) -> anyhow::Result<(Round, Verdict)> {
    let mut sink = Sink::start(stage, programs, &order.name)?;
    let mut relay = Relay::start(stage, programs, &order.name, Duty::Relay(act.signing), Some(sink.address))?;
    let mut running = Running::begin(stage, programs, clock, &relay, Some(&mut sink), order)?;
    if act.killed {
        running.crash(stage, &mut relay, &mut sink, KILL_AT)?;
    }
    let round = running.finish(&mut relay, Some(&mut sink))?;
    relay.stop(stage)?;
    let verdict = sink.stop()?;
    Ok((round, verdict))
}

impl Act {
    fn name(&self) -> String {
        let killed = if self.killed { ", killed once" } else { "" };
        format!("{} KB, {}{killed}", self.size_kib, self.signing.word())
    }
}

fn row(act: &Act, order: &Order, round: &Round, verdict: &Verdict) -> Vec<String> {
    vec![
        act.name(),
        order.messages.to_string(),
        verdict.acknowledged.to_string(),
        verdict.delivered.to_string(),
        verdict.lost.to_string(),
        verdict.doubled.to_string(),
        verdict.damaged.to_string(),
        figure(Some(round.seconds), 2),
        figure(Some(round.accepted_per_s), 0),
        figure(Some(round.cpu_us), 0),
        figure(round.syncs, 3),
    ]
}

fn fault(act: &Act, round: &Round, verdict: &Verdict) -> Option<String> {
    let mut faults: Vec<String> = verdict.fault(act.killed).into_iter().collect();
    if round.held > 0.0 {
        faults.push(format!("the relay still holds {} messages", round.held));
    }
    (!faults.is_empty()).then(|| format!("{}: {}", act.name(), faults.join(", ")))
}

const ACTS: [Act; 7] = [
    Act { size_kib: 10, signing: Signing::Unsigned, killed: false },
    Act { size_kib: 10, signing: Signing::Rsa, killed: false },
    Act { size_kib: 10, signing: Signing::Ed25519, killed: false },
    Act { size_kib: 100, signing: Signing::Unsigned, killed: false },
    Act { size_kib: 100, signing: Signing::Rsa, killed: false },
    Act { size_kib: 100, signing: Signing::Ed25519, killed: false },
    Act { size_kib: 10, signing: Signing::Unsigned, killed: true },
];
const COLUMNS: [&str; 11] = [
    "run",
    "messages",
    "acknowledged",
    "delivered",
    "lost",
    "doubled",
    "damaged",
    "seconds",
    "msg/s accepted",
    "relay CPU us/msg",
    "syncs/msg",
];
/// Connections of the generator.
const CONCURRENCY: u32 = 100;
/// Share of the messages delivered when the relay is killed.
const KILL_AT: f64 = 0.4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let round = Round {
            accepted_per_s: 8000.4,
            delivered_per_s: None,
            seconds: 2.5,
            cpu_us: 99.6,
            syncs: None,
            written: None,
            device_written: None,
            clock: 1.0,
            held: 3.0,
            ..Round::default()
        };
        let order = Order {
            name: String::new(),
            octets: 10 << 10,
            messages: 5,
            concurrency: 1,
            domains: Vec::new(),
            persistent: false,
            rate: None,
            pipelined: true,
            over: Over::Smtp,
        };
        let cells = row(&ACTS[6], &order, &round, &Verdict::default());
        assert_eq!(cells.len(), COLUMNS.len());
        assert_eq!(cells[0], "10 KB, unsigned, killed once");
        assert_eq!(cells[8..], ["8000", "100", "-"]);
        let words = fault(&ACTS[0], &round, &Verdict { doubled: 1, ..Verdict::default() }).expect("two faults");
        assert_eq!(words, "10 KB, unsigned: 1 messages doubled, the relay still holds 3 messages");
    }
}
