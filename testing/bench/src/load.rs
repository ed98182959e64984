//! How busy the machine was during a run, and with whom: what limited the run. In: `/proc/stat`, `/proc/diskstats`, the
//! programs' own CPU time. Out: shares in percent, and words.

use anyhow::Context as _;

use crate::disk_stat::Device;
use crate::stats::median;

/// Counters of the machine at one moment.
#[derive(Debug, Clone)]
pub struct Machine {
    busy_ticks: u64,
    /// Of each core.
    core_ticks: Vec<u64>,
    disk_busy_ms: Option<u64>,
    disk_octets: Option<u64>,
}

/// CPU time of the programs of a run, in microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    /// Of the server.
    pub server_us: f64,
    /// Of the generator.
    pub generator_us: f64,
    /// Of the sink.
    pub sink_us: f64,
}

/// Shares of a run, in percent: of all cores' time, or of the disk's.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// How long it was.
    pub seconds: f64,
    /// Cores at work, for whomever.
    pub cores: f64,
    /// The busiest of them, of its own time.
    pub busiest: f64,
    /// The server's part of the cores.
    pub server: f64,
    /// The generator's.
    pub generator: f64,
    /// The sink's.
    pub sink: f64,
    /// Time in which the disk had something to do.
    pub disk: f64,
    /// MiB written to the disk a second.
    pub disk_mib_s: f64,
}

impl Machine {
    /// Reads them.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn read(device: Device) -> anyhow::Result<Machine> {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let busy_ticks = busy_ticks(&stat, "cpu ").context("/proc/stat: no line of all processors")?;
        let core_ticks = (0..CORES_MAX).filter_map(|core| self::busy_ticks(&stat, &format!("cpu{core} "))).collect();
        let disk = device.counts()?;
        Ok(Machine {
            busy_ticks,
            core_ticks,
            disk_busy_ms: disk.map(|disk| disk.busy_ms),
            disk_octets: disk.map(|disk| disk.octets_written),
        })
    }

    /// Octets written to the device since the machine started.
    pub fn disk_octets(&self) -> Option<u64> {
        self.disk_octets
    }

    /// What was at work from then to now on so many cores, as shares of the `seconds` of the run itself. Between the two
    /// readings is a little more, in which the programs have nothing to do: the sink's ledger is waited for.
    pub fn since(&self, earlier: &Machine, spent: Spent, cores: usize, seconds: f64) -> Load {
        let seconds = seconds.max(1e-6);
        let all_us = seconds * 1e6 * cores as f64;
        let share = |us: f64| us * 100.0 / all_us;
        let busy = self.busy_ticks.saturating_sub(earlier.busy_ticks) as f64 * TICK_US;
        let change = |now: Option<u64>, then: Option<u64>| {
            now.zip(then).map_or(0.0, |(now, then)| now.saturating_sub(then) as f64)
        };
        let each = self.core_ticks.iter().zip(&earlier.core_ticks);
        let busiest = each.map(|(now, then)| now.saturating_sub(*then)).max().unwrap_or_default() as f64 * TICK_US;
        Load {
            seconds,
            cores: share(busy).min(100.0),
            busiest: (busiest * 100.0 / (seconds * 1e6)).min(100.0),
            server: share(spent.server_us),
            generator: share(spent.generator_us),
            sink: share(spent.sink_us),
            disk: (change(self.disk_busy_ms, earlier.disk_busy_ms) / 10.0 / seconds).min(100.0),
            disk_mib_s: change(self.disk_octets, earlier.disk_octets) / MIB / seconds,
        }
    }
}

impl Load {
    /// The middle of each share.
    pub fn median_of(loads: &[Load]) -> Load {
        let middle = |pick: fn(&Load) -> f64| median(loads.iter().map(pick)).unwrap_or_default();
        Load {
            seconds: middle(|load| load.seconds),
            cores: middle(|load| load.cores),
            busiest: middle(|load| load.busiest),
            server: middle(|load| load.server),
            generator: middle(|load| load.generator),
            sink: middle(|load| load.sink),
            disk: middle(|load| load.disk),
            disk_mib_s: middle(|load| load.disk_mib_s),
        }
    }

