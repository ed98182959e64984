//! What the program tells about itself: log segments and metrics.
//!
//! Owns [`LogWriter`] (KumoMTA's zstd segments of JSON records, written by a thread of its own)
//! and [`Metrics`] (a registry with KumoMTA's names). In: records and counts; out: files and the
//! text of `/metrics`. Logging never blocks a delivery unless the disk is so slow that the
//! configured back pressure is reached.
//!
//! Deliberately absent: what is logged (engine), hooks and streams (a later layer).

pub mod log;
pub mod metrics;
mod reserve;
mod segment;

pub use log::{LogError, LogWriter};
pub use metrics::Metrics;
