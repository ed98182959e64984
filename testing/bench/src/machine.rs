//! What a figure was measured on: processor, memory, disk, kernel, revision. In: `/proc`, the scratch folder, git.
//! Out: words for a table. A fact that cannot be had is `unknown`; only the disk is needed, to refuse one in memory.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;

use crate::proc_file::status_kib;
use crate::stats::median;

/// Facts in the order they are shown.
pub struct Facts(Vec<(&'static str, String)>);

impl Facts {
    /// Asks the machine; `work` is a folder on the disk that is measured.
    ///
    /// # Errors
    /// The disk cannot be written or is not known to the kernel.
    pub fn gather(work: &Path) -> anyhow::Result<Facts> {
        let mount = mount_of(work)?;
        let cpu = first_value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown);
        let memory = status_kib(&read("/proc/meminfo"), "MemTotal");
        let memory = memory.map_or_else(unknown, |kib| format!("{:.1} GiB", kib as f64 / 1024.0 / 1024.0));
        let kernel = read("/proc/sys/kernel/osrelease").trim().to_owned();
        let sync_us = sync_us(work)?;
        Ok(Facts(vec![
            ("CPU", cpu),
            ("cores", format!("{}; {}", cores(), instruction_sets(&read("/proc/cpuinfo")))),
            ("memory", memory),
            (
                "disk",
                format!("{} on {}; 4 KiB written and synced in {sync_us:.0} us (median)", mount.kind, mount.device),
            ),
            ("kernel", kernel),
            ("revision", revision()),
        ]))
    }

    /// A line each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|(name, value)| format!("{name}: {value}"))
    }
}

/// The number of cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Where a folder is mounted from.
#[derive(Debug, PartialEq, Eq)]
pub struct Mount {
    /// Such as `/dev/vda1`.
    pub device: String,
    /// Such as `ext4`.
    pub kind: String,
}

/// The mount that holds `folder`, an absolute path without links.
///
/// # Errors
/// The kernel does not say.
pub fn mount_of(folder: &Path) -> anyhow::Result<Mount> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read /proc/self/mounts")?;
    deepest_mount(&mounts, folder).with_context(|| format!("no mount holds {}", folder.display()))
}

/// Of the mounts whose point is above `folder`, the deepest; of equals the last, which hides the others.
fn deepest_mount(mounts: &str, folder: &Path) -> Option<Mount> {
    let mut best: Option<(usize, Mount)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let (Some(device), Some(point), Some(kind)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let point = Path::new(point);
        let depth = point.components().count();
        if folder.starts_with(point) && best.as_ref().is_none_or(|(deepest, _)| depth >= *deepest) {
            best = Some((depth, Mount { device: device.to_owned(), kind: kind.to_owned() }));
        }
    }
    best.map(|(_, mount)| mount)
}

fn sync_us(work: &Path) -> anyhow::Result<f64> {
    let path = work.join("sync-probe");
    let mut file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut samples = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&[b'x'; 4096])?;
        file.sync_data()?;
        samples.push(start.elapsed().as_secs_f64() * 1e6);
    }
    fs::remove_file(&path)?;
    median(samples).context("no samples")
}

fn revision() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) else { return unknown() };
    match git(&["status", "--porcelain"]) {
        Some(changes) if changes.is_empty() => revision,
        _ => format!("{revision} with changes"),
    }
}

/// What hashes and RSA lean on. Where one is missing, the time of a signature says little of the clock.
fn instruction_sets(cpuinfo: &str) -> String {
    let flags = first_value(cpuinfo, "flags").unwrap_or_default();
    let has = |name: &str| flags.split(' ').any(|flag| flag == name);
    let word = |name: &str, flag: &str| format!("{} {name}", if has(flag) { "with" } else { "without" });
    [word("SHA-NI", "sha_ni"), word("AVX-512 IFMA", "avx512ifma")].join(", ")
}

fn first_value(text: &str, name: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Syncs timed; some 10 ms in all on a good disk.
const SYNCS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_last_mount_counts() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/vdb /tmp/x xfs rw 0 0\n\
                      /dev/vdc /tmp/x btrfs rw 0 0\nbroken\n";
        let kind = |folder: &str| deepest_mount(mounts, Path::new(folder)).map(|mount| mount.kind);
        assert_eq!(kind("/srv/a").as_deref(), Some("ext4"));
        assert_eq!(kind("/tmp/a").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/tmp/xy").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/tmp/x/y").as_deref(), Some("btrfs"));
    }

    #[test]
    fn facts_of_this_machine() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let work = folder.path().canonicalize().expect("there");
        let lines: Vec<String> = Facts::gather(&work).expect("facts").lines().collect();
        assert_eq!(lines.len(), 6);
        assert!(lines[1].starts_with("cores: ") && lines[1].contains("SHA-NI"), "{lines:?}");
        assert_eq!(instruction_sets("x : y\nflags\t: fpu sha_ni vme\n"), "with SHA-NI, without AVX-512 IFMA");
        assert_eq!(first_value("vendor\t: a\nmodel name\t: Fast (R)\n", "model name").as_deref(), Some("Fast (R)"));
    }
}
