//! The spool on real files: the handle that sessions hold, and behind it one of two engines: the log with its writer
//! thread over [`FileDisk`], or one file per message (`local`).
//!
//! Owns the spool directory while it is open, the OS threads that write to it, group
//! commit, and reading back from any task. In: transactions and marks from the engine; out:
//! receipts after the covering sync. What can fail at the start is a [`StoreError`], later a
//! [`spool::SpoolError`]; a failed commit refuses its own appends and the writer goes on.
//!
//! Deliberately absent: the format and every decision about octets (spool), what a message
//! means (queue), when to stop accepting because space runs out (engine; [`free`] tells).

mod claim;
mod coming;
mod error;
mod file_disk;
mod free;
mod handle;
mod hints;
mod inbox;
mod kind;
mod linger;
mod local;
mod lock;
mod log_spool;
mod options;
mod orders;
mod patient;
mod read_only;
mod reads;
mod recovering;
mod report;
mod return_home;
mod shared_sync;
mod sync_time;
mod writer;

pub use coming::Coming;
pub use error::StoreError;
pub use file_disk::FileDisk;
pub use free::{Free, free};
pub use handle::{Appended, SpoolHandle, open, start};
pub use kind::Kind;
pub use linger::{Linger, MANY};
pub use local::threads_for;
pub use options::{Options, Stats};
pub use orders::OrdersFile;
pub use read_only::ReadOnlyDir;
pub use recovering::Recovering;
pub use report::Report;
pub use shared_sync::SharedSync;
