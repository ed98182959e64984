//! Where the spool has a message.

use core::fmt;

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

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { segment, offset, index } = self;
        match *self == Place::OWN_FILE {
            true => f.write_str("its own file"),
            false => write!(f, "octet {offset} of segment {segment}, message {index} of its record"),
        }
    }
}

impl Place {
    /// The place of a message that has a file of its own: its id says all.
    pub const OWN_FILE: Place = Place { segment: 0, offset: 0, index: 0 };
}