    /// What limited the run, and the shares that say so.
    pub fn words(&self) -> String {
        let limit = match (self.cores >= SATURATED, self.disk >= SATURATED) {
            (true, false) => "cores",
            (false, true) => "disk",
            (true, true) => "cores and disk",
            (false, false) if self.busiest >= SATURATED => "one core",
            (false, false) => WAITING,
        };
        let Load { seconds, cores, busiest, server, generator, sink, disk, disk_mib_s } = self;
        if *seconds < SECONDS_MIN {
            return format!("too short to tell: {:.0} ms", seconds * 1e3);
        }
        format!(
            "{limit}: cores {cores:.0} % (busiest {busiest:.0}; server {server:.0}, generator {generator:.0}, sink {sink:.0}), \
             disk {disk:.0} % ({disk_mib_s:.0} MiB/s)"
        )
    }
}

/// Ticks at work, of all processors together: of user, nice, system, idle, iowait, irq, softirq, steal, those that are work.
fn busy_ticks(stat: &str, of: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix(of))?;
    let fields: Vec<u64> =
        line.split_ascii_whitespace().take(8).map(|field| field.parse().ok()).collect::<Option<_>>()?;
    let all: u64 = fields.iter().sum();
    let idle = fields.get(3)? + fields.get(4)?;
    let stolen = fields.get(7)?;
    Some(all - idle - stolen)
}

/// What limits a run in which neither cores nor disk are at work all the time.
pub const WAITING: &str = "waiting";
/// Cores that are looked at one by one.
const CORES_MAX: usize = 1024;
/// USER_HZ is 100 on every architecture this is built for.
const TICK_US: f64 = 10_000.0;
const MIB: f64 = 1024.0 * 1024.0;
/// Of a shorter run the ticks say nothing.
const SECONDS_MIN: f64 = 0.1;
/// From this share on something is the limit: what remains is the run's beginning and end.
const SATURATED: f64 = 90.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(busy_ticks: u64, disk_busy_ms: u64, mib: u64) -> Machine {
        let core_ticks = vec![busy_ticks / 2, busy_ticks / 2 - busy_ticks / 39];
        Machine { busy_ticks, core_ticks, disk_busy_ms: Some(disk_busy_ms), disk_octets: Some(mib << 20) }
    }

    #[test]
    fn shares_are_of_all_cores_and_of_the_disk() {
        let spent = Spent { server_us: 2e6, generator_us: 1e6, sink_us: 4e5 };
        let load = at(390, 500, 200).since(&at(0, 100, 0), spent, 2, 2.0);
        let want = Load {
            seconds: 2.0,
            cores: 97.5,
            busiest: 97.5,
            server: 50.0,
            generator: 25.0,
            sink: 10.0,
            disk: 20.0,
            disk_mib_s: 100.0,
        };
        assert_eq!(load, want);
        let words = "cores: cores 98 % (busiest 98; server 50, generator 25, sink 10), disk 20 % (100 MiB/s)";
        assert_eq!(load.words(), words);
        assert!(Load { cores: 50.0, disk: 95.0, ..load }.words().starts_with("disk: "));
        assert!(Load { cores: 50.0, ..load }.words().starts_with("one core: "));
        assert!(Load { cores: 50.0, busiest: 60.0, ..load }.words().starts_with("waiting: "));
        assert_eq!(Load { seconds: 0.0261, ..load }.words(), "too short to tell: 26 ms");
        assert_eq!(Load::median_of(&[Load::default(), load, load]), load);
    }

    #[test]
    fn waiting_and_stolen_time_is_not_work() {
        let stat = "cpu  10 1 5 70 4 2 3 5 0 0\ncpu0 1 1 1 1 1 1 1 1\n";
        assert_eq!((busy_ticks(stat, "cpu "), busy_ticks(stat, "cpu0 ")), (Some(21), Some(5)));
        assert_eq!(busy_ticks("cpu 1 2\n", "cpu "), None);
        assert_eq!(busy_ticks("intr 5\n", "cpu "), None);
    }
}
