//! The journal of a stream: lines that its segment does not have yet, where a killed process leaves them.
//!
//! Lines gather for some milliseconds before they are compressed and written. So that a kill of the process takes none of them,
//! each is first written to a small ring in the page cache, which outlives the process; the next one makes a segment of those
//! it finds there and in no segment. A power cut may lose them, as it may lose the end of a segment.
//!
//! In: lines, in the order and at the places they have in the stream, and where in which segment the next ones will begin. Out: at
//! the next opening of the directory, [`recover`]. What is in the ring is overwritten once it is in a segment; what has no room
//! meanwhile is not in it, and that is said once. The file is hidden and locked like a segment: a lock ends with its process.
//!
//! The file: a [`Note`] (which begins anew with each batch), who it belongs to ([`Owner`]), and from [`RING_START`] on the ring:
//! entries, each a head of [`ENTRY_HEAD`] octets and the line, that begin at multiples of [`UNIT`].

use crate::segment::Segment;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::OffsetDateTime;

/// The ring that lines are written to, on the side of those who write them.
#[derive(Debug)]
pub(crate) struct Journal {
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

/// The same ring, on the side of the thread that writes segments.
#[derive(Debug)]
pub(crate) struct Notes {
    file: Arc<File>,
    path: PathBuf,
}

/// Where the lines that come next are going to be. All before them are in segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Note {
    /// Where they begin in the stream.
    pub at: u64,
    /// The file name of their segment.
    pub segment: String,
    /// Where their frame begins in that file.
    pub frame_start: u64,
    /// Where they begin in the text of that frame.
    pub frame_octets: u64,
}

/// To which segments lines of a journal belong.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// In front of the time in names of segments.
    pub prefix: String,
    /// Behind it.
    pub suffix: String,
    /// At the head of each segment.
    pub header: Vec<u8>,
    /// How hard they are compressed.
    pub level: i32,
}

/// A line that was found.
#[derive(Debug)]
struct Entry<'a> {
    at: u64,
    line: &'a [u8],
}

impl Journal {
    /// Makes one with a ring of so many octets; it is whole from the start.
    ///
    /// # Errors
    /// The directory takes no file, or the disk has no room.
    pub fn create(dir: &Path, owner: &Owner, ring_octets: u64) -> io::Result<(Journal, Notes)> {
        let owner = serde_json::to_vec(owner)?;
        if owner.len() as u64 > RING_START - OWNER_START - 8 {
            return Err(io::Error::other("the header of its segments is too long"));
        }
        let (file, path) = create_first(dir)?;
        let notes = Notes { file: Arc::new(file), path };
        let head = [&(owner.len() as u64).to_le_bytes()[..], &owner].concat();
        let written = notes.file.write_all_at(&head, OWNER_START);
        if let Err(error) = written.and_then(|()| fill(&notes.file, ring_octets)) {
            notes.remove()?;
            return Err(error);
        }
        let file = notes.file.clone();
        let free_until = ring_octets;
        Ok((Journal { file, ring_octets, head: 0, free_until, complained: false, was_full: false }, notes))
    }

    /// Writes a line, behind its [`room_for_head`] and after [`seal`], that begins at `at` in the stream. One that has no room, or
    /// that the disk does not take, is left out.
    pub fn put(&mut self, at: u64, line: &mut [u8]) {
        let octets = (line.len() as u64).next_multiple_of(UNIT);
        let before_end = self.ring_octets - self.head % self.ring_octets;
        let gap = if octets > before_end { before_end } else { 0 };
        let start = self.head + gap;
        if start + octets > self.free_until {
            if !std::mem::replace(&mut self.was_full, true) {
                let ring = self.ring_octets;
                tracing::warn!(
                    "more than the {ring} octets of a log's journal wait to be written: a kill may lose the rest"
                );
            }
            return;
        }
        place(at, line);
        match self.file.write_all_at(line, RING_START + start % self.ring_octets) {
            Ok(()) => self.head = start + octets,
            // What is cut is no entry, and is written over.
            Err(error) => {
                if !std::mem::replace(&mut self.complained, true) {
                    tracing::warn!("the journal of a log takes no lines: {error}: a kill may lose the last ones");
                }
            }
        }
    }

    /// How much of the ring is used, for [`Journal::free`].
    pub fn used(&self) -> u64 {
        self.head
    }

    /// What was used at that time is in segments.
    pub fn free(&mut self, used: u64) {
        self.free_until = used + self.ring_octets;
    }
}

impl Notes {
    /// Notes where the next lines go, before they do.
    pub fn note(&self, note: &Note) {
        // Should it fail, lines may be found that are in a segment already: they are doubled, not lost.
        if let Err(error) = self.file.write_all_at(&note.encode(), 0) {
            tracing::debug!("{}: {error}", self.path.display());
        }
    }

    /// All lines are in segments: it goes.
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

    /// Octets of the lines behind it that are in their segment; none when nothing can be told.
    fn octets_written(&self, dir: &Path) -> u64 {
        if self.segment.is_empty() {
            return 0;
        }
        match self.text_octets(&dir.join(&self.segment)) {
            Ok(octets) => octets.saturating_sub(self.frame_octets),
            Err(error) => {
                tracing::warn!("log segment {}: {error}: its last records may be found twice", self.segment);
                0
            }
        }
    }

