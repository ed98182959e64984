//! What event streams delivered, and how far behind they are.
//!
//! Owns [`EventCounts`], each with a series a stream. In: counts of whoever delivers. Out: what is in the registry.

use crate::metrics::{counters, gauges};
use crate::registry::Registry;
use prometheus::{Error, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

/// By name of a stream.
pub struct EventCounts {
    records: IntCounterVec,
    batches: IntCounterVec,
    failures: IntCounterVec,
    gaps: IntCounterVec,
    behind: IntGaugeVec,
}

impl EventCounts {
    pub(crate) fn new(r: &Registry) -> Result<EventCounts, Error> {
        let by = &["stream"];
        Ok(EventCounts {
            records: counters(r, "postrider_event_stream_records_total", "records delivered", by)?,
            batches: counters(r, "postrider_event_stream_batches_total", "batches delivered", by)?,
            failures: counters(r, "postrider_event_stream_failures_total", "attempts failed", by)?,
            gaps: counters(r, "postrider_event_stream_gaps_total", "segments gone, and lines that cannot be read", by)?,
            behind: gauges(r, "postrider_event_stream_behind_seconds", "age of the oldest record not delivered", by)?,
        })
    }

    /// Records that its receiver took.
    pub fn records(&self, stream: &str) -> IntCounter {
        self.records.with_label_values(&[stream])
    }

    /// Batches that it took.
    pub fn batches(&self, stream: &str) -> IntCounter {
        self.batches.with_label_values(&[stream])
    }

    /// Attempts that it did not.
    pub fn failures(&self, stream: &str) -> IntCounter {
        self.failures.with_label_values(&[stream])
    }

    /// Segments that were gone before they were read, and lines that could not be read.
    pub fn gaps(&self, stream: &str) -> IntCounter {
        self.gaps.with_label_values(&[stream])
    }

    /// Age of the oldest record that was not delivered, in seconds; 0 when level.
    pub fn behind(&self, stream: &str) -> IntGauge {
        self.behind.with_label_values(&[stream])
    }

    /// The stream is no more: nobody can say how far it is behind.
    pub fn ended(&self, stream: &str) {
        // An error means that it never said.
        _ = self.behind.remove_label_values(&[stream]);
    }
}
