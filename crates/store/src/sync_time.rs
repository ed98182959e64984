//! How long a disk needs for a small write and its sync. In: a directory. Out: a time. The file written is nameless from the
//! start, so that nothing is left behind whatever happens.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// The median time of a write of 4 KiB into room that is there already, and its `fdatasync`: what a commit of the log does.
/// Makes the directory if need be. Takes 50 ms, or one sync if that takes longer.
///
/// # Errors
/// The operating system's.
pub fn sync_time(dir: &Path) -> io::Result<Duration> {
    fs::create_dir_all(dir)?;
    let file = nameless(dir)?;
    let page = [b'x'; 4096];
    // Takes the room.
    file.write_all_at(&page, 0)?;
    file.sync_all()?;
    let begun = Instant::now();
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

fn nameless(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!(".sync-time-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

const SAMPLES: usize = 16;
const PATIENCE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_a_time_and_leaves_nothing() {
        let scratch = tempfile::tempdir().expect("scratch");
        let dir = scratch.path().join("spool/data");
        let time = sync_time(&dir).expect("measured");
        assert!(time > Duration::ZERO && time < Duration::from_secs(10), "{time:?}");
        assert_eq!(fs::read_dir(&dir).expect("made").count(), 0);
        assert!(sync_time(Path::new("/proc/no-such-place")).is_err());
    }
}
