//! Reading one message back, from any thread, without the log.
//!
//! Every octet handed out is checked against its crc, and the id against the table: a segment
//! that was reused meanwhile gives an error, never somebody else's mail.

use crate::disk::{FileName, ReadPages};
use crate::format::{RECORD_HEADER_OCTETS, RecordHeader};
use crate::page::{PAGE_OCTETS, PageBuf};
use crate::record::Layout;
use crate::{SpoolError, Step};
use bytes::Bytes;
use core::ops::Range;
use message::{MessageId, Place, Resident, codec};
use std::io::ErrorKind;

/// All of message `id` at `place`: envelope, metadata, head and body.
///
/// # Errors
/// `NoSuchMessage` when another message, or nothing, is there (it moved: ask the log),
/// `Damaged` when its octets do not read back as written, `Io` when the disk refuses.
pub fn read_message(disk: &dyn ReadPages, id: MessageId, place: Place) -> Result<Resident, SpoolError> {
    let at = place.offset as usize;
    let first = Window::read(disk, place.segment, at..at + FIRST_READ_OCTETS, id)?;
    let missing = SpoolError::NoSuchMessage { id };
    let header = first.get(at..at + RECORD_HEADER_OCTETS).and_then(|octets| RecordHeader::decode(&octets));
    let Some((header, table_end)) = header.and_then(|h| Some((h, Layout::table_end(&h)?))) else {
        return Err(missing);
    };
    let table = first.or_read(disk, place.segment, at..at + table_end, id)?;
    let Some(layout) = Layout::decode(&header, &table) else { return Err(missing) };
    let found = layout.messages().nth(usize::from(place.index)).filter(|(entry, _, _)| entry.id == id);
    let Some((entry, state, head)) = found else { return Err(missing) };
    let shift = |range: Range<usize>| at + range.start..at + range.end;
    let (state, head, body) = (shift(state), shift(head), shift(layout.body.clone()));
    let (state, head, body) = if header.count == 1 {
        // State, head and body are neighbours: one read.
        let all = first.or_read(disk, place.segment, state.start..body.end, id)?;
        let (head_at, body_at) = (head.start - state.start, body.start - state.start);
        (all.slice(..head_at), all.slice(head_at..body_at), all.slice(body_at..))
    } else {
        let part = |range| first.or_read(disk, place.segment, range, id);
        (part(state)?, part(head)?, part(body)?)
    };
    let body_crc = if body.is_empty() { 0 } else { crc32fast::hash(&body) };
    let sound = crc32fast::hash(&state) == entry.state_crc
        && crc32fast::hash(&head) == entry.head_crc
        && body_crc == layout.body_crc;
    let decoded = state.get(entry.done_length as usize..).filter(|_| sound).and_then(|s| codec::decode(s).ok());
    let Some((envelope, meta)) = decoded else { return Err(SpoolError::Damaged { id, place }) };
    // A small message must not keep a large window in memory.
    if first.octets.len() > 2 * (head.len() + body.len()) {
        let (head, body) = (Bytes::copy_from_slice(&head), Bytes::copy_from_slice(&body));
        return Ok(Resident { envelope, meta, head, body: body.into() });
    }
    Ok(Resident { envelope, meta, head, body: body.into() })
}

/// Octets of a segment that were read, whole pages.
struct Window {
    /// Offset of the first one in the segment.
    start: usize,
    octets: Bytes,
}

impl Window {
    /// Reads the pages that cover `range`; fewer at the end of the file.
    fn read(disk: &dyn ReadPages, segment: u32, range: Range<usize>, id: MessageId) -> Result<Window, SpoolError> {
        let page = range.start / PAGE_OCTETS;
        let pages = range.end.div_ceil(PAGE_OCTETS) - page;
        let mut buffer = PageBuf::default();
        let file = FileName::Segment(segment);
        let length = disk.read_at(file, page as u32, buffer.for_reading(pages)).map_err(|e| match e.kind() {
            ErrorKind::NotFound => SpoolError::NoSuchMessage { id },
            _ => SpoolError::io(Step::Read, file, &e),
        })?;
        buffer.truncate(length);
        Ok(Window { start: page * PAGE_OCTETS, octets: Bytes::from_owner(buffer) })
    }

    /// The octets at `range` of the segment, if they are here.
    fn get(&self, range: Range<usize>) -> Option<Bytes> {
        let (from, to) = (range.start.checked_sub(self.start)?, range.end.checked_sub(self.start)?);
        (to <= self.octets.len()).then(|| self.octets.slice(from..to))
    }

    /// The octets at `range`, read if they are not here.
    fn or_read(
        &self,
        disk: &dyn ReadPages,
        segment: u32,
        range: Range<usize>,
        id: MessageId,
    ) -> Result<Bytes, SpoolError> {
        if let Some(octets) = self.get(range.clone()) {
            return Ok(octets);
        }
        let window = Window::read(disk, segment, range.clone(), id)?;
        window.get(range).ok_or(SpoolError::NoSuchMessage { id })
    }
}

/// What the first read takes: most messages whole.
const FIRST_READ_OCTETS: usize = 32 << 10;
