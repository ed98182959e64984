//! Where the spool has a message.

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

impl Place {
    /// The place of a message that has a file of its own: its id says all.
    pub const OWN_FILE: Place = Place { segment: 0, offset: 0, index: 0 };
}
