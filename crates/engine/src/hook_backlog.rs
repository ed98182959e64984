//! What waits for a log hook: records in memory, each also in a file of the spool's directory that a kill of the process leaves.
//!
//! In: records, from whoever logs, who waits for nothing but the page cache; then what of them is done with. Out: records in order,
//! those of killed processes first; and, in a file beside the others, those of them that this program cannot read. A file ([`KeptLines`]) is one hook's of one process: a hook that leaves has its own until it
//! has worked off what it had. Where there is none (the disk is full), or no room in it, records wait in memory only, and that is said.
//!
//! Two locks are nested here, and nowhere else: the file's is held while a record is put into the backlog, so that both have one order.

use crate::backlog::{Backlog, InHand};
use record::LogRecord;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use telemetry::{KeptLines, LeftLines, Until};

/// The records of one hook.
pub(crate) struct HookBacklog {
    name: String,
    waiting: Backlog<Waiting>,
    kept: OnceLock<Mutex<KeptLines>>,
    /// Those of them that are in memory only.
    unkept: AtomicUsize,
}

/// One that waits.
pub(crate) struct Waiting {
    pub record: LogRecord,
    /// Where a kill leaves it.
    pub kept: Kept,
}

/// Where a record is that waits.
pub(crate) enum Kept {
    /// In memory only.
    Nowhere,
    /// In the hook's file, up to here.
    Here(Until),
    /// In that of a killed process, up to here.
    Left(Arc<Leftover>, u64),
}

/// What a killed process left.
pub(crate) struct Leftover {
    lines: LeftLines,
    /// Where they end.
    end: u64,
    /// Those of them that do not read, of a newer program perhaps.
    unread: Vec<u8>,
}

impl HookBacklog {
    /// One that is full from `max` on, in memory only until [`HookBacklog::open`].
    pub fn new(name: &str, max: usize) -> HookBacklog {
        HookBacklog {
            name: name.to_owned(),
            waiting: Backlog::new(max),
            kept: OnceLock::new(),
            unkept: AtomicUsize::new(0),
        }
    }

    /// Takes over what killed processes left of this hook, and keeps what comes from here on.
    pub fn open(&self, dir: &Path, left: Vec<LeftLines>) {
        for lines in left {
            let path = lines.path().to_owned();
            if let Err(error) = self.begin_with(lines) {
                let name = &self.name;
                tracing::error!("log hook {name}: {}: {error}: its records wait for the next start", path.display());
            }
        }
        match KeptLines::create(dir, &self.name, format!("log hook {}", self.name)) {
            Ok(kept) => _ = self.kept.set(Mutex::new(kept)),
            Err(error) => {
                let (name, dir) = (&self.name, dir.display());
                tracing::warn!("log hook {name}: no journal in {dir} ({error}): a kill loses the records that wait");
            }
        }
    }

    /// Takes over what a killed process left.
    fn begin_with(&self, mut lines: LeftLines) -> io::Result<()> {
        let (mut records, mut unread, mut last) = (Vec::new(), Vec::new(), 0);
        for (end, line) in lines.read()? {
            last = end;
            match serde_json::from_slice::<LogRecord>(&line) {
                Ok(record) => records.push((record, end)),
                Err(_) => unread.extend_from_slice(&line),
            }
        }
        let (left, count) = (Arc::new(Leftover { lines, end: last, unread }), records.len());
        // The last one stands for those behind it that do not read.
        match records.last_mut() {
            Some(record) => record.1 = last,
            None => self.forget(&left, last),
        }
        for (record, end) in records {
            self.waiting.push(Waiting { record, kept: Kept::Left(left.clone(), end) });
        }
        tracing::info!("log hook {}: {count} records of a killed process are offered again", self.name);
        Ok(())
    }

    /// Puts in one more; true when it is full now. From here on a kill does not take it.
    pub fn push(&self, record: LogRecord) -> bool {
        let Some(kept) = self.kept.get() else { return self.push_unkept(record) };
        let mut line = KeptLines::line(|out| record.write_json_line(out));
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.put(&mut line) {
            Some(until) => self.waiting.push(Waiting { record, kept: Kept::Here(until) }),
            None => self.push_unkept(record),
        }
    }

    fn push_unkept(&self, record: LogRecord) -> bool {
        self.unkept.fetch_add(1, Ordering::Relaxed);
        self.waiting.push(Waiting { record, kept: Kept::Nowhere })
    }

