//! Events for who keeps the cursor himself.
//!
//! Owns [`Pulls`]. In: which log, a cursor or where to begin, which types, how many, how long to wait. Out: records and the cursor
//! behind them, as a body of JSON. Reading happens on blocking threads, in portions; what is in memory is bounded by
//! [`PULLS_MAX`] times [`OCTETS_MAX`], a record, and what zstd needs. A log that was read to some place is kept open for a while, so that who asks
//! on with that cursor need not have the segment read again from its beginning.

use crate::cursor::Cursor;
use crate::error::EventError;
use crate::source::{Got, Source, Start};
use crate::streams::Folder;
use crate::wanted::Wanted;
use config::{RecordKey, StreamFrom};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// What is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of which log; need not be said where there is one.
    pub log_dir: Option<PathBuf>,
    /// What the names of its segments end in.
    pub suffix: String,
    /// Behind which record.
    pub cursor: Option<Cursor>,
    /// Where to begin without one.
    pub from: StreamFrom,
    /// Which types; all when empty.
    pub types: Vec<RecordKey>,
    /// How many at most.
    pub limit: usize,
    /// How long the first may be waited for.
    pub wait: Duration,
}

/// What is answered.
#[derive(Debug)]
pub struct Pulled {
    /// `{"events": [...], "next": CURSOR}`; with `skipped`, a number, when lines could not be read.
    pub body: Vec<u8>,
    /// Events in it.
    pub events: usize,
}

/// All who ask.
pub(crate) struct Pulls {
    folders: Mutex<Vec<Folder>>,
    places: Arc<Semaphore>,
    parked: Arc<Mutex<Vec<Parked>>>,
    /// Ends the thread that closes logs nobody asks for any more.
    sweeper: Mutex<Option<Sender<()>>>,
    stop: watch::Sender<bool>,
}

/// A log that was read.
struct Parked {
    folder: Folder,
    source: Source,
    since: Instant,
}

/// One who asks.
struct Work {
    source: Source,
    events: Vec<u8>,
    count: usize,
    skipped: u64,
    limit: usize,
    _place: OwnedSemaphorePermit,
}

/// What reading came to.
enum Filled {
    /// As much as was asked for, or all up to a gap.
    Full,
    /// There may be more.
    Some,
    /// All that is there was read.
    All,
}

impl Default for Pulls {
    fn default() -> Pulls {
        Pulls {
            folders: Mutex::default(),
            places: Arc::new(Semaphore::new(PULLS_MAX)),
            parked: Arc::default(),
            sweeper: Mutex::default(),
            stop: watch::Sender::new(false),
        }
    }
}

impl Pulls {
    /// These may be asked for.
    pub fn set_folders(&self, folders: Vec<Folder>) {
        *locked(&self.folders) = folders;
    }

    /// They.
    pub fn folders(&self) -> Vec<Folder> {
        locked(&self.folders).clone()
    }

    /// Whoever waits is answered now.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        locked(&self.sweeper).take();
        locked(&self.parked).clear();
    }

    pub async fn pull(&self, asked: Asked) -> Result<Pulled, EventError> {
        let until = tokio::time::Instant::now() + asked.wait.min(WAIT_MAX);
        let folder = self.folder(&asked)?;
        let place = self.places.clone().try_acquire_owned().map_err(|_| EventError::Busy { max: PULLS_MAX })?;
        let parked = asked.cursor.as_ref().and_then(|cursor| self.take(&folder, cursor));
        let opened = folder.clone();
        let mut work = blocking(move || Work::begin(&opened, parked, asked, place)).await?;
        let mut stop = self.stop.subscribe();
        loop {
            let filled;
            (work, filled) = blocking(move || {
                let filled = work.fill()?;
                Ok((work, filled))
            })
            .await?;
            let is_over = *stop.borrow() || tokio::time::Instant::now() >= until;
            match filled {
                Filled::Full => break,
                // The first record of a time is looked for to the end; a cursor on the way there would have those of before. Who was
                // told nothing but his own cursor on the way to it would never come there.
                Filled::Some if work.is_on_its_way() && *stop.borrow() => return Err(EventError::Ending),
                Filled::Some if work.is_on_its_way() => {}
                Filled::Some | Filled::All if is_over || work.count > 0 => break,
                Filled::Some => {}
                Filled::All => {
                    let next = until.min(tokio::time::Instant::now() + LOOK_EVERY);
                    tokio::select! { () = tokio::time::sleep_until(next) => {}, _ = stop.wait_for(|stop| *stop) => {} }
                }
            }
        }
        let (pulled, source) = work.finish();
        self.park(folder, source);
        Ok(pulled)
    }

    /// The log that is asked for: one that is written, and no other file of this machine.
    fn folder(&self, asked: &Asked) -> Result<Folder, EventError> {
        let folders = locked(&self.folders);
        let is_it = |folder: &&Folder| {
            folder.suffix == asked.suffix && asked.log_dir.as_ref().is_none_or(|dir| *dir == folder.log_dir)
        };
        let mut found = folders.iter().filter(is_it);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one.clone()),
            _ => Err(EventError::Folder {
                given: asked.log_dir.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default(),
                suffix: asked.suffix.clone(),
                known: folders
                    .iter()
                    .map(|folder| format!("{:?} {:?}", folder.log_dir, folder.suffix))
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }

    fn take(&self, folder: &Folder, cursor: &Cursor) -> Option<Source> {
        let mut parked = locked(&self.parked);
        let at = parked.iter().position(|one| one.folder == *folder && *one.source.at() == cursor.0)?;
        Some(parked.swap_remove(at).source)
    }

    fn park(&self, folder: Folder, source: Source) {
        if *self.stop.borrow() || source.is_seeking() {
            return;
        }
        let mut parked = locked(&self.parked);
        if parked.len() >= PARKED_MAX {
            // The first is the oldest, or nearly so.
            parked.remove(0);
        }
        parked.push(Parked { folder, source, since: Instant::now() });
        drop(parked);
        self.sweep();
    }

    /// Has logs closed that nobody asks for any more: an open file keeps its room on the disk when it is removed.
    fn sweep(&self) {
        let mut sweeper = locked(&self.sweeper);
        if sweeper.is_some() {
            return;
        }
        let (ends, ended) = channel::<()>();
        let parked = self.parked.clone();
        let run = move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SWEEP_EVERY) {
                locked(&parked).retain(|one| one.since.elapsed() < PARKED_FOR);
            }
        };
        match std::thread::Builder::new().name(THREAD.to_owned()).spawn(run) {
            Ok(_) => *sweeper = Some(ends),
            Err(error) => {
                tracing::error!("closing logs: {error}");
                locked(&self.parked).clear();
            }
        }
    }
}

