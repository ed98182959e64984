//! Failure reports that are still to be sent: in memory while the program runs, in a file from its stop to its next start.
//!
//! In: messages that failed, [`WAITING_MAX`] at most. Out: each once to whoever sends, and those that are under way or not begun to a
//! file when the program stops: one that was under way then may be sent twice, with the same `Message-ID`. A file that cannot be
//! written or read costs what is in it, and is said.

use crate::collector::now_secs;
use public_suffix::organisation;
use reports::FailureSeen;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What waits.
#[derive(Default)]
pub(crate) struct Waiting {
    lines: Mutex<Lines>,
    more: Notify,
}

#[derive(Default)]
struct Lines {
    queue: VecDeque<Arc<FailureSeen>>,
    under_way: Vec<Arc<FailureSeen>>,
    is_over: bool,
    /// The file of the last stop, until what was in it is under way.
    file: Option<PathBuf>,
}

impl Waiting {
    /// With what a stop before left in `dir`, as far as it is not too old to be of use.
    pub(crate) fn open(dir: &Path) -> Waiting {
        let read = read(dir).unwrap_or_else(|error| {
            tracing::error!("{}: failure reports that waited at the last stop are lost: {error}", dir.display());
            Vec::new()
        });
        let waiting = Waiting::default();
        let fresh = read.into_iter().filter(|failure| now_secs() - failure.arrived_secs < AGE_MAX_SECS);
        waiting.lines().queue.extend(fresh.take(WAITING_MAX).map(Arc::new));
        waiting.lines().file = Some(dir.join(FILE));
        waiting
    }

