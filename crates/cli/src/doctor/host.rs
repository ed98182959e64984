//! What is judged of the machine: its addresses, limits of the kernel, clock, disk.
//!
//! In: facts, as `host_facts` gathers them. Out: findings. Pure.

use super::finding::Finding;
use core::time::Duration;
use std::net::IpAddr;
use store::Free;

/// Limits of this process and of the kernel; what is not told is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Files a process may have open, at most.
    pub files_max: Option<u64>,
    pub somaxconn: Option<u64>,
    /// First and last local port for connections out.
    pub ports: Option<(u64, u64)>,
    /// Connections that the firewall tracks, and how many it can.
    pub tracked: Option<(u64, u64)>,
}

/// Whether somebody sets the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockState {
    Synchronised,
    Free,
    /// Nobody here knows.
    Unknown,
}

/// What a folder's disk can do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DiskFacts {
    pub folder: String,
    /// Times of small writes, each with its sync; or why there are none.
    pub syncs: Result<Vec<Duration>, String>,
    pub free: Option<Free>,
}

/// What the system says of an address that mail is to be sent from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourceBound {
    Here,
    Elsewhere,
    Unknown(String),
}

/// A `source_address`: without it on this host nothing goes by that source.
pub(super) fn source(ip: IpAddr, found: &SourceBound) -> Finding {
    match found {
        SourceBound::Here => Finding::ok("source", ip, "an address of this host"),
        SourceBound::Elsewhere => Finding::problem(
            "source",
            ip,
            "no address of this host: what is to be sent from it waits",
            "give it to an interface (ip address add), or correct source_address in sources.toml",
        ),
        SourceBound::Unknown(why) => {
            Finding::warning("source", ip, format!("whether this host has it is not known: {why}"), "ask again later")
        }
    }
}

/// Limits.
pub(super) fn limits(limits: &Limits) -> Vec<Finding> {
    let check = "limits";
    let mut found = Vec::new();
    if let Some(files) = limits.files_max {
        let what = format!("{files} at most; each session, delivery and spool file is one");
        let fix = "LimitNOFILE=1048576 in the unit (the package's has it), or `ulimit -Hn` where it is started by hand";
        found.push(match files < FILES_MIN {
            true => Finding::warning(check, "open files", what, fix),
            false => Finding::ok(check, "open files", what),
        });
    }
    if let Some(held) = limits.somaxconn {
        let what = format!("{held} connections may wait to be accepted (net.core.somaxconn)");
        found.push(match held < SOMAXCONN_MIN {
            true => Finding::warning(check, "backlog", what, SYSCTL),
            false => Finding::ok(check, "backlog", what),
        });
    }
    if let Some((first, last)) = limits.ports {
        let count = (last + 1).saturating_sub(first);
        let what = format!("{count} connections at once to one host from one address (net.ipv4.ip_local_port_range)");
        found.push(match count < PORTS_MIN {
            true => Finding::warning(check, "local ports", what, SYSCTL),
            false => Finding::ok(check, "local ports", what),
        });
    }
    if let Some((now, most)) = limits.tracked {
        let what = format!("the firewall tracks {now} connections of {most} (net.netfilter.nf_conntrack_max)");
        found.push(match (now.saturating_mul(4) >= most.saturating_mul(3), most < TRACKED_MIN) {
            (true, _) => Finding::problem(check, "tracking", format!("{what}: soon new ones are dropped"), SYSCTL),
            (false, true) => Finding::warning(check, "tracking", what, SYSCTL),
            (false, false) => Finding::ok(check, "tracking", what),
        });
    }
    found
}

/// The clock: signatures, tokens, retries and log records go by it.
pub(super) fn clock(state: ClockState) -> Finding {
    let (check, subject) = ("clock", "this machine");
    let fix = "apt-get install chrony, or `timedatectl set-ntp true`; in a container the host keeps the time";
    match state {
        ClockState::Synchronised => Finding::ok(check, subject, "set by time servers"),
        ClockState::Free => {
            Finding::problem(check, subject, "nobody sets it: signatures and tokens are dated by it", fix)
        }
        ClockState::Unknown => {
            Finding::warning(check, subject, "neither timedatectl nor chronyc tells whether it is set", fix)
        }
    }
}

/// The disk of a spool.
pub(super) fn disk(facts: &DiskFacts) -> Vec<Finding> {
    let mut found = vec![sync(&facts.folder, &facts.syncs)];
    if let Some(free) = &facts.free {
        let what = format!(
            "{:.0} % of its octets and {:.0} % of its inodes are free",
            free.octets_percent, free.inodes_percent
        );
        let least = free.octets_percent.min(free.inodes_percent);
        let fix = "make room, or move the spool: below 10 % no mail is taken unless min_free_space says otherwise";
        found.push(match least {
            _ if least < FREE_PERCENT_LOW => Finding::problem("disk", &facts.folder, what, fix),
            _ if least < FREE_PERCENT_SOON => Finding::warning("disk", &facts.folder, what, fix),
            _ => Finding::ok("disk", &facts.folder, what),
        });
    }
    found
}

