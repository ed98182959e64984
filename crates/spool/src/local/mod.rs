//! One file per message (docs/local-disk.md): the format, the order of the steps, recovery.
//!
//! Owns what is written into which file and when a message counts as promised ([`MessageFiles`]); makes [`crate::Durable`]
//! after the sync that covers a message's name. In: sealed messages, marks. Out: receipts, messages read back, and after
//! a restart every message that was promised. All calls go through [`Files`], so that a crash can be tried at each of them.
//! What can fail is a [`crate::SpoolError`] that names step, file and cause.
//!
//! Deliberately absent: real files, threads and waiting (store), how many appends run at once, when marks are written.

mod engine;
mod fault;
mod files;
mod header;
mod inspect;
mod intent;
mod marks;
mod names;
mod recovery;
mod rewrite;
mod spares;
mod together;

pub use engine::{MessageFiles, Undo};
pub use fault::FaultFiles;
pub use files::{Files, ReadFile, ReadFiles};
pub use inspect::{FILE_FAULTS_MAX, FileFault, FileFaultKind, FilesInspection, FolderReport, inspect, load};
pub use names::{FOLDERS_OF_MESSAGES, Folder, LocalName, Run};
pub use recovery::LocalReport;
