//! One file per message on real files: the second engine of the store (docs/local-disk.md).
//!
//! Owns the spool directory while it is open, the threads that write messages and marks and tidy up, and how many appends
//! and reads run at once.
//! In: transactions and marks; out: receipts after the covering syncs, and the messages of earlier runs.
//!
//! Deliberately absent: the format and the order of the steps (`spool::local`), what a message means (queue).

mod core;
mod files;
mod keeper;
mod marker;
mod recovering;
mod spool;
mod version;
mod writers;

pub(crate) use files::{list, open};
pub(crate) use recovering::LocalRecovering;
pub(crate) use spool::{LocalOpened, LocalSpool};
pub(crate) use version::{VERSION, found};
pub use writers::threads_for;
