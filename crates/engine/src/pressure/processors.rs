//! How busy processors are: looked at every few seconds, for the gauges of [`MachineUse`].
//!
//! In: `/proc/stat` and `/proc/self/stat`, both in the kernel's own ticks, so that no clock is needed: what all processors spent between two
//! looks is the time that passed, times their number. Out: how many of them were busy. A system that does not tell has gauges of 0.

use std::fs;
use std::time::Duration;
use telemetry::MachineUse;
use tokio::time::MissedTickBehavior;

/// What was spent so far, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spent {
    /// By this process.
    process: u64,
    /// By everybody.
    busy: u64,
    /// By everybody, and doing nothing.
    all: u64,
    /// On so many processors.
    cores: u32,
}

/// Looks at the processors again and again, and fills the gauges; never returns.
pub(crate) async fn watch(gauges: &MachineUse) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = None;
    loop {
        ticks.tick().await;
        let now = look();
        if let Some((busy, cores)) = before.zip(now).and_then(|(before, now)| between(before, now)) {
            let [process, system] = busy;
            gauges.set_busy(process, system, cores);
        }
        before = now.or(before);
    }
}

fn look() -> Option<Spent> {
    let text = |path| fs::read_to_string(path).ok();
    read(&text("/proc/stat")?, &text("/proc/self/stat")?)
}

/// The kernel's files, read (proc(5)).
fn read(system: &str, process: &str) -> Option<Spent> {
    let of_all = system.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // Time of guests is in that of users already.
    let ticks: Vec<u64> = of_all.split_whitespace().take(KINDS).filter_map(|number| number.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.get(IDLE)? + ticks.get(IO_WAIT)?;
    let is_core =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let cores = u32::try_from(system.lines().filter(is_core).count()).ok()?;
    // The name of the program may hold spaces and brackets of its own.
    let (_, behind_name) = process.rsplit_once(") ")?;
    let mut own = behind_name.split_whitespace().skip(OWN_SKIPPED).map(|number| number.parse::<u64>().ok());
    let process = own.next()?? + own.next()??;
    Some(Spent { process, busy: all - idle, all, cores })
}

/// How many processors were busy between two looks, with this process and with everybody, and how many there are.
fn between(before: Spent, now: Spent) -> Option<([f64; 2], u32)> {
    let passed = now.all.saturating_sub(before.all);
    let share = |ticks: u64| ticks as f64 * f64::from(now.cores) / passed as f64;
    let spent = [now.process.saturating_sub(before.process), now.busy.saturating_sub(before.busy)];
    (passed > 0).then(|| (spent.map(share), now.cores))
}

/// Between two looks (KumoMTA's).
const INTERVAL: Duration = Duration::from_secs(3);
/// Numbers of a line of `/proc/stat` that count: user, nice, system, idle, iowait, irq, softirq, steal.
const KINDS: usize = 8;
const IDLE: usize = 3;
const IO_WAIT: usize = 4;
/// Fields of `/proc/self/stat` between the name and `utime`, `stime`.
const OWN_SKIPPED: usize = 11;

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = "cpu  100 10 50 800 40 3 7 0 9 9\ncpu0 50 5 25 400 20 1 3 0 4 4\ncpu1 50 5 25 400 20 2 4 0 5 5\n\
        intr 1 2 3\nctxt 9\n";
    const PROCESS: &str = "7 (a ) b) S 1 7 7 0 -1 4194560 1 0 0 0 60 30 0 0 20 0 4 0 100 0 0\n";

    #[test]
    fn the_kernels_files_are_read_as_it_writes_them() {
        let expected = Spent { process: 90, busy: 170, all: 1010, cores: 2 };
        assert_eq!(read(SYSTEM, PROCESS), Some(expected));
        assert_eq!(
            (read("nothing\n", PROCESS), read(SYSTEM, "7 name S 1\n"), read("cpu 1 2\n", PROCESS)),
            (None, None, None)
        );
        assert!(look().is_some_and(|spent| spent.cores > 0 && spent.busy > 0), "this machine's");
    }

    #[test]
    fn what_was_spent_between_two_looks_is_so_many_busy_processors() {
        let before = Spent { process: 90, busy: 170, all: 1010, cores: 2 };
        // Two processors for 300 ticks: one was busy all the time, half of it with this process.
        let now = Spent { process: 240, busy: 470, all: 1610, cores: 2 };
        assert_eq!(between(before, now), Some(([0.5, 1.0], 2)));
        assert_eq!(between(now, now), None, "no time has passed");
        assert_eq!(between(now, before), None, "nor back");
    }
}
