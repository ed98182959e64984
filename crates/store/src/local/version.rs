//! The version of a spool's directories: read, refused when it is newer, brought to this program's when it is older.
//!
//! Version 1 had each message in the directory of its id's checksum, version 2 has it in that of the moment its id was
//! made. To bring one here is to give each file a second name and to take the first away; a cut leaves it with one of them or
//! both, and the next start goes on.

use super::files::RealFiles;
use crate::StoreError;
use crate::kind::MESSAGES;
use spool::local::{Files, Folder, LocalName, ReadFiles};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The version that `dir` says; `None` when it says none. Changes nothing.
///
/// # Errors
/// `NewerFiles`, and the operating system's.
pub(crate) fn found(dir: &Path) -> Result<Option<u64>, StoreError> {
    let path = file(dir);
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(StoreError::io(&path, "read the version"))?,
    };
    match text.trim().strip_prefix(TEXT).and_then(|version| version.parse().ok()) {
        Some(found) if found > VERSION => Err(StoreError::NewerFiles { dir: dir.to_owned(), found, known: VERSION }),
        Some(found) => Ok(Some(found)),
        None => {
            tracing::warn!(file = %path.display(), "does not say a version");
            Ok(None)
        }
    }
}

/// Moves what version 1 left to where it belongs, durably, and then says which version is here. On a full disk it may not
/// say so: the next start looks again.
pub(super) fn bring_here(files: &RealFiles, dir: &Path) -> io::Result<()> {
    // First what makes room. It was being written, and never promised.
    each_misplaced(files, dir, &mut |from, name| match name {
        LocalName::Message(_) => Ok(()),
        _ => fs::remove_file(from),
    })?;
    let mut moved = 0;
    each_misplaced(files, dir, &mut |from, name| {
        moved += 1;
        name_anew(from, &dir.join(name.to_string()))
    })?;
    // Also what an earlier start moved and could not sync. Only then the old names go.
    files.sync_all()?;
    each_misplaced(files, dir, &mut |from, _| fs::remove_file(from))?;
    files.sync_all()?;
    if moved > 0 {
        tracing::info!(files = moved, "message files of version 1 are where version {VERSION} has them");
    }
    match write(dir) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            tracing::warn!(%error, "msg/version cannot be written: the next start looks again");
            Ok(())
        }
        written => written,
    }
}

/// Gives a file another name beside the one it has: a file system without a journal may keep half of a rename. Where there are no
/// second names it is renamed, which does nothing where an earlier start has given it both.
fn name_anew(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to).or_else(|_| fs::rename(from, to))
}

/// The files that belong into another directory than the one they are in, and what they are called there.
fn each_misplaced(
    files: &RealFiles,
    dir: &Path,
    act: &mut dyn FnMut(&Path, LocalName) -> io::Result<()>,
) -> io::Result<()> {
    for folder in Folder::of_messages() {
        let mut misplaced = Vec::new();
        files
            .list(folder, &mut |name| misplaced.extend(folder.misplaced(name).map(|found| (name.to_owned(), found))))?;
        for (name, found) in misplaced {
            act(&dir.join(folder.to_string()).join(name), found)?;
        }
    }
    Ok(())
}

/// Says which version is here.
fn write(dir: &Path) -> io::Result<()> {
    let path = file(dir);
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{TEXT}{VERSION}")?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(dir.join(MESSAGES))?.sync_all()
}

fn file(dir: &Path) -> PathBuf {
    dir.join(MESSAGES).join("version")
}

const TEXT: &str = "postrider message files, version ";
/// Version of the directories. The files in them say their own.
pub(crate) const VERSION: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use message::MessageId;

    #[test]
    fn a_newer_version_is_refused_and_nothing_changed() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(RealFiles::open(dir.path()).expect("opens"));
        assert_eq!(fs::read_to_string(file(dir.path())).expect("there"), "postrider message files, version 2\n");
        drop(RealFiles::open(dir.path()).expect("opens again"));
        fs::write(file(dir.path()), "postrider message files, version 3\n").expect("writes");
        let error = RealFiles::open(dir.path()).expect_err("newer");
        assert!(matches!(error, StoreError::NewerFiles { found: 3, known: 2, .. }), "{error}");
        fs::write(file(dir.path()), "").expect("writes");
        RealFiles::open(dir.path()).expect("an empty file says nothing");
    }

    #[test]
    fn what_version_1_left_is_moved_and_what_is_strange_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        drop(RealFiles::open(dir.path()).expect("opens"));
        let at = |folder: Folder, name: &str| dir.path().join(folder.to_string()).join(name);
        let id = |n: u8| MessageId::from_bytes([n; 16]);
        let other = |n: u8| Folder::of_messages().find(|folder| *folder != Folder::of(id(n))).expect("one of 64");
        for n in 1..4 {
            fs::write(at(other(n), &id(n).to_string()), [n]).expect("writes");
        }
        fs::write(at(Folder::of(id(4)), &id(4).to_string()), [4]).expect("writes");
        // A start that was cut off had given it its second name.
        let second = dir.path().join(LocalName::Message(id(3)).to_string());
        fs::hard_link(at(other(3), &id(3).to_string()), second).expect("links");
        fs::write(at(other(5), &format!("{}.new.0123456789abcdef", id(5))), [5]).expect("writes");
        fs::write(at(other(6), "README"), [6]).expect("writes");
        fs::write(file(dir.path()), "postrider message files, version 1\n").expect("writes");
        let files = RealFiles::open(dir.path()).expect("opens");
        for n in 1..5 {
            assert_eq!(fs::read(dir.path().join(LocalName::Message(id(n)).to_string())).expect("moved"), [n]);
        }
        assert_eq!(fs::read(at(other(6), "README")).expect("left alone"), [6]);
        let mut left = 0;
        Folder::of_messages().for_each(|folder| files.list(folder, &mut |_| left += 1).expect("lists"));
        assert_eq!(left, 5, "what was being written is gone");
        assert_eq!(found(dir.path()).expect("reads"), Some(2));
    }
}
