//! Why events cannot be had or sent: one enum, a variant a cause.

use crate::cursor::Cursor;
use jsonl::JsonlError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;
use web::WebError;

/// Why events cannot be had or sent.
#[derive(Debug, Error)]
pub enum EventError {
    /// Segments cannot be read.
    #[error("{0}")]
    Log(#[from] JsonlError),
    /// The checkpoint cannot be read or written, or is none.
    #[error("checkpoint `{}`: {cause}", file.display())]
    Checkpoint {
        /// Which.
        file: PathBuf,
        /// What the system said, or what is wrong with its text.
        cause: io::Error,
    },
    /// The key of the signatures cannot be had.
    #[error("secret: {0}")]
    Secret(String),
    /// URL, header fields or TLS cannot be used.
    #[error("{0}")]
    Web(#[from] WebError),
    /// A header field that cannot be given.
    #[error("headers: `{name}`: {why}")]
    Header {
        /// Its name.
        name: String,
        /// What was expected.
        why: String,
    },
    /// No log is there.
    #[error("log_dir {given:?}, suffix {suffix:?}: expected one of those that are written: {known}")]
    Folder {
        /// As it was given; empty when it was not.
        given: String,
        /// Likewise.
        suffix: String,
        /// Those there are.
        known: String,
    },
    /// A thread cannot be started, or stopped working.
    #[error("a thread for events: {0}")]
    Thread(io::Error),
    /// A cursor that nobody here made.
    #[error("invalid cursor {0:?}: expected the `next` of an earlier answer")]
    Cursor(String),
    /// What the cursor points to was removed.
    #[error("the cursor's segment {segment} is gone: removed before it was read to its end")]
    Gone {
        /// Its name.
        segment: String,
        /// Where the oldest record stands that is left.
        oldest: Cursor,
    },
    /// The first record of a time was still looked for when the program was told to end.
    #[error("the program ends")]
    Ending,
    /// Too many ask at once.
    #[error("{max} ask for events already: expected fewer at once")]
    Busy {
        /// How many may.
        max: usize,
    },
}
