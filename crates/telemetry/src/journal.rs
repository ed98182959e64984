//! The journal of a stream: lines that its segment does not have yet, where a killed process leaves them.
//!
//! Lines gather for some milliseconds before they are compressed and written. So that a kill of the process takes none of them,
//! each is first written to a [`Ring`]; the next one makes a segment of those it finds there and in no segment.
//!
//! In: lines, and where in which segment the next ones will begin. Out: at the next opening of the directory, [`recover`].

use crate::ring::{Left, Note, Notes, Ring, files_of};
use crate::segment::Segment;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use time::OffsetDateTime;

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

/// Makes a journal with a ring of so many octets.
///
/// # Errors
/// The directory takes no file, or the disk has no room.
pub(crate) fn create(dir: &Path, owner: &Owner, ring_octets: u64) -> io::Result<(Ring, Notes)> {
    Ring::create(dir, NAME, (format!("log_dir {}", dir.display()), owner), ring_octets)
}

/// Makes segments of the lines that journals of ended processes have and their segments do not; how many lines there were. Journals
/// in use are left alone.
///
/// # Errors
/// The directory cannot be read or written; what was not recovered stays for the next time.
pub(crate) fn recover(dir: &Path) -> io::Result<usize> {
    let (mut lines, mut failed) = (0, Ok(()));
    for path in files_of(dir, NAME)? {
        match recover_one(dir, &path) {
            Ok(found) => lines += found,
            // Others need not wait for it.
            Err(error) => failed = failed.and(Err(error)),
        }
    }
    failed.map(|()| lines)
}

fn recover_one(dir: &Path, path: &Path) -> io::Result<usize> {
    let Some(left) = Left::open(path)? else { return Ok(0) };
    let found = write_segment(dir, &left)?;
    if let Some((_, at)) = found {
        // Should this be killed too: it is done.
        left.note_done(at)?;
    }
    left.remove()?;
    Ok(found.map_or(0, |(lines, _)| lines))
}

/// Makes a segment of what a journal has and its segment does not: how many lines, and where in the stream they end.
fn write_segment(dir: &Path, left: &Left) -> io::Result<Option<(usize, u64)>> {
    let note = left.note();
    let Some(owner) = left.owner::<Owner>() else {
        return match left.entries_behind(note.at).len() {
            // Whoever made it was killed before it was whole.
            0 => Ok(None),
            count => Err(io::Error::other(format!("whose {count} lines these are does not read"))),
        };
    };
    let entries = left.entries_behind(note.at + octets_written(&note, dir));
    let Some(end) = entries.last().map(|last| last.end()) else { return Ok(None) };
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

/// Octets of the lines behind a note that are in their segment; none when nothing can be told.
fn octets_written(note: &Note, dir: &Path) -> u64 {
    if note.segment.is_empty() {
        return 0;
    }
    match text_octets(&dir.join(&note.segment), note.frame_start) {
        Ok(octets) => octets.saturating_sub(note.frame_octets),
        Err(error) => {
            tracing::warn!("log segment {}: {error}: its last records may be found twice", note.segment);
            0
        }
    }
}

/// Octets of text from the beginning of the frame to the end of the file. A frame that is cut counts as far as it goes.
fn text_octets(segment: &Path, frame_start: u64) -> io::Result<u64> {
    let mut file = File::open(segment)?;
    file.seek(SeekFrom::Start(frame_start))?;
    let mut text = zstd::stream::read::Decoder::new(file)?;
    let (mut octets, mut some) = (0, vec![0; 64 << 10]);
    while let Ok(more @ 1..) = text.read(&mut some) {
        octets += more as u64;
    }
    Ok(octets)
}

/// What their names begin with: hidden, so that nothing takes one for a segment.
const NAME: &str = ".postrider-journal-";

#[cfg(test)]
mod tests;
