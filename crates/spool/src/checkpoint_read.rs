//! Reading a checkpoint back. Whatever is wrong with it, it is not used and nothing else happens.

use crate::checkpoint::{
    CHUNK_HEADER_OCTETS, CheckpointHeader, ChunkHeader, END, EntryRow, MESSAGES, Position, SegmentRow, take_label,
};
use crate::disk::{FileName, ReadPages};
use crate::format::Cursor;
use crate::index::{Index, Live};
use crate::page::{PAGE_OCTETS, Page, PageBuf, octets};
use message::Settled;
use std::collections::BTreeMap;

/// What a checkpoint says.
pub(crate) struct Checkpoint {
    pub position: Position,
    pub floor: u32,
    pub index: Index,
    /// Segments up to the position's, by number.
    pub segments: BTreeMap<u32, SegmentRow>,
}

/// The header of checkpoint `number`; `None` when it does not read.
pub(crate) fn read_header(disk: &dyn ReadPages, number: u32) -> Option<CheckpointHeader> {
    let mut page = Page::zeros(1);
    disk.read_at(FileName::Checkpoint(number), 0, &mut page).ok()?;
    CheckpointHeader::decode(octets(&page)).filter(|header| header.number == number)
}

/// Checkpoint `number`; `None` when anything of it does not read.
pub(crate) fn read_checkpoint(disk: &dyn ReadPages, number: u32) -> Option<Checkpoint> {
    let header = read_header(disk, number)?;
    let mut reader = Reader { disk, file: FileName::Checkpoint(number), nonce: header.nonce, page: 1, chunks: 0 };
    let mut buffer = PageBuf::default();
    let mut loading = Loading::default();
    let segments = loop {
        let (chunk, content) = reader.next(&mut buffer)?;
        let mut input = Cursor(content);
        match chunk.kind {
            MESSAGES => loading.messages(&chunk, &mut input)?,
            END => break loading.end(&chunk, &mut input)?,
            _ => return None,
        }
        if input.left() > 0 {
            return None;
        }
    };
    let index = loading.finish();
    Some(Checkpoint { position: header.position, floor: header.floor, index, segments })
}

/// Gives the chunks of a file, each checked.
struct Reader<'a> {
    disk: &'a dyn ReadPages,
    file: FileName,
    nonce: u64,
    /// Of the next chunk.
    page: u32,
    chunks: u32,
}

impl Reader<'_> {
    /// The next chunk and what is behind its header.
    fn next<'b>(&mut self, buffer: &'b mut PageBuf) -> Option<(ChunkHeader, &'b [u8])> {
        self.read(1, buffer)?;
        let header = ChunkHeader::decode(buffer.octets())?;
        if header.nonce != self.nonce || header.number != self.chunks {
            return None;
        }
        let pages = (header.octets as usize).div_ceil(PAGE_OCTETS);
        if pages > 1 {
            self.read(pages, buffer)?;
        }
        let chunk = buffer.octets().get(..header.octets as usize)?;
        if crc32fast::hash(&chunk[4..]) != header.crc {
            return None;
        }
        self.page += pages as u32;
        self.chunks += 1;
        Some((header, &chunk[CHUNK_HEADER_OCTETS..]))
    }

    /// Reads pages at the position; they must all be there.
    fn read(&self, pages: usize, buffer: &mut PageBuf) -> Option<()> {
        if pages > CHUNK_PAGES_MAX {
            return None;
        }
        let length = self.disk.read_at(self.file, self.page, buffer.for_reading(pages)).ok()?;
        (length == pages * PAGE_OCTETS).then_some(())
    }
}

/// Messages and names as far as they were read.
#[derive(Default)]
struct Loading {
    index: Index,
    /// Our numbers of the file's, each held once until the end.
    labels: BTreeMap<u32, u32>,
    entries: u64,
}

impl Loading {
    fn messages(&mut self, chunk: &ChunkHeader, input: &mut Cursor<'_>) -> Option<()> {
        for _ in 0..chunk.rows {
            let (number, name) = take_label(input)?;
            let held = self.index.labels_mut().hold(name);
            if let Some(before) = self.labels.insert(number, held) {
                self.index.labels_mut().release(before);
            }
        }
        let mut bitmaps = *input;
        for _ in 0..chunk.entries {
            EntryRow::decode(&mut bitmaps)?;
        }
        for _ in 0..chunk.entries {
            let row = EntryRow::decode(input)?;
            let label = *self.labels.get(&row.label)?;
            let settled = Settled::from_bitmap(bitmaps.slice(usize::from(row.bitmap_length))?);
            let EntryRow { id, due, place, share, size, attempts, recipients, .. } = row;
            let live = Live { id, due, place, share, size, attempts, recipients, settled, is_recovered: true };
            self.index.insert_labelled(live, label);
        }
        self.entries += u64::from(chunk.entries);
        *input = bitmaps;
        Some(())
    }

    fn end(&self, chunk: &ChunkHeader, input: &mut Cursor<'_>) -> Option<BTreeMap<u32, SegmentRow>> {
        if input.u64()? != self.entries {
            return None;
        }
        let mut segments = BTreeMap::new();
        for _ in 0..chunk.rows {
            let row = SegmentRow::decode(input)?;
            segments.insert(row.sequence, row);
        }
        Some(segments)
    }

    fn finish(mut self) -> Index {
        for held in self.labels.values() {
            self.index.labels_mut().release(*held);
        }
        self.index
    }
}

/// Pages of the longest chunk that is believed: 1 GiB.
const CHUNK_PAGES_MAX: usize = 1 << 18;
