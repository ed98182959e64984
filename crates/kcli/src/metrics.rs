//! What `/metrics.json` says.
//!
//! Owns [`Metrics`]. A metric's value has one of three shapes, by how many labels it has: a number, an object of one label, a
//! list of objects with the number under `@`. Here all three are a list of series. A metric that is not there has no series:
//! servers leave out what nothing counted yet. Histograms are not looked at.

use crate::server::Server;
use anyhow::{Result, bail};
use serde_json::Value;
use std::collections::BTreeMap;

/// All metrics, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Metrics(Value);

/// A labelled number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// Label and what it says.
    pub labels: BTreeMap<String, String>,
    /// The number.
    pub value: f64,
}

impl Metrics {
    /// Asks for them.
    pub async fn fetch(server: &Server) -> Result<Metrics> {
        Metrics::new(server.get("/metrics.json", &[]).await?)
    }

    /// # Errors
    /// It is not an object.
    pub fn new(value: Value) -> Result<Metrics> {
        match value.is_object() {
            true => Ok(Metrics(value)),
            false => bail!("/metrics.json is not an object of metrics"),
        }
    }

    /// Whether the server has counted this at all.
    pub fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    /// A metric without labels.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.get("value")?.as_f64()
    }

    /// The series of a metric.
    pub fn series(&self, name: &str) -> Vec<Series> {
        match self.0.get(name).and_then(|family| family.get("value")) {
            Some(Value::Object(labels)) => labels.iter().flat_map(|(label, values)| of_label(label, values)).collect(),
            Some(Value::Array(all)) => all.iter().filter_map(of_labels).collect(),
            Some(Value::Number(number)) => {
                let value = number.as_f64().unwrap_or_default();
                vec![Series { labels: BTreeMap::new(), value }]
            }
            _ => Vec::new(),
        }
    }

    /// A metric by one of its labels, summed over the others.
    pub fn by(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for series in self.series(name) {
            if let Some(key) = series.labels.get(label) {
                *sums.entry(key.clone()).or_default() += series.value;
            }
        }
        sums
    }

    /// The same by two of them.
    pub fn by_both(&self, name: &str, labels: (&str, &str)) -> BTreeMap<(String, String), f64> {
        let mut sums = BTreeMap::new();
        for series in self.series(name) {
            if let (Some(one), Some(other)) = (series.labels.get(labels.0), series.labels.get(labels.1)) {
                *sums.entry((one.clone(), other.clone())).or_default() += series.value;
            }
        }
        sums
    }
}

fn of_label(label: &str, values: &Value) -> Vec<Series> {
    let values = values.as_object().into_iter().flatten();
    let series = values.filter_map(|(key, value)| {
        let labels = BTreeMap::from([(label.to_owned(), key.clone())]);
        Some(Series { labels, value: value.as_f64()? })
    });
    series.collect()
}

fn of_labels(series: &Value) -> Option<Series> {
    let fields = series.as_object()?;
    let value = fields.get("@")?.as_f64()?;
    let labels = fields.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    Some(Series { labels: labels.collect(), value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_three_shapes_are_read_alike() {
        let metrics = Metrics::new(json!({
            "message_count": {"type": "gauge", "value": 3},
            "ready_count": {"help": "x", "type": "gauge", "value": {"service": {"smtp_client": 2, "b": 1.5}}},
            "fail": {"type": "counter", "value": [
                {"provider": "p", "source": "s1", "pool": "a", "@": 1},
                {"provider": "p", "source": "s2", "pool": "a", "@": 2},
                {"provider": "p", "source": "s1", "pool": "b", "@": 4},
                {"provider": "p", "source": "s1", "pool": "c"},
            ]},
            "latency": {"type": "histogram", "value": {"count": 1, "sum": 1.0, "avg": 1.0, "bucket": [[0.005, 1]]}},
        }));
        let metrics = metrics.expect("an object");
        assert_eq!(metrics.number("message_count"), Some(3.0));
        assert_eq!(
            metrics.by("ready_count", "service"),
            BTreeMap::from([("b".into(), 1.5), ("smtp_client".into(), 2.0)])
        );
        assert_eq!(metrics.by("fail", "provider"), BTreeMap::from([("p".into(), 7.0)]));
        let pools = metrics.by_both("fail", ("provider", "pool"));
        assert_eq!(pools, BTreeMap::from([(("p".into(), "a".into()), 3.0), (("p".into(), "b".into()), 4.0)]));
        assert!(metrics.series("latency").is_empty() && metrics.series("none").is_empty() && !metrics.has("none"));
        assert!(Metrics::new(json!([])).is_err());
    }
}
