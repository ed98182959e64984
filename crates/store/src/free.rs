//! How much room a file system has left, for those who decide whether to accept.

use nix::sys::statvfs::statvfs;
use std::io;
use std::path::Path;

/// Room left for unprivileged writers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Free {
    /// Octets.
    pub octets: u64,
    /// Octets there are in all for such writers, used ones among them: what a file system keeps back for root does not
    /// count, as in `df`.
    pub octets_total: u64,
    /// Octets, of all there are.
    pub octets_percent: f64,
    /// Inodes; a file system without a fixed number says `u64::MAX`.
    pub inodes: u64,
    /// Inodes there are in all; 0 where there is no fixed number.
    pub inodes_total: u64,
    /// Inodes, of all there are; 100 where there is no fixed number.
    pub inodes_percent: f64,
}

/// Room left on the file system that holds `path`.
///
/// # Errors
/// The operating system's, as when the path is not there.
pub fn free(path: &Path) -> io::Result<Free> {
    let stat = statvfs(path)?;
    let percent = |part: u64, whole: u64| if whole == 0 { 100.0 } else { part as f64 * 100.0 / whole as f64 };
    let (inodes, all_inodes) = (stat.files_available(), stat.files());
    let used = stat.blocks().saturating_sub(stat.blocks_free());
    let all_blocks = used.saturating_add(stat.blocks_available());
    Ok(Free {
        octets: stat.blocks_available().saturating_mul(stat.fragment_size()),
        octets_total: all_blocks.saturating_mul(stat.fragment_size()),
        octets_percent: percent(stat.blocks_available(), all_blocks),
        inodes: if all_inodes == 0 { u64::MAX } else { inodes },
        inodes_total: all_inodes,
        inodes_percent: percent(inodes, all_inodes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_room_and_a_missing_one_is_an_error() {
        let room = free(Path::new("/")).expect("the root is there");
        assert!(room.octets > 0 && room.octets_percent > 0.0 && room.octets_percent <= 100.0, "{room:?}");
        assert!(room.inodes_percent > 0.0 && room.inodes_percent <= 100.0, "{room:?}");
        assert!(free(Path::new("/no/such/place")).is_err());
    }
}
