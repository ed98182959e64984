//! Metrics as JSON (`/metrics.json`), made of the Prometheus text, so that both say the same.
//!
//! One object, name -> help, type and value. The value is a number; with one label an object, label -> its value -> number; with
//! several a list of objects with the labels and the number as `@` (KumoMTA's shape). A histogram is `count`, `sum`, `avg` and
//! `bucket`, a list of upper bound and count, the unbounded one left out. Numbers that JSON has not are null.

use crate::families::{Family, Sample, families, number_of};
use serde_json::{Map, Value, json};

/// What the text says.
pub fn json_of(text: &str) -> Value {
    let shown = families(text).into_iter().map(|family| (family.name.clone(), shown(family)));
    Value::Object(shown.collect())
}

/// Series of a histogram that have the same labels, but for `le`.
type Group = (Vec<(String, String)>, Histogram);

#[derive(Default)]
struct Histogram {
    count: Value,
    sum: Value,
    bucket: Vec<Value>,
}

fn shown(family: Family) -> Value {
    let Family { name, help, kind, samples } = family;
    let series = match kind.as_str() {
        "histogram" => histograms(&name, samples),
        _ => samples.into_iter().map(|sample| (sample.labels, sample.number)).collect(),
    };
    let mut shown = Map::new();
    if !help.is_empty() {
        shown.insert("help".to_owned(), json!(help));
    }
    shown.insert("type".to_owned(), json!(kind));
    shown.insert("value".to_owned(), value(series));
    Value::Object(shown)
}

/// One number, or those of the labels.
fn value(series: Vec<(Vec<(String, String)>, Value)>) -> Value {
    match series.first().map_or(0, |(labels, _)| labels.len()) {
        0 => series.into_iter().next().map_or(Value::Null, |(_, number)| number),
        1 => {
            let name = series[0].0[0].0.clone();
            let numbers = series.into_iter().filter_map(|(labels, number)| {
                let (_, value) = labels.into_iter().next()?;
                Some((value, number))
            });
            json!({ name: Value::Object(numbers.collect()) })
        }
        _ => {
            let entry = |(labels, number): (Vec<(String, String)>, Value)| {
                let labels = labels.into_iter().map(|(name, value)| (name, Value::String(value)));
                Value::Object(labels.chain([("@".to_owned(), number)]).collect())
            };
            Value::Array(series.into_iter().map(entry).collect())
        }
    }
}

fn histograms(family: &str, samples: Vec<Sample>) -> Vec<(Vec<(String, String)>, Value)> {
    let mut groups: Vec<Group> = Vec::new();
    for Sample { name, mut labels, number } in samples {
        let bound = labels.iter().position(|(name, _)| name == "le").map(|place| labels.remove(place).1);
        // The series of one group stand together.
        let histogram = match groups.last_mut().filter(|(known, _)| *known == labels) {
            Some((_, histogram)) => histogram,
            None => &mut groups.push_mut((labels, Histogram::default())).1,
        };
        match (name.strip_prefix(family), bound.map(|bound| number_of(&bound))) {
            (Some("_count"), _) => histogram.count = number,
            (Some("_sum"), _) => histogram.sum = number,
            (_, Some(bound)) if !bound.is_null() => histogram.bucket.push(json!([bound, number])),
            _ => {}
        }
    }
    groups.into_iter().map(|(labels, histogram)| (labels, histogram.shown())).collect()
}

impl Histogram {
    fn shown(self) -> Value {
        let avg = match (self.sum.as_f64(), self.count.as_f64()) {
            (Some(sum), Some(count)) if count > 0.0 => json!(sum / count),
            _ => Value::Null,
        };
        json!({ "count": self.count, "sum": self.sum, "avg": avg, "bucket": self.bucket })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shape_is_kumomtas() {
        let text = "# HELP plain a number\n# TYPE plain gauge\nplain -3\n\
                    # HELP one by label\n# TYPE one counter\none{service=\"a\\\"\\\\\\nb, c=\\\"d\\\"\"} 7\none{service=\"x y\"} 0.5\n\
                    # TYPE two counter\ntwo{a=\"1\",b=\"2\"} 3\ntwo{a=\"1\",b=\"{3}\"} 4\n\
                    # HELP h took\n# TYPE h histogram\nh_bucket{le=\"0.5\"} 1\nh_bucket{le=\"10\"} 2\nh_bucket{le=\"+Inf\"} 4\nh_sum 8\nh_count 4\n\
                    # TYPE l histogram\nl_bucket{label=\"p\",le=\"1\"} 0\nl_sum{label=\"p\"} 0\nl_count{label=\"p\"} 0\n\
                    # HELP none there is no series\n# TYPE none counter\n";
        let expected = json!({
            "plain": {"help": "a number", "type": "gauge", "value": -3},
            "one": {"help": "by label", "type": "counter", "value": {"service": {"a\"\\\nb, c=\"d\"": 7, "x y": 0.5}}},
            "two": {"type": "counter", "value": [{"a": "1", "b": "2", "@": 3}, {"a": "1", "b": "{3}", "@": 4}]},
            "h": {"help": "took", "type": "histogram",
                  "value": {"count": 4, "sum": 8, "avg": 2.0, "bucket": [[0.5, 1], [10, 2]]}},
            "l": {"type": "histogram", "value": {"label": {"p": {"count": 0, "sum": 0, "avg": null, "bucket": [[1, 0]]}}}},
        });
        assert_eq!(json_of(text), expected);
        assert_eq!(json_of(""), json!({}));
        assert_eq!(json_of("# TYPE x gauge\nx NaN\n"), json!({"x": {"type": "gauge", "value": null}}));
    }
}
