//! What the kernel has done with the device under a folder: `/proc/diskstats`. In: a folder. Out: octets so far, and time.
//!
//! The device counts everything that reaches it: journal, other files, other programs. So a figure taken from it is an
//! upper bound, and only on a quiet machine a close one.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;

/// Counts of a device since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Octets written to it.
    pub octets_written: u64,
    /// Milliseconds in which it had something to do.
    pub busy_ms: u64,
}

/// A block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    major: u64,
    minor: u64,
}

impl Device {
    /// The device `folder` lies on.
    ///
    /// # Errors
    /// There is no such folder.
    pub fn of(folder: &Path) -> anyhow::Result<Device> {
        let found = std::fs::metadata(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
        Ok(Device { major: nix::sys::stat::major(found.dev()), minor: nix::sys::stat::minor(found.dev()) })
    }

    /// Octets written to it since the machine started; nothing when the kernel does not count this one (a file system
    /// without a device of its own).
    ///
    /// # Errors
    /// There are no counts at all.
    pub fn octets_written(self) -> anyhow::Result<Option<u64>> {
        Ok(self.counts()?.map(|counts| counts.octets_written))
    }

    /// All counts; nothing when the kernel does not count this one.
    ///
    /// # Errors
    /// There are no counts at all.
    pub fn counts(self) -> anyhow::Result<Option<Counts>> {
        let text = std::fs::read_to_string("/proc/diskstats").context("cannot read /proc/diskstats")?;
        Ok(self.line_of(&text))
    }

    /// Fields of a line: major, minor, name, then reads, merged, sectors, ms, writes, merged, sectors, ms, in flight, ms.
    fn line_of(self, text: &str) -> Option<Counts> {
        text.lines().find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let major: u64 = fields.next()?.parse().ok()?;
            let minor: u64 = fields.next()?.parse().ok()?;
            let sectors: u64 = fields.nth(7)?.parse().ok()?;
            let busy_ms = fields.nth(2)?.parse().ok()?;
            (Device { major, minor } == self).then_some(Counts { octets_written: sectors * SECTOR_OCTETS, busy_ms })
        })
    }
}

/// The unit of the counts, whatever the device's own is.
const SECTOR_OCTETS: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_device() {
        let text = "   7       0 loop0 54 0 2100 4 6 0 4 10 0 12 25 0 0 0 0 6 10\nbroken\n \
                    254       0 vda 66675 11136 14880282 60037 14469 94399 38132320 221123 0 23992 283503 1 2 3 4 5 6\n";
        let of = |major, minor| Device { major, minor }.line_of(text).map(|of| (of.octets_written, of.busy_ms));
        assert_eq!(of(254, 0), Some((38_132_320 * 512, 23_992)));
        assert_eq!(of(7, 0), Some((4 * 512, 12)));
        assert_eq!(of(0, 31), None);
    }

    #[test]
    fn a_synced_write_is_counted() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("scratch folder");
        let device = Device::of(folder.path()).expect("a device");
        let Some(before) = device.octets_written().expect("counts") else { return };
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 1 << 20]).expect("written");
        std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("synced");
        let after = device.octets_written().expect("counts").expect("as before");
        assert!(after >= before + (1 << 20), "{before} {after}");
    }
}
