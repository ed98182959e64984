//! Watches how much disk a spool takes while it is at work, against the bound: twice the octets of live mail and 1 GiB.
//!
//! A thread looks each quarter of a second at the files and at the daemon's `message_count`. Mail is counted by the octets
//! sent, without what the spool keeps beside them, so the bound is met with a little to spare or not at all. In: a folder, a
//! daemon. Out: the worst moment.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::metrics::Metrics;

/// A watch under way; dropping it ends it.
pub struct DiskWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Seen>>,
}

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    /// Messages known to be alive though the daemon does not count them (yet).
    alive_min: AtomicU64,
}

/// The worst moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Looks taken.
    pub looks: u32,
    /// Most octets the files took.
    pub octets_max: f64,
    /// Most octets they took beyond twice the live mail; the bound is 1 GiB.
    pub over_max: f64,
}

impl DiskWatch {
    /// Watches `folder`, the spool of the daemon that answers at `http`, which holds messages of `message_octets`.
    ///
    /// # Errors
    /// The machine gives no thread.
    pub fn start(folder: &Path, http: SocketAddr, message_octets: f64) -> anyhow::Result<DiskWatch> {
        let shared = Arc::new(Shared::default());
        let (theirs, folder) = (Arc::clone(&shared), folder.to_owned());
        let thread = std::thread::Builder::new().name("disk-watch".to_owned());
        let thread = thread.spawn(move || watch(&theirs, &folder, http, message_octets))?;
        Ok(DiskWatch { shared, thread: Some(thread) })
    }

    /// Says how many messages are alive whatever the daemon counts: while it is down or takes stock.
    pub fn alive_at_least(&self, messages: u64) {
        self.shared.alive_min.store(messages, Ordering::Relaxed);
    }

    /// Ends it.
    pub fn stop(mut self) -> Seen {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<Seen> {
        self.shared.ended.store(true, Ordering::Relaxed);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.end();
    }
}

fn watch(shared: &Shared, folder: &Path, http: SocketAddr, message_octets: f64) -> Seen {
    let mut seen = Seen::default();
    let mut alive = 0.0;
    while !shared.ended.load(Ordering::Relaxed) {
        let octets = disk_octets(folder) as f64;
        // A daemon that is down holds what it held.
        if let Some(count) = Metrics::scrape(http).ok().and_then(|metrics| metrics.value("message_count")) {
            alive = count;
        }
        let alive = f64::max(alive, shared.alive_min.load(Ordering::Relaxed) as f64);
        seen.note(octets, alive * message_octets);
        std::thread::park_timeout(REST);
    }
    seen
}

impl Seen {
    fn note(&mut self, octets: f64, live_octets: f64) {
        self.looks += 1;
        self.octets_max = self.octets_max.max(octets);
        self.over_max = self.over_max.max(octets - 2.0 * live_octets);
    }
}

/// Octets the files of a folder and the folders in it take on disk. What vanishes meanwhile counts nothing.
pub fn disk_octets(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let octets = |path: PathBuf| match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => disk_octets(&path),
        Ok(found) => found.blocks() * BLOCK_OCTETS,
        Err(_) => 0,
    };
    entries.filter_map(Result::ok).map(|entry| octets(entry.path())).sum()
}

/// The unit of `st_blocks`.
const BLOCK_OCTETS: u64 = 512;
const REST: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_moment_is_kept() {
        let mut seen = Seen::default();
        seen.note(5000.0, 1000.0);
        seen.note(9000.0, 4000.0);
        seen.note(100.0, 4000.0);
        assert_eq!((seen.looks, seen.octets_max, seen.over_max), (3, 9000.0, 3000.0));
    }

    #[test]
    fn files_count_by_what_they_take() {
        let folder = tempfile::tempdir().expect("scratch folder");
        std::fs::create_dir(folder.path().join("sub")).expect("a folder");
        std::fs::write(folder.path().join("sub/a"), vec![1; 100_000]).expect("written");
        std::fs::write(folder.path().join("b"), vec![1; 50_000]).expect("written");
        let octets = disk_octets(folder.path());
        assert!((150_000..200_000).contains(&octets), "{octets}");
        assert_eq!(disk_octets(&folder.path().join("none")), 0);
    }
}
