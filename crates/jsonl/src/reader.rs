//! The segments of a directory as one sequence of records.
//!
//! Owns [`Reader`]. In: a directory, a glob, and where to begin. Out: lines ([`Found`]), or [`Item`]s, records and faults,
//! in the order of the segments' names; nothing when there is nothing more for now. It reads files and waits for the disk,
//! so it is called on blocking threads.
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
use crate::stream::{Broken, Next, Stream};
use config::LINE_OCTETS_MAX;
use glob::Pattern;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::{self, TryLockError};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

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

/// What a step comes to.
pub(crate) enum Found {
    /// A line: [`Reader::text`].
    Line(Position),
    /// Nothing that is wanted; more may be there.
    Passed,
    /// Something that cannot be read, and was passed over.
    Fault(JsonlError),
    /// Nothing, for now.
    End,
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
    /// Behind what was read.
    at: Option<Position>,
    /// The segment behind the current one, once it was seen.
    awaited: Option<Arc<str>>,
    /// A segment that was gone when it was wanted.
    gap: Option<Arc<str>>,
    line_octets_max: usize,
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
        let reader = Reader {
            directory: directory.to_owned(),
            pattern: compiled(pattern)?,
            start: None,
            current: None,
            done: None,
            at: None,
            awaited: None,
            gap: None,
            line_octets_max: LINE_OCTETS_MAX,
        };
        reader.segment(Bound::Unbounded, Wanted::First)?;
        Ok(reader)
    }

    /// Takes lines of so many octets with their newline at most; [`LINE_OCTETS_MAX`] unless told.
    pub fn take_lines_up_to(&mut self, octets_max: usize) {
        self.line_octets_max = octets_max;
    }

    /// Begins behind `start` instead of at the beginning.
    pub fn start_behind(&mut self, start: Option<Position>) {
        self.at.clone_from(&start);
        self.start = start;
    }

    /// The last line there is; reads the last segment to its end.
    pub fn end(&self) -> Result<Option<Position>, JsonlError> {
        let Some(file) = self.segment(Bound::Unbounded, Wanted::Last)? else { return Ok(None) };
        let path = self.directory.join(&*file);
        let mut stream = match Stream::with_line_max(&path, self.line_octets_max) {
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

    /// The first segment there is.
    pub fn oldest(&self) -> Result<Option<Arc<str>>, JsonlError> {
        self.segment(Bound::Unbounded, Wanted::First)
    }

    /// Before the first line of the first segment that is not finished, or was written to at `since` or later; of the last
    /// there is when all ended before.
    ///
    /// Errors: [`JsonlError::Directory`].
    pub fn since(&self, since: SystemTime) -> Result<Option<Position>, JsonlError> {
        let names = names(&self.directory, &self.pattern)?;
        let has_ended = |name: &String| {
            // One that is gone by now is none.
            fs::metadata(self.directory.join(name)).map_or(true, |found| {
                found.permissions().readonly() && found.modified().is_ok_and(|written| written < since)
            })
        };
        let first = names.iter().find(|name| !has_ended(name)).or(names.last());
        Ok(first.map(|name| Position { file: name.as_str().into(), line: 0 }))
    }

    /// Appends to `items` what there is, some of it at least: nothing means there is nothing for now. Stops early when it
    /// is told to.
    ///
    /// Errors: what keeps it from reading on. Called again it tries again.
    pub fn fill(&mut self, items: &mut VecDeque<Item>, stop: &AtomicBool) -> Result<(), JsonlError> {
        let mut octets_left = FILL_OCTETS_MAX;
        while octets_left > 0 && items.len() < FILL_ITEMS_MAX && !stop.load(Ordering::Relaxed) {
            match self.next_line()? {
                Found::End => return Ok(()),
                // What is passed over does not count: nothing in `items` means that nothing is there.
                Found::Passed => {}
                Found::Fault(fault) => items.push_back(Item::Fault(fault)),
                Found::Line(at) => {
                    let text = self.text();
                    let octets = text.len();
                    octets_left = octets_left.saturating_sub(octets);
                    items.push_back(match serde_json::from_slice(text) {
                        Ok(record) => Item::Record { at, record: Arc::new(record), octets },
                        Err(cause) => {
                            let (file, line) = (self.directory.join(&*at.file), at.line);
                            Item::Fault(JsonlError::NotJson { file, line, cause })
                        }
                    });
                }
            }
        }
        Ok(())
    }

    /// Goes one step on: to the next line, or past something that is none.
    ///
    /// Errors: as [`Reader::fill`].
    pub fn next_line(&mut self) -> Result<Found, JsonlError> {
        let Some(current) = &mut self.current else {
            return Ok(if self.open_next()? { Found::Passed } else { Found::End });
        };
        match current.stream.next_line() {
            Ok(Next::End) if current.is_over => {
                let rest = if current.stream.in_frame() { Next::End } else { current.stream.last_line() };
                match rest {
                    Next::End => self.leave(),
                    rest => return Ok(self.found(&rest)),
                }
                Ok(Found::Passed)
            }
            Ok(Next::End) => {
                if !self.is_over()? {
                    return Ok(Found::End);
                }
                // What came since the end was reached is read first.
                self.current.as_mut().into_iter().for_each(|current| current.is_over = true);
                Ok(Found::Passed)
            }
            Ok(next) => Ok(self.found(&next)),
            Err(Broken::File(cause)) => {
                let file = self.directory.join(&*current.name);
                Err(JsonlError::Read { file, cause })
            }
            Err(Broken::Frame(cause)) => {
                let (file, line) = (self.directory.join(&*current.name), current.stream.lines());
                self.done = self.current.take().map(|current| current.name);
                Ok(Found::Fault(JsonlError::Damaged { file, line, cause }))
            }
        }
    }

    /// The line that [`Found::Line`] spoke of, without its newline.
    pub fn text(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |current| current.stream.line())
    }

    /// Behind what was read or passed over; before the first line of a segment that was just begun.
    pub fn at(&self) -> Option<&Position> {
        self.at.as_ref()
    }

    /// Looks which segment comes next, so that it is noticed when it is gone by the time it is wanted.
    ///
    /// Errors: [`JsonlError::Directory`].
    pub fn look_ahead(&mut self) -> Result<(), JsonlError> {
        let behind = self.current.as_ref().map(|current| &current.name).or(self.done.as_ref());
        if let (Some(behind), None) = (behind, &self.awaited) {
            self.awaited = self.segment(Bound::Excluded(behind), Wanted::First)?;
        }
        Ok(())
    }

    /// Whether it reads over what is before its start.
    pub fn is_returning(&self) -> bool {
        let before = |start: &Position| {
            self.current.as_ref().is_some_and(|now| now.name == start.file && now.stream.lines() < start.line)
        };
        self.start.as_ref().is_some_and(before)
    }

    /// The segment that should have been read before the current one and was gone, once.
    pub fn take_gap(&mut self) -> Option<Arc<str>> {
        self.gap.take()
    }

    /// What the line that was just read is.
    fn found(&mut self, next: &Next) -> Found {
        let Some(current) = &self.current else { return Found::Passed };
        let at = Position { file: current.name.clone(), line: current.stream.lines() };
        if self.start.as_ref().is_some_and(|start| at <= *start) {
            return Found::Passed;
        }
        self.at = Some(at.clone());
        match next {
            Next::TooLong => {
                let (file, line) = (self.directory.join(&*at.file), at.line);
                Found::Fault(JsonlError::ReadTooLong { file, line, octets_max: self.line_octets_max })
            }
            Next::Line if !current.stream.line().iter().all(u8::is_ascii_whitespace) => Found::Line(at),
            Next::Line | Next::End => Found::Passed,
        }
    }

    /// Opens the next segment; false when there is none yet.
    fn open_next(&mut self) -> Result<bool, JsonlError> {
        let after = match (&self.done, &self.start) {
            (Some(done), _) => Bound::Excluded(&**done),
            (None, Some(start)) => Bound::Included(&*start.file),
            (None, None) => Bound::Unbounded,
        };
        let Some(name) = self.segment(after, Wanted::First)? else { return Ok(false) };
        let expected = match (&self.done, &self.start) {
            (Some(_), _) => self.awaited.take(),
            (None, start) => start.as_ref().map(|start| start.file.clone()).filter(|file| !file.is_empty()),
        };
        self.gap = expected.filter(|expected| *expected < name).or(self.gap.take());
        let path = self.directory.join(&*name);
        match Stream::with_line_max(&path, self.line_octets_max) {
            Ok(stream) => {
                let begin = Position { file: name.clone(), line: 0 };
                self.at = self.start.clone().filter(|start| *start > begin && start.file == name).or(Some(begin));
                self.current = Some(Current { name, stream, is_over: false });
            }
            // Removed since it was seen.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                self.gap = Some(name.clone());
                self.done = Some(name);
            }
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
    fn leave(&mut self) {
        let Some(current) = self.current.take() else { return };
        if current.stream.in_frame() {
            let file = self.directory.join(&*current.name);
            let lines = current.stream.lines();
            tracing::warn!("{} was not finished by its writer: read {lines} lines and go on", file.display());
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

/// The names of the segments that `pattern` matches in `directory`, in order.
///
/// Errors: [`JsonlError::Directory`] when it is not there, [`JsonlError::Pattern`].
pub fn segments(directory: &Path, pattern: &str) -> Result<Vec<String>, JsonlError> {
    names(directory, &compiled(pattern)?)
}

fn compiled(pattern: &str) -> Result<Pattern, JsonlError> {
    let failed =
        |cause: glob::PatternError| JsonlError::Pattern { pattern: pattern.to_owned(), cause: cause.to_string() };
    Pattern::new(pattern).map_err(failed)
}

/// Hidden files are checkpoints and the like.
fn names(directory: &Path, pattern: &Pattern) -> Result<Vec<String>, JsonlError> {
    let failed = |cause| JsonlError::Directory { dir: directory.to_owned(), cause };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let Ok(name) = entry.map_err(failed)?.file_name().into_string() else { continue };
        if !name.starts_with('.') && pattern.matches(&name) {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[derive(Clone, Copy)]
enum Wanted {
    First,
    Last,
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
