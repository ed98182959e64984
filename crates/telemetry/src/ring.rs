//! A ring of lines in the page cache, where a killed process leaves those that were not done with.
//!
//! The page cache outlives the process; a power cut may lose what is in it. In: lines, in the order and at the places they have
//! in a stream, and from where on they are not done with yet. Out: at the next start, to whoever asks for what was left ([`Left`]).
//! What is done with is written over; what has no room meanwhile is not in the ring, and that is said once. The file is hidden, and
//! locked: a lock ends with its process.
//!
//! The file: a [`Note`] (which begins anew with each batch), who it belongs to (JSON, behind its length), and from [`RING_START`] on
//! the ring: entries, each a head of [`ENTRY_HEAD`] octets and the line, that begin at multiples of [`UNIT`].

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The ring that lines are written to, on the side of those who write them.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Whose it is, in words.
    of: String,
    file: Arc<File>,
    ring_octets: u64,
    /// Octets of the ring that were ever used, gaps too: where in it is this modulo its size.
    head: u64,
    /// Of these, those that may be written over.
    free_until: u64,
    complained: bool,
    /// It was full once, and that was said.
    was_full: bool,
}

/// The same ring, on the side of who is done with lines.
#[derive(Debug)]
pub(crate) struct Notes {
    file: Arc<File>,
    path: PathBuf,
}

/// From where on lines are not done with. For those of a log: where they are going to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Where they begin in the stream.
    pub at: u64,
    /// The file name of their segment; empty where there is none.
    pub segment: String,
    /// Where their frame begins in that file.
    pub frame_start: u64,
    /// Where they begin in the text of that frame.
    pub frame_octets: u64,
}

/// A line that was found.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// Where it begins in the stream.
    pub at: u64,
    /// The line.
    pub line: &'a [u8],
}

impl Entry<'_> {
    /// Where the next begins in the stream.
    pub fn end(&self) -> u64 {
        self.at + self.line.len() as u64
    }
}

/// The ring of a process that has ended, locked.
#[derive(Debug)]
pub(crate) struct Left {
    file: File,
    path: PathBuf,
    octets: Vec<u8>,
}

impl Ring {
    /// Makes one of so many octets, which is `of` somebody, in a file of that name and a number; it is whole from the start.
    ///
    /// # Errors
    /// The directory takes no file, or the disk has no room.
    pub fn create(
        dir: &Path,
        name: &str,
        (of, owner): (String, &impl Serialize),
        ring_octets: u64,
    ) -> io::Result<(Ring, Notes)> {
        let owner = serde_json::to_vec(owner)?;
        if owner.len() as u64 > RING_START - OWNER_START - 8 {
            return Err(io::Error::other("its owner takes too much room"));
        }
        let (file, path) = create_first(dir, name)?;
        let notes = Notes { file: Arc::new(file), path };
        let head = [&(owner.len() as u64).to_le_bytes()[..], &owner].concat();
        let written = notes.file.write_all_at(&head, OWNER_START);
        if let Err(error) = written.and_then(|()| fill(&notes.file, ring_octets)) {
            notes.remove()?;
            return Err(error);
        }
        let file = notes.file.clone();
        let free_until = ring_octets;
        Ok((Ring { of, file, ring_octets, head: 0, free_until, complained: false, was_full: false }, notes))
    }

    /// Writes a line, behind its [`room_for_head`] and after [`seal`], that begins at `at` in the stream. One that has no room, or
    /// that the disk does not take, is left out, and this is false.
    pub fn put(&mut self, at: u64, line: &mut [u8]) -> bool {
        let octets = (line.len() as u64).next_multiple_of(UNIT);
        let before_end = self.ring_octets - self.head % self.ring_octets;
        let gap = if octets > before_end { before_end } else { 0 };
        let start = self.head + gap;
        if start + octets > self.free_until {
            if !std::mem::replace(&mut self.was_full, true) {
                let (of, ring) = (&self.of, self.ring_octets);
                tracing::warn!("{of}: more than the {ring} octets of its journal wait: a kill may lose the rest");
            }
            return false;
        }
        place(at, line);
        let written = self.file.write_all_at(line, RING_START + start % self.ring_octets);
        match &written {
            Ok(()) => self.head = start + octets,
            // What is cut is no entry, and is written over.
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    tracing::warn!("{}: its journal takes no lines: {error}: a kill may lose the last ones", self.of);
                }
            }
        }
        written.is_ok()
    }

    /// How much of the ring is used, for [`Ring::free`].
    pub fn used(&self) -> u64 {
        self.head
    }

    /// What was used at that time is done with.
    pub fn free(&mut self, used: u64) {
        self.free_until = used + self.ring_octets;
    }
}

