//! What the log's segments hold about a message, or about the mail of a recipient or a sender.
//!
//! Owns [`timeline`] and [`receptions`]. In: the directories of segments ([`Place`]) and a question. Out: records, and the names of
//! segments that were not read. Frames are chosen by the index that stands beside each segment (`telemetry::Blocks`), so a
//! question reads some frames of a log of any size; a segment that has no index is read whole, up to [`UNINDEXED_OCTETS_MAX`] a
//! question, and named beyond, as is what [`TIME_MAX`] was not enough for. What is found by a key is compared with what was asked: keys may be shared. It waits
//! for the disk, so it is called on blocking threads. Fails with [`jsonl::JsonlError`].
//!
//! Deliberately absent: messages in queues (engine), and waiting for what comes.

mod bound;
mod cursor;
mod head;
mod places;
mod receptions;
mod timeline;

pub use bound::{TIME_MAX, UNINDEXED_OCTETS_MAX};
pub use cursor::{BadCursor, Cursor};
pub use places::Place;
pub use receptions::{Asked, FRAMES_MAX, Reception, Receptions, ends, receptions};
pub use timeline::{RECORDS_MAX, Record, Timeline, timeline};
