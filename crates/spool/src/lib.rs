//! The spool: a segmented log in which mail is durable; the only maker of [`Durable`].
//!
//! Owns the format (docs/spool-format.md), group commit ([`SegmentLog::commit`]), recovery
//! ([`SegmentLog::begin`]), reading back, reclaiming of space, and the seam to the disk
//! ([`Disk`], seven calls). In: batches of sealed messages and [`Mark`]s. Out: receipts after the
//! covering sync, and after a restart every message that was promised.
//! Beside it [`local`], one file per message, with the same promise.
//! What can fail is a [`SpoolError`] that names step, file and cause; a failed write or sync
//! poisons its segment and acknowledges nobody.
//!
//! Deliberately absent: files, threads and waiting (store), clocks, randomness (nonces are
//! handed in), and what a message means (queue).

mod active;
mod batch;
mod begin;
mod checkpoint;
mod checkpoint_read;
mod checkpoint_write;
mod compact;
mod disk;
mod doubt;
mod error;
pub mod fault;
mod format;
mod index;
mod inspect;
mod labels;
pub mod local;
mod log;
mod maintain;
mod mark;
mod memory;
mod page;
mod read;
mod receipt;
mod record;
mod recovery;
mod replay;
mod reserve;
mod rewrite;
mod scan;
mod segments;
mod settings;
mod slots;
mod stats;
mod tail;

pub use batch::{Batch, check_transaction};
pub use disk::{Disk, FileInfo, FileName, ReadPages};
pub use error::{SpoolError, Step, lacks_means};
pub use inspect::{FAULTS_MAX, Fault, FaultKind, FileReport, Inspection, SpoolFiles, Standing, inspect, messages_in};
pub use log::SegmentLog;
pub use maintain::{Maintenance, Work};
pub use mark::Mark;
pub use page::{PAGE_OCTETS, Page, octets, octets_mut};
pub use read::read_message;
pub use receipt::{Discarded, Durable, Earlier, Receipt, Volatile};
#[doc(hidden)]
pub use record::read_any;
pub use recovery::{Damage, Recovered, RecoveredMessage, Recovering, Recovery};
pub use rewrite::Rewrite;
pub use settings::{NonceSource, QueueOf, Settings};
pub use stats::LogStats;
