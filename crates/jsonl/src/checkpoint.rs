//! How far a consumer has come, and the file that remembers it.
//!
//! Owns [`Position`] and [`Checkpoint`]. The file is called `.NAME`, in the directory of the segments, and holds one line
//! of JSON:
//!
//! ```text
//! {"version":1,"file":"20261121-000000.000000000","line":42}
//! ```
//!
//! `file` is the name of a segment, `line` the number of its last line that is done with; the first line is 1. It is
//! written as `.NAME.new`, synced and renamed: there is always a whole one, and after a power cut it is that one or the one
//! before. Any other version, key or text is an error: to begin anew silently would repeat everything.

use crate::JsonlError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A line of a segment. Segments stand in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// The segment's name.
    pub file: Arc<str>,
    /// The line's number; the first is 1, and 0 is before it.
    pub line: u64,
}

/// A consumer's memory.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    path: PathBuf,
    /// What the file says.
    at: Mutex<Option<Position>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    version: u32,
    file: Arc<str>,
    line: u64,
}

impl Checkpoint {
    /// Reads the checkpoint called `name`, if it was ever written.
    pub fn open(directory: &Path, name: &str) -> Result<Checkpoint, JsonlError> {
        let path = directory.join(format!(".{name}"));
        match read(&path) {
            Ok(at) => Ok(Checkpoint { path, at: Mutex::new(at) }),
            Err(cause) => Err(JsonlError::Checkpoint { file: path, cause }),
        }
    }

    /// What it says.
    pub fn at(&self) -> Option<Position> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Moves it to `to`; never back. Waits for the disk.
    pub fn advance(&self, to: &Position) -> Result<(), JsonlError> {
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if at.as_ref().is_some_and(|at| at >= to) {
            return Ok(());
        }
        let failed = |cause| JsonlError::Checkpoint { file: self.path.clone(), cause };
        write(&self.path, to).map_err(failed)?;
        *at = Some(to.clone());
        Ok(())
    }
}

fn read(path: &Path) -> io::Result<Option<Position>> {
    let text = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let Text { version, file, line } = serde_json::from_slice(&text)?;
    if version != VERSION {
        return Err(io::Error::other(format!("version {version}: expected {VERSION}")));
    }
    Ok(Some(Position { file, line }))
}

fn write(path: &Path, at: &Position) -> io::Result<()> {
    let mut text = serde_json::to_vec(&Text { version: VERSION, file: at.file.clone(), line: at.line })?;
    text.push(b'\n');
    replace(path, &text)
}

/// Gives a file other content, all or none; on disk when the folder is synced.
///
/// # Errors
/// It cannot be written; then it is as it was.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut spare = path.as_os_str().to_owned();
    spare.push(".new");
    let mut file = fs::File::create(&spare)?;
    file.write_all(text)?;
    file.sync_data()?;
    fs::rename(&spare, path)
}

const VERSION: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(file: &str, line: u64) -> Position {
        Position { file: file.into(), line }
    }

    #[test]
    fn the_file_is_as_documented() {
        let dir = tempfile::tempdir().expect("scratch");
        let checkpoint = Checkpoint::open(dir.path(), "mine").expect("nothing there");
        assert_eq!(checkpoint.at(), None);
        checkpoint.advance(&at("20261121-000000.000000000", 42)).expect("writes");
        let golden = "{\"version\":1,\"file\":\"20261121-000000.000000000\",\"line\":42}\n";
        assert_eq!(fs::read_to_string(dir.path().join(".mine")).expect("readable"), golden);
        let again = Checkpoint::open(dir.path(), "mine").expect("sound");
        assert_eq!(again.at(), Some(at("20261121-000000.000000000", 42)));
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing else is left");
    }

    #[test]
    fn it_never_goes_back() {
        let dir = tempfile::tempdir().expect("scratch");
        let checkpoint = Checkpoint::open(dir.path(), "mine").expect("nothing there");
        for (to, want) in [(at("b", 2), at("b", 2)), (at("b", 1), at("b", 2)), (at("a", 9), at("b", 2))] {
            checkpoint.advance(&to).expect("writes");
            assert_eq!(Checkpoint::open(dir.path(), "mine").expect("sound").at(), Some(want));
        }
    }

    #[test]
    fn another_text_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().expect("scratch");
        for text in
            ["", "{}", "{\"version\":2,\"file\":\"a\",\"line\":1}", "{\"version\":1,\"file\":\"a\",\"line\":-1}"]
        {
            fs::write(dir.path().join(".mine"), text).expect("writes");
            let error = Checkpoint::open(dir.path(), "mine").expect_err("refused").to_string();
            assert!(error.contains("/.mine"), "{text}: {error}");
        }
    }
}
