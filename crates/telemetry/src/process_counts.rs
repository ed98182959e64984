//! What every program tells of itself, whether it takes mail or not: its memory, its processors, its scripts.
//!
//! Owns [`ProcessCounts`], the families themselves, part of [`crate::Metrics`] and of [`ProcessMetrics`]: a registry with nothing
//! else in it, for programs that are no mail server.

use crate::event_times::EventTimes;
use crate::machine_use::MachineUse;
use crate::metrics::{counter, gauge, text_of};
use crate::registry::Registry;
use crate::script_times::ScriptTimes;
use prometheus::{Error, IntCounter, IntGauge};

/// The families.
pub struct ProcessCounts {
    /// Resident set size in octets.
    pub memory_usage: IntGauge,
    /// The soft limit of memory in octets.
    pub memory_limit: IntGauge,
    /// From how much memory on it is short, in octets.
    pub memory_low_thresh: IntGauge,
    /// How often `memory_low_thresh` was passed upwards.
    pub memory_low_count: IntCounter,
    /// How often `memory_limit` was passed upwards.
    pub memory_over_limit_count: IntCounter,
    /// What the program and its machine use.
    pub machine_use: MachineUse,
    /// What scripts measure of themselves.
    pub script_times: ScriptTimes,
    /// How often and how long handlers of events run.
    pub event_times: EventTimes,
}

/// They alone, with their registry.
pub struct ProcessMetrics {
    registry: Registry,
    /// The families.
    pub counts: ProcessCounts,
}

impl ProcessCounts {
    pub(crate) fn new(r: &Registry) -> Result<ProcessCounts, Error> {
        Ok(ProcessCounts {
            memory_usage: gauge(r, "memory_usage", "resident memory in bytes")?,
            memory_limit: gauge(r, "memory_limit", "soft limit of memory in bytes")?,
            memory_low_thresh: gauge(r, "memory_low_thresh", "memory in bytes from which it is short")?,
            memory_low_count: counter(r, "memory_low_count", "times memory_low_thresh was passed")?,
            memory_over_limit_count: counter(r, "memory_over_limit_count", "times memory_limit was passed")?,
            machine_use: MachineUse::new(r)?,
            script_times: ScriptTimes::new(r)?,
            event_times: EventTimes::new(r)?,
        })
    }
}

impl ProcessMetrics {
    /// A registry of its own.
    ///
    /// # Errors
    /// Two families have one name.
    pub fn new() -> Result<ProcessMetrics, Error> {
        let registry = Registry::default();
        Ok(ProcessMetrics { counts: ProcessCounts::new(&registry)?, registry })
    }

    /// The text of what is in the registry, limited to names that begin with `prefix`.
    ///
    /// # Errors
    /// It cannot be written as text.
    pub fn text(&self, prefix: &str) -> Result<String, Error> {
        text_of(&self.registry, prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    #[test]
    fn what_all_programs_tell_has_the_mail_servers_names_and_nothing_of_mail() {
        let alone = ProcessMetrics::new().expect("sound");
        alone.counts.memory_usage.set(7);
        let types =
            |page: &str| page.lines().filter(|line| line.starts_with("# TYPE ")).map(str::to_owned).collect::<Vec<_>>();
        let page = alone.text("").expect("encodes");
        let of_mail = types(&Metrics::new().expect("sound").text("").expect("encodes"));
        let own = types(&page);
        assert!(own.len() >= 9 && own.iter().all(|family| of_mail.contains(family)), "{own:?}");
        assert!(page.contains("\nmemory_usage 7\n") && !page.contains("total_messages"), "{page}");
        let limited = alone.text("process_").expect("encodes");
        assert!(limited.contains("process_cpu_usage_sum 0") && !limited.contains("memory_usage"), "{limited}");
    }
}