    /// The next few, in order; none once it is closed and empty. One task takes.
    pub async fn take(&self, most: usize) -> Vec<Waiting> {
        self.waiting.take(most).await
    }

    /// So many of those taken are worked on until this is dropped.
    pub fn in_hand(&self, count: usize) -> InHand<'_> {
        self.waiting.in_hand(count)
    }

    /// Those and all before them are done with.
    pub fn done(&self, records: Vec<Kept>) {
        let mut last = None;
        let mut records = records.into_iter().peekable();
        while let Some(kept) = records.next() {
            match kept {
                Kept::Nowhere => _ = self.unkept.fetch_sub(1, Ordering::Relaxed),
                Kept::Here(until) => last = Some(until),
                // A later one of the same file stands for it.
                Kept::Left(left, _) if matches!(records.peek(), Some(Kept::Left(next, _)) if Arc::ptr_eq(&left, next)) =>
                    {}
                Kept::Left(left, end) => self.forget(&left, end),
            }
        }
        if let Some((kept, until)) = self.kept.get().zip(last) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).done(until);
        }
    }

    /// Those up to there are done with. Behind the last one the file goes, and what does not read to a file beside it.
    fn forget(&self, left: &Leftover, end: u64) {
        let set_aside = if end < left.end { Ok(()) } else { self.set_aside(left) };
        if let Err(error) = set_aside.and_then(|()| left.lines.done(end)) {
            let (name, path) = (&self.name, left.lines.path().display());
            tracing::warn!("log hook {name}: {path}: {error}: its records may be offered once more");
        }
    }

    fn set_aside(&self, left: &Leftover) -> io::Result<()> {
        if left.unread.is_empty() {
            return Ok(());
        }
        let path = left.lines.path().with_file_name(UNREAD);
        OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?.write_all(&left.unread)?;
        let (name, path) = (&self.name, path.display());
        tracing::error!(
            "log hook {name}: records of a killed process do not read, of a newer program perhaps: they are in {path}"
        );
        Ok(())
    }

    /// All was worked off, and nothing will come.
    pub fn end(&self) {
        if let Some(kept) = self.kept.get()
            && let Err(error) = kept.lock().unwrap_or_else(PoisonError::into_inner).remove()
        {
            tracing::warn!("log hook {}: its journal stays: {error}", self.name);
        }
    }

    /// Whether it keeps what comes.
    pub fn is_open(&self) -> bool {
        self.kept.get().is_some()
    }

    /// How many of those that wait are in memory only.
    pub fn unkept(&self) -> usize {
        self.unkept.load(Ordering::Relaxed).min(self.len())
    }

    /// How many wait or are being worked on.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True while no new work is to be begun.
    pub fn is_full(&self) -> bool {
        self.waiting.is_full()
    }

    /// Nothing more will come.
    pub fn close(&self) {
        self.waiting.close();
    }
}

/// Beside the spool: records that did not read.
const UNREAD: &str = "unread-log-records.jsonl";

#[cfg(test)]
mod tests {
    use super::*;
    use record::{RecordType, Response, Timestamp};

    fn record(number: usize) -> LogRecord {
        let at = Timestamp::from_unix_micros(1);
        let mut record = LogRecord::new(RecordType::Bounce, at, at, Response::new(550, None, "gr\u{fc}n\n"));
        record.id = number.to_string();
        record.meta.insert("tenant".to_owned(), "a".into());
        record
    }

    /// A hook of a process that begins now, and what no hook of that name is offered.
    fn begin(dir: &Path, name: &str) -> (HookBacklog, Vec<LeftLines>) {
        let backlog = HookBacklog::new(name, 100);
        let mut left = LeftLines::all_in(dir).expect("reads");
        backlog.open(dir, left.extract_if(.., |lines| lines.name() == name).collect());
        (backlog, left)
    }

    async fn take(backlog: &HookBacklog, most: usize) -> (Vec<LogRecord>, Vec<Kept>) {
        let taken = backlog.take(most).await;
        drop(backlog.in_hand(taken.len()));
        taken.into_iter().map(|Waiting { record, kept }| (record, kept)).unzip()
    }

