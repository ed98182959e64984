//! Real files: `spool::local::Files` over a directory.
//!
//! Writes go through the page cache and are synced with `fdatasync`; names with `fsync` of their directory, shared by those
//! who wait for the same one. All calls but those of `spread` go through the C library, so that tools which watch or break
//! them see every one.
//! No retries: a refusal is the engine's business.

use super::version;
use crate::StoreError;
use crate::file_disk::make_durably;
use crate::kind::MESSAGES;
use crate::patient;
use crate::shared_sync::SharedSync;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use spool::local::{Files, Folder, LocalName, ReadFile, ReadFiles};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The files of a spool directory.
#[derive(Debug)]
pub(crate) struct RealFiles {
    dir: PathBuf,
    folders: BTreeMap<Folder, Names>,
    /// Calls of sync, whatever for.
    syncs: AtomicU64,
    /// It was said that the system lacks means.
    has_waited: AtomicBool,
}

/// A directory, open so that its names can be synced.
#[derive(Debug)]
struct Names {
    file: File,
    sync: SharedSync,
}

impl RealFiles {
    /// Opens the directories, making those that are missing. `dir` is locked and of the right kind.
    pub fn open(dir: &Path) -> Result<RealFiles, StoreError> {
        let found = version::found(dir)?;
        let messages = dir.join(MESSAGES);
        make_durably(&messages).map_err(StoreError::io(&messages, "create the directory"))?;
        spread(&messages);
        let mut folders = BTreeMap::new();
        for folder in Folder::all() {
            let path = dir.join(folder.to_string());
            make_durably(&path).map_err(StoreError::io(&path, "create the directory"))?;
            let file = File::open(&path).map_err(StoreError::io(&path, "open the directory"))?;
            folders.insert(folder, Names { file, sync: SharedSync::default() });
        }
        let files =
            RealFiles { dir: dir.to_owned(), folders, syncs: AtomicU64::new(0), has_waited: AtomicBool::new(false) };
        if found != Some(version::VERSION) {
            version::bring_here(&files, dir).map_err(StoreError::io(&messages, "move message files of version 1"))?;
        }
        Ok(files)
    }

    /// Calls of sync so far.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn path(&self, name: LocalName) -> PathBuf {
        self.dir.join(name.to_string())
    }

    fn sync_data(&self, file: &File) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        file.sync_data()
    }

    fn names(&self, folder: Folder) -> io::Result<&Names> {
        self.folders.get(&folder).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn changed(&self, folder: Folder) {
        if let Some(names) = self.folders.get(&folder) {
            names.sync.changed();
        }
    }
}

impl Files for RealFiles {
    fn create(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path(name))?;
        self.changed(name.folder());
        write_parts(&mut file, parts)?;
        self.sync_data(&file)
    }

    fn is_reusable(&self, name: LocalName, octets_max: u64) -> io::Result<bool> {
        let found = fs::symlink_metadata(self.path(name))?;
        Ok(found.is_file() && found.nlink() == 1 && found.len() <= octets_max)
    }

    fn reuse(&self, name: LocalName, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.path(name))?;
        let found = file.metadata()?;
        if found.nlink() != 1 {
            return Err(io::Error::other("it has another name by now"));
        }
        write_parts(&mut file, parts)?;
        let octets = parts.iter().map(|part| part.len() as u64).sum();
        if found.len() > octets {
            file.set_len(octets)?;
        }
        self.sync_data(&file)
    }

    fn append(&self, name: LocalName, octets: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().append(true).open(self.path(name))?;
        let before = file.metadata()?.len();
        let written = file.write_all(octets).and_then(|()| self.sync_data(&file));
        if written.is_err() {
            // It is tried again: what is there of it must not pile up. If it stays, it is read once more.
            let _ = file.set_len(before);
        }
        written
    }

    fn rename(&self, from: LocalName, to: LocalName) -> io::Result<()> {
        let renamed = fs::rename(self.path(from), self.path(to));
        // Noted after an error too: it may have happened.
        self.changed(from.folder());
        self.changed(to.folder());
        renamed
    }

    fn remove(&self, name: LocalName) -> io::Result<()> {
        let removed = fs::remove_file(self.path(name));
        self.changed(name.folder());
        removed
    }

    fn sync_names(&self, folder: Folder) -> io::Result<()> {
        let names = self.names(folder)?;
        names.sync.sync(|| {
            self.syncs.fetch_add(1, Ordering::Relaxed);
            names.file.sync_all()
        })
    }

    fn failed_syncs(&self, folder: Folder) -> u64 {
        self.folders.get(&folder).map_or(0, |names| names.sync.failures())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(nix::unistd::syncfs(&self.names(Folder::Intents)?.file)?)
    }
}

impl ReadFiles for RealFiles {
    fn list(&self, folder: Folder, found: &mut dyn FnMut(&str)) -> io::Result<()> {
        list(&self.dir, folder, found)
    }

    fn open(&self, name: LocalName) -> io::Result<Box<dyn ReadFile>> {
        open(&self.dir, name)
    }