    /// Somebody sends now: the file of the last stop has served.
    pub(crate) fn begun(&self) {
        let Some(file) = self.lines().file.take() else { return };
        let removed = fs::remove_file(&file).and_then(|()| match file.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        });
        if let Err(error) =
            removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
        {
            tracing::error!("{}: {error}: what is in it may be sent again after the next start", file.display());
        }
    }

    /// Adds one; false when there is no room for it, or its organisation has its share.
    pub(crate) fn push(&self, mut failure: FailureSeen) -> bool {
        failure.recipients.truncate(RECIPIENTS_MAX);
        let mut lines = self.lines();
        if lines.is_over || lines.queue.len() + lines.under_way.len() >= WAITING_MAX {
            return false;
        }
        let own = organisation(&failure.seen.domain);
        let is_own =
            |known: &&Arc<FailureSeen>| known.seen.domain.ends_with(own) && organisation(&known.seen.domain) == own;
        if lines.queue.iter().chain(&lines.under_way).filter(is_own).count() >= OF_ONE_MAX {
            return false;
        }
        lines.queue.push_back(Arc::new(failure));
        self.more.notify_one();
        true
    }

    /// The next one, when there is one; it is under way from now on.
    pub(crate) async fn next(&self) -> Arc<FailureSeen> {
        loop {
            let more = self.more.notified();
            if let Some(next) = self.begin() {
                return next;
            }
            more.await;
        }
    }

    /// The same, without waiting.
    pub(crate) fn begin(&self) -> Option<Arc<FailureSeen>> {
        let mut lines = self.lines();
        let next = lines.queue.pop_front()?;
        lines.under_way.push(next.clone());
        Some(next)
    }

    /// Nothing more is to be done about it.
    pub(crate) fn done(&self, failure: &Arc<FailureSeen>) {
        self.lines().under_way.retain(|known| !Arc::ptr_eq(known, failure));
    }

    /// Takes no more, and writes what is not done to a file in `dir`; how many.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn close(&self, dir: &Path) -> io::Result<usize> {
        let rest: Vec<Arc<FailureSeen>> = {
            let mut lines = self.lines();
            lines.is_over = true;
            let queue = std::mem::take(&mut lines.queue);
            std::mem::take(&mut lines.under_way).into_iter().chain(queue).collect()
        };
        if rest.is_empty() {
            return Ok(0);
        }
        let mut text = Vec::new();
        for failure in &rest {
            serde_json::to_writer(&mut text, &**failure)?;
            text.push(b'\n');
        }
        let (path, new) = (dir.join(FILE), dir.join(NEW_FILE));
        // Header fields and addresses of mail: for nobody else to read.
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text).and_then(|()| file.sync_all())?;
        fs::rename(new, path)?;
        File::open(dir)?.sync_all()?;
        Ok(rest.len())
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the file of the last stop.
fn read(dir: &Path) -> io::Result<Vec<FailureSeen>> {
    let path = dir.join(FILE);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    Ok(text.split(|octet| *octet == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// Failures that wait or are under way.
pub(crate) const WAITING_MAX: usize = 256;
/// Of these about the domains of one organisation.
const OF_ONE_MAX: usize = 32;
/// Recipients of a message that are told of.
const RECIPIENTS_MAX: usize = 100;
/// Later nobody wants to hear of one.
const AGE_MAX_SECS: i64 = 86_400;
/// Where they wait from a stop to the next start.
const FILE: &str = "dmarc_failure.waiting";
const NEW_FILE: &str = "dmarc_failure.new";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failures::tests::failure;

    fn seen(number: usize, age_secs: i64) -> FailureSeen {
        let mut seen = failure(&format!("d{number}.test"), "mailto:f@a.test");
        (seen.arrived_secs, seen.header) = (now_secs() - age_secs, vec![0, b'x', 0xff]);
        seen
    }

    #[tokio::test]
    async fn what_waits_at_a_stop_is_sent_after_the_next_start() {
        let dir = tempfile::tempdir().expect("scratch");
        let waiting = Waiting::open(dir.path());
        for (number, age_secs) in [(0, 0), (1, 0), (2, AGE_MAX_SECS + 10), (3, 0)] {
            assert!(waiting.push(seen(number, age_secs)));
        }
        let done = waiting.next().await;
        waiting.done(&done);
        let under_way = waiting.next().await;
        assert_eq!((done.seen.domain.as_str(), under_way.seen.domain.as_str()), ("d0.test", "d1.test"));
        assert_eq!(waiting.close(dir.path()).expect("written"), 3);
        assert!(!waiting.push(seen(4, 0)), "nobody would send it");
        let waiting = Waiting::open(dir.path());
        let next = || waiting.begin().expect("it waits");
        let (first, second) = (next(), next());
        assert_eq!((first.seen.domain.as_str(), second.seen.domain.as_str()), ("d1.test", "d3.test"));
        assert_eq!(*first, *under_way, "all of it");
        [first, second].iter().for_each(|failure| waiting.done(failure));
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1, "a start that failed would find it again");
        waiting.begun();
        assert_eq!(waiting.close(dir.path()).expect("nothing to write"), 0);
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0);
    }

    #[tokio::test]
    async fn whoever_waits_for_one_is_woken_and_there_is_no_more_room_than_said() {
        let waiting = Arc::new(Waiting::default());
        let next = tokio::spawn({
            let waiting = waiting.clone();
            async move { waiting.next().await.seen.domain.clone() }
        });
        tokio::task::yield_now().await;
        assert!(waiting.push(seen(0, 0)));
        assert_eq!(next.await.expect("no panic"), "d0.test");
        assert!((1..WAITING_MAX).all(|number| waiting.push(seen(number, 0))));
        assert!(!waiting.push(seen(WAITING_MAX, 0)), "the one under way counts");
    }

    #[test]
    fn one_organisation_does_not_take_all_places() {
        let waiting = Waiting::default();
        let below = |number: usize| failure(&format!("d{number}.evil.test"), "mailto:f@a.test");
        assert!((0..OF_ONE_MAX).all(|number| waiting.push(below(number))));
        assert!(!waiting.push(below(OF_ONE_MAX)) && waiting.push(failure("good.test", "mailto:f@a.test")));
    }
}
