//! The log reserve: space set aside while there is plenty, given to the log when the disk is full.
//!
//! A full disk is when an operator needs the log most. Each log directory keeps one hidden file of real blocks
//! (never a hole). When a write meets "no space", the file goes and the write goes on; the
//! file is made again once the file system has room for it twice over. What fails here costs the reserve, never the log.
//!
//! Deliberately absent: refusing mail when space gets short (engine), deleting old segments.

use nix::fcntl::posix_fallocate;
use nix::sys::statvfs::statvfs;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The reserve of one log directory.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    /// The file is there.
    kept: bool,
    /// When it may be made again.
    next_try: Instant,
    complained: bool,
}

impl Reserve {
    /// Takes over the reserve in `dir`, or makes one when there is room.
    pub fn of(dir: &Path, now: Instant) -> Reserve {
        let path = dir.join(NAME);
        let mut reserve = Reserve { kept: false, path, next_try: now, complained: false };
        reserve.tend(now);
        reserve
    }

    /// True when the file is missing and it is time to look whether it can be made.
    pub fn is_due(&self, now: Instant) -> bool {
        !self.kept && now >= self.next_try
    }

    /// How long the reserve needs no look; `None` while it is there.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        (!self.kept).then(|| self.next_try.saturating_duration_since(now))
    }

    /// Makes the file if it is due and there is room for it twice over.
    pub fn tend(&mut self, now: Instant) {
        if !self.is_due(now) {
            return;
        }
        self.next_try = now + RETRY_INTERVAL;
        match self.make() {
            Ok(made) => self.kept = made,
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    tracing::warn!("{}: no space can be reserved for the log: {error}", self.path.display());
                }
            }
        }
    }

    /// Gives the space away; true when there is more of it now.
    pub fn release(&mut self, now: Instant) -> bool {
        self.next_try = now + RETRY_INTERVAL;
        if !std::mem::replace(&mut self.kept, false) {
            return false;
        }
        match fs::remove_file(&self.path) {
            Ok(()) => {
                tracing::warn!("{}: the disk is full: the log goes on in its reserve", self.path.display());
                true
            }
            // Another logger of the same directory was quicker: what it freed serves both.
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            Err(error) => {
                tracing::error!("{}: cannot give the reserve away: {error}", self.path.display());
                false
            }
        }
    }

    fn make(&self) -> io::Result<bool> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let room = statvfs(dir)?;
        let unit = room.fragment_size();
        let wanted = octets_wanted(room.blocks().saturating_mul(unit), OCTETS_MAX);
        if fs::metadata(&self.path).is_ok_and(|found| found.len() >= wanted) {
            return Ok(true);
        }
        if !has_room(room.blocks_available().saturating_mul(unit), wanted) {
            return Ok(false);
        }
        self.allocate(wanted).map(|()| true).inspect_err(|_| {
            // Half a reserve is none; that it could not be removed either adds nothing to the error.
            let _ = fs::remove_file(&self.path);
        })
    }

    fn allocate(&self, octets: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&self.path)?;
        Ok(posix_fallocate(&file, 0, i64::try_from(octets).unwrap_or(i64::MAX))?)
    }
}

/// The size that something on the file system of `dir` may have that would have `octets_max` on a large one.
///
/// # Errors
/// The system does not tell.
pub(crate) fn share_of(dir: &Path, octets_max: u64) -> io::Result<u64> {
    let room = statvfs(dir)?;
    Ok(octets_wanted(room.blocks().saturating_mul(room.fragment_size()), octets_max))
}

/// The size of a reserve on a file system of `total` octets.
fn octets_wanted(total: u64, octets_max: u64) -> u64 {
    (total / DISK_SHARE).min(octets_max)
}

/// Room for the reserve twice over: making it must not fill the disk again.
fn has_room(available: u64, wanted: u64) -> bool {
    available >= wanted.saturating_mul(2)
}

/// Its name: hidden, so that nothing takes it for a segment.
const NAME: &str = ".postrider-reserve";
/// Octets of a reserve at most.
const OCTETS_MAX: u64 = 8 << 20;
/// A reserve is at most this part of its file system: one in so many.
const DISK_SHARE: u64 = 64;
/// Pause between two looks for room.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_reserve_is_small_beside_its_disk_and_never_large() {
        assert_eq!(octets_wanted(64 << 20, OCTETS_MAX), 1 << 20);
        assert_eq!(octets_wanted(512 << 20, OCTETS_MAX), 8 << 20);
        assert_eq!(octets_wanted((512 << 20) + 64, OCTETS_MAX), 8 << 20);
        assert_eq!(octets_wanted(u64::MAX, OCTETS_MAX), 8 << 20);
        assert!(has_room(2 << 20, 1 << 20) && !has_room((2 << 20) - 1, 1 << 20));
    }

    #[test]
    fn it_is_real_space_that_can_be_given_away_once_and_made_again() {
        let dir = tempfile::tempdir().expect("scratch");
        let now = Instant::now();
        let mut reserve = Reserve::of(dir.path(), now);
        let found = fs::metadata(dir.path().join(NAME)).expect("made");
        assert!(found.len() > 0 && found.blocks() * 512 >= found.len(), "a hole reserves nothing: {found:?}");
        assert!(reserve.release(now), "nothing was given away");
        assert!(!dir.path().join(NAME).exists() && !reserve.release(now), "it cannot be given twice");
        reserve.tend(now);
        assert!(!dir.path().join(NAME).exists(), "made again at once");
        assert_eq!(reserve.time_left(now), Some(RETRY_INTERVAL));
        reserve.tend(now + RETRY_INTERVAL);
        assert!(dir.path().join(NAME).exists() && reserve.time_left(now).is_none());
        assert!(Reserve::of(dir.path(), now).kept, "an earlier process's reserve is taken over");
    }

    #[test]
    fn two_loggers_of_one_directory_share_it() {
        let dir = tempfile::tempdir().expect("scratch");
        let now = Instant::now();
        let (mut one, mut other) = (Reserve::of(dir.path(), now), Reserve::of(dir.path(), now));
        assert!(one.release(now) && other.release(now), "both may go on writing");
        assert!(!one.release(now) && !other.release(now));
    }
}
