//! Events of the mail path for other systems, read from the log's own segments: nothing is asked of the delivery path.
//!
//! Owns [`EventStreams`], what a policy configured with `kumo.configure_event_stream`, each with a thread of its own that posts
//! signed batches to a web server, and what is asked over HTTP ([`Asked`]), where the consumer keeps the cursor. In: options,
//! segments. Out: requests, answers, a checkpoint file a stream. At least once, in the order of the log: a batch is passed
//! when the receiver took it and the checkpoint says so. Fails with [`EventError`]; what fails while a stream runs is said
//! in the log and tried again.
//!
//! Deliberately absent: keeping segments for those who have not read them. What the log's owner removes is gone, and that is
//! said ([`jsonl::Lines::take_gap`]).

pub mod backoff;
mod batch;
mod checkpoint;
mod cursor;
mod error;
mod poster;
mod pull;
mod push;
mod signature;
mod source;
mod streams;
mod wanted;

pub use checkpoint::Checkpoint;
pub use cursor::{CURSOR_OCTETS_MAX, Cursor};
pub use error::EventError;
pub use poster::check;
pub use pull::{Asked, LIMIT_MAX, PULLS_MAX, Pulled, WAIT_MAX};
pub use streams::{Change, EventStreams, Folder};

#[cfg(test)]
mod tests {
    //! What tests of this crate share.

    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// A segment that is over.
    pub(crate) fn segment(dir: &Path, name: &str, lines: &str) {
        let path = dir.join(name);
        fs::write(&path, zstd::encode_all(lines.as_bytes(), 1).expect("encodes")).expect("writes");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).expect("read-only");
    }
}