impl Notes {
    /// Notes from where on lines are not done with; for a log before they go there.
    pub fn note(&self, note: &Note) {
        // Should it fail, lines may be found that are done with already: they are doubled, not lost.
        if let Err(error) = self.file.write_all_at(&note.encode(), 0) {
            tracing::debug!("{}: {error}", self.path.display());
        }
    }

    /// All lines are done with: it goes.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl Left {
    /// Opens one; `None` when it is in use, or gone.
    pub fn open(path: &Path) -> io::Result<Option<Left>> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            // Another process was faster, here and below.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&file, path) {
            return Ok(None);
        }
        let mut left = Left { file, path: path.to_owned(), octets: Vec::new() };
        left.read()?;
        Ok(Some(left))
    }

    /// Reads it again, after [`Left::forget`].
    pub fn read(&mut self) -> io::Result<()> {
        let octets = self.file.metadata()?.len();
        if octets > FILE_OCTETS_MAX {
            return Err(io::Error::other(format!("{octets} octets are too many for a journal")));
        }
        self.octets = vec![0; octets as usize];
        self.file.read_exact_at(&mut self.octets, 0)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose it was; `None` when whoever made it was killed before it was whole.
    pub fn owner<T: DeserializeOwned>(&self) -> Option<T> {
        let length = number_u64(&self.octets, OWNER_START as usize)?;
        let start = OWNER_START as usize + 8;
        serde_json::from_slice(self.octets.get(start..start.checked_add(length as usize)?)?).ok()
    }

    /// What was noted.
    pub fn note(&self) -> Note {
        Note::decode(&self.octets).unwrap_or_default()
    }

    /// Every whole entry that is not before this place in the stream, in order.
    pub fn entries_behind(&self, at: u64) -> Vec<Entry<'_>> {
        let mut entries = entries_in(self.octets.get(RING_START as usize..).unwrap_or_default());
        entries.retain(|entry| entry.end() > at);
        entries.sort_by_key(|entry| entry.at);
        entries
    }

    /// All before this place are done with.
    pub fn note_done(&self, at: u64) -> io::Result<()> {
        self.file.write_all_at(&Note { at, ..Note::default() }.encode(), 0)
    }

    /// Forgets what it read.
    pub fn forget(&mut self) {
        self.octets = Vec::new();
    }

    /// All are done with: it goes.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl Note {
    /// crc (4 octets) of what follows, length of the name (4), the three numbers, the name. A name that is too long is left
    /// out, and with it what can be told from it.
    fn encode(&self) -> [u8; NOTE_OCTETS] {
        let mut octets = [0; NOTE_OCTETS];
        let name = Some(self.segment.as_bytes()).filter(|name| name.len() <= NOTE_OCTETS - 32).unwrap_or_default();
        octets[4..8].copy_from_slice(&(name.len() as u32).to_le_bytes());
        let numbers = [self.at, self.frame_start, self.frame_octets];
        for (place, number) in octets[8..32].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        octets[32..32 + name.len()].copy_from_slice(name);
        let crc = crc32fast::hash(&octets[4..]);
        octets[..4].copy_from_slice(&crc.to_le_bytes());
        octets
    }

    fn decode(octets: &[u8]) -> Option<Note> {
        let octets = octets.get(..NOTE_OCTETS)?;
        if number_u32(octets, 0)? != crc32fast::hash(&octets[4..]) {
            return None;
        }
        let name = octets.get(32..32 + number_u32(octets, 4)? as usize)?;
        Some(Note {
            at: number_u64(octets, 8)?,
            frame_start: number_u64(octets, 16)?,
            frame_octets: number_u64(octets, 24)?,
            segment: String::from_utf8(name.to_vec()).ok()?,
        })
    }
}

/// Whether that is still the file of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let same =
        |there: fs::Metadata| file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()));
    fs::metadata(path).is_ok_and(same)
}

