//! Writes the index of the segment that is being written, a block for each frame.
//!
//! In: the keys of records as these are written, and where frames end. Out: a file beside the segment. An index is an
//! aid: one that cannot be written is said once and left at what it has, which is sound; the rest of the segment
//! is then read by whoever searches. Indexes whose segments are gone are removed when a segment is finished.

use crate::index::{Block, Key, MAGIC, index_name, indexed_segment};
use crate::segment::is_segment;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The index of a segment.
#[derive(Debug)]
pub(crate) struct IndexFile {
    path: PathBuf,
    file: Option<File>,
    /// Of records of the frame that is not over.
    keys: Vec<Key>,
    failed: bool,
}

impl IndexFile {
    /// That of a segment; it is made with its first block.
    pub fn beside(segment: &Path) -> IndexFile {
        let name = segment.file_name().unwrap_or_default().to_string_lossy();
        IndexFile { path: segment.with_file_name(index_name(&name)), file: None, keys: Vec::new(), failed: false }
    }

    /// Records with these keys are in the frame.
    pub fn note(&mut self, keys: &[Key]) {
        if !self.failed {
            self.keys.extend_from_slice(keys);
        }
    }

    /// The frame is over.
    pub fn end_frame(&mut self, frame: &Range<u64>) {
        if self.failed || frame.is_empty() {
            return;
        }
        if let Err(error) = self.write(frame) {
            self.failed = true;
            self.keys = Vec::new();
            tracing::warn!("{}: {error}; searches will read the rest of its segment", self.path.display());
        }
    }

    fn write(&mut self, frame: &Range<u64>) -> io::Result<()> {
        let mut octets = Vec::new();
        if self.file.is_none() {
            self.file = Some(OpenOptions::new().write(true).create(true).truncate(true).open(&self.path)?);
            octets.extend_from_slice(MAGIC);
        }
        Block::write(frame, &mut self.keys, &mut octets);
        self.keys.clear();
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(&octets))
    }
}

/// Removes the index of a segment that is removed.
pub(crate) fn remove_index(segment: &Path) -> io::Result<()> {
    let name = segment.file_name().unwrap_or_default().to_string_lossy();
    match fs::remove_file(segment.with_file_name(index_name(&name))) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes indexes of a directory whose segments are gone: others ship and remove segments too.
pub(crate) fn remove_orphans(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let segment = name.to_str().and_then(indexed_segment);
        // A checkpoint may be called like an index.
        let Some(segment) = segment.filter(|name| is_segment(name)) else { continue };
        let segment = dir.join(segment);
        if !segment.try_exists()? {
            remove_index(&segment)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Blocks;

    #[test]
    fn frames_become_blocks_and_orphans_go() {
        let dir = tempfile::tempdir().expect("scratch");
        let segment = dir.path().join("20261125-033000.123456789");
        fs::write(&segment, "x").expect("writes");
        let mut index = IndexFile::beside(&segment);
        index.end_frame(&(0..0));
        let path = dir.path().join(".20261125-033000.123456789.index");
        assert!(!path.exists(), "an empty frame is none");
        index.note(&[Key::id("a")]);
        index.note(&[Key::id("b")]);
        index.end_frame(&(0..5));
        index.note(&[Key::id("c")]);
        index.end_frame(&(5..9));
        let octets = fs::read(&path).expect("readable");
        let has: Vec<_> =
            Blocks::of(&octets).map(|block| ["a", "b", "c"].map(|id| block.may_have(Key::id(id)))).collect();
        assert_eq!(has, [[true, true, false], [false, false, true]]);
        fs::write(dir.path().join(".other.idx"), "x").expect("writes");
        let checkpoint = dir.path().join(".event-stream-crm.index");
        fs::write(&checkpoint, "x").expect("writes");
        remove_orphans(dir.path()).expect("nothing to do");
        assert!(path.exists());
        fs::remove_file(&segment).expect("removes");
        remove_orphans(dir.path()).expect("removes");
        assert!(!path.exists() && dir.path().join(".other.idx").exists() && checkpoint.exists());
    }

    #[test]
    fn an_index_that_cannot_be_written_stops_at_what_it_has() {
        let dir = tempfile::tempdir().expect("scratch");
        let mut index = IndexFile::beside(&dir.path().join("gone").join("20261125-033000.123456789"));
        index.note(&[Key::id("a")]);
        index.end_frame(&(0..5));
        assert!(index.failed);
        index.note(&[Key::id("b")]);
        assert!(index.keys.is_empty(), "it would grow for nothing");
    }
}
