//! What the kernel has written to the device under a folder: `/proc/diskstats`. In: a folder. Out: octets so far.
//!
//! The device counts everything that reaches it: journal, other files, other programs. So a figure taken from it is an
//! upper bound, and only on a quiet machine a close one.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::Context as _;

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
        let text = std::fs::read_to_string("/proc/diskstats").context("cannot read /proc/diskstats")?;
        Ok(self.sectors_written(&text).map(|sectors| sectors * SECTOR_OCTETS))
    }

    /// Fields of a line: major, minor, name, then reads, merged, sectors, ms, writes, merged, sectors.
    fn sectors_written(self, text: &str) -> Option<u64> {
        text.lines().find_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let major: u64 = fields.next()?.parse().ok()?;
            let minor: u64 = fields.next()?.parse().ok()?;
            let sectors = fields.nth(7)?.parse().ok()?;
            (Device { major, minor } == self).then_some(sectors)
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
        assert_eq!(Device { major: 254, minor: 0 }.sectors_written(text), Some(38_132_320));
        assert_eq!(Device { major: 7, minor: 0 }.sectors_written(text), Some(4));
        assert_eq!(Device { major: 0, minor: 31 }.sectors_written(text), None);
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
