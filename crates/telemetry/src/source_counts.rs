//! What goes wrong with egress sources themselves, and not with the hosts they should reach.
//!
//! Owns [`SourceCounts`]. In: faults as they are met. Out: `bind_failures`, `proxy_connection_failures`,
//! `egress_source_connection_failures_total{source,kind}` and `egress_source_health_suspensions_total{source,reason}` (KumoMTA's names).
//! Sources are the operator's, but a script may make up names: those beyond the bound count as [`OTHER`].

use crate::metrics::{counter, counters};
use crate::registry::Registry;
use prometheus::{Error, IntCounter, IntCounterVec};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The counters.
pub struct SourceCounts {
    /// Connections that did not come about because this host does not have the source's address.
    pub bind_failures: IntCounter,
    /// Connections that did not come about because of the source's proxy.
    pub proxy_failures: IntCounter,
    failures: IntCounterVec,
    suspensions: IntCounterVec,
    sources: Mutex<BTreeSet<String>>,
}

impl SourceCounts {
    pub(crate) fn new(r: &Registry) -> Result<SourceCounts, Error> {
        let failures = "egress_source_connection_failures_total";
        let suspensions = "egress_source_health_suspensions_total";
        Ok(SourceCounts {
            bind_failures: counter(r, "bind_failures", "source addresses that could not be bound")?,
            proxy_failures: counter(r, "proxy_connection_failures", "connections that failed at their proxy")?,
            failures: counters(r, failures, "connections that failed because of their source", &["source", "kind"])?,
            suspensions: counters(r, suspensions, "times a source was set to rest", &["source", "reason"])?,
            sources: Mutex::default(),
        })
    }

    /// A connection did not come about because of its source.
    pub fn failed(&self, source: &str, kind: &str) {
        self.failures.with_label_values(&[self.label(source), kind]).inc();
    }

    /// A source rests from now on.
    pub fn suspended(&self, source: &str, reason: &str) {
        self.suspensions.with_label_values(&[self.label(source), reason]).inc();
    }

    fn label<'a>(&self, source: &'a str) -> &'a str {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = sources.len() < SOURCES_MAX && source.len() <= SOURCE_OCTETS_MAX;
        let known = sources.contains(source) || (has_room && sources.insert(source.to_owned()));
        if known { source } else { OTHER }
    }
}

/// Sources that are told apart.
const SOURCES_MAX: usize = 10_000;
/// Octets of a source's name that is a label.
const SOURCE_OCTETS_MAX: usize = 256;
/// The label of all others.
const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart_up_to_a_bound() {
        let counts = SourceCounts::new(&Registry::default()).expect("sound");
        (0..=SOURCES_MAX).for_each(|number| counts.failed(&format!("ip-{number}"), "Unplumbed"));
        counts.failed("ip-0", "ProxyUnhealthy");
        counts.suspended("ip-0", "Unplumbed");
        counts.suspended(&"x".repeat(SOURCE_OCTETS_MAX + 1), "Unplumbed");
        let failures = |source, kind| counts.failures.with_label_values(&[source, kind]).get();
        let last = format!("ip-{}", SOURCES_MAX - 1);
        assert_eq!((failures("ip-0", "Unplumbed"), failures("ip-0", "ProxyUnhealthy")), (1, 1));
        assert_eq!((failures(&last, "Unplumbed"), failures(OTHER, "Unplumbed")), (1, 1));
        let suspensions = |source| counts.suspensions.with_label_values(&[source, "Unplumbed"]).get();
        assert_eq!((suspensions("ip-0"), suspensions(OTHER)), (1, 1));
    }
}
