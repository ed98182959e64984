//! What the server settles by itself, from what it finds: one line each, said at the start with its reason. Nobody has to tune
//! threads, waits, limits or memory; what stands in the way of more is named.
//!
//! In: numbers of this machine. Out: [`Choice`]s. Where a policy or the environment says something else, that holds.

use crate::memory;
use crate::privileges::Files;
use config::EsmtpListener;
use std::fmt;
use std::path::Path;
use std::time::Duration;
use store::{Kind, Linger, MANY};

/// One of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    what: String,
    because: String,
    /// The operator should do something about it.
    short: bool,
}

/// Says them.
pub fn say(choices: &[Choice]) {
    for choice in choices {
        match choice.short {
            true => tracing::warn!("{choice}"),
            false => tracing::info!("{choice}"),
        }
    }
}

impl Choice {
    fn new(what: String, because: String) -> Choice {
        Choice { what, because, short: false }
    }

    fn short(self, short: bool) -> Choice {
        Choice { short, ..self }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.because)
    }
}

/// Threads that do all work of sessions, deliveries and signing, where there are so many cores, and as many again for sessions
/// that come while `few` are open.
pub fn workers(threads: usize, cores: usize, few: usize) -> Choice {
    let because = match threads == cores {
        true => "one for each core; signing needs none of its own".to_owned(),
        false => format!("what affinity, cgroup or KUMO_AVAILABLE_PARALLELISM say; there are {cores} cores"),
    };
    let because = format!("{because}; as many again carry sessions that come while {few} are open");
    Choice::new(format!("{threads} worker threads"), because)
}

/// The limit of open files.
pub fn files(files: Files) -> Choice {
    let because = match files.now > files.before {
        true => format!("the hard limit; {} at the start", files.before),
        false => "the limit this was started with".to_owned(),
    };
    Choice::new(format!("{} open files", files.now), because)
}

/// Bounds what all SMTP listeners together may take by what files there are, so that some are left for deliveries, spool,
/// logs and HTTP; says so if it had to. Those that want less than their share have what they want.
pub fn connections(listeners: &mut [EsmtpListener], files: Files) -> Option<Choice> {
    let kept = (files.now / KEPT_PART).max(FILES_KEPT_MIN);
    let room = usize::try_from(files.now.saturating_sub(kept)).unwrap_or(usize::MAX);
    let all =
        |listeners: &[EsmtpListener]| listeners.iter().fold(0_usize, |sum, l| sum.saturating_add(l.max_connections));
    let wanted = all(listeners);
    if wanted <= room {
        return None;
    }
    let mut modest_first: Vec<&mut EsmtpListener> = listeners.iter_mut().collect();
    modest_first.sort_by_key(|listener| listener.max_connections);
    let (mut left, count) = (room, modest_first.len());
    for (number, listener) in modest_first.into_iter().enumerate() {
        listener.max_connections = listener.max_connections.min(left / (count - number)).max(1);
        left = left.saturating_sub(listener.max_connections);
    }
    let because = format!(
        "of {} open files {kept} are kept for deliveries, spool and logs; listeners may have {wanted} by `max_connections`: \
         raise the limit (LimitNOFILE=)",
        files.now
    );
    Some(Choice::new(format!("{} SMTP connections in at most", all(listeners)), because).short(true))
}

/// Connections of each HTTP listener, where there is one.
pub fn http_connections(listeners: usize, connections_max: usize) -> Option<Choice> {
    let what = format!("{connections_max} connections at once to an HTTP listener");
    (listeners > 0)
        .then(|| Choice::new(what, "a thirty-second of the open files, 64 to 16384; who comes beyond waits".to_owned()))
}

/// How long commits wait for each other.
pub fn commits(kind: Kind, sync: Option<Duration>) -> Choice {
    let Some(sync) = sync else {
        let words = "no sync could be timed here".to_owned();
        let what = match kind {
            Kind::Files => synced_singly(None),
            Kind::Log => "commits wait for each other as on a quick disk".to_owned(),
        };
        return Choice::new(what, words);
    };
    let linger = Linger::for_disk(sync);
    let time = sync.as_secs_f64() * 1e3;
    let lies = sync < SYNC_MIN;
    let because = match lies {
        true => {
            format!("a write and its sync take {time:.4} ms here: a disk cannot be so quick, a power cut may lose mail")
        }
        false => format!("a write and its sync take {time:.2} ms here"),
    };
    let what = match kind {
        Kind::Files => synced_singly(Some(sync)),
        Kind::Log => format!(
            "a commit waits up to {} ms for as many as shared the last and for messages being made ready, {} ms after {MANY} or more",
            linger.few.as_millis(),
            linger.many.as_millis()
        ),
    };
    Choice::new(what, because).short(lies)
}

/// What a spool of one file per message does.
fn synced_singly(sync: Option<Duration>) -> String {
    format!("each message is synced by itself, by {} threads", store::threads_for(sync))
}

/// Octets of the spool's files.
pub fn segments(segment_octets: u32, disk_octets: u64) -> Choice {
    let because = format!("the file system has {}", octets(disk_octets));
    Choice::new(format!("spool files of {}", octets(u64::from(segment_octets))), because)
}

/// What may be in memory.
pub fn memory(found: &memory::Found, resident_octets_max: usize) -> Choice {
    let limit = found.limits.hard.map_or("no known limit".to_owned(), octets);
    let resident = octets(resident_octets_max as u64);
    Choice::new(format!("{limit} of memory, content of waiting mail up to {resident}"), found.source_words())
}

