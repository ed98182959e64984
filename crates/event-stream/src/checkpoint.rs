//! How far a stream has come, and the file that remembers it.
//!
//! Owns [`Checkpoint`]. The file is called `.event-stream-NAME`, hidden as all checkpoints are, so that nobody takes it for a
//! segment. It holds one line of JSON, that of a tailer's checkpoint and, while a batch is being sent, where that ends:
//!
//! ```text
//! {"version":1,"file":"20261121-000000.000000000","line":42,"sending":{"file":"20261121-000000.000000000","line":52}}
//! ```
//!
//! `line` is the last line that is done with; the first is 1. `sending` is written before the batch is sent, so that one that is
//! repeated after a crash is the same batch. Written as `NAME.new`, synced, renamed, and the directory synced: after a power
//! cut it is this one or the one before. Any other text is an error: to begin anew silently would repeat everything.

use crate::error::EventError;
use jsonl::Position;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The last line that is done with.
    pub done: Position,
    /// The last line of the batch that is being sent.
    pub sending: Option<Position>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    file: Arc<str>,
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sending: Option<Position>,
}

impl Checkpoint {
    /// That of the stream `name`, in a directory.
    pub fn of(directory: &Path, name: &str) -> Checkpoint {
        Checkpoint { path: directory.join(format!(".event-stream-{name}")) }
    }

    /// What it says; nothing when it was never written. Waits for the disk.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(&self) -> Result<Option<Progress>, EventError> {
        self.read_text().map_err(|cause| self.failed(cause))
    }

    /// Writes it. Waits for the disk.
    ///
    /// # Errors
    /// It cannot be written; then what it said before stands.
    pub fn write(&self, progress: &Progress) -> Result<(), EventError> {
        self.write_text(progress).map_err(|cause| self.failed(cause))
    }

    fn read_text(&self) -> io::Result<Option<Progress>> {
        let mut text = Vec::new();
        match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?.take(TEXT_OCTETS_MAX + 1).read_to_end(&mut text)?,
        };
        if text.len() as u64 > TEXT_OCTETS_MAX {
            return Err(io::Error::other(format!("longer than {TEXT_OCTETS_MAX} octets")));
        }
        let Text { version, file, line, sending } = serde_json::from_slice(&text)?;
        match version {
            VERSION => Ok(Some(Progress { done: Position { file, line }, sending })),
            other => Err(io::Error::other(format!("version {other}: expected {VERSION}"))),
        }
    }

    fn write_text(&self, Progress { done, sending }: &Progress) -> io::Result<()> {
        let text = Text { version: VERSION, file: done.file.clone(), line: done.line, sending: sending.clone() };
        let mut text = serde_json::to_vec(&text)?;
        text.push(b'\n');
        jsonl::replace(&self.path, &text)?;
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn failed(&self, cause: io::Error) -> EventError {
        EventError::Checkpoint { file: self.path.clone(), cause }
    }
}

const VERSION: u32 = 1;
/// More than two names of files.
const TEXT_OCTETS_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn at(file: &str, line: u64) -> Position {
        Position { file: file.into(), line }
    }

    #[test]
    fn the_file_is_as_documented() {
        let dir = tempfile::tempdir().expect("scratch");
        let checkpoint = Checkpoint::of(dir.path(), "mine");
        assert_eq!(checkpoint.read().expect("nothing there"), None);
        let path = dir.path().join(".event-stream-mine");
        for (sending, golden) in [
            (None, "{\"version\":1,\"file\":\"a\",\"line\":42}\n"),
            (Some(at("b", 7)), "{\"version\":1,\"file\":\"a\",\"line\":42,\"sending\":{\"file\":\"b\",\"line\":7}}\n"),
        ] {
            let progress = Progress { done: at("a", 42), sending };
            checkpoint.write(&progress).expect("writes");
            assert_eq!(fs::read_to_string(&path).expect("readable"), golden);
            assert_eq!(checkpoint.read().expect("sound"), Some(progress));
        }
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing else is left");
    }

    #[test]
    fn another_text_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().expect("scratch");
        let checkpoint = Checkpoint::of(dir.path(), "mine");
        let long = format!("{{\"version\":1,\"file\":\"{}\",\"line\":1}}", "x".repeat(TEXT_OCTETS_MAX as usize));
        for text in [
            "",
            "{}",
            "{\"version\":2,\"file\":\"a\",\"line\":1}",
            "{\"version\":1,\"file\":\"a\",\"line\":1,\"x\":1}",
            &long,
        ] {
            fs::write(dir.path().join(".event-stream-mine"), text).expect("writes");
            let error = checkpoint.read().expect_err("refused").to_string();
            assert!(error.contains("/.event-stream-mine`: "), "{error}");
        }
        let nowhere = Checkpoint::of(&dir.path().join("none"), "mine");
        let progress = Progress { done: at("a", 1), sending: None };
        assert!(matches!(nowhere.write(&progress), Err(EventError::Checkpoint { .. })));
    }
}
