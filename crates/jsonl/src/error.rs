//! What can go wrong with segments: one enum, a variant a cause.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why segments cannot be written or tailed.
#[derive(Debug, Error)]
pub enum JsonlError {
    /// The directory cannot be made, read or watched.
    #[error("directory `{}`: {cause}", dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file system gives no notices, or no more of them.
    #[error("directory `{}` cannot be watched: {cause}; `poll_watcher` does without", dir.display())]
    Watch {
        /// Which.
        dir: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// The glob is none.
    #[error("pattern `{pattern}`: {cause}")]
    Pattern {
        /// As it was given.
        pattern: String,
        /// What is wrong with it.
        cause: String,
    },
    /// A thread cannot be started, or stopped working.
    #[error("a thread for segments: {0}")]
    Thread(io::Error),
    /// A segment cannot be written; what was written before is in it.
    #[error("log_dir `{}`: {cause}", dir.display())]
    Write {
        /// Where the segment is.
        dir: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A line to be written is longer than the writer may write.
    #[error("a line of {octets} octets with its newline: max_record_size allows {octets_max}")]
    WriteTooLong {
        /// With its newline.
        octets: usize,
        /// `max_record_size`.
        octets_max: usize,
    },
    /// The value to be written has no JSON form.
    #[error("not a value of JSON: {0}")]
    Encode(serde_json::Error),
    /// The writer was closed before.
    #[error("the writer is closed")]
    Closed,
    /// A segment cannot be read; the next step tries again.
    #[error("`{}`: {cause}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A segment is not zstd from here on; the next step goes on with the next segment.
    #[error("`{}` behind line {line}: {cause}", file.display())]
    Damaged {
        /// Which.
        file: PathBuf,
        /// The last line that was whole; the first is 1.
        line: u64,
        /// What zstd said.
        cause: io::Error,
    },
    /// A line is not JSON; the next step goes on behind it.
    #[error("`{}` line {line}: not JSON: {cause}", file.display())]
    NotJson {
        /// Which file.
        file: PathBuf,
        /// Which line; the first is 1.
        line: u64,
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// A line is too long; the next step goes on behind it.
    #[error("`{}` line {line}: longer than {octets_max} octets (max_line_size)", file.display())]
    ReadTooLong {
        /// Which file.
        file: PathBuf,
        /// Which line; the first is 1.
        line: u64,
        /// The reader's bound: `max_line_size` of a tailer.
        octets_max: usize,
    },
    /// A checkpoint file cannot be read or written, or is none.
    #[error("checkpoint `{}`: {cause}", file.display())]
    Checkpoint {
        /// Which.
        file: PathBuf,
        /// What the system said, or what is wrong with its text.
        cause: io::Error,
    },
    /// The batch was committed before.
    #[error("the batch is committed already")]
    Committed,
}
