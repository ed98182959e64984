//! Why a spool directory could not be opened.

use spool::SpoolError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a spool could not be opened. Its text is one line for the operator.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process has it.
    #[error("spool {}: in use by another process ({holder}): {} is locked; stop that process or choose another spool path", dir.display(), lock.display())]
    InUse {
        /// The spool directory.
        dir: PathBuf,
        /// The file that is locked.
        lock: PathBuf,
        /// Who holds it: `pid 123`, or why that is not known.
        holder: String,
    },
    /// A file or directory of it cannot be used.
    #[error("spool {}: cannot {what}: {source}", path.display())]
    Io {
        /// Which file or directory.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// The operating system's words.
        source: io::Error,
    },
    /// Nothing in the directory is a spool's.
    #[error("{}: not a spool: no segment and no msg/ in it{}", dir.display(), hinted(hint))]
    NotASpool {
        /// The directory.
        dir: PathBuf,
        /// A directory in it that is a spool.
        hint: Option<PathBuf>,
    },
    /// It holds the other kind of spool.
    #[error("spool {}: holds {found}, but {wanted} is asked for; choose the kind it holds or another spool path", dir.display())]
    OtherKind {
        /// The spool directory.
        dir: PathBuf,
        /// What it holds.
        found: &'static str,
        /// What was asked for.
        wanted: &'static str,
    },
    /// Its message files were written by a newer version; nothing was changed.
    #[error("spool {}: msg/version says version {found}; this program knows up to {known}: use the newer program, or another spool path", dir.display())]
    NewerFiles {
        /// The spool directory.
        dir: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version this program reads.
        known: u64,
    },
    /// Its message files lie where an earlier version had them; they are moved when a server opens it.
    #[error("spool {}: msg/version says version {found}; a start of the server on it brings it to version {known}, then it can be looked at", dir.display())]
    OlderFiles {
        /// The spool directory.
        dir: PathBuf,
        /// Its version.
        found: u64,
        /// The version this program reads.
        known: u64,
    },
    /// What is in it cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl StoreError {
    /// For `map_err`.
    pub(crate) fn io<'a>(path: &'a Path, what: &'static str) -> impl FnOnce(io::Error) -> StoreError + 'a {
        move |source| StoreError::Io { path: path.to_owned(), what, source }
    }
}

fn hinted(hint: &Option<PathBuf>) -> String {
    hint.as_ref().map_or_else(String::new, |path| format!("; {} is one", path.display()))
}
