//! How long a disk needs for a small write and its sync. In: a directory. Out: a time. The file written never has a name, so
//! that nothing is left behind whatever happens.

use nix::fcntl::OFlag;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// The median time of a write of 4 KiB into room that is there already, and its `fdatasync`: what a commit of the log does.
/// Begins no sample after 50 ms.
///
/// # Errors
/// The operating system's; some file systems have no files without a name.
pub(crate) fn sync_time(dir: &Path) -> io::Result<Duration> {
    let begun = Instant::now();
    let file = OpenOptions::new().write(true).mode(0o600).custom_flags(OFlag::O_TMPFILE.bits()).open(dir)?;
    let page = [b'x'; 4096];
    // Takes the room.
    file.write_all_at(&page, 0)?;
    file.sync_all()?;
    let mut times = Vec::new();
    while times.is_empty() || (times.len() < SAMPLES && begun.elapsed() < PATIENCE) {
        let start = Instant::now();
        file.write_all_at(&page, 0)?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

const SAMPLES: usize = 16;
const PATIENCE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_a_time_and_leaves_nothing() {
        // Beside the build: what is under /tmp may be in memory.
        let scratch = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("scratch");
        let time = sync_time(scratch.path()).expect("measured");
        assert!(time > Duration::ZERO && time < Duration::from_secs(10), "{time:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).expect("there").count(), 0);
        assert!(sync_time(&scratch.path().join("none")).is_err(), "no directory is made");
    }
}