impl Work {
    fn begin(
        folder: &Folder,
        parked: Option<Source>,
        asked: Asked,
        place: OwnedSemaphorePermit,
    ) -> Result<Work, EventError> {
        let wanted = Wanted::of(&asked.types);
        let source = match parked {
            Some(mut source) => {
                source.want(wanted);
                source
            }
            None => {
                let start = asked.cursor.map_or(Start::From(asked.from), |cursor| Start::Behind(cursor.0));
                Source::open(folder, &start, wanted)?
            }
        };
        let limit = asked.limit.clamp(1, LIMIT_MAX);
        Ok(Work { source, events: Vec::new(), count: 0, skipped: 0, limit, _place: place })
    }

    /// Nothing that is asked for was come to yet.
    fn is_on_its_way(&self) -> bool {
        self.source.is_seeking() || self.source.is_returning()
    }

    /// Reads what there is, or a portion of it.
    fn fill(&mut self) -> Result<Filled, EventError> {
        for _ in 0..STEPS_MAX {
            if self.count >= self.limit || self.events.len() >= OCTETS_MAX {
                return Ok(Filled::Full);
            }
            match self.source.step()? {
                Got::End => {
                    self.source.look_ahead()?;
                    return Ok(Filled::All);
                }
                Got::Passed => self.skipped += self.source.take_skipped(),
                // What is before it is answered; the next who asks from there is told.
                Got::Gap(_) if self.count > 0 => return Ok(Filled::Full),
                Got::Gap(segment) => {
                    let oldest = Cursor(self.source.oldest()?);
                    return Err(EventError::Gone { segment: segment.to_string(), oldest });
                }
                Got::Event(_) => {
                    if self.count > 0 {
                        self.events.push(b',');
                    }
                    self.events.extend_from_slice(self.source.text());
                    self.source.take();
                    self.count += 1;
                }
            }
        }
        Ok(Filled::Some)
    }

    fn finish(self) -> (Pulled, Source) {
        let Work { source, events, count, skipped, .. } = self;
        let mut body = b"{\"events\":[".to_vec();
        body.extend_from_slice(&events);
        body.extend_from_slice(format!("],\"next\":\"{}\"", Cursor(source.at().clone())).as_bytes());
        if skipped > 0 {
            body.extend_from_slice(format!(",\"skipped\":{skipped}").as_bytes());
        }
        body.push(b'}');
        (Pulled { body, events: count }, source)
    }
}

