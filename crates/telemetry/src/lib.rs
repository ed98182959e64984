//! What the program tells about itself: log segments and metrics.
//!
//! Owns [`LogWriter`] (KumoMTA's zstd segments of JSON records, written by a thread of its own,
//! with an index beside each, [`Blocks`]), [`Accounts`] (the accounting log), [`KeptLines`] (what waits elsewhere, safe from a kill)
//! and [`Metrics`] (a registry with KumoMTA's names; what has a series a queue is [`Tallies`] and [`Exposition`]). In: records and counts; out: files and the
//! text of `/metrics`. Logging never blocks a delivery unless the disk is so slow that the
//! configured back pressure is reached.
//!
//! Deliberately absent: what is logged, and log hooks (engine).

mod accounts;
mod compliance_counts;
mod delays;
mod event_counts;
mod event_times;
mod exposition;
pub mod families;
mod full_logs;
mod index;
mod index_file;
mod journal;
mod json;
mod kept_lines;
pub mod largest;
mod latencies;
pub mod lines;
pub mod log;
mod machine_use;
pub mod metrics;
mod process_counts;
pub mod reading;
mod registry;
mod report_counts;
mod reserve;
mod retention;
mod ring;
mod script_times;
mod segment;
mod source_counts;
mod stream;
mod tallies;
mod too_large;

pub use accounts::Accounts;
pub use compliance_counts::ComplianceCounts;
pub use delays::Delays;
pub use event_counts::EventCounts;
pub use event_times::EventTime;
pub use exposition::{Exposition, Kind};
pub use full_logs::FullLogs;
pub use index::{Block, Blocks, Key, index_name};
pub use json::json_of;
pub use kept_lines::{KeptLines, LeftLines, Until};
pub use latencies::{Latencies, PROTOCOLS};
pub use lines::{Lines, TemplateError};
pub use log::{LogError, LogWriter};
pub use machine_use::MachineUse;
pub use metrics::{IntCounter, Metrics};
pub use process_counts::{ProcessCounts, ProcessMetrics};
pub use registry::Described;
pub use report_counts::ReportCounts;
pub use script_times::ScriptTimes;
pub use segment::Segment;
pub use source_counts::SourceCounts;
pub use stream::Offered;
pub use tallies::{Tallies, Tally};
