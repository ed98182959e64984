//! One message into one Maildir: written, synced, and only then in sight.
//!
//! In: the folder, a name nobody else uses, the octets. Out: nothing, once the file, its name in `new` and the folders on the way
//! are on disk; folders are made sure of once, and those who put messages into one share the sync of its names. Fails with what could not be done to which path; nothing of the message is in sight then, but after a
//! failed sync of `new` it may be, and the retry is a second copy. Blocks: for blocking threads. What a crash leaves in
//! `tmp` is swept by readers (the format gives them 36 hours).

use super::folders::{Folder, Folders};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// A message to be put down.
pub(crate) struct Deposit<'a> {
    pub folder: &'a Path,
    pub name: &'a str,
    /// Lines end in LF.
    pub content: &'a [u8],
    pub dir_mode: Option<u32>,
    pub file_mode: Option<u32>,
}

/// What went wrong, and where.
#[derive(Debug, Error)]
#[error("cannot {what} {}: {cause}", path.display())]
pub(crate) struct DepositError {
    pub what: &'static str,
    pub path: PathBuf,
    pub cause: io::Error,
}

impl Deposit<'_> {
    /// Puts it down.
    pub fn make(&self, folders: &Folders) -> Result<(), DepositError> {
        if let Some(known) = folders.get(self.folder) {
            match self.put_into(&known) {
                Ok(true) => return Ok(()),
                // It is in another folder than the one that was made sure of.
                Ok(false) => return self.kept(self.make_sure(folders)?.keep()?),
                // Somebody has removed it.
                Err(error) if error.cause.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let folder = self.make_sure(folders)?;
        self.kept(self.put_into(&folder)?)
    }

    /// Whoever replaces folders all the time has them tried again later.
    fn kept(&self, is_known: bool) -> Result<(), DepositError> {
        let replaced = || failed("keep a message in", self.folder, io::Error::other("somebody replaces its folders"));
        is_known.then_some(()).ok_or_else(replaced)
    }

    /// Makes the folders, durably: another process may have made them a moment ago and not have got further.
    fn make_sure(&self, folders: &Folders) -> Result<Arc<Folder>, DepositError> {
        for part in ["tmp", "cur", "new"] {
            self.make_folder(&self.folder.join(part), FOLDERS_MAX)?;
        }
        sync(self.folder)?;
        for above in self.folder.ancestors().skip(1).take(FOLDERS_MAX).filter(|above| !above.as_os_str().is_empty()) {
            sync_where_allowed(above)?;
        }
        folders.put(self.folder)
    }

    /// False: into another one than is known.
    fn put_into(&self, folder: &Folder) -> Result<bool, DepositError> {
        let unfinished = self.folder.join("tmp").join(self.name);
        let finished = folder.finished().join(self.name);
        let made = self.write(&unfinished).and_then(|()| {
            fs::rename(&unfinished, &finished).map_err(|cause| failed("move a message to", &finished, cause))
        });
        if let Err(error) = made {
            // It was made just now by nobody else; that it may stay is no news to the caller.
            let _ = fs::remove_file(&unfinished);
            return Err(error);
        }
        folder.keep()
    }

    fn write(&self, path: &Path) -> Result<(), DepositError> {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        let mut file = opened.map_err(|cause| failed("make", path, cause))?;
        if let Some(mode) = self.file_mode {
            file.set_permissions(Permissions::from_mode(mode))
                .map_err(|cause| failed("set the mode of", path, cause))?;
        }
        file.write_all(self.content).map_err(|cause| failed("write", path, cause))?;
        file.sync_all().map_err(|cause| failed("sync", path, cause))
    }

    /// Makes a folder and those above it that are missing, at most so many. Each new name is synced, and the one above
    /// it: whoever made that may have been stopped before he could.
    fn make_folder(&self, path: &Path, levels: usize) -> Result<(), DepositError> {
        if path.is_dir() {
            return Ok(());
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        if let Some(above) = above.filter(|_| levels > 0) {
            self.make_folder(above, levels - 1)?;
        }
        match DirBuilder::new().create(path) {
            Ok(()) => {}
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => return Ok(()),
            Err(cause) => return Err(failed("make", path, cause)),
        }
        if let Some(mode) = self.dir_mode {
            let set = fs::set_permissions(path, Permissions::from_mode(mode));
            set.map_err(|cause| failed("set the mode of", path, cause))?;
        }
        for folder in [above, above.and_then(Path::parent)].into_iter().flatten() {
            if !folder.as_os_str().is_empty() {
                sync_where_allowed(folder)?;
            }
        }
        Ok(())
    }
}

/// The content with LF where CRLF ended a line, which is what readers of Maildirs expect. Bare CR stays.
pub(crate) fn with_lf(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(at) = memchr::memmem::find(rest, b"\r\n") {
        out.extend_from_slice(&rest[..at]);
        out.push(b'\n');
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}

fn sync(folder: &Path) -> Result<(), DepositError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|cause| failed("sync", folder, cause))
}

/// A folder above ours may be one we can pass and not read.
fn sync_where_allowed(folder: &Path) -> Result<(), DepositError> {
    match sync(folder) {
        Err(error) if error.cause.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

pub(super) fn failed(what: &'static str, path: &Path, cause: io::Error) -> DepositError {
    DepositError { what, path: path.to_owned(), cause }
}

/// Folders made above a Maildir at most.
const FOLDERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn deposit<'a>(folder: &'a Path, name: &'a str) -> Deposit<'a> {
        Deposit { folder, name, content: b"Subject: x\n\nHello.\n", dir_mode: Some(0o750), file_mode: Some(0o640) }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
    }

    #[test]
    fn folders_and_file_are_made_with_their_modes_and_tmp_is_empty_afterwards() {
        let scratch = tempfile::tempdir().expect("a folder");
        let (folders, folder) = (Folders::default(), scratch.path().join("a/b/box"));
        deposit(&folder, "1.x.host").make(&folders).expect("it is put down");
        deposit(&folder, "2.x.host").make(&folders).expect("it is put down");
        for made in ["a", "a/b", "a/b/box", "a/b/box/tmp", "a/b/box/new", "a/b/box/cur"] {
            assert_eq!(mode(&scratch.path().join(made)), 0o750, "{made}");
        }
        let message = folder.join("new/1.x.host");
        assert_eq!(mode(&message), 0o640);
        assert_eq!(fs::read(&message).expect("it reads"), b"Subject: x\n\nHello.\n");
        assert_eq!(fs::read_dir(folder.join("tmp")).expect("it is there").count(), 0);
        assert_eq!(fs::read_dir(folder.join("new")).expect("it is there").count(), 2);
    }

    #[test]
    fn what_stands_in_the_way_is_named_and_nothing_is_left_behind() {
        let scratch = tempfile::tempdir().expect("a folder");
        let (folders, folder) = (Folders::default(), scratch.path().join("box"));
        fs::write(&folder, "no folder").expect("a file");
        let error = deposit(&folder, "1.x.host").make(&folders).expect_err("a file stands there");
        assert!(error.to_string().starts_with("cannot make "), "{error}");
        fs::remove_file(&folder).expect("it goes");
        deposit(&folder, "1.x.host").make(&folders).expect("it is put down");
        // The target is taken by a folder: the message is not in sight and not in tmp either.
        fs::create_dir(folder.join("new/2.x.host")).expect("a folder");
        let error = deposit(&folder, "2.x.host").make(&folders).expect_err("a folder stands there");
        assert_eq!(error.what, "move a message to");
        assert_eq!(fs::read_dir(folder.join("tmp")).expect("it is there").count(), 0);
    }

    #[test]
    fn a_maildir_that_was_removed_or_replaced_is_made_sure_of_again() {
        let scratch = tempfile::tempdir().expect("a folder");
        let (folders, folder) = (Folders::default(), scratch.path().join("box"));
        deposit(&folder, "1.x.host").make(&folders).expect("it is put down");
        let first = folders.get(&folder).expect("it is known");
        deposit(&folder, "2.x.host").make(&folders).expect("it is put down");
        assert!(Arc::ptr_eq(&first, &folders.get(&folder).expect("it is known")), "looked at once");
        fs::rename(&folder, scratch.path().join("old")).expect("moved away");
        deposit(&folder, "3.x.host").make(&folders).expect("it is put down");
        assert!(folder.join("new/3.x.host").is_file() && mode(&folder) == 0o750, "in a new one");
        // Somebody else makes another one.
        fs::rename(&folder, scratch.path().join("older")).expect("moved away");
        let second = folders.get(&folder).expect("it is known");
        for part in ["tmp", "cur", "new"] {
            fs::create_dir_all(folder.join(part)).expect("made");
        }
        deposit(&folder, "4.x.host").make(&folders).expect("it is put down");
        assert!(folder.join("new/4.x.host").is_file());
        assert!(!Arc::ptr_eq(&second, &folders.get(&folder).expect("it is known")), "looked at again");
    }

    #[test]
    fn lines_end_in_lf_and_nothing_else_changes() {
        for (content, expected) in [
            (&b"a\r\nb\r\n"[..], &b"a\nb\n"[..]),
            (b"", b""),
            (b"\r\n\r\n", b"\n\n"),
            (b"a\rb\r\r\nc\nd", b"a\rb\r\nc\nd"),
            (b"\xff\x00\r\n", b"\xff\x00\n"),
        ] {
            assert_eq!(with_lf(content), expected, "{content:?}");
        }
    }
}
