//! Which kind of spool a directory holds: one log, or a file per message. Never both.

use crate::StoreError;
use std::fs;
use std::path::Path;

/// The kinds, by the name that the configuration gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One log.
    Log,
    /// One file per message.
    Files,
}

/// Refuses a directory that holds the other kind. It is locked already.
pub(crate) fn check(dir: &Path, wanted: Kind) -> Result<(), StoreError> {
    let entries = fs::read_dir(dir).map_err(StoreError::io(dir, "list the directory"))?;
    for entry in entries {
        let name = entry.map_err(StoreError::io(dir, "list the directory"))?.file_name();
        let name = name.to_string_lossy();
        let found = match &*name {
            MESSAGES => Kind::Files,
            name if name.starts_with(SEGMENTS) => Kind::Log,
            _ => continue,
        };
        if found != wanted {
            return Err(StoreError::OtherKind { dir: dir.to_owned(), found: found.name(), wanted: wanted.name() });
        }
    }
    Ok(())
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Log => "one log (kind = 'RocksDB')",
            Kind::Files => "one file per message (kind = 'LocalDisk')",
        }
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
