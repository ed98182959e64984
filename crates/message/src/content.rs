//! Where a queued message's bytes are: in memory, in the spool, or both.

use bytes::Bytes;

/// A record's position in the spool: opaque to everybody but the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Sequence number of the segment.
    pub segment: u32,
    /// Offset of the record in the segment, in octets.
    pub offset: u32,
    /// Which message of the record, when several share a body.
    pub index: u16,
}

/// A message's content: the header block with everything policy added and its blank line,
/// then the body. Sent as `head` followed by `body`.
#[derive(Clone, Debug)]
pub enum Content {
    /// In memory. `place` is set once the content is in the spool too, so that memory may go.
    Resident {
        /// Header block and blank line, every line ending in CRLF.
        head: Bytes,
        /// The body; shared by the messages of a split transaction.
        body: Bytes,
        /// Where the same bytes are in the spool.
        place: Option<Place>,
    },
    /// Only in the spool: to be read before it can be sent.
    Spooled {
        /// Where.
        place: Place,
        /// Octets of head and body together.
        size: u32,
    },
}

impl Content {
    /// Octets of head and body together.
    pub fn size(&self) -> usize {
        match self {
            Content::Resident { head, body, .. } => head.len() + body.len(),
            Content::Spooled { size, .. } => *size as usize,
        }
    }

    /// Octets of memory that [`Content::release`] would give back. A shared body counts whole.
    pub fn resident_bytes(&self) -> usize {
        match self {
            Content::Resident { head, body, place: Some(_) } => head.len() + body.len(),
            _ => 0,
        }
    }

    /// Lets go of the memory when the spool has the bytes too; the one place that does.
    pub fn release(&mut self) {
        if let Content::Resident { place: Some(place), .. } = self {
            *self = Content::Spooled { place: *place, size: self.size() as u32 };
        }
    }

    /// Where the content is in the spool, if it is there.
    pub fn place(&self) -> Option<Place> {
        match self {
            Content::Resident { place, .. } => *place,
            Content::Spooled { place, .. } => Some(*place),
        }
    }
}
