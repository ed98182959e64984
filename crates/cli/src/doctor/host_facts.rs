//! What there is to know of the machine: asked of the kernel, of programs that know the clock, and of the disk itself.
//!
//! In: nothing, or a folder. Out: facts for `host`. What cannot be found out is absent, or says why. Bounded: a program has
//! [`PROGRAM_MAX`], a disk [`SYNCS_TIME_MAX`] and one sync more. The folder is left as it was.

use super::host::{ClockState, DiskFacts, Limits, SourceBound};
use nix::sys::resource::{Resource, getrlimit};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Limits of this process and of the kernel.
pub(super) fn limits() -> Limits {
    let numbers = |name: &str| -> Option<Vec<u64>> {
        let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
        text.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
    };
    let one = |name: &str| numbers(name)?.first().copied();
    let ports = numbers("net/ipv4/ip_local_port_range").and_then(|both| Some((*both.first()?, *both.get(1)?)));
    let tracked = one("net/netfilter/nf_conntrack_count").zip(one("net/netfilter/nf_conntrack_max"));
    Limits {
        files_max: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(_, hard)| hard),
        somaxconn: one("net/core/somaxconn"),
        ports,
        tracked,
    }
}

/// Whether a connection may begin at that address.
pub(super) fn begins_at(ip: IpAddr) -> SourceBound {
    match TcpListener::bind((ip, 0)) {
        Ok(_) => SourceBound::Here,
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => SourceBound::Elsewhere,
        Err(error) => SourceBound::Unknown(error.to_string()),
    }
}

/// Whether somebody sets the clock: the one who knows first says it.
pub(super) fn clock() -> ClockState {
    let of_systemd = said_by("timedatectl", &["show", "--property=NTPSynchronized", "--value"]);
    if let Some(state) = of_systemd.and_then(|said| match said.trim() {
        "yes" => Some(ClockState::Synchronised),
        "no" => Some(ClockState::Free),
        _ => None,
    }) {
        return state;
    }
    match said_by("chronyc", &["-c", "tracking"]) {
        // The last field is the state of leap seconds, which it has when it has the time.
        Some(said) if said.trim().ends_with("Not synchronised") => ClockState::Free,
        Some(said) if said.contains(',') => ClockState::Synchronised,
        _ => ClockState::Unknown,
    }
}

/// Times small writes with their syncs in `folder`, and asks how much room it has.
pub(super) fn disk(folder: &Path) -> DiskFacts {
    let syncs = time_syncs(folder).map_err(|error| error.to_string());
    DiskFacts { folder: folder.display().to_string(), syncs, free: store::free(folder).ok() }
}

fn time_syncs(folder: &Path) -> io::Result<Vec<Duration>> {
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    // It has no name any more, whatever comes.
    fs::remove_file(&path)?;
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < SYNCS && began.elapsed() < SYNCS_TIME_MAX {
        let start = Instant::now();
        file.write_all(&[0x55; WRITE_OCTETS])?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    Ok(times)
}

/// What a program says on stdout, if it is there, ends well and in time.
fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let until = Instant::now() + PROGRAM_MAX;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            // One that has ended meanwhile cannot be killed, and is waited for all the same.
            _ = child.kill();
            _ = child.wait();
            return None;
        }
        thread::sleep(POLL);
    }
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes that are timed.
const SYNCS: usize = 50;
const SYNCS_TIME_MAX: Duration = Duration::from_secs(3);
/// A page, as the spool's log writes them.
const WRITE_OCTETS: usize = 4096;
/// A program may take so long.
const PROGRAM_MAX: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_timed_and_left_as_it_was() {
        let folder = tempfile::tempdir().expect("scratch");
        let facts = disk(folder.path());
        assert!(facts.syncs.is_ok_and(|times| !times.is_empty() && times.len() <= SYNCS));
        assert!(facts.free.is_some());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let absent = disk(&folder.path().join("absent"));
        assert!(absent.syncs.is_err() && absent.free.is_none());
    }

    #[test]
    fn programs_have_so_much_time() {
        let began = Instant::now();
        assert_eq!(said_by("sleep", &["60"]), None);
        assert!(began.elapsed() < PROGRAM_MAX * 3);
        assert_eq!(said_by("echo", &["yes"]).as_deref(), Some("yes\n"));
        assert_eq!(said_by("false", &[]), None);
        assert_eq!(said_by("no-such-program-of-anybody", &[]), None);
    }

    #[test]
    fn this_kernel_tells_its_limits() {
        let limits = limits();
        assert!(limits.files_max.is_some_and(|files| files > 0) && limits.somaxconn.is_some(), "{limits:?}");
        assert!(limits.ports.is_some_and(|(first, last)| first < last), "{limits:?}");
    }
}
