//! Which kind of spool a directory holds: one log, or a file per message. Never both.

use crate::StoreError;
use std::fs;
use std::io;
use std::path::Path;

/// The kinds of spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// One log (docs/spool-format.md).
    #[default]
    Log,
    /// One file per message (docs/local-disk.md).
    Files,
}

impl Kind {
    /// The kind of spool in `dir`; `None` when it holds neither.
    ///
    /// # Errors
    /// The operating system's. A directory that is not there holds neither.
    pub fn of(dir: &Path) -> io::Result<Option<Kind>> {
        let entries = match fs::read_dir(dir) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        let mut found = None;
        for entry in entries {
            match &*entry?.file_name().to_string_lossy() {
                MESSAGES => return Ok(Some(Kind::Files)),
                name if name.starts_with(SEGMENTS) => found = Some(Kind::Log),
                _ => {}
            }
        }
        Ok(found)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Log => "one log (kind = 'RocksDB')",
            Kind::Files => "one file per message (kind = 'LocalDisk')",
        }
    }
}

/// Refuses a directory that holds the other kind. Changes nothing: to be asked before anything is made there, and once
/// more under the lock.
pub(crate) fn check(dir: &Path, wanted: Kind) -> Result<(), StoreError> {
    match Kind::of(dir).map_err(StoreError::io(dir, "list the directory"))? {
        Some(found) if found != wanted => {
            Err(StoreError::OtherKind { dir: dir.to_owned(), found: found.name(), wanted: wanted.name() })
        }
        _ => Ok(()),
    }
}

/// The directory of messages.
pub(crate) const MESSAGES: &str = "msg";
/// How the names of segments begin. Spare files hold nothing anybody needs.
const SEGMENTS: &str = "seg-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_refuses_the_other_and_names_both() {
        for (name, found, other) in [("seg-00000001", Kind::Log, Kind::Files), ("msg", Kind::Files, Kind::Log)] {
            let dir = tempfile::tempdir().expect("a directory");
            check(&dir.path().join("none"), other).expect("nothing is there");
            fs::write(dir.path().join("lock"), "1\n").expect("writes");
            for kind in [Kind::Log, Kind::Files] {
                check(dir.path(), kind).expect("an empty spool may become either");
            }
            fs::write(dir.path().join(name), "").expect("writes");
            check(dir.path(), found).expect("its own kind");
            let error = check(dir.path(), other).expect_err("the other kind").to_string();
            assert!(error.contains("'RocksDB'") && error.contains("'LocalDisk'"), "{error}");
        }
    }
}
