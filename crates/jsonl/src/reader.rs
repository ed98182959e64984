//! The segments of a directory as one sequence of records.
//!
//! Owns [`Reader`]. In: a directory, a glob, and where to begin. Out: [`Item`]s, records and faults, in the order of the
//! segments' names; nothing when there is nothing more for now. It reads files and waits for the disk, so it is called on
//! blocking threads.
//!
//! A segment is over, and the next one is begun, when its end is reached and
//! - it is read-only: its writer finished it; or
//! - there is a later segment and nobody holds its lock: its writer crashed, or gave it up. What a writer of ours has open
//!   is locked (`telemetry::Segment`), so of two that write side by side neither is taken for dead.
//!
//! A segment that ends in the middle of a frame or of a line is said to, and what is left of the line is dropped: it was
//! never wholly written. What is named like a segment, but earlier than the one being read, is not looked for.

use crate::JsonlError;
use crate::checkpoint::Position;
use crate::stream::{Broken, LINE_OCTETS_MAX, Next, Stream};
use glob::Pattern;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, TryLockError};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What was read.
pub(crate) enum Item {
    /// A record.
    Record {
        /// Where it stands.
        at: Position,
        /// What its line says.
        record: Arc<Value>,
        /// How long that line is.
        octets: usize,
    },
    /// Something that cannot be read, and was passed over.
    Fault(JsonlError),
}

/// Reads the segments of a directory.
pub(crate) struct Reader {
    directory: PathBuf,
    pattern: Pattern,
    /// What is at or before it is passed over.
    start: Option<Position>,
    current: Option<Current>,
    /// The last segment that is over.
    done: Option<Arc<str>>,
}

struct Current {
    name: Arc<str>,
    stream: Stream,
    /// Nobody writes to it any more.
    is_over: bool,
}

impl Reader {
    /// A reader of what `pattern` matches in `directory`.
    pub fn new(directory: &Path, pattern: &str) -> Result<Reader, JsonlError> {
        let failed =
            |cause: glob::PatternError| JsonlError::Pattern { pattern: pattern.to_owned(), cause: cause.to_string() };
        let reader = Reader {
            directory: directory.to_owned(),
            pattern: Pattern::new(pattern).map_err(failed)?,
            start: None,
            current: None,
            done: None,
        };
        reader.segment(Bound::Unbounded, Wanted::First)?;
        Ok(reader)
    }

    /// Begins behind `start` instead of at the beginning.
    pub fn start_behind(&mut self, start: Option<Position>) {
        self.start = start;
    }

    /// The last line there is; reads the last segment to its end.
    pub fn end(&self) -> Result<Option<Position>, JsonlError> {
        let Some(file) = self.segment(Bound::Unbounded, Wanted::Last)? else { return Ok(None) };
        let path = self.directory.join(&*file);
        let mut stream = match Stream::open(&path) {
            Err(cause) => return Err(JsonlError::Read { file: path, cause }),
            Ok(stream) => stream,
        };
        loop {
            match stream.next_line() {
                Ok(Next::End) | Err(Broken::Frame(_)) => break,
                Ok(_) => {}
                Err(Broken::File(cause)) => return Err(JsonlError::Read { file: path, cause }),
            }
        }
        Ok(Some(Position { file, line: stream.lines() }))
    }

    /// Before the first line of the last segment; nothing when there is no segment.
    pub fn newest(&self) -> Result<Option<Position>, JsonlError> {
        Ok(self.segment(Bound::Unbounded, Wanted::Last)?.map(|file| Position { file, line: 0 }))
    }

    /// Appends to `items` what there is, some of it at least: nothing means there is nothing for now. Stops early when it
    /// is told to.
    ///
    /// Errors: what keeps it from reading on. Called again it tries again.
    pub fn fill(&mut self, items: &mut VecDeque<Item>, stop: &AtomicBool) -> Result<(), JsonlError> {
        let mut octets_left = FILL_OCTETS_MAX;
        while octets_left > 0 && items.len() < FILL_ITEMS_MAX && !stop.load(Ordering::Relaxed) {
            let Some(current) = &mut self.current else {
                if !self.open_next()? {
                    return Ok(());
                }
                continue;
            };
            match current.stream.next_line() {
                Ok(Next::End) if current.is_over => self.leave(items),
                Ok(Next::End) => {
                    if !self.is_over()? {
                        return Ok(());
                    }
                    // What came since the end was reached is read first.
                    self.current.as_mut().into_iter().for_each(|current| current.is_over = true);
                }
                Ok(next) => {
                    // What is passed over does not count: nothing in `items` means that nothing is there.
                    if let Some(item) = item(&self.directory, self.start.as_ref(), current, &next) {
                        octets_left = octets_left.saturating_sub(current.stream.line().len());
                        items.push_back(item);
                    }
                }
                Err(Broken::File(cause)) => {
                    let file = self.directory.join(&*current.name);
                    return Err(JsonlError::Read { file, cause });
                }
                Err(Broken::Frame(cause)) => {
                    let (file, line) = (self.directory.join(&*current.name), current.stream.lines());
                    items.push_back(Item::Fault(JsonlError::Damaged { file, line, cause }));
                    self.done = self.current.take().map(|current| current.name);
                }
            }
        }
        Ok(())
    }

