//! How long parts of scripts take: `user_lua_latency`, a histogram a label.
//!
//! Labels are the scripts' own, so their number is bounded: those beyond the bound count as [`OTHER`].

use crate::registry::Registry;
use prometheus::{HistogramOpts, HistogramVec};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The histograms.
pub struct ScriptTimes {
    family: HistogramVec,
    labels: Mutex<BTreeSet<String>>,
}

impl ScriptTimes {
    pub(crate) fn new(registry: &Registry) -> Result<ScriptTimes, prometheus::Error> {
        // The default buckets are KumoMTA's.
        let options = HistogramOpts::new("user_lua_latency", "seconds that parts of scripts took");
        let family = HistogramVec::new(options, &["label"])?;
        registry.register(Box::new(family.clone()))?;
        Ok(ScriptTimes { family, labels: Mutex::default() })
    }

    /// A part called `label` took so long.
    pub fn observe(&self, label: &str, took: Duration) {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = labels.contains(label) || (labels.len() < LABELS_MAX && labels.insert(label.to_owned()));
        drop(labels);
        self.family.with_label_values(&[if known { label } else { OTHER }]).observe(took.as_secs_f64());
    }
}

/// Labels that are told apart.
const LABELS_MAX: usize = 1000;
/// The label of all others.
pub const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_told_apart_up_to_a_bound() {
        let registry = Registry::default();
        let times = ScriptTimes::new(&registry).unwrap();
        (0..=LABELS_MAX).for_each(|number| times.observe(&format!("l{number}"), Duration::from_millis(1)));
        times.observe("l0", Duration::from_secs(2));
        let count = |label: &str| times.family.with_label_values(&[label]).get_sample_count();
        assert_eq!((count("l0"), count("l999"), count(OTHER)), (2, 1, 1));
    }
}