fn sync(folder: &str, syncs: &Result<Vec<Duration>, String>) -> Finding {
    let mut times = match syncs {
        Ok(times) if !times.is_empty() => times.clone(),
        Ok(_) => return Finding::warning("disk", folder, "no sync could be timed", "try again"),
        Err(why) => {
            return Finding::problem(
                "disk",
                folder,
                format!("nothing can be written: {why}"),
                "mend its rights, or name it with --spool",
            );
        }
    };
    times.sort_unstable();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let what = format!(
        "a small write and its sync take {:.3} ms, the slowest of {} {:.1} ms",
        ms(median),
        times.len(),
        ms(worst)
    );
    if median < SYNC_LIES {
        let what = format!("{what}: no disk is so quick, a power cut may lose mail");
        let fix = "a spool belongs on a disk: not on tmpfs, not behind eatmydata or a cache without a battery; `postrider selftest --power-cut` proves it";
        return Finding::problem("disk", folder, what, fix);
    }
    let fix = "a disk with power-loss protection syncs in microseconds; until then many sessions share each sync, and a single one waits";
    match median {
        _ if median > SYNC_BAD => Finding::problem("disk", folder, what, fix),
        _ if median > SYNC_SLOW => Finding::warning("disk", folder, what, fix),
        _ => Finding::ok("disk", folder, what),
    }
}

/// What the settings of the kernel need.
const SYSCTL: &str = "cp /usr/share/postrider/60-postrider.conf /etc/sysctl.d/ && sysctl --system (or the value alone)";
/// Below, a busy server runs out of files.
const FILES_MIN: u64 = 65_536;
/// Below, two thousand clients at one moment are too many.
const SOMAXCONN_MIN: u64 = 2048;
/// Below, a smart host or proxy can be too far.
const PORTS_MIN: u64 = 20_000;
/// Below, a busy server fills the firewall's table.
const TRACKED_MIN: u64 = 131_072;
/// Quicker than this, nothing was written to any disk.
const SYNC_LIES: Duration = Duration::from_micros(3);
/// A spinning disk; above it, one that is busy or far away.
const SYNC_SLOW: Duration = Duration::from_millis(10);
const SYNC_BAD: Duration = Duration::from_millis(100);
/// Where KumoMTA's default (`min_free_space`) turns mail away.
const FREE_PERCENT_LOW: f64 = 10.0;
const FREE_PERCENT_SOON: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{self, Ok as Well, Problem, Warning};
    use super::*;

    fn verdicts(found: &[Finding]) -> Vec<Verdict> {
        assert!(found.iter().all(|finding| (finding.verdict == Well) == finding.fix.is_none()), "{found:?}");
        found.iter().map(|finding| finding.verdict).collect()
    }

    #[test]
    fn mail_is_sent_from_addresses_of_this_host() {
        let judged = [SourceBound::Here, SourceBound::Elsewhere, SourceBound::Unknown("why".to_owned())];
        let judged = judged.map(|found| source(IpAddr::from([192, 0, 2, 1]), &found));
        assert_eq!(verdicts(&judged), [Well, Problem, Warning]);
    }

    #[test]
    fn limits_have_a_floor() {
        let enough = Limits {
            files_max: Some(65_536),
            somaxconn: Some(2048),
            ports: Some((32_768, 60_999)),
            tracked: Some((100, 131_072)),
        };
        assert_eq!(verdicts(&limits(&enough)), [Well; 4]);
        let few = Limits {
            files_max: Some(65_535),
            somaxconn: Some(2047),
            ports: Some((50_000, 60_999)),
            tracked: Some((100, 131_071)),
        };
        assert_eq!(verdicts(&limits(&few)), [Warning; 4]);
        let full = Limits { tracked: Some((150_000, 200_000)), ..Limits::default() };
        assert_eq!(verdicts(&limits(&full)), [Problem]);
        assert_eq!(limits(&Limits::default()), [], "what is not told is not judged");
    }

    #[test]
    fn a_clock_is_set_by_somebody() {
        let judged = [ClockState::Synchronised, ClockState::Free, ClockState::Unknown].map(clock);
        assert_eq!(verdicts(&judged), [Well, Problem, Warning]);
    }

    #[test]
    fn a_disk_is_neither_slow_nor_too_quick() {
        let judged = |micros: &[u64]| {
            let syncs = Ok(micros.iter().map(|micros| Duration::from_micros(*micros)).collect());
            verdicts(&disk(&DiskFacts { folder: "/s".to_owned(), syncs, free: None }))
        };
        assert_eq!(judged(&[90, 80, 70_000]), [Well], "the median counts");
        assert_eq!(judged(&[1, 2, 900]), [Problem]);
        assert_eq!(judged(&[10_000]), [Well]);
        assert_eq!(judged(&[10_001]), [Warning]);
        assert_eq!(judged(&[100_001]), [Problem]);
        assert_eq!(judged(&[]), [Warning]);
        let refused = DiskFacts { folder: "/s".to_owned(), syncs: Err("EACCES".to_owned()), free: None };
        assert_eq!(verdicts(&disk(&refused)), [Problem]);
    }

    #[test]
    fn a_disk_has_room() {
        let judged = |octets_percent, inodes_percent| {
            let free = Free { octets: 1, octets_total: 1, octets_percent, inodes: 1, inodes_total: 1, inodes_percent };
            let syncs = Ok(vec![Duration::from_micros(90)]);
            verdicts(&disk(&DiskFacts { folder: "/s".to_owned(), syncs, free: Some(free) }))[1]
        };
        assert_eq!(judged(20.0, 100.0), Well);
        assert_eq!(judged(19.9, 100.0), Warning);
        assert_eq!(judged(50.0, 9.9), Problem);
    }
}
