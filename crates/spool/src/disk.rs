//! The seam to the disk: the only calls the log makes. Real files implement it in `store`,
//! a disk that loses and tears in [`crate::fault`].
//!
//! Offsets and lengths are pages. An implementation never retries and never hides an error;
//! the log decides what an error means.

use crate::Page;
use core::fmt;
use std::io;
use std::sync::Arc;

/// A file of the spool (docs/spool-format.md section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// A segment of the log, by sequence number.
    Segment(u32),
    /// A file to be used for a later segment.
    Spare(u32),
    /// A checkpoint of the index.
    Checkpoint(u32),
    /// A segment set aside because something in it does not read; the second number tells copies of one name apart.
    Aside(u32, u16),
}

/// A file and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Which.
    pub name: FileName,
    /// How long.
    pub octets: u64,
}

/// The disk as the one writer of a spool sees it.
pub trait Disk {
    /// Every file of the spool, in any order.
    fn list(&mut self) -> io::Result<Vec<FileInfo>>;

    /// Makes an empty file; an old one of that name is emptied.
    fn create(&mut self, file: FileName) -> io::Result<()>;

    /// Writes all pages at page `at`, making the file longer if need be. Not durable before [`Disk::sync`].
    fn write_at(&mut self, file: FileName, at: u32, pages: &[Page]) -> io::Result<()>;

    /// Returns once everything written to the file is durable. After an error nothing is known
    /// about what was written since the last success, now or ever.
    fn sync(&mut self, file: FileName) -> io::Result<()>;

    /// Renames, replacing; durable when it returns `Ok`, unknown when it returns an error.
    fn rename(&mut self, from: FileName, to: FileName) -> io::Result<()>;

    /// Removes; durable when it returns `Ok`.
    fn remove(&mut self, file: FileName) -> io::Result<()>;

    /// A reader for other threads.
    fn reader(&self) -> Arc<dyn ReadPages>;
}

/// The disk as readers see it: any thread, while the writer writes.
pub trait ReadPages: Send + Sync {
    /// Reads pages from page `at`; the number of octets read, less than asked for only at the
    /// end of the file. A file that is not there is `NotFound`.
    fn read_at(&self, file: FileName, at: u32, into: &mut [Page]) -> io::Result<usize>;
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Segment(n) => write!(f, "seg-{n:08x}"),
            FileName::Spare(n) => write!(f, "spare-{n:08x}"),
            FileName::Checkpoint(n) => write!(f, "index-{n:08x}"),
            FileName::Aside(n, 0) => write!(f, "corrupt/seg-{n:08x}"),
            FileName::Aside(n, copy) => write!(f, "corrupt/seg-{n:08x}.{copy}"),
        }
    }
}
