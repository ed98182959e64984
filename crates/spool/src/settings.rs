//! What the log is told at the start: its layout, how queues are named, where nonces come from.

use crate::format::{SEGMENT_OCTETS_MAX, SEGMENT_OCTETS_MIN};
use crate::page::PAGE_OCTETS;
use message::{Envelope, Meta};

/// How the log lays itself out.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Octets of a segment, a multiple of 4096. Default 64 MiB.
    pub segment_octets: u32,
    /// Compaction begins when segments take more than twice the live octets and this. Default 8 segments.
    pub compact_margin_octets: u64,
    /// A checkpoint of the index is written when the log has grown by this and by `checkpoint_factor` times what it
    /// takes, in octets. Default 1 GiB.
    pub checkpoint_octets: u64,
    /// See `checkpoint_octets`. Default 16.
    pub checkpoint_factor: u32,
    /// Names the queue of a message, so that a restart can queue it without reading it. Default: the empty name.
    pub queue_of: QueueOf,
}

/// A message's queue name, from what is stored of it.
pub type QueueOf = fn(&Envelope, &Meta) -> String;

/// Makes the random number that a use of a segment file is known by. Must not be guessable by peers.
pub type NonceSource = Box<dyn FnMut() -> u64 + Send>;

impl Default for Settings {
    fn default() -> Settings {
        Settings::with_segment(64 << 20)
    }
}

impl Settings {
    /// The defaults for segments of `octets` octets.
    pub fn with_segment(octets: u32) -> Settings {
        Settings {
            segment_octets: octets,
            compact_margin_octets: u64::from(octets) * 8,
            checkpoint_octets: 1 << 30,
            checkpoint_factor: 16,
            queue_of: |_, _| String::new(),
        }
    }

    /// The defaults for a disk of `total_octets` octets, used or free: small disks get small segments, so that the
    /// reserve and the margin of compaction are a small part of them. Octets of a segment are the 256th part, in whole MiB, 1 to 64.
    /// A spool made with other segments goes on working.
    pub fn for_disk(total_octets: u64) -> Settings {
        let mebibytes = ((total_octets / DISK_PARTS) >> 20).clamp(1, 64);
        Settings::with_segment((mebibytes as u32) << 20)
    }

    /// Within the format's bounds.
    pub(crate) fn sound(self) -> Settings {
        let octets = self.segment_octets.clamp(SEGMENT_OCTETS_MIN, SEGMENT_OCTETS_MAX);
        Settings { segment_octets: octets - octets % PAGE_OCTETS as u32, ..self }
    }
}

/// Segments that would fill a disk.
const DISK_PARTS: u64 = 256;
