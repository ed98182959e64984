//! How often events of the policy happen and how long their handlers take: `lua_event_started` and `lua_event_latency`.
//!
//! A series an event, made when it first happens. Whoever counts keeps its [`EventTime`]: looking a series up takes a lock.

use crate::registry::Registry;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};

/// The families.
pub struct EventTimes {
    started: IntCounterVec,
    latency: HistogramVec,
}

/// The series of one event.
#[derive(Clone, Debug)]
pub struct EventTime {
    /// Handlers were called so often.
    pub started: IntCounter,
    /// They took so many seconds.
    pub latency: Histogram,
}

impl EventTimes {
    pub(crate) fn new(registry: &Registry) -> Result<EventTimes, prometheus::Error> {
        let started = IntCounterVec::new(Opts::new("lua_event_started", "calls of handlers, by event"), &["event"])?;
        // The default buckets are KumoMTA's.
        let options = HistogramOpts::new("lua_event_latency", "seconds that handlers took, by event");
        let latency = HistogramVec::new(options, &["event"])?;
        registry.register(Box::new(started.clone()))?;
        registry.register(Box::new(latency.clone()))?;
        Ok(EventTimes { started, latency })
    }

    /// The series of `event`.
    pub fn of(&self, event: &str) -> EventTime {
        EventTime {
            started: self.started.with_label_values(&[event]),
            latency: self.latency.with_label_values(&[event]),
        }
    }
}
