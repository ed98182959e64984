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

/// Says so when KumoMTA has queued mail in a directory: nobody here reads that, and whoever swapped the programs waits for it.
pub(crate) fn tell_of_others(dir: &Path) {
    match others(dir) {
        Ok(None) => {}
        Ok(Some(what)) => tracing::error!(
            spool = %dir.display(),
            "KumoMTA's own queue is here, too ({what}). It is not read: let KumoMTA deliver what is in it, then remove it"
        ),
        Err(error) => tracing::warn!(spool = %dir.display(), "whether KumoMTA has mail here cannot be seen: {error}"),
    }
}

/// What of KumoMTA's is in a directory: the database of its `RocksDB`, or messages of its `LocalDisk` in `data/xx`.
fn others(dir: &Path) -> io::Result<Option<&'static str>> {
    if dir.join("CURRENT").is_file() && dir.join("IDENTITY").is_file() {
        return Ok(Some("a database, kind = 'RocksDB'"));
    }
    let entries = match fs::read_dir(dir.join("data")) {
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if name.len() == 2 && name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit) {
            return Ok(Some("messages in data/, kind = 'LocalDisk'"));
        }
    }
    Ok(None)
}

/// The directory of messages.
pub(crate) const MESSAGES: &str = "msg";
/// How the names of segments begin. Spare files hold nothing anybody needs.
const SEGMENTS: &str = "seg-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_of_kumomta_is_seen() {
        let dir = tempfile::tempdir().expect("a directory");
        let seen = || others(dir.path()).expect("looked");
        fs::create_dir_all(dir.path().join("data/seg-1")).expect("made");
        fs::write(dir.path().join("CURRENT"), "").expect("writes");
        assert_eq!(seen(), None);
        fs::create_dir_all(dir.path().join("data/0a/ff")).expect("made");
        assert!(seen().is_some_and(|what| what.contains("LocalDisk")));
        fs::write(dir.path().join("IDENTITY"), "").expect("writes");
        assert!(seen().is_some_and(|what| what.contains("RocksDB")));
    }

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
