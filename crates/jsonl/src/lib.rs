//! Segments of JSON lines that scripts write and tail: `kumo.jsonl`.
//!
//! Owns [`Writer`], which writes zstd segments as the log does (`telemetry::Segment`), and [`Tailer`], which follows the
//! segments of a directory, whoever writes them, and gives out their records in [`Batch`]es to one consumer or many, each
//! with a checkpoint of its own. [`Lines`] is
//! the same reading without threads, consumers and JSON, for programs that have their own; a [`Part`] is some frames of one segment. In: the options of `config` and lines. Out: files, records, checkpoint files. Fails with
//! one enum, [`JsonlError`].
//!
//! Nothing here blocks a thread of the runtime: a writer has a thread of its own, a tailer reads on blocking threads. The
//! exceptions, opening either, say so. Memory is bounded by the `_MAX` constants, each with its unit.
//!
//! Deliberately absent: Lua, and therefore filters. A tailer offers each record and is told who keeps it ([`Step`]): what
//! a binding asks a script for it does between two steps, waiting or not, and an error there leaves the record offered.

mod batch;
mod checkpoint;
mod consumer;
mod error;
mod lines;
mod notices;
mod part;
mod pen;
mod reader;
mod stream;
mod tailer;
mod writer;

pub use batch::Batch;
pub use checkpoint::{Position, replace};
pub use consumer::BATCH_OCTETS_MAX;
pub use error::JsonlError;
pub use lines::{Begin, Lines, Read};
pub use notices::Notices;
pub use part::Part;
pub use reader::segments;
pub use tailer::{Closer, Offered, Step, Tailer};
pub use writer::{WAITING_LINES_MAX, Writer};
