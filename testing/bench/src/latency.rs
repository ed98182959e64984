//! Latency under a load that does not wait for answers: sends keep a timetable, and each message's time counts from when it
//! was due (so a server that stalls is charged for all that had to wait: no coordinated omission). In: a share of the rate
//! that the server sustains. Out: a table.

use crate::measure::Bench;
use crate::relay::Relay;
use crate::round::{Round, Running};
use crate::sink::Sink;
use crate::stats::median;
use crate::table::{Table, figure};
use crate::workload::{Duty, Signing, Workload};

use anyhow::{Context as _, bail};

/// Measures at each share of the rate that was sustained with 100 connections that do wait.
///
/// # Errors
/// A program fails, or a message was lost, doubled or damaged.
pub fn latency(bench: &Bench) -> anyhow::Result<Table> {
    let mut sink = Sink::start(bench.stage, &bench.programs, "latency")?;
    let duty = Duty::Relay(Signing::Unsigned);
    let mut relay = Relay::start(bench.stage, &bench.programs, "latency", duty, Some(sink.address))?;
    let mut table = Table::new(&COLUMNS);
    let peak = rounds(bench, &mut relay, &mut sink, None)?;
    let peak = median(peak.iter().filter_map(|round| round.delivered_per_s)).context("no rate")?;
    for percent in SHARES {
        let rate = (peak * f64::from(percent) / 100.0) as u64;
        let rounds = rounds(bench, &mut relay, &mut sink, Some(rate))?;
        table.row(cells(percent, rate, &rounds));
    }
    relay.stop(bench.stage)?;
    match sink.stop()?.fault(false) {
        Some(fault) => bail!("the latencies are void: {fault}"),
        None => Ok(table),
    }
}

fn rounds(bench: &Bench, relay: &mut Relay, sink: &mut Sink, rate: Option<u64>) -> anyhow::Result<Vec<Round>> {
    let name = rate.map_or("peak".to_owned(), |rate| format!("{rate}/s"));
    let messages = rate.map_or(PEAK_MESSAGES, |rate| rate * SECONDS);
    let work = Workload::relay(SIZE_KIB, Signing::Unsigned, messages);
    let mut rounds = Vec::new();
    for number in 0..=bench.runs {
        eprintln!("latency, {name}: {number} of {}", bench.runs);
        let mut order = work.order(&format!("latency-{}-{number}", rate.unwrap_or_default()));
        order.rate = rate;
        let running = Running::begin(bench.stage, &bench.programs, &bench.clock, relay, Some(sink), &order)?;
        let round = running.finish(relay, Some(sink))?;
        round.ensure_empty()?;
        rounds.push(round);
    }
    rounds.remove(0);
    Ok(rounds)
}

fn cells(percent: u32, rate: u64, rounds: &[Round]) -> Vec<String> {
    let middle = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick));
    vec![
        format!("{percent} % of what is sustained"),
        rate.to_string(),
        figure(middle(|round| round.accepted_per_s), 0),
        figure(middle(|round| round.latency.p50_ms), 2),
        figure(middle(|round| round.latency.p90_ms), 2),
        figure(middle(|round| round.latency.p99_ms), 2),
        figure(middle(|round| round.latency.p999_ms), 2),
        figure(middle(|round| round.latency.max_ms), 2),
        figure(middle(|round| round.cpu_us), 1),
    ]
}

const SHARES: [u32; 4] = [20, 50, 80, 95];
const SIZE_KIB: u32 = 10;
const PEAK_MESSAGES: u64 = 40_000;
/// Length of a run on a timetable.
const SECONDS: u64 = 4;
const COLUMNS: [&str; 9] = [
    "10 KB, 100 connections, open loop",
    "due/s",
    "accepted/s",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "p99.9 ms",
    "max ms",
    "CPU us/msg",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let cells = cells(80, 9000, &[Round::default()]);
        assert_eq!(cells.len(), COLUMNS.len());
        assert_eq!(cells[..2], ["80 % of what is sustained", "9000"]);
    }
}