/// Connections the kernel holds until they are accepted.
pub fn backlog(wanted: u32, somaxconn: Option<u32>) -> Choice {
    let held = somaxconn.unwrap_or(wanted).min(wanted);
    let because = match held < wanted {
        true => "net.core.somaxconn; clients beyond it that come at one moment try again a second later".to_owned(),
        false => "enough for thousands of clients at one moment".to_owned(),
    };
    Choice::new(format!("{held} connections may wait to be accepted"), because).short(held < BACKLOG_LOW)
}

/// Connections that can go out to one port of one host.
pub fn local_ports(range: Option<(u32, u32)>) -> Option<Choice> {
    let (low, high) = range?;
    let because = format!("net.ipv4.ip_local_port_range is {low} to {high}");
    let what = format!("{} connections at once to one host from one address", (high + 1).saturating_sub(low));
    Some(Choice::new(what, because))
}

/// The kernel's setting in this file of `/proc/sys`, first number and second, if it has one.
pub fn sysctl(name: &str) -> Option<(u32, Option<u32>)> {
    let text = std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next().flatten()))
}

/// Such as `64 MiB`.
fn octets(count: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.into_iter().find(|(_, shift)| count >> shift > 0);
    unit.map_or_else(
        || format!("{count} octets"),
        |(name, shift)| {
            let whole = count as f64 / (1_u64 << shift) as f64;
            let text = format!("{whole:.1}");
            format!("{} {name}", text.strip_suffix(".0").unwrap_or(&text))
        },
    )
}

/// Of the open files, the part that no listener gets, and the least of it.
const KEPT_PART: u64 = 8;
const FILES_KEPT_MIN: u64 = 256;
/// A sync that is quicker than this wrote nothing to any disk.
const SYNC_MIN: Duration = Duration::from_micros(3);
/// A backlog that two thousand clients overflow.
const BACKLOG_LOW: u32 = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use config::MemoryLimits;
    use serde_json::json;

    #[test]
    fn each_says_what_and_why() {
        let says = |choice: Choice| choice.to_string();
        assert_eq!(
            says(workers(2, 2, 128)),
            "2 worker threads: one for each core; signing needs none of its own; as many again carry sessions that come while 128 are open"
        );
        assert!(says(workers(2, 64, 9)).contains("cgroup") && says(workers(64, 2, 9)).contains("there are 2 cores;"));
        assert_eq!(
            says(files(Files { before: 1024, now: 1 << 20 })),
            "1048576 open files: the hard limit; 1024 at the start"
        );
        assert_eq!(says(segments(64 << 20, 252 << 30)), "spool files of 64 MiB: the file system has 252 GiB");
        assert_eq!(octets(2_684_354_560), "2.5 GiB");
        let found =
            memory::found().expect("limits").with(MemoryLimits { hard: Some(8 << 30), ..MemoryLimits::default() });
        let memory = says(memory(&found, 2 << 30));
        assert!(memory.starts_with("8 GiB of memory, content of waiting mail up to 2 GiB: "), "{memory}");
        assert_eq!(
            local_ports(Some((32768, 60999))).map(|c| c.what).as_deref(),
            Some("28232 connections at once to one host from one address")
        );
        assert_eq!(local_ports(None), None);
        assert_eq!(http_connections(0, 64), None);
        let http = says(http_connections(1, 64).expect("there is one"));
        assert!(http.starts_with("64 connections at once to an HTTP listener: a thirty-second"), "{http}");
        assert!(sysctl("net/core/somaxconn").is_some() && sysctl("no/such").is_none());
    }

    #[test]
    fn what_is_too_little_is_a_warning() {
        assert!(backlog(8192, Some(128)).short && !backlog(8192, Some(4096)).short && !backlog(8192, None).short);
        assert_eq!(backlog(8192, Some(128)).what, "128 connections may wait to be accepted");
        let choice = commits(Kind::Log, Some(Duration::from_micros(92)));
        assert!(!choice.short);
        assert!(
            choice.to_string().ends_with("4 ms after 8 or more: a write and its sync take 0.09 ms here"),
            "{choice}"
        );
        let choice = commits(Kind::Log, Some(Duration::from_nanos(900)));
        assert!(choice.short && choice.to_string().contains("power cut"), "{choice}");
        assert!(commits(Kind::Log, None).to_string().contains("no sync could be timed"));
        assert!(commits(Kind::Files, Some(Duration::from_millis(1))).what.contains("by itself, by 40 threads"));
        assert!(commits(Kind::Files, None).what.contains("by 64 threads"));
    }

    #[test]
    fn listeners_leave_files_to_others() {
        let listener = |max: usize| {
            let options = json!({"listen": "127.0.0.1:0", "max_connections": max});
            config::parse::<EsmtpListener>("kumo.start_esmtp_listener", options).expect("sound")
        };
        let mut enough = [listener(100), listener(400)];
        assert_eq!(connections(&mut enough, Files { before: 1024, now: 1024 }), None);
        let mut many = [listener(32_768), listener(100), listener(usize::MAX)];
        let choice = connections(&mut many, Files { before: 1024, now: 4096 }).expect("too few");
        assert!(choice.short && choice.to_string().starts_with("3584 SMTP connections in at most: "), "{choice}");
        assert_eq!(many.map(|listener| listener.max_connections), [1742, 100, 1742]);
        let mut none_left = [listener(9), listener(9)];
        let choice = connections(&mut none_left, Files { before: 64, now: 64 }).expect("too few");
        assert!(choice.to_string().starts_with("2 SMTP connections in at most: "), "{choice}");
        assert_eq!(connections(&mut [], Files { before: 64, now: 64 }), None);
    }
}
