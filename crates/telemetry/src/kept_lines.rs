//! Lines that wait for somebody, where a killed process leaves them until they are done with.
//!
//! In: lines, in order; how far the first of them are done with. Out: at the next start, those that were not ([`LeftLines`]), to
//! whoever has the same name: some perhaps once more, none missing, but for what had no room in the [`Ring`] and what a power cut took.

use crate::reserve::share_of;
use crate::ring::{self, Left, Note, Notes, Ring, files_of};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use time::OffsetDateTime;

/// Those of one owner.
#[derive(Debug)]
pub struct KeptLines {
    ring: Ring,
    notes: Notes,
    /// Octets of all lines there ever were.
    at: u64,
}

/// Up to here, one line included.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    at: u64,
    /// Of the ring.
    used: u64,
}

/// Those of a process that has ended.
#[derive(Debug)]
pub struct LeftLines {
    left: Left,
    owner: Owner,
    count: usize,
    end: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Owner {
    name: String,
    /// When it was made, in nanoseconds since 1970.
    begun: i64,
}

impl KeptLines {
    /// Begins to keep lines for the owner of that name, who is called so in words.
    ///
    /// # Errors
    /// The directory takes no file, the disk has no room or is too small.
    pub fn create(dir: &Path, name: &str, in_words: String) -> io::Result<KeptLines> {
        match share_of(dir, RING_OCTETS)? / RING_UNIT * RING_UNIT {
            0 => Err(io::Error::other("its disk is too small")),
            octets => KeptLines::of_octets(dir, name, in_words, octets),
        }
    }

    fn of_octets(dir: &Path, name: &str, in_words: String, octets: u64) -> io::Result<KeptLines> {
        let begun = OffsetDateTime::now_utc().unix_timestamp_nanos();
        let owner = Owner { name: name.to_owned(), begun: i64::try_from(begun).unwrap_or(i64::MAX) };
        let (ring, notes) = Ring::create(dir, NAME, (in_words, &owner), octets)?;
        Ok(KeptLines { ring, notes, at: 0 })
    }

    /// What [`KeptLines::put`] takes: the line that is written by `write`.
    pub fn line(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut line = Vec::with_capacity(LINE_OCTETS);
        ring::room_for_head(&mut line);
        write(&mut line);
        ring::seal(&mut line);
        line
    }

    /// Keeps one more: from here on a kill does not take it. `None` where it has no room: a kill does.
    pub fn put(&mut self, line: &mut [u8]) -> Option<Until> {
        let is_kept = self.ring.put(self.at, line);
        self.at += ring::text_of(line).len() as u64;
        is_kept.then(|| Until { at: self.at, used: self.ring.used() })
    }

    /// Those up to there are done with.
    pub fn done(&mut self, until: Until) {
        self.notes.note(&Note { at: until.at, ..Note::default() });
        self.ring.free(until.used);
    }

    /// All are done with, and none will come.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        self.notes.remove()
    }
}

impl LeftLines {
    /// All that ended processes left in a directory, oldest first. What has nothing in it is removed.
    ///
    /// # Errors
    /// The directory cannot be read. A file that cannot be read is passed over, and that said.
    pub fn all_in(dir: &Path) -> io::Result<Vec<LeftLines>> {
        let mut found = Vec::new();
        for path in files_of(dir, NAME)? {
            match Left::open(&path).and_then(|left| left.map(LeftLines::of).transpose()) {
                Ok(lines) => found.extend(lines.flatten()),
                Err(error) => tracing::error!("{}: {error}: what it has is not worked off", path.display()),
            }
        }
        found.sort_by_key(|lines| lines.owner.begun);
        Ok(found)
    }

    /// `None` where there is nothing. Of the lines it is known how many there are; they are read when they are taken.
    fn of(mut left: Left) -> io::Result<Option<LeftLines>> {
        let entries = left.entries_behind(left.note().at);
        let (count, end) = (entries.len(), entries.last().map(ring::Entry::end));
        let owner = left.owner();
        left.forget();
        match (end, owner) {
            (Some(end), Some(owner)) => Ok(Some(LeftLines { left, owner, count, end })),
            (Some(_), None) => Err(io::Error::other(format!("whose {count} lines these are does not read"))),
            (None, _) => left.remove().map(|()| None),
        }
    }

    /// The name of their owner.
    pub fn name(&self) -> &str {
        &self.owner.name
    }

    /// The file they are in.
    pub fn path(&self) -> &Path {
        self.left.path()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Those that are not done with, in order, and where each ends.
    ///
    /// # Errors
    /// The file does not read.
    pub fn read(&mut self) -> io::Result<Vec<(u64, Vec<u8>)>> {
        self.left.read()?;
        let entries = self.left.entries_behind(self.left.note().at);
        let lines = entries.iter().map(|entry| (entry.end(), entry.line.to_vec())).collect();
        self.left.forget();
        Ok(lines)
    }

    /// Those up to there are done with; behind the last of them the file goes.
    ///
    /// # Errors
    /// The file cannot be written or removed.
    pub fn done(&self, end: u64) -> io::Result<()> {
        match end >= self.end {
            true => self.left.remove(),
            false => self.left.note_done(end),
        }
    }
}

/// What names of their files begin with.
const NAME: &str = ".postrider-kept-";
/// Octets of a ring, on a disk that is large enough: some ten thousand records.
const RING_OCTETS: u64 = 8 << 20;
/// It is a multiple of so many.
const RING_UNIT: u64 = 64 << 10;
/// What a line is expected to take.
const LINE_OCTETS: usize = 1536;

#[cfg(test)]
mod tests;
