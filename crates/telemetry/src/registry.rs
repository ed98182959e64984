//! The registry, which also knows what was registered: a family that has no series yet is in no page, and is told of all the same.
//!
//! Owns [`Registry`] and [`Described`]. In: collectors. Out: what they have counted, and what they are. Fails where a name is taken.

use prometheus::core::Collector;
use prometheus::proto::{MetricFamily, MetricType};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// What a metric is, whatever it counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// What it tells.
    pub help: String,
    /// What its series differ in.
    pub labels: Vec<String>,
}

impl Described {
    /// The same for machines.
    pub fn to_json(&self) -> Value {
        let Described { name, kind, help, labels } = self;
        json!({"name": name, "type": kind, "help": help, "labels": labels})
    }
}

/// A registry, and the list of what is in it.
#[derive(Default)]
pub(crate) struct Registry {
    inner: prometheus::Registry,
    described: Mutex<Vec<Described>>,
}

impl Registry {
    pub(crate) fn register(&self, collector: Box<dyn Collector>) -> Result<(), prometheus::Error> {
        let labels = collector.desc().first().map(|desc| desc.variable_labels.clone()).unwrap_or_default();
        // It has its name and type even where it has no series.
        let families = collector.collect();
        self.inner.register(collector)?;
        let described = families.iter().map(|family| Described {
            name: family.name().to_owned(),
            kind: kind_of(family.get_field_type()),
            help: family.help().to_owned(),
            labels: labels.clone(),
        });
        self.described.lock().unwrap_or_else(PoisonError::into_inner).extend(described);
        Ok(())
    }

    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        self.inner.gather()
    }

    /// All that was registered, in that order.
    pub(crate) fn described(&self) -> Vec<Described> {
        self.described.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn kind_of(kind: MetricType) -> &'static str {
    match kind {
        MetricType::COUNTER => "counter",
        MetricType::HISTOGRAM => "histogram",
        // The other kinds are registered nowhere.
        _ => "gauge",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{counter, gauges, histogram};

    #[test]
    fn what_has_no_series_is_described_too() {
        let registry = Registry::default();
        gauges(&registry, "open", "things open", &["name", "kind"]).expect("sound");
        counter(&registry, "closed", "things closed").expect("sound");
        histogram(&registry, "took", "seconds it took").expect("sound");
        let described = registry.described();
        let told: Vec<Value> = described.iter().map(Described::to_json).collect();
        let expected = [
            json!({"name": "open", "type": "gauge", "help": "things open", "labels": ["name", "kind"]}),
            json!({"name": "closed", "type": "counter", "help": "things closed", "labels": []}),
            json!({"name": "took", "type": "histogram", "help": "seconds it took", "labels": []}),
        ];
        assert_eq!(told, expected);
        assert!(counter(&registry, "closed", "again").is_err());
        assert_eq!(registry.described(), described, "what is refused is not there");
    }
}
