//! Real files: `spool::Disk` over a directory.
//!
//! Writes go past the page cache (`O_DIRECT`) where the file system lets them; where it refuses
//! (tmpfs, some overlays) they are buffered and a warning says so once. All calls go through
//! the C library, so that tools which watch or break them see every one. No retries: a
//! refusal is the log's business.

use crate::StoreError;
use crate::kind;
use crate::lock::{self, SpoolLock, lock};
use spool::{Disk, FileInfo, FileName, PAGE_OCTETS, Page, ReadPages, octets, octets_mut};
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A spool directory, locked.
#[derive(Debug)]
pub struct FileDisk {
    shared: Arc<Shared>,
    /// The directory itself, to sync names.
    directory: File,
    /// Files being written to.
    writing: HashMap<FileName, Writing>,
    _lock: SpoolLock,
}

/// A file being written to.
#[derive(Debug)]
struct Writing {
    file: File,
    /// Written since the last successful sync.
    dirty: bool,
}

/// What readers need too.
#[derive(Debug)]
struct Shared {
    dir: PathBuf,
    direct: bool,
    /// Open for reading.
    reading: Mutex<HashMap<FileName, Arc<File>>>,
}

impl FileDisk {
    /// Opens `dir` as a spool, making it if need be, and locks it.
    ///
    /// # Errors
    /// `InUse` when another process holds it, `Io` when it cannot be used.
    pub fn open(dir: &Path) -> Result<FileDisk, StoreError> {
        FileDisk::open_as(dir, false)
    }

    /// As [`FileDisk::open`], but through the page cache even where `O_DIRECT` works.
    ///
    /// # Errors
    /// As [`FileDisk::open`].
    pub fn open_buffered(dir: &Path) -> Result<FileDisk, StoreError> {
        FileDisk::open_as(dir, true)
    }

    fn open_as(dir: &Path, buffered: bool) -> Result<FileDisk, StoreError> {
        kind::check(dir, kind::Kind::Log)?;
        let corrupt = dir.join("corrupt");
        make_durably(&corrupt).map_err(StoreError::io(&corrupt, "create the directory"))?;
        let held = lock(dir)?;
        // Another process may have made it one of the other kind meanwhile.
        kind::check(dir, kind::Kind::Log)?;
        kind::tell_of_others(dir);
        let direct = !buffered && probe_direct(dir).map_err(StoreError::io(dir, "write a probe file"))?;
        if !direct && !buffered {
            tracing::warn!(spool = %dir.display(), "the file system refuses O_DIRECT: writing through the page cache, still synced");
        }
        let directory = File::open(dir).map_err(StoreError::io(dir, "open the directory"))?;
        directory.sync_all().map_err(StoreError::io(dir, "sync the directory"))?;
        let shared = Shared { dir: dir.to_owned(), direct, reading: Mutex::default() };
        Ok(FileDisk { shared: Arc::new(shared), directory, writing: HashMap::new(), _lock: held })
    }

    /// Whether writes go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.shared.direct
    }

    fn sync_names(&self, names: &[FileName]) -> io::Result<()> {
        if names.iter().any(|name| matches!(name, FileName::Aside(..))) {
            File::open(self.shared.dir.join("corrupt"))?.sync_all()?;
        }
        self.directory.sync_all()
    }

    /// The file, open for writing. Files that are neither this one nor unsynced are closed.
    fn writing(&mut self, name: FileName) -> io::Result<&mut Writing> {
        if !self.writing.contains_key(&name) {
            let file = self.shared.options(OpenOptions::new().write(true)).open(self.shared.path(name))?;
            self.writing.retain(|_, writing| writing.dirty);
            self.writing.insert(name, Writing { file, dirty: false });
        }
        self.writing.get_mut(&name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for FileDisk {
    fn list(&mut self) -> io::Result<Vec<FileInfo>> {
        list(&self.shared.dir)
    }

    fn create(&mut self, name: FileName) -> io::Result<()> {
        let mut options = OpenOptions::new();
        self.shared.options(options.write(true).create(true).truncate(true)).open(self.shared.path(name))?;
        self.sync_names(&[name])
    }

    fn write_at(&mut self, name: FileName, at: u32, pages: &[Page]) -> io::Result<()> {
        let writing = self.writing(name)?;
        writing.dirty = true;
        writing.file.write_all_at(octets(pages), offset(at))
    }

    fn sync(&mut self, name: FileName) -> io::Result<()> {
        let writing = self.writing(name)?;
        // Clean even after an error: nobody syncs it again, so it need not stay open.
        writing.dirty = false;
        writing.file.sync_data()
    }

    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()> {
        fs::rename(self.shared.path(from), self.shared.path(to))?;
        let mut reading = self.shared.reading();
        reading.remove(&from);
        reading.remove(&to);
        drop(reading);
        self.writing.remove(&to);
        if let Some(writing) = self.writing.remove(&from) {
            self.writing.insert(to, writing);
        }
        self.sync_names(&[from, to])
    }

    fn remove(&mut self, name: FileName) -> io::Result<()> {
        self.writing.remove(&name);
        self.shared.reading().remove(&name);
        fs::remove_file(self.shared.path(name))?;
        self.sync_names(&[name])
    }

    fn reader(&self) -> Arc<dyn ReadPages> {
        Arc::clone(&self.shared) as Arc<dyn ReadPages>
    }
}

impl Shared {
    fn path(&self, name: FileName) -> PathBuf {
        self.dir.join(name.to_string())
    }

    fn options<'a>(&self, options: &'a mut OpenOptions) -> &'a mut OpenOptions {
        options.mode(0o600).custom_flags(if self.direct { libc::O_DIRECT } else { 0 })
    }

    /// A panicking reader leaves the map whole: every change to it is one call.
    fn reading(&self) -> MutexGuard<'_, HashMap<FileName, Arc<File>>> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, open for reading.
    fn open(&self, name: FileName) -> io::Result<Arc<File>> {
        if let Some(file) = self.reading().get(&name) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(self.options(OpenOptions::new().read(true)).open(self.path(name))?);
        let mut reading = self.reading();
        if reading.len() >= READ_FILES_MAX {
            reading.clear();
        }
        reading.insert(name, Arc::clone(&file));
        Ok(file)
    }
}

