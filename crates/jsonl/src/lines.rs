//! The segments of a directory as lines, for whoever reads on a thread of its own and remembers by itself how far it came.
//!
//! Owns [`Lines`]. In: a directory, a glob, where to begin. Out: one line after the other, also of a segment that is still
//! written; [`Read::End`] for now, after which it may be asked again. It waits for the disk. A segment that was gone when
//! it was wanted is told as a gap: nobody is kept from removing segments.

use crate::JsonlError;
use crate::checkpoint::Position;
use crate::reader::{Found, Reader};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

/// Lines of segments, in the order they were written.
pub struct Lines(Reader);

/// Where reading begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the first line there is.
    Start,
    /// Behind the last line there is; the last segment is read for it.
    End,
    /// With the first segment that was not finished before this time.
    Since(SystemTime),
    /// Behind a line.
    Behind(Position),
}

/// What a step comes to.
#[derive(Debug)]
pub enum Read {
    /// A line: [`Lines::text`]. It stands here.
    Line(Position),
    /// Nothing that is wanted; more may be there. A step is bounded, so that whoever reads can stop between two.
    Passed,
    /// A line, or the rest of a segment, that cannot be read and was passed over.
    Fault(JsonlError),
    /// Nothing, for now.
    End,
}

impl Lines {
    /// Begins to read what `pattern` matches in `directory`.
    ///
    /// Errors: [`JsonlError::Directory`] when it is not there, [`JsonlError::Pattern`], [`JsonlError::Read`].
    pub fn open(directory: &Path, pattern: &str, begin: Begin) -> Result<Lines, JsonlError> {
        let mut reader = Reader::new(directory, pattern)?;
        match begin {
            Begin::Start => {}
            Begin::End => {
                reader.start_behind(reader.newest()?);
                while !matches!(reader.next_line()?, Found::End) {}
            }
            Begin::Since(time) => reader.start_behind(reader.since(time)?),
            Begin::Behind(at) => reader.start_behind(Some(at)),
        }
        Ok(Lines(reader))
    }

    /// Goes one step on.
    ///
    /// Errors: what keeps it from reading on. Called again it tries again.
    pub fn step(&mut self) -> Result<Read, JsonlError> {
        Ok(match self.0.next_line()? {
            Found::Line(at) => Read::Line(at),
            Found::Passed => Read::Passed,
            Found::Fault(fault) => Read::Fault(fault),
            Found::End => Read::End,
        })
    }

    /// The line of [`Read::Line`], without its newline, until the next step.
    pub fn text(&self) -> &[u8] {
        self.0.text()
    }

    /// Behind what was read: whoever begins there has what comes next. Before all when nothing is there yet.
    pub fn at(&self) -> Position {
        self.0.at().cloned().unwrap_or_else(Position::before_all)
    }

    /// Looks which segment comes next, so that it is told when it is gone by the time it is wanted. To be called now and
    /// then by who does not read on.
    ///
    /// Errors: [`JsonlError::Directory`].
    pub fn look_ahead(&mut self) -> Result<(), JsonlError> {
        self.0.look_ahead()
    }

    /// Whether it is still on its way to where reading was to begin: what is before it is read over, and [`Lines::at`] is there
    /// already.
    pub fn is_returning(&self) -> bool {
        self.0.is_returning()
    }

    /// The name of a segment that was gone when it was wanted, or in which reading was to go on; told once. What is read
    /// next comes from the first segment behind it.
    pub fn take_gap(&mut self) -> Option<Arc<str>> {
        self.0.take_gap()
    }

    /// The name of the first segment there is.
    ///
    /// Errors: [`JsonlError::Directory`].
    pub fn oldest(&self) -> Result<Option<Arc<str>>, JsonlError> {
        self.0.oldest()
    }
}

impl Position {
    /// Before the first line of the first segment, whatever it is called.
    pub fn before_all() -> Position {
        Position { file: "".into(), line: 0 }
    }
}