    fn waits_out(&self, error: &io::Error) -> bool {
        let lacks_means = spool::lacks_means(error.raw_os_error());
        if lacks_means {
            patient::rest(&self.has_waited, error);
        }
        lacks_means
    }
}

/// Has the file system give each directory made in `dir` a region of its own (ext4's block groups), so that files are made in
/// several at once. In one and the same, an ext4 without a journal looks for each new file's inode behind all that were freed
/// lately. Other file systems have no such flag.
fn spread(dir: &Path) {
    let spread = || -> io::Result<()> {
        let dir = File::open(dir)?;
        let flags = ioctl_getflags(&dir)?;
        if flags.contains(IFlags::TOPDIR) { Ok(()) } else { Ok(ioctl_setflags(&dir, flags | IFlags::TOPDIR)?) }
    };
    if let Err(error) = spread() {
        tracing::debug!(dir = %dir.display(), %error, "its directories stay together on the disk");
    }
}

/// The names in a directory of the spool in `dir`.
pub(crate) fn list(dir: &Path, folder: Folder, found: &mut dyn FnMut(&str)) -> io::Result<()> {
    for entry in fs::read_dir(dir.join(folder.to_string()))? {
        found(&entry?.file_name().to_string_lossy());
    }
    Ok(())
}

/// A file of the spool in `dir`, open for reading.
pub(crate) fn open(dir: &Path, name: LocalName) -> io::Result<Box<dyn ReadFile>> {
    Ok(Box::new(Reading(File::open(dir.join(name.to_string()))?)))
}

/// A file open for reading.
struct Reading(File);

impl ReadFile for Reading {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut length = 0;
        while length < into.len() {
            match self.0.read_at(&mut into[length..], at + length as u64) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(length)
    }
}

/// All parts with as few calls as the system allows, usually one.
fn write_parts(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut written = loop {
        match file.write_vectored(&slices) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => break done?,
        }
    };
    for part in parts {
        let done = written.min(part.len());
        written -= done;
        file.write_all(&part[done..])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::MessageId;
    use spool::local::Run;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn files_are_what_they_were_written_as_and_private() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = RealFiles::open(dir.path()).expect("opens");
        let (id, run) = (MessageId::from_bytes([7; 16]), Run(1));
        let (new, name) = (LocalName::New(id, run), LocalName::Message(id));
        files.create(new, &[b"one ", b"", b"two"]).expect("writes");
        assert_eq!(files.create(new, &[]).expect_err("it is there").kind(), io::ErrorKind::AlreadyExists);
        files.rename(new, name).expect("renames");
        files.append(name, b" three").expect("writes");
        assert_eq!(files.append(new, b"x").expect_err("gone").kind(), io::ErrorKind::NotFound);
        files.sync_names(name.folder()).expect("syncs");
        files.sync_all().expect("syncs");
        let path = dir.path().join(name.to_string());
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().expect("a folder")).expect("there").permissions().mode() & 0o777, 0o700);
        assert!(files.is_reusable(name, 13).expect("there") && !files.is_reusable(name, 12).expect("there"));
        let file = files.open(name).expect("opens");
        files.remove(name).expect("removes");
        let mut into = [0; 20];
        assert_eq!((file.length().expect("known"), file.read_at(4, &mut into).expect("reads")), (13, 9));
        assert_eq!(&into[..9], b"two three");
        assert_eq!(files.open(name).err().map(|e| e.kind()), Some(io::ErrorKind::NotFound));
        let mut found = Vec::new();
        files.list(name.folder(), &mut |name| found.push(name.to_owned())).expect("lists");
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn a_file_is_written_anew_with_nothing_left_of_what_it_held() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = RealFiles::open(dir.path()).expect("opens");
        let name = LocalName::Message(MessageId::from_bytes([7; 16]));
        let path = dir.path().join(name.to_string());
        assert_eq!(files.reuse(name, &[]).expect_err("it is not there").kind(), io::ErrorKind::NotFound);
        assert_eq!(files.is_reusable(name, 99).expect_err("nor is it now").kind(), io::ErrorKind::NotFound);
        files.create(name, &[b"long enough"]).expect("writes");
        for content in ["short", "", "longer than at first"] {
            let (one, two) = content.as_bytes().split_at(content.len() / 2);
            files.reuse(name, &[one, two]).expect("writes");
            assert_eq!(fs::read_to_string(&path).expect("there"), content);
        }
        fs::hard_link(&path, dir.path().join("a copy")).expect("links");
        assert!(!files.is_reusable(name, 99).expect("there"), "its copy would change with it");
        files.reuse(name, &[b"new"]).expect_err("nor if it was linked since that was asked");
        assert_eq!(fs::read_to_string(&path).expect("there"), "longer than at first");
        let link = LocalName::Message(MessageId::from_bytes([8; 16]));
        std::os::unix::fs::symlink(&path, dir.path().join(link.to_string())).expect("links");
        assert!(!files.is_reusable(link, 99).expect("there"), "only plain files");
    }
}