    /// Octets of text from the beginning of the frame to the end of the file. A frame that is cut counts as far as it goes.
    fn text_octets(&self, segment: &Path) -> io::Result<u64> {
        let mut file = File::open(segment)?;
        file.seek(SeekFrom::Start(self.frame_start))?;
        let mut text = zstd::stream::read::Decoder::new(file)?;
        let (mut octets, mut some) = (0, vec![0; 64 << 10]);
        while let Ok(more @ 1..) = text.read(&mut some) {
            octets += more as u64;
        }
        Ok(octets)
    }
}

/// Makes segments of the lines that journals of ended processes have and their segments do not; how many lines there were. Journals
/// in use are left alone.
///
/// # Errors
/// The directory cannot be read or written; what was not recovered stays for the next time.
pub(crate) fn recover(dir: &Path) -> io::Result<usize> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        if name.as_encoded_bytes().starts_with(NAME.as_bytes()) {
            names.push(name);
        }
    }
    names.sort();
    let (mut lines, mut failed) = (0, Ok(()));
    for name in names {
        match recover_one(dir, &dir.join(name)) {
            Ok(found) => lines += found,
            // Others need not wait for it.
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    failed.map(|()| lines)
}

fn recover_one(dir: &Path, path: &Path) -> io::Result<usize> {
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        // Another process was faster, here and below.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened?,
    };
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&file, path) {
        return Ok(0);
    }
    let mut octets = Vec::new();
    file.read_to_end(&mut octets)?;
    let found = write_segment(dir, &octets)?;
    if let Some((_, at)) = found {
        // Should this be killed too: it is done.
        file.write_all_at(&Note { at, ..Note::default() }.encode(), 0)?;
    }
    fs::remove_file(path)?;
    Ok(found.map_or(0, |(lines, _)| lines))
}

/// Whether that is still the file of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let same =
        |there: fs::Metadata| file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()));
    fs::metadata(path).is_ok_and(same)
}

/// Makes a segment of what a journal has and its segment does not: how many lines, and where in the stream they end.
fn write_segment(dir: &Path, octets: &[u8]) -> io::Result<Option<(usize, u64)>> {
    let owner = number_u64(octets, OWNER_START as usize).and_then(|length| {
        let start = OWNER_START as usize + 8;
        serde_json::from_slice::<Owner>(octets.get(start..start.checked_add(length as usize)?)?).ok()
    });
    // Whoever made it was killed before it was whole.
    let Some(owner) = owner else { return Ok(None) };
    let note = Note::decode(octets).unwrap_or_default();
    let written_until = note.at + note.octets_written(dir);
    let mut entries = entries_in(octets.get(RING_START as usize..).unwrap_or_default());
    entries.retain(|entry| entry.at + entry.line.len() as u64 > written_until);
    entries.sort_by_key(|entry| entry.at);
    let Some(end) = entries.last().map(|last| last.at + last.line.len() as u64) else { return Ok(None) };
    let lines: Vec<u8> = entries.iter().flat_map(|entry| entry.line).copied().collect();
    let affixes = (owner.prefix.as_str(), owner.suffix.as_str());
    let mut segment = Segment::create(dir, affixes, owner.level, OffsetDateTime::now_utc(), &mut None)?;
    if let Err(error) = segment.write(&[&owner.header[..], &lines].concat()) {
        segment.discard_if_empty();
        return Err(error);
    }
    if let Err(error) = segment.finish() {
        // Its lines are in the file: the next start marks it as complete.
        tracing::warn!("{}: {error}", segment.path().display());
    }
    Ok(Some((entries.len(), end)))
}

/// Makes a ring whole: a write that lengthens a file waits for the file system's journal. Page by page, as the page cache keeps
/// what is written at once together, and goes through all of that at each later write.
fn fill(file: &File, ring_octets: u64) -> io::Result<()> {
    let page = [0; 4096];
    (RING_START..RING_START + ring_octets).step_by(page.len()).try_for_each(|at| file.write_all_at(&page, at))
}

/// The first file of a journal's name that is not there yet, locked.
fn create_first(dir: &Path) -> io::Result<(File, PathBuf)> {
    for number in 0..FILES_MAX {
        let path = dir.join(format!("{NAME}{number}"));
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

/// What their names begin with: hidden, so that nothing takes one for a segment.
const NAME: &str = ".postrider-journal-";
/// Journals of one directory at most: a stream has one.
const FILES_MAX: usize = 256;
/// An entry begins with these.
const MAGIC: [u8; 4] = *b"\0PrJ";
/// Octets in front of an entry's line.
const ENTRY_HEAD: usize = 24;
/// Entries begin at multiples of so many octets.
const UNIT: u64 = 64;
/// Octets of a note.
const NOTE_OCTETS: usize = 512;
/// Where in the file the owner is described.
const OWNER_START: u64 = 512;
/// Where in the file the ring begins.
const RING_START: u64 = 64 << 10;

#[cfg(test)]
mod tests;