    fn records(numbers: impl IntoIterator<Item = usize>) -> Vec<LogRecord> {
        numbers.into_iter().map(record).collect()
    }

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).expect("there").count()
    }

    #[tokio::test]
    async fn what_a_kill_leaves_comes_before_what_is_new_also_when_it_kills_again() {
        let dir = tempfile::tempdir().expect("scratch");
        let (first, _) = begin(dir.path(), "a");
        (0..10).for_each(|number| _ = first.push(record(number)));
        let (taken, kept) = take(&first, 4).await;
        assert_eq!(taken, records(0..4));
        first.done(kept);
        // In hand, and not done with.
        take(&first, 2).await;
        drop(first);
        let (second, _) = begin(dir.path(), "a");
        (10..13).for_each(|number| _ = second.push(record(number)));
        let (taken, kept) = take(&second, 3).await;
        assert_eq!(taken, records(4..7));
        second.done(kept);
        drop(second);
        let (third, _) = begin(dir.path(), "a");
        third.push(record(13));
        let (taken, kept) = take(&third, 100).await;
        assert_eq!(taken, records(7..14), "those of two processes, and its own");
        third.done(kept);
        assert_eq!((third.len(), files(dir.path())), (0, 1), "its own file");
        third.end();
        assert_eq!(files(dir.path()), 0);
    }

    #[tokio::test]
    async fn what_is_worked_off_by_a_hook_that_leaves_is_not_its_successors() {
        let dir = tempfile::tempdir().expect("scratch");
        let (leaving, _) = begin(dir.path(), "a");
        leaving.push(record(0));
        let (next, left) = begin(dir.path(), "a");
        assert!(next.len() == 0 && left.is_empty());
        next.push(record(1));
        drop((leaving, next));
        let (other, left) = begin(dir.path(), "b");
        assert_eq!((other.len(), left.len()), (0, 2), "nor another's");
        drop((other, left));
        let (again, left) = begin(dir.path(), "a");
        assert_eq!(take(&again, 100).await.0, records(0..2), "in order");
        assert!(left.is_empty());
    }

    #[tokio::test]
    async fn where_no_file_can_be_had_records_wait_in_memory() {
        let dir = tempfile::tempdir().expect("scratch");
        let backlog = HookBacklog::new("a", 100);
        backlog.open(&dir.path().join("none"), Vec::new());
        assert!(!backlog.push(record(0)));
        assert_eq!((backlog.len(), backlog.unkept()), (1, 1));
        let (taken, kept) = take(&backlog, 100).await;
        assert_eq!(taken, records(0..1));
        backlog.done(kept);
        assert_eq!(backlog.unkept(), 0);
        backlog.end();
    }

    /// Leaves these lines as a killed process does.
    fn leave(dir: &Path, lines: &[Vec<u8>]) {
        let mut kept = KeptLines::create(dir, "a", String::new()).expect("room");
        for text in lines {
            assert!(kept.put(&mut KeptLines::line(|out| out.extend_from_slice(text))).is_some());
        }
    }

    #[tokio::test]
    async fn what_does_not_read_is_set_aside_and_no_obstacle() {
        let dir = tempfile::tempdir().expect("scratch");
        let json = |number: usize| {
            let mut line = Vec::new();
            record(number).write_json_line(&mut line);
            line
        };
        let of_tomorrow = || b"{\"type\":\"Of tomorrow\"}\n".to_vec();
        let unread = dir.path().join(UNREAD);
        leave(dir.path(), &[json(0), of_tomorrow(), json(1), of_tomorrow()]);
        let (backlog, left) = begin(dir.path(), "a");
        assert_eq!((backlog.len(), left.len(), files(dir.path())), (2, 0, 2), "what was left, its own");
        let (taken, kept) = take(&backlog, 100).await;
        assert_eq!(taken, records(0..2));
        backlog.done(kept);
        assert_eq!(files(dir.path()), 2, "the last one stood for what is behind it");
        assert_eq!(std::fs::read(&unread).expect("there"), [of_tomorrow(), of_tomorrow()].concat());
        drop(backlog);
        leave(dir.path(), &[of_tomorrow()]);
        let (backlog, left) = begin(dir.path(), "a");
        assert_eq!((backlog.len(), left.len(), files(dir.path())), (0, 0, 2), "nothing to wait for");
        assert_eq!(std::fs::read(&unread).expect("there").len(), 3 * of_tomorrow().len());
    }
}