    /// Opens the next segment; false when there is none yet.
    fn open_next(&mut self) -> Result<bool, JsonlError> {
        let after = match (&self.done, &self.start) {
            (Some(done), _) => Bound::Excluded(&**done),
            (None, Some(start)) => Bound::Included(&*start.file),
            (None, None) => Bound::Unbounded,
        };
        let Some(name) = self.segment(after, Wanted::First)? else { return Ok(false) };
        let path = self.directory.join(&*name);
        match Stream::open(&path) {
            Ok(stream) => self.current = Some(Current { name, stream, is_over: false }),
            // Removed since it was seen.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => self.done = Some(name),
            Err(cause) => return Err(JsonlError::Read { file: path, cause }),
        }
        Ok(true)
    }

    /// True when nobody writes to the current segment any more.
    fn is_over(&self) -> Result<bool, JsonlError> {
        let Some(current) = &self.current else { return Ok(false) };
        let file = current.stream.file();
        let read = |cause| JsonlError::Read { file: self.directory.join(&*current.name), cause };
        if file.metadata().map_err(read)?.permissions().readonly() {
            return Ok(true);
        }
        if is_locked(file) {
            return Ok(false);
        }
        Ok(self.segment(Bound::Excluded(&current.name), Wanted::First)?.is_some())
    }

    /// Leaves the current segment, which is over.
    fn leave(&mut self, items: &mut VecDeque<Item>) {
        let Some(mut current) = self.current.take() else { return };
        if current.stream.in_frame() {
            let file = self.directory.join(&*current.name);
            let lines = current.stream.lines();
            tracing::warn!("{} was not finished by its writer: read {lines} lines and go on", file.display());
        } else {
            let next = current.stream.last_line();
            items.extend(item(&self.directory, self.start.as_ref(), &current, &next));
        }
        self.done = Some(current.name);
    }

    /// The first or last segment within a bound.
    fn segment(&self, after: Bound<&str>, wanted: Wanted) -> Result<Option<Arc<str>>, JsonlError> {
        let failed = |cause| JsonlError::Directory { dir: self.directory.clone(), cause };
        let mut best: Option<String> = None;
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_within = match after {
                Bound::Excluded(after) => &*name > after,
                Bound::Included(from) => &*name >= from,
                Bound::Unbounded => true,
            };
            let is_better = best.as_ref().is_none_or(|best| match wanted {
                Wanted::First => name < *best,
                Wanted::Last => name > *best,
            });
            // Hidden files are checkpoints and the like.
            if is_within && is_better && !name.starts_with('.') && self.pattern.matches(&name) {
                // Follows links; what is gone by now is no segment.
                if fs::metadata(entry.path()).is_ok_and(|found| found.is_file()) {
                    best = Some(name);
                }
            }
        }
        Ok(best.map(Arc::from))
    }
}

#[derive(Clone, Copy)]
enum Wanted {
    First,
    Last,
}

/// What the line that was just read is; nothing when it is not wanted or empty.
fn item(directory: &Path, start: Option<&Position>, current: &Current, next: &Next) -> Option<Item> {
    let at = Position { file: current.name.clone(), line: current.stream.lines() };
    if start.is_some_and(|start| at <= *start) {
        return None;
    }
    let (file, line) = (|| directory.join(&*current.name), at.line);
    let text = current.stream.line();
    match next {
        Next::End => None,
        Next::TooLong => Some(Item::Fault(JsonlError::ReadTooLong { file: file(), line, octets_max: LINE_OCTETS_MAX })),
        Next::Line if text.iter().all(u8::is_ascii_whitespace) => None,
        Next::Line => Some(match serde_json::from_slice(text) {
            Ok(record) => Item::Record { at, record: Arc::new(record), octets: text.len() },
            Err(cause) => Item::Fault(JsonlError::NotJson { file: file(), line, cause }),
        }),
    }
}

/// True when a writer has the file open. A shared lock: other tailers ask too.
fn is_locked(file: &fs::File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            if let Err(error) = file.unlock() {
                tracing::debug!("cannot unlock a segment: {error}");
            }
            false
        }
        Err(TryLockError::WouldBlock) => true,
        // Not every file system has locks.
        Err(TryLockError::Error(_)) => false,
    }
}

/// Lines read at a time, in octets; the last may be longer.
const FILL_OCTETS_MAX: usize = 1024 * 1024;
/// Records and faults read at a time.
const FILL_ITEMS_MAX: usize = 1000;
