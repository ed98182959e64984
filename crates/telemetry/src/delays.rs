//! Why due mail waits, where it is counted as it happens.
//!
//! Owns [`Delays`]. In: each time. Out: `delayed_due_to_throttle_insert_ready`. KumoMTA has a series a queue; here the only label is
//! `total`: one for each queue would be a memory without bound. What the queue itself counts (its rates, its full ready queues) is
//! read from it at a scrape.

use crate::metrics::counters;
use crate::registry::Registry;
use prometheus::{Error, IntCounter};

/// The counters.
pub struct Delays {
    /// Messages sent back to their scheduled queue by `throttle_insert_ready_queue`.
    pub throttle_insert_ready: IntCounter,
}

impl Delays {
    pub(crate) fn new(r: &Registry) -> Result<Delays, Error> {
        let total = |name, help| counters(r, name, help, &["queue"]).map(|family| family.with_label_values(&["total"]));
        Ok(Delays {
            throttle_insert_ready: total(
                "delayed_due_to_throttle_insert_ready",
                "messages that throttle_insert_ready_queue sent back",
            )?,
        })
    }
}