/// The files of rings of a name, by name.
pub(crate) fn files_of(dir: &Path, name: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let file = entry?.file_name();
        // A copy that somebody made is his.
        let number = file.as_encoded_bytes().strip_prefix(name.as_bytes());
        if number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit)) {
            found.push(dir.join(file));
        }
    }
    found.sort();
    Ok(found)
}

/// Makes a ring whole: a write that lengthens a file waits for the file system's journal. Page by page, as the page cache keeps
/// what is written at once together, and goes through all of that at each later write.
fn fill(file: &File, ring_octets: u64) -> io::Result<()> {
    let page = [0; 4096];
    (RING_START..RING_START + ring_octets).step_by(page.len()).try_for_each(|at| file.write_all_at(&page, at))
}

/// The first file of that name and a number that is not there yet, locked.
fn create_first(dir: &Path, name: &str) -> io::Result<(File, PathBuf)> {
    for number in 0..FILES_MAX {
        let path = dir.join(format!("{name}{number}"));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => {
                let file = opened?;
                match file.try_lock() {
                    // Another process that starts has taken it for a leftover.
                    Err(TryLockError::WouldBlock) => continue,
                    locked => locked?,
                }
                if is_at(&file, &path) {
                    return Ok((file, path));
                }
            }
        }
    }
    Err(io::Error::other("too many journals"))
}

/// Every whole entry of a ring.
fn entries_in(ring: &[u8]) -> Vec<Entry<'_>> {
    (0..ring.len()).step_by(UNIT as usize).filter_map(|start| entry_in(&ring[start..])).collect()
}

/// The entry that begins here; `None` where nothing whole does.
fn entry_in(octets: &[u8]) -> Option<Entry<'_>> {
    let head = octets.get(..ENTRY_HEAD)?;
    if head[..4] != MAGIC || number_u32(head, 12)? != head_crc(head) {
        return None;
    }
    let entry = octets.get(..ENTRY_HEAD.checked_add(number_u32(head, 8)? as usize)?)?;
    let is_whole = number_u32(entry, 4)? == crc32fast::hash(text_of(entry));
    is_whole.then_some(Entry { at: number_u64(entry, 16)?, line: text_of(entry) })
}

/// What a line begins with: octets for the head of its entry, so that both are written at once.
pub(crate) fn room_for_head(line: &mut Vec<u8>) {
    line.extend_from_slice(&[0; ENTRY_HEAD]);
}

/// What is behind that.
pub(crate) fn text_of(line: &[u8]) -> &[u8] {
    line.get(ENTRY_HEAD..).unwrap_or_default()
}

/// Fills the head of a line's entry, but for its place: magic, crc of the line, its length, crc of place, length and crc, place.
pub(crate) fn seal(line: &mut [u8]) {
    let (crc, length) = (crc32fast::hash(text_of(line)), text_of(line).len() as u32);
    line[..4].copy_from_slice(&MAGIC);
    line[4..8].copy_from_slice(&crc.to_le_bytes());
    line[8..12].copy_from_slice(&length.to_le_bytes());
}

fn place(at: u64, line: &mut [u8]) {
    line[16..ENTRY_HEAD].copy_from_slice(&at.to_le_bytes());
    let crc = head_crc(line);
    line[12..16].copy_from_slice(&crc.to_le_bytes());
}

fn head_crc(entry: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&entry[4..12]);
    crc.update(&entry[16..ENTRY_HEAD]);
    crc.finalize()
}

fn number_u32(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

fn number_u64(octets: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(octets.get(at..at + 8)?.try_into().ok()?))
}

/// Rings of one name in one directory at most, those that killed processes left among them.
const FILES_MAX: usize = 256;
/// Octets of a file at most: no ring is so large.
const FILE_OCTETS_MAX: u64 = 64 << 20;
/// An entry begins with these.
const MAGIC: [u8; 4] = *b"\0PrJ";
/// Octets in front of an entry's line.
pub(crate) const ENTRY_HEAD: usize = 24;
/// Entries begin at multiples of so many octets.
pub(crate) const UNIT: u64 = 64;
/// Octets of a note.
const NOTE_OCTETS: usize = 512;
/// Where in the file the owner is described.
const OWNER_START: u64 = 512;
/// Where in the file the ring begins.
pub(crate) const RING_START: u64 = 64 << 10;
