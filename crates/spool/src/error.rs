//! Why the spool could not do it: one enum, a variant a cause, facts in fields.
//!
//! Errors are values that many waiting sessions get a copy of, so an operating system error is
//! kept as its kind, number and text.

use crate::FileName;
use message::{MessageId, Place};
use std::io;
use thiserror::Error;

/// What the spool was doing when the disk refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Listing the spool's files.
    List,
    /// Creating a file.
    Create,
    /// Writing pages.
    Write,
    /// Waiting for the disk to have them.
    Sync,
    /// Reading pages.
    Read,
    /// Renaming, with the sync of the directory.
    Rename,
    /// Removing, with the sync of the directory.
    Remove,
}

/// Why a spool call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpoolError {
    /// The disk refused.
    #[error("spool: cannot {step} {}: {text}", named(file))]
    Io {
        /// What was being done.
        step: Step,
        /// To which file; `None` for the directory.
        file: Option<FileName>,
        /// The kind of error.
        kind: io::ErrorKind,
        /// The operating system's number, when there is one.
        errno: Option<i32>,
        /// The operating system's words.
        text: String,
    },
    /// The disk refused, in a spool of one file per message.
    #[error("spool: cannot {step} {path}: {text}")]
    File {
        /// What was being done.
        step: Step,
        /// To which file or directory, below the spool directory.
        path: String,
        /// The kind of error.
        kind: io::ErrorKind,
        /// The operating system's number, when there is one.
        errno: Option<i32>,
        /// The operating system's words.
        text: String,
    },
    /// A segment written by a newer version; nothing was changed.
    #[error(
        "spool: {file} has format version {found}; this program knows up to {known}: use the newer program, or another spool"
    )]
    NewerFormat {
        /// The segment.
        file: FileName,
        /// Its version.
        found: u32,
        /// The newest version this program reads.
        known: u32,
    },
    /// A batch beyond what a segment can address.
    #[error("spool: {octets} octets in one commit; at most {octets_max} fit")]
    TooBig {
        /// Octets asked for.
        octets: u64,
        /// The bound.
        octets_max: u64,
    },
    /// A transaction with no message or too many.
    #[error("spool: {messages} messages in one transaction; expected 1 to {messages_max}")]
    MessageCount {
        /// Messages asked for.
        messages: usize,
        /// The bound.
        messages_max: usize,
    },
    /// The messages of a transaction must share one body.
    #[error("spool: the messages of one transaction do not share one body: {id}")]
    BodiesDiffer {
        /// The first message with another body.
        id: MessageId,
    },
    /// The message is not at this place, nor anywhere else.
    #[error("spool: no message {id}")]
    NoSuchMessage {
        /// Whose content was wanted.
        id: MessageId,
    },
    /// The octets at this place are not what was written.
    #[error("spool: message {id} does not read back as written (at {place})")]
    Damaged {
        /// Whose content was wanted.
        id: MessageId,
        /// Where it should be.
        place: Place,
    },
    /// Segments are released faster than an onlooker reads them.
    #[error("spool: the log moves on faster than it can be read: try again when less mail flows")]
    Busy,
    /// All segment numbers are used.
    #[error("spool: all segment numbers are used; drain this spool and start a new one")]
    Exhausted,
    /// The spool was closed.
    #[error("spool: closed")]
    Closed,
}

impl SpoolError {
    /// From the disk's answer.
    pub fn io(step: Step, file: impl Into<Option<FileName>>, error: &io::Error) -> SpoolError {
        SpoolError::Io {
            step,
            file: file.into(),
            kind: error.kind(),
            errno: error.raw_os_error(),
            text: error.to_string(),
        }
    }

    /// True when the disk took nothing and nothing is in doubt: no space, or read-only. What was
    /// there is as it was, and a write of which this is said may have left a part of itself and nothing else.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_full() || matches!(self, SpoolError::Io { kind: io::ErrorKind::ReadOnlyFilesystem, .. })
    }

    /// True when the system had no descriptor or memory to spare: nothing is known of the file.
    pub(crate) fn will_pass(&self) -> bool {
        matches!(self, SpoolError::Io { errno, .. } | SpoolError::File { errno, .. } if lacks_means(*errno))
    }

    /// True when the cause is lack of space: 452 4.3.1 rather than 451 4.3.0.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        let (SpoolError::Io { kind, .. } | SpoolError::File { kind, .. }) = self else { return false };
        matches!(kind, StorageFull | QuotaExceeded)
    }
}

/// Whether an error is about the system's means, descriptors or memory, and not about the file: it will pass.
pub fn lacks_means(errno: Option<i32>) -> bool {
    errno.is_some_and(|errno| LACKING.contains(&errno))
}

/// EAGAIN, ENOMEM, ENFILE, EMFILE (Linux).
const LACKING: [i32; 4] = [11, 12, 23, 24];

impl core::fmt::Display for Step {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Step::List => "list",
            Step::Create => "create",
            Step::Write => "write",
            Step::Sync => "sync",
            Step::Read => "read",
            Step::Rename => "rename",
            Step::Remove => "remove",
        })
    }
}

fn named(file: &Option<FileName>) -> String {
    file.map_or_else(|| "the spool directory".to_owned(), |file| file.to_string())
}
