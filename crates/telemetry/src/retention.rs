//! How long finished segments of a stream stay: until they are too old, or too many.
//!
//! In: a directory, what this stream's segments are called, and what the operator keeps. Out: the ones that are over are gone.
//! Files of other names, of other streams, and segments that are being written are left alone. A file that cannot be removed is
//! tried again the next time.

use crate::index_file::remove_index;
use crate::segment::is_time;
use config::LocalLogs;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// What is kept, and when to look again.
#[derive(Debug)]
pub(crate) struct Retention {
    age_max: Option<Duration>,
    octets_max: Option<u64>,
    looks_at: Instant,
    complained: bool,
}

/// A finished segment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finished {
    path: PathBuf,
    octets: u64,
    /// When it was written last.
    at: SystemTime,
}

impl Retention {
    /// As a logger's options say; it looks at once.
    pub fn of(options: &LocalLogs, now: Instant) -> Retention {
        let age_max = options.retain_for.map(config::Duration::get);
        Retention { age_max, octets_max: options.retain_bytes, looks_at: now, complained: false }
    }

    /// How long until it looks again; `None` when all is kept.
    pub fn time_left(&self, now: Instant) -> Option<Duration> {
        let limits = self.age_max.is_some() || self.octets_max.is_some();
        limits.then(|| self.looks_at.saturating_duration_since(now))
    }

    /// Removes what is over, when it is time to look.
    pub fn tend(&mut self, dir: &Path, (prefix, suffix): (&str, &str), now: Instant) {
        if self.time_left(now).is_none_or(|left| !left.is_zero()) {
            return;
        }
        self.looks_at = now + LOOKS_EVERY;
        match self.remove(dir, (prefix, suffix)) {
            Ok(()) => self.complained = false,
            Err(_) if self.complained => {}
            Err(error) => {
                self.complained = true;
                tracing::error!("log_dir {}: old segments cannot be removed: {error}", dir.display());
            }
        }
    }

    /// Removes all that can be; the error is the first.
    fn remove(&self, dir: &Path, names: (&str, &str)) -> io::Result<()> {
        let mut done = Ok(());
        for path in self.over(finished(dir, names)?, SystemTime::now()) {
            match fs::remove_file(&path) {
                // Whoever ships segments was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(()) => {
                    tracing::debug!("log segment {} was kept long enough", path.display());
                    done = done.and(remove_index(&path));
                }
                failed => done = done.and(failed),
            }
        }
        done
    }

    /// Those that are too old, and the oldest of what is too much.
    fn over(&self, mut segments: Vec<Finished>, now: SystemTime) -> Vec<PathBuf> {
        // By their names, as readers go on: the clock may have been set back.
        segments.sort_by(|a, b| a.path.cmp(&b.path));
        let mut left: u64 = segments.iter().map(|segment| segment.octets).sum();
        let mut over = Vec::new();
        for segment in segments {
            let age = now.duration_since(segment.at);
            let is_old = self.age_max.is_some_and(|max| age.as_ref().is_ok_and(|age| *age > max));
            let is_much = self.octets_max.is_some_and(|max| left > max);
            if !is_old && !is_much {
                // Written by a clock that was ahead, it is no measure for those behind it.
                if age.is_err() {
                    continue;
                }
                break;
            }
            left -= segment.octets;
            over.push(segment.path);
        }
        over
    }
}

/// The finished segments of a stream.
fn finished(dir: &Path, (prefix, suffix): (&str, &str)) -> io::Result<Vec<Finished>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let time = name.to_str().and_then(|name| name.strip_prefix(prefix)?.strip_suffix(suffix));
        if !time.is_some_and(is_time) {
            continue;
        }
        let metadata = match entry.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_file() && metadata.permissions().readonly() {
            found.push(Finished { path: entry.path(), octets: metadata.len(), at: metadata.modified()? });
        }
    }
    Ok(found)
}

/// Time between two looks.
const LOOKS_EVERY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn retention(age_max: Option<u64>, octets_max: Option<u64>) -> Retention {
        let age_max = age_max.map(Duration::from_secs);
        Retention { age_max, octets_max, looks_at: Instant::now(), complained: false }
    }

    fn segment(name: &str, octets: u64, at: u64) -> Finished {
        Finished { path: name.into(), octets, at: SystemTime::UNIX_EPOCH + Duration::from_secs(at) }
    }

    #[test]
    fn the_oldest_go_first() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let all = || vec![segment("c", 5, 900), segment("a", 5, 100), segment("b", 5, 500)];
        for (age_max, octets_max, expected) in [
            (None, None, &[][..]),
            (Some(2000), None, &[]),
            (Some(500), None, &["a"]),
            (Some(499), None, &["a", "b"]),
            (None, Some(15), &[]),
            (None, Some(14), &["a"]),
            (None, Some(0), &["a", "b", "c"]),
            (Some(99), Some(15), &["a", "b", "c"]),
        ] {
            let over = retention(age_max, octets_max).over(all(), now);
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(over, expected, "{age_max:?} {octets_max:?}");
        }
        let of_clocks = vec![segment("a", 5, 9000), segment("b", 5, 500), segment("c", 5, 900)];
        let over = retention(Some(499), None).over(of_clocks, now);
        assert_eq!(over, [PathBuf::from("b")], "the clock was ahead when the first was written");
    }

    #[test]
    fn nothing_but_finished_segments_of_the_stream_is_removed() {
        let dir = tempfile::tempdir().expect("scratch");
        let stay = [
            "20261125-030000.000000001",
            "20261125-030000.00000000",
            "20261125-030000.000000002-deliveries",
            "x20261125-030000.000000003",
            "2026112x-030000.000000004",
            "notes",
        ];
        let over = "20261125-030000.000000005";
        for name in stay.iter().chain([&over]) {
            fs::write(dir.path().join(name), "text").expect("written");
        }
        // The first of them is being written.
        for name in stay[1..].iter().chain([&over]) {
            fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o444)).expect("read-only");
        }
        let now = Instant::now();
        let mut retention = retention(None, Some(0));
        retention.looks_at = now;
        retention.tend(dir.path(), ("", ""), now);
        let mut left: Vec<_> =
            fs::read_dir(dir.path()).expect("read").map(|e| e.expect("an entry").file_name()).collect();
        left.sort();
        let mut expected = stay.map(std::ffi::OsString::from).to_vec();
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(retention.time_left(now), Some(LOOKS_EVERY), "not looked at for each batch");
    }
}
