//! Ten thousand runs of the whole mail path. A failure prints its seed:
//!
//! - `SIM_SEED=17 cargo test --release -p sim --test seeds -- --nocapture` runs one seed and tells what happened;
//! - `SIM_SEEDS=100000` runs more, `SIM_FIRST=5000` begins elsewhere;
//! - `SIM_STRICT=1` makes the disk forget what a killed process left unsynced.

use sim::{Options, Outcome, Report, run};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn every_promise_is_kept() {
    if let Some(seed) = number("SIM_SEED") {
        return tell(seed);
    }
    let first = number("SIM_FIRST").unwrap_or(0);
    let count = number("SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(first);
    let (report, failures) = (Mutex::new(Report::default()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let outcome = attempt(seed, false);
            if let Some(violation) = outcome.violation {
                failures.lock().expect("no panic here").push((seed, violation));
            }
            report.lock().expect("no panic here").add(&outcome.report);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        (0..threads).for_each(|_| _ = scope.spawn(work));
    });
    let (report, mut failures) = (report.into_inner().expect("done"), failures.into_inner().expect("done"));
    println!("{count} seeds: {report:#?}");
    failures.sort();
    for (seed, violation) in failures.iter().take(20) {
        println!("seed {seed}: {violation}");
    }
    if let Some((seed, _)) = failures.first() {
        panic!(
            "{} of {count} seeds failed; see one: SIM_SEED={seed} cargo test --release -p sim --test seeds -- --nocapture",
            failures.len()
        );
    }
    if count >= SEEDS {
        let mut report = report;
        // Of a week there is a test of its own.
        (report.week_delivered, report.week_expired) = (1, 1);
        assert_eq!(report.below(count), Vec::<(&str, u64)>::new(), "the runs are not hard enough");
    }
}

#[test]
fn a_week_of_retries_takes_seconds_and_ends_each_message_when_it_is_to_end() {
    let mut report = Report::default();
    for seed in 0..WEEKS {
        let outcome = sim::week(seed);
        assert_eq!(outcome.violation, None, "week of seed {seed}");
        report.add(&outcome.report);
    }
    println!("{WEEKS} weeks: {report:#?}");
    let messages = WEEKS * 6 * 24;
    // Some come while the server is down.
    assert!(report.week_delivered + report.week_expired > messages * 9 / 10, "one each hour");
    assert!(report.week_delivered > messages / 4 && report.week_expired > messages / 4, "both happen");
    assert!(report.recovered > 0, "some of it with restarts");
}

#[test]
fn equal_seeds_are_equal_runs() {
    for seed in 0..20 {
        let (a, b) = (attempt(seed, false), attempt(seed, true));
        assert_eq!((a.digest, a.report), (b.digest, b.report), "seed {seed}");
    }
}

/// One seed; a panic of the code under test is a violation too.
fn attempt(seed: u64, trace: bool) -> Outcome {
    let options = Options { trace, strict: number("SIM_STRICT").is_some(), ..Options::default() };
    catch_unwind(AssertUnwindSafe(|| run(seed, options))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        let violation = Some(format!("panic: {}", text.unwrap_or_default()));
        Outcome { violation, report: Report::default(), trace: Vec::new(), digest: 0 }
    })
}

fn tell(seed: u64) {
    let outcome = attempt(seed, true);
    outcome.trace.iter().for_each(|line| println!("{line}"));
    println!("seed {seed}: {:#?}", outcome.report);
    assert_eq!(outcome.violation, None, "seed {seed}");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// Weeks that are run.
const WEEKS: u64 = 8;
/// Seeds of a usual run; unoptimised code gets fewer.
const SEEDS: u64 = if cfg!(debug_assertions) { 1_000 } else { 10_000 };
