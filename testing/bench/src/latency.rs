//! Latency under a load that does not wait for answers: sends keep a timetable, and each message's time counts from when it
//! was due (so a server that stalls is charged for all that had to wait: no coordinated omission). In: a share of the rate
//! that the server sustains. Out: a table.

use crate::load::Load;
use crate::measure::Bench;
use crate::relay::Relay;
use crate::round::{Round, Running};
use crate::sink::Sink;
use crate::stats::{median, spread};
use crate::table::{Table, figure};
use crate::workload::{Duty, Signing, Workload};

use anyhow::{Context as _, bail};

/// Measures at each share of the rate that is sustained on a timetable.
///
/// # Errors
/// A program fails, or a message was lost, doubled or damaged.
pub fn latency(bench: &Bench, share: u64) -> anyhow::Result<Table> {
    let mut sink = Sink::start(bench.stage, &bench.programs, "latency")?;
    let duty = Duty::Relay(Signing::Unsigned);
    let mut relay = Relay::start(bench.stage, &bench.programs, "latency", duty, Some(sink.address))?;
    let mut table = Table::new(&COLUMNS);
    let sustained = sustained(bench, &mut relay, &mut sink, share)?;
    if sustained.is_none() {
        let mut none = vec!["-".to_owned(); COLUMNS.len()];
        none[0] = format!(
            "of the rates down to {:.0} % of the peak none is sustained",
            100.0 * (1.0 - STEP * f64::from(STEPS - 1))
        );
        table.row(none);
    }
    for percent in SHARES.into_iter().filter(|_| sustained.is_some()) {
        let rate = (sustained.unwrap_or_default() * f64::from(percent) / 100.0) as u64;
        let rounds = rounds(bench, &mut relay, &mut sink, Some(rate), share)?;
        table.row(cells(percent, rate, &rounds));
    }
    relay.stop(bench.stage)?;
    match sink.stop()?.fault(false) {
        Some(fault) => bail!("the latencies are void: {fault}"),
        None => Ok(table),
    }
}

/// The highest rate on a timetable that is kept to, looked for downwards from what connections that wait for answers get done.
fn sustained(bench: &Bench, relay: &mut Relay, sink: &mut Sink, share: u64) -> anyhow::Result<Option<f64>> {
    let waiting = rounds(bench, relay, sink, None, share)?;
    let peak = median(waiting.iter().filter_map(|round| round.delivered_per_s)).context("no rate")?;
    for step in 0..STEPS {
        let rate = peak * (1.0 - f64::from(step) * STEP);
        if !is_overload(rate as u64, &rounds(bench, relay, sink, Some(rate as u64), share)?) {
            return Ok(Some(rate));
        }
    }
    Ok(None)
}

/// Whether less is accepted or delivered than was due, by more than the beginning and the end of a run explain: what is accepted
/// and not delivered is a queue that grows.
fn is_overload(due: u64, rounds: &[Round]) -> bool {
    let is_short = |rate: Option<f64>, part: f64| rate.is_none_or(|rate| rate < due as f64 * part);
    is_short(median(rounds.iter().map(|round| round.accepted_per_s)), KEPT) || is_short(delivered(rounds), DELIVERED)
}

fn delivered(rounds: &[Round]) -> Option<f64> {
    median(rounds.iter().filter_map(|round| round.delivered_per_s))
}

fn rounds(
    bench: &Bench,
    relay: &mut Relay,
    sink: &mut Sink,
    rate: Option<u64>,
    share: u64,
) -> anyhow::Result<Vec<Round>> {
    let name = rate.map_or("peak".to_owned(), |rate| format!("{rate}/s"));
    let messages = rate.map_or(PEAK_MESSAGES, |rate| rate * SECONDS);
    let work = Workload::relay(SIZE_KIB, Signing::Unsigned, messages).part(share);
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
    let overload = if is_overload(rate, rounds) { " (overload)" } else { "" };
    let loads: Vec<Load> = rounds.iter().map(|round| round.load).collect();
    vec![
        format!("{percent} % of what is sustained{overload}"),
        rate.to_string(),
        figure(middle(|round| round.accepted_per_s), 0),
        figure(delivered(rounds), 0),
        figure(middle(|round| round.latency.p50_ms), 2),
        figure(middle(|round| round.latency.p90_ms), 2),
        figure(middle(|round| round.latency.p99_ms), 2),
        figure(spread(rounds.iter().map(|round| round.latency.p99_ms)), 0),
        figure(middle(|round| round.latency.p999_ms), 2),
        figure(middle(|round| round.latency.max_ms), 2),
        figure(middle(|round| round.cpu_us), 1),
        figure(middle(|round| round.clock), 2),
        Load::median_of(&loads).words(),
    ]
}

const SHARES: [u32; 4] = [20, 50, 80, 95];
const SIZE_KIB: u32 = 10;
const PEAK_MESSAGES: u64 = 40_000;
/// Length of a run on a timetable.
const SECONDS: u64 = 8;
/// Rates that are tried, each so much of the peak below the one before.
const STEPS: u32 = 11;
const STEP: f64 = 0.05;
/// What of a timetable must be accepted in time.
const KEPT: f64 = 0.99;
/// What of it must be delivered by then: the last of a run come a little later.
const DELIVERED: f64 = 0.97;
const COLUMNS: [&str; 13] = [
    "10 KB, 100 connections, open loop",
    "due/s",
    "accepted/s",
    "delivered/s",
    "p50 ms",
    "p90 ms",
    "p99 ms",
    "spread %",
    "p99.9 ms",
    "max ms",
    "CPU us/msg",
    "clock factor",
    "limited by",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Latency;

    #[test]
    fn a_row_has_a_cell_for_every_column() {
        let timed = |p99_ms| Round {
            accepted_per_s: 8500.0,
            delivered_per_s: Some(8400.0),
            cpu_us: 60.0,
            clock: 1.25,
            latency: Latency { p50_ms: 1.0, p90_ms: 2.0, p99_ms, p999_ms: 5.0, max_ms: 6.0 },
            ..Round::default()
        };
        let cells = cells(80, 9000, &[timed(3.0), timed(4.0)]);
        assert_eq!(cells.len(), COLUMNS.len());
        let want = [
            "80 % of what is sustained (overload)",
            "9000",
            "8500",
            "8400",
            "1.00",
            "2.00",
            "3.50",
            "29",
            "5.00",
            "6.00",
            "60.0",
            "1.25",
        ];
        assert_eq!(cells[..12], want);
        assert!(cells[12].starts_with("too short to tell"), "{}", cells[12]);
        let round =
            |accepted_per_s, delivered| Round { accepted_per_s, delivered_per_s: Some(delivered), ..Round::default() };
        for (accepted, delivered, is) in [(991.0, 971.0, false), (989.0, 1000.0, true), (1000.0, 969.0, true)] {
            assert_eq!(is_overload(1000, &[round(accepted, delivered)]), is, "{accepted}, {delivered}");
        }
        let each_short_once = [round(980.0, 1000.0), round(1000.0, 960.0), round(1000.0, 1000.0)];
        assert!(!is_overload(1000, &each_short_once), "the medians are not");
        assert!(is_overload(1000, &[]), "nothing is known");
    }
}