impl ReadPages for Shared {
    fn read_at(&self, name: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        let file = self.open(name)?;
        read_full(&file, at, into)
    }
}

/// Reads pages from page `at`; less than asked for only at the end of the file.
pub(crate) fn read_full(file: &File, at: u32, into: &mut [Page]) -> io::Result<usize> {
    let into = octets_mut(into);
    let mut length = 0;
    while length < into.len() {
        match file.read_at(&mut into[length..], offset(at) + length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if length % PAGE_OCTETS != 0 {
            // The end of a file that is not whole pages; O_DIRECT would refuse to go on from here.
            break;
        }
    }
    Ok(length)
}

/// The spool's files in `dir`.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<FileInfo>> {
    let mut files = Vec::new();
    list_into(&mut files, dir, of_log)?;
    match list_into(&mut files, &dir.join("corrupt"), set_aside) {
        // A copy of a spool may lack it; the program itself makes it.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(files),
        other => other.map(|()| files),
    }
}

/// Adds the files of `dir` that `named` knows.
fn list_into(files: &mut Vec<FileInfo>, dir: &Path, named: fn(&str) -> Option<FileName>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().and_then(named) else { continue };
        match entry.metadata() {
            Ok(metadata) => files.push(FileInfo { name, octets: metadata.len() }),
            // Renamed by the process whose spool it is, while somebody else looks on.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The names of files in the spool directory: a prefix and eight hex digits.
fn of_log(name: &str) -> Option<FileName> {
    let numbered = |prefix| name.strip_prefix(prefix).and_then(number);
    let other = || numbered("spare-").map(FileName::Spare).or_else(|| numbered("index-").map(FileName::Checkpoint));
    numbered("seg-").map(FileName::Segment).or_else(other)
}

/// The names of files in `corrupt/`: a second file of one number has a copy number behind it.
fn set_aside(name: &str) -> Option<FileName> {
    let name = name.strip_prefix("seg-")?;
    let (digits, copy) = match name.split_once('.') {
        None => (name, 0),
        Some((digits, copy)) => (digits, copy.parse().ok().filter(|copy| *copy > 0)?),
    };
    Some(FileName::Aside(number(digits)?, copy))
}

fn number(digits: &str) -> Option<u32> {
    u32::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 8)
}

/// Makes a directory and those above it that are missing, and syncs each name: else a power cut
/// could take the whole spool away.
pub(crate) fn make_durably(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> =
        dir.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for made in missing.iter().rev() {
        let above = made.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(above)?.sync_all()?;
    }
    Ok(())
}

/// Whether the file system takes an `O_DIRECT` write. Only "invalid" means no; any other error is one.
fn probe_direct(dir: &Path) -> io::Result<bool> {
    let path = dir.join("probe");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let direct = options.clone().custom_flags(libc::O_DIRECT).open(&path);
    let answer = direct.and_then(|file| file.write_all_at(octets(&Page::zeros(1)), 0));
    let removed = fs::remove_file(&path);
    match answer {
        Ok(()) => removed.map(|()| true),
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(false),
        // A full disk must not keep what is in the spool from being delivered: then the word of a file that is there must do.
        Err(e) if matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            let existing = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(dir.join(lock::FILE));
            Ok(existing.is_ok())
        }
        Err(e) => Err(e),
    }
}

fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE_OCTETS as u64
}

/// Files kept open for reading; beyond that they are opened anew.
const READ_FILES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        let of_log_names = [FileName::Segment(1), FileName::Spare(0xfedc_ba98), FileName::Checkpoint(u32::MAX)];
        for name in of_log_names {
            assert_eq!(of_log(&name.to_string()), Some(name));
        }
        for name in [FileName::Aside(7, 0), FileName::Aside(7, 1), FileName::Aside(0xabcd, u16::MAX)] {
            assert_eq!(set_aside(name.to_string().trim_start_matches("corrupt/")), Some(name));
        }
        for other in ["seg-1", "seg-0000000g", "recent", "lock", "seg-000000011"] {
            assert_eq!(of_log(other), None, "{other}");
        }
        for other in ["seg-00000001.0", "seg-00000001.x", "seg-00000001.65536", "notes"] {
            assert_eq!(set_aside(other), None, "{other}");
        }
    }
}
