//! A spool directory as an onlooker sees it: no lock is taken, nothing is written, nothing is synced.
//!
//! For the operator's tools, while another process has the spool open or nobody has. Every read opens the file by
//! its name and closes it again: a segment that was renamed away meanwhile is `NotFound`, never something else's
//! octets under an old name for longer than one read. Reads go past the page cache where they can, so that
//! the disk is asked and a busy server's cache is left alone.

use crate::StoreError;
use crate::file_disk::{list, read_full};
use crate::hints::Hints;
use crate::kind::Kind;
use crate::local;
use spool::local::{Folder, LocalName, ReadFile, ReadFiles};
use spool::{FileInfo, FileName, Mark, Page, ReadPages, SpoolFiles};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// A spool directory, to be looked at.
#[derive(Debug)]
pub struct ReadOnlyDir {
    dir: PathBuf,
    kind: Kind,
    /// The file system takes `O_DIRECT`, as far as was seen.
    direct: AtomicBool,
}

impl ReadOnlyDir {
    /// The spool in `dir`.
    ///
    /// # Errors
    /// `NotASpool` when nothing in it is a spool's, `NewerFiles` and `OlderFiles` for other versions of message files, `Io`
    /// when it cannot be looked at.
    pub fn open(dir: &Path) -> Result<ReadOnlyDir, StoreError> {
        let files = list(dir).map_err(StoreError::io(dir, "list the directory"))?;
        let kind = Kind::of(dir).map_err(StoreError::io(dir, "list the directory"))?;
        if kind.is_none() && files.is_empty() && !dir.join("lock").exists() {
            let below = dir.join("spool");
            let hint = below.join("lock").exists().then_some(below);
            return Err(StoreError::NotASpool { dir: dir.to_owned(), hint });
        }
        if kind == Some(Kind::Files)
            && let Some(found) = local::found(dir)?
            && found < local::VERSION
        {
            return Err(StoreError::OlderFiles { dir: dir.to_owned(), found, known: local::VERSION });
        }
        Ok(ReadOnlyDir { dir: dir.to_owned(), kind: kind.unwrap_or_default(), direct: AtomicBool::new(true) })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What it holds; an empty spool counts as a log.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The process that has the spool open now, when the system tells: `pid 123`.
    pub fn holder(&self) -> Option<String> {
        let lock = fs::metadata(self.dir.join("lock")).ok()?;
        let locks = fs::read_to_string(LOCKS).ok()?;
        let device = (libc::major(lock.dev()), libc::minor(lock.dev()));
        let pid = locks.lines().find_map(|line| holder_in(line, device, lock.ino()))?;
        Some(format!("pid {pid}"))
    }

    /// Keeps every server out for as long as what is returned lives; `None` where the spool has no lock, as a copy may. Unlike
    /// [`ReadOnlyDir::holder`] it sees holders in other containers, and on every file system.
    ///
    /// # Errors
    /// `WouldBlock` while somebody has it, or the operating system's.
    pub fn hold(&self) -> io::Result<Option<File>> {
        let path = self.dir.join("lock");
        match OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => {
                let file = file?;
                file.try_lock().map_err(io::Error::from)?;
                Ok(Some(file))
            }
        }
    }

    /// Deliveries that were finished shortly ago and may not be in the log yet. Each is true for ever.
    ///
    /// # Errors
    /// The operating system's.
    pub fn recent(&self) -> io::Result<Vec<Mark>> {
        Hints::read(&self.dir)
    }

    /// The file, past the page cache or not.
    fn open_file(&self, name: FileName, direct: bool) -> io::Result<File> {
        let flags = if direct { libc::O_DIRECT } else { 0 };
        OpenOptions::new().read(true).custom_flags(flags).open(self.dir.join(name.to_string()))
    }
}

impl ReadPages for ReadOnlyDir {
    fn read_at(&self, name: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        if self.direct.load(Ordering::Relaxed) {
            match self.open_file(name, true).and_then(|file| read_full(&file, at, into)) {
                Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
                    self.direct.store(false, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        read_full(&self.open_file(name, false)?, at, into)
    }
}

impl ReadFiles for ReadOnlyDir {
    fn list(&self, folder: Folder, found: &mut dyn FnMut(&str)) -> io::Result<()> {
        local::list(&self.dir, folder, found)
    }

    fn open(&self, name: LocalName) -> io::Result<Box<dyn ReadFile>> {
        local::open(&self.dir, name)
    }
}

impl SpoolFiles for ReadOnlyDir {
    fn list(&self) -> io::Result<Vec<FileInfo>> {
        list(&self.dir)
    }
}

/// The process in a line of `/proc/locks`, when the lock is the one on that file.
fn holder_in(line: &str, device: (u32, u32), inode: u64) -> Option<&str> {
    let mut fields = line.split_ascii_whitespace();
    let (kind, pid, file) = (fields.nth(1)?, fields.nth(2)?, fields.next()?);
    let mut parts = file.split(':');
    let mut hex = || u32::from_str_radix(parts.next()?, 16).ok();
    let found = (hex()?, hex()?);
    (kind == "FLOCK" && found == device && parts.next()?.parse() == Ok(inode)).then_some(pid)
}

/// Linux: every lock on a file, a line each.
const LOCKS: &str = "/proc/locks";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spool_that_is_held_cannot_be_held_by_another() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("seg-00000001"), "").expect("writes");
        let open = || ReadOnlyDir::open(dir.path()).expect("opened");
        assert!(open().hold().expect("looked").is_none(), "a copy has no lock");
        let server = crate::lock::lock(dir.path()).expect("locked");
        let error = open().hold().expect_err("a server has it");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(server);
        let held = open().hold().expect("free").expect("there is a lock");
        assert!(crate::lock::lock(dir.path()).is_err(), "no server starts");
        drop(held);
        crate::lock::lock(dir.path()).expect("free again");
    }

    #[test]
    fn a_line_of_locks_names_its_holder() {
        let line = "4: FLOCK  ADVISORY  WRITE 4242 fe:10:131 0 EOF";
        assert_eq!(holder_in(line, (0xfe, 0x10), 131), Some("4242"));
        assert_eq!(holder_in(line, (0xfe, 0x10), 132), None);
        assert_eq!(holder_in(line, (0xfe, 0x11), 131), None);
        assert_eq!(holder_in("1: POSIX  ADVISORY  WRITE 4242 fe:10:131 0 EOF", (0xfe, 0x10), 131), None);
        assert_eq!(holder_in("", (0, 0), 0), None);
    }
}
