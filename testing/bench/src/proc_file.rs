//! What the kernel counts about a process: `/proc/PID/stat` and `/proc/PID/status`. In: a process id. Out: numbers.

use anyhow::Context as _;

/// User and system time of all threads of a process, those that have ended included, in microseconds.
///
/// # Errors
/// There is no such process.
pub fn cpu_us(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = cpu_ticks(&text).with_context(|| format!("{path}: expected 52 fields, found {text:?}"))?;
    Ok(ticks as f64 * TICK_US)
}

/// The largest resident set a process ever had, in KiB.
///
/// # Errors
/// There is no such process.
pub fn peak_rss_kib(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    status_kib(&text, "VmHWM").with_context(|| format!("{path} has no VmHWM"))
}

/// The resident set of a process now, in KiB.
///
/// # Errors
/// There is no such process.
pub fn rss_kib(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    status_kib(&text, "VmRSS").with_context(|| format!("{path} has no VmRSS"))
}

/// Time on a processor so far of every thread alive, by the thread's name, in microseconds.
///
/// # Errors
/// There is no such process.
pub fn thread_cpu_us(pid: u32) -> anyhow::Result<Vec<(String, f64)>> {
    let folder = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    let mut threads = Vec::new();
    for task in tasks {
        let task = task?.path();
        let read = |name: &str| std::fs::read_to_string(task.join(name));
        // A thread may end between the listing and the look.
        let (Ok(name), Ok(spent)) = (read("comm"), read("schedstat")) else { continue };
        let nanoseconds = spent.split(' ').next().and_then(|field| field.parse::<u64>().ok());
        let nanoseconds = nanoseconds.with_context(|| format!("{}: not a schedstat: {spent:?}", task.display()))?;
        threads.push((name.trim_end().to_owned(), nanoseconds as f64 / 1e3));
    }
    Ok(threads)
}

/// utime + stime of a stat line. The command name in parentheses may contain anything, so fields count from the last
/// parenthesis.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Context switches so far of every thread alive: those it asked for by waiting, and those it did not.
///
/// # Errors
/// There is no such process.
pub fn switches(pid: u32) -> anyhow::Result<(f64, f64)> {
    let (mut voluntary, mut involuntary) = (0, 0);
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("no process {pid}"))?;
    for task in tasks {
        // A thread may end while we look.
        let Ok(text) = std::fs::read_to_string(task?.path().join("status")) else { continue };
        voluntary += status_count(&text, "voluntary_ctxt_switches").unwrap_or_default();
        involuntary += status_count(&text, "nonvoluntary_ctxt_switches").unwrap_or_default();
    }
    Ok((voluntary as f64, involuntary as f64))
}

/// A line `name:   123`.
fn status_count(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().parse().ok()
}

/// A line `Name:   123 kB`.
pub fn status_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// A clock tick as user space sees it: USER_HZ is 100 on every architecture this is built for.
const TICK_US: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_cannot_mislead() {
        let stat = "17 (a) b (c)) S 1 17 17 0 -1 4194560 100 0 0 0 250 75 3 4 20 0 1 0 5 6 7 8";
        assert_eq!(cpu_ticks(stat), Some(325));
        assert_eq!(cpu_ticks("17 (x) S 1"), None);
    }

    #[test]
    fn status_lines() {
        let text = "Name:\tkumod\nVmPeak:\t  999 kB\nVmHWM:\t   61440 kB\n";
        assert_eq!(status_kib(text, "VmHWM"), Some(61_440));
        assert_eq!(status_kib(text, "VmSwap"), None);
        let text = "voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let of = |name| status_count(text, name);
        assert_eq!([of("voluntary_ctxt_switches"), of("nonvoluntary_ctxt_switches")], [Some(150), Some(545)]);
    }

    #[test]
    fn this_very_process() {
        let pid = std::process::id();
        assert!(peak_rss_kib(pid).expect("status") > 100);
        assert!(cpu_us(pid).expect("stat") >= 0.0);
        assert!(rss_kib(pid).expect("status") > 100);
        let threads = thread_cpu_us(pid).expect("tasks");
        assert!(threads.iter().any(|(name, us)| !name.is_empty() && *us > 0.0), "{threads:?}");
    }
}