/// Work that waits for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EventError> + Send + 'static,
) -> Result<T, EventError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| EventError::Thread(io::Error::other(error)))?
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who may ask at once.
pub const PULLS_MAX: usize = 32;
/// Most events of an answer.
pub const LIMIT_MAX: usize = 10_000;
/// Longest time the first event is waited for.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// An answer ends with the record that reaches so many octets.
const OCTETS_MAX: usize = 4 << 20;
/// Logs that are kept open for those who ask on.
const PARKED_MAX: usize = 16;
/// For how long.
const PARKED_FOR: Duration = Duration::from_secs(60);
/// How often it is looked for such.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// Steps of reading on a blocking thread at a time.
const STEPS_MAX: usize = 10_000;
/// How often it is looked for the first event.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// As the system shows the thread that closes logs.
const THREAD: &str = "event readers";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::segment;
    use serde_json::Value;
    use std::path::Path;

    const FIRST: &str = "20261125-030000.000000001";
    const SECOND: &str = "20261125-030000.000000002";

    fn pulls(dir: &Path) -> Pulls {
        let pulls = Pulls::default();
        pulls.set_folders(vec![Folder { log_dir: dir.to_owned(), suffix: String::new() }]);
        pulls
    }

    fn asked(cursor: Option<&str>, limit: usize) -> Asked {
        Asked {
            log_dir: None,
            suffix: String::new(),
            cursor: cursor.map(|cursor| cursor.parse().expect("ours")),
            from: StreamFrom::Start,
            types: Vec::new(),
            limit,
            wait: Duration::ZERO,
        }
    }

    async fn answer(pulls: &Pulls, asked: Asked) -> (Vec<u64>, String) {
        let pulled = pulls.pull(asked).await.expect("answered");
        let body: Value = serde_json::from_slice(&pulled.body).expect("JSON");
        let events: Vec<u64> = body["events"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|event| event["n"].as_u64().expect("a number"))
            .collect();
        assert_eq!(events.len(), pulled.events);
        (events, body["next"].as_str().expect("a cursor").to_owned())
    }

    #[tokio::test]
    async fn a_cursor_goes_on_whether_the_log_was_kept_open_or_not() {
        let dir = tempfile::tempdir().expect("scratch");
        segment(dir.path(), FIRST, "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
        segment(dir.path(), SECOND, "{\"n\":4}\n");
        let kept = pulls(dir.path());
        let (mut cursor, mut seen) = (None::<String>, Vec::new());
        for is_kept in [true, false, true, false, true] {
            let other = pulls(dir.path());
            let (events, next) = answer(if is_kept { &kept } else { &other }, asked(cursor.as_deref(), 1)).await;
            seen.extend(events);
            cursor = Some(next);
        }
        assert_eq!(seen, [1, 2, 3, 4]);
        assert_eq!(answer(&kept, asked(None, 3)).await.0, [1, 2, 3]);
        assert_eq!(answer(&kept, asked(None, 0)).await.0, [1], "one at least");
        for _ in 0..2 * PARKED_MAX {
            answer(&kept, asked(None, 2)).await;
        }
        assert_eq!(locked(&kept.parked).len(), PARKED_MAX);
    }

    #[tokio::test]
    async fn who_asks_seldom_goes_on_in_a_long_segment_too() {
        let dir = tempfile::tempdir().expect("scratch");
        let last = 2 * STEPS_MAX as u64 + 5;
        let lines: String = (1..=last).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        segment(dir.path(), FIRST, &lines);
        let behind = |line| Cursor(jsonl::Position { file: FIRST.into(), line }).to_string();
        let (events, next) = answer(&pulls(dir.path()), asked(Some(&behind(last - 3)), 2)).await;
        assert_eq!(events, [last - 2, last - 1]);
        let (events, next) = answer(&pulls(dir.path()), asked(Some(&next), 9)).await;
        assert_eq!(events, [last]);
        assert_eq!(answer(&pulls(dir.path()), asked(Some(&next), 9)).await.0, [0; 0], "and no more");
    }

    #[tokio::test]
    async fn what_is_gone_is_told_with_the_oldest_there_is() {
        let dir = tempfile::tempdir().expect("scratch");
        segment(dir.path(), FIRST, "{\"n\":1}\n{\"n\":2}\n");
        segment(dir.path(), SECOND, "{\"n\":3}\n");
        let (_, cursor) = answer(&pulls(dir.path()), asked(None, 1)).await;
        std::fs::remove_file(dir.path().join(FIRST)).expect("removed");
        let error = pulls(dir.path()).pull(asked(Some(&cursor), 9)).await.expect_err("gone");
        let EventError::Gone { segment, oldest } = error else { panic!("{error}") };
        assert_eq!(segment, FIRST);
        assert_eq!(answer(&pulls(dir.path()), asked(Some(&oldest.to_string()), 9)).await.0, [3]);
    }

    #[tokio::test]
    async fn so_many_may_ask_and_not_one_more() {
        let dir = tempfile::tempdir().expect("scratch");
        let pulls = pulls(dir.path());
        let taken = pulls.places.clone().acquire_many_owned(PULLS_MAX as u32 - 1).await.expect("free");
        answer(&pulls, asked(None, 1)).await;
        let last = pulls.places.clone().acquire_owned().await.expect("free");
        let error = pulls.pull(asked(None, 1)).await.expect_err("no place");
        assert_eq!(error.to_string(), "32 ask for events already: expected fewer at once");
        drop((taken, last));
        answer(&pulls, asked(None, 1)).await;
    }

    #[tokio::test]
    async fn only_logs_that_are_written_may_be_asked_for() {
        let dir = tempfile::tempdir().expect("scratch");
        let pulls = pulls(dir.path());
        for (log_dir, suffix) in [(Some("/etc".into()), ""), (None, "-other")] {
            let error =
                pulls.pull(Asked { log_dir, suffix: suffix.to_owned(), ..asked(None, 1) }).await.expect_err("no");
            assert!(error.to_string().contains(&format!("{:?}", dir.path())), "{error}");
        }
        answer(&pulls, Asked { log_dir: Some(dir.path().to_owned()), ..asked(None, 1) }).await;
    }
}
