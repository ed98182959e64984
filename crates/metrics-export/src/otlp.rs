//! The text of `/metrics` as bodies of OTLP requests (`ExportMetricsServiceRequest` of opentelemetry-proto, in the JSON that
//! protobuf defines and OTLP narrows: names in lowerCamelCase, whole numbers of 64 bits as strings, enumerations as numbers).
//!
//! In: text, who we are, since when we count, now. Out: bodies of at most [`POINTS_MAX`] data points each: a collector takes some
//! megabytes at once, and a server may have a hundred thousand series. Counters are cumulative sums, gauges gauges, histograms
//! histograms: those of Prometheus count all that is at or below a bound, those of OTLP what is between two. Pure; a sample that is no
//! number is left out.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use telemetry::families::{Family, Sample, families};

/// Who tells, and since when it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Attributes of the resource: `service.name` and its kin.
    pub attributes: BTreeMap<String, String>,
    /// Version of this program.
    pub version: String,
    /// When its counters began, in nanoseconds since 1970.
    pub began_ns: u64,
}

/// The bodies.
pub fn requests(text: &str, about: &About, now_ns: u64) -> Vec<Value> {
    let (mut all, mut metrics, mut points) = (Vec::new(), Vec::new(), 0);
    for family in families(text) {
        let mut data: Vec<Value> = data_points(&family, about, now_ns);
        while !data.is_empty() {
            let room = POINTS_MAX - points;
            let rest = data.split_off(room.min(data.len()));
            points += data.len();
            metrics.push(metric(&family, data));
            data = rest;
            if points == POINTS_MAX {
                all.push(request(std::mem::take(&mut metrics), about));
                points = 0;
            }
        }
    }
    if !metrics.is_empty() {
        all.push(request(metrics, about));
    }
    all
}

fn request(metrics: Vec<Value>, about: &About) -> Value {
    let attributes: Vec<Value> = about.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes},
        "scopeMetrics": [{"scope": {"name": SCOPE, "version": about.version}, "metrics": metrics}],
    }]})
}

fn metric(family: &Family, points: Vec<Value>) -> Value {
    let data = json!({"dataPoints": points});
    let (kind, data) = match family.kind.as_str() {
        "histogram" => ("histogram", with(data, [("aggregationTemporality", json!(CUMULATIVE))])),
        "counter" => ("sum", with(data, [("aggregationTemporality", json!(CUMULATIVE)), ("isMonotonic", json!(true))])),
        _ => ("gauge", data),
    };
    json!({"name": family.name, "description": family.help, kind: data})
}

fn data_points(family: &Family, about: &About, now_ns: u64) -> Vec<Value> {
    let began = match family.kind.as_str() {
        "histogram" => return histograms(family, about, now_ns),
        "counter" => Some(("startTimeUnixNano", json!(about.began_ns.to_string()))),
        _ => None,
    };
    let point = |sample: &Sample| {
        let (name, value) = number(&sample.number)?;
        let point = json!({"attributes": attributes(&sample.labels), "timeUnixNano": now_ns.to_string(), name: value});
        Some(with(point, began.clone()))
    };
    family.samples.iter().filter_map(point).collect()
}

/// A value of a data point, and which kind it is.
fn number(number: &Value) -> Option<(&'static str, Value)> {
    match number.as_i64() {
        Some(whole) => Some(("asInt", json!(whole.to_string()))),
        None => number.as_f64().map(|number| ("asDouble", json!(number))),
    }
}

/// What one histogram's samples say.
#[derive(Default)]
struct Histogram {
    bounds: Vec<f64>,
    /// Up to each bound, then all.
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

fn histograms(family: &Family, about: &About, now_ns: u64) -> Vec<Value> {
    // By labels, in the order in which they come.
    let mut groups: Vec<(Vec<(String, String)>, Histogram)> = Vec::new();
    for sample in &family.samples {
        let labels: Vec<_> = sample.labels.iter().filter(|(name, _)| name != "le").cloned().collect();
        let known = groups.last().is_some_and(|(of, _)| *of == labels);
        if !known {
            groups.push((labels, Histogram::default()));
        }
        let Some((_, histogram)) = groups.last_mut() else { continue };
        let bound = sample.labels.iter().find(|(name, _)| name == "le").map(|(_, bound)| bound.as_str());
        let count = sample.number.as_u64().unwrap_or_default();
        match (sample.name.strip_prefix(&family.name), bound) {
            (Some("_sum"), _) => histogram.sum = sample.number.as_f64().unwrap_or_default(),
            (Some("_count"), _) => histogram.count = count,
            (Some("_bucket"), Some("+Inf")) => {}
            (Some("_bucket"), Some(bound)) => {
                if let Ok(bound) = bound.parse() {
                    histogram.bounds.push(bound);
                    histogram.counts.push(count);
                }
            }
            _ => {}
        }
    }
    groups.into_iter().map(|(labels, histogram)| histogram.point(&labels, about, now_ns)).collect()
}

impl Histogram {
    fn point(self, labels: &[(String, String)], about: &About, now_ns: u64) -> Value {
        let Histogram { bounds, counts, count, sum } = self;
        let upper = counts.iter().chain([&count]);
        let lower = [0].iter().chain(&counts);
        let between: Vec<String> = upper.zip(lower).map(|(up, low)| up.saturating_sub(*low).to_string()).collect();
        json!({
            "attributes": attributes(labels),
            "startTimeUnixNano": about.began_ns.to_string(),
            "timeUnixNano": now_ns.to_string(),
            "count": count.to_string(),
            "sum": sum,
            "bucketCounts": between,
            "explicitBounds": bounds,
        })
    }
}

fn attributes(labels: &[(String, String)]) -> Vec<Value> {
    labels.iter().map(|(name, value)| attribute(name, value)).collect()
}

fn attribute(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

fn with(object: Value, more: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let Value::Object(mut members) = object else { return object };
    members.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>());
    Value::Object(members)
}

/// Data points of one request: at most some two megabytes, with labels as long as queues' names are.
pub const POINTS_MAX: usize = 5_000;
/// What measures.
const SCOPE: &str = "postrider";
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        let attributes = BTreeMap::from([("service.name".to_owned(), "mail".to_owned())]);
        About { attributes, version: "1.2.3".to_owned(), began_ns: 1 << 60 }
    }

    fn metrics(text: &str) -> Vec<Value> {
        let all = requests(text, &about(), 9);
        let of = |request: &Value| {
            request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("metrics").clone()
        };
        all.iter().flat_map(of).collect()
    }

    #[test]
    fn each_kind_is_what_collectors_call_it() {
        let text = "# HELP c counts\n# TYPE c counter\nc{a=\"x\\\"y\",b=\"z\"} 9007199254740993\n# TYPE g gauge\ng -3\n\
            # TYPE d gauge\nd 0.5\n# TYPE n gauge\nn NaN\n";
        let found = metrics(text);
        let expected = json!([
            {"name": "c", "description": "counts", "sum": {"dataPoints": [{
                "attributes": [{"key": "a", "value": {"stringValue": "x\"y"}}, {"key": "b", "value": {"stringValue": "z"}}],
                "timeUnixNano": "9", "asInt": "9007199254740993", "startTimeUnixNano": "1152921504606846976"}],
                "aggregationTemporality": 2, "isMonotonic": true}},
            {"name": "g", "description": "", "gauge": {"dataPoints": [{"attributes": [], "timeUnixNano": "9", "asInt": "-3"}]}},
            {"name": "d", "description": "", "gauge": {"dataPoints": [{"attributes": [], "timeUnixNano": "9", "asDouble": 0.5}]}},
        ]);
        assert_eq!(Value::from(found), expected, "what is no number has no point");
    }

    #[test]
    fn who_tells_stands_before_what_is_told() {
        let request = requests("# TYPE g gauge\ng 1\n", &about(), 9).remove(0);
        let resource = &request["resourceMetrics"][0];
        assert_eq!(
            resource["resource"],
            json!({"attributes": [{"key": "service.name", "value": {"stringValue": "mail"}}]})
        );
        assert_eq!(resource["scopeMetrics"][0]["scope"], json!({"name": "postrider", "version": "1.2.3"}));
        assert!(requests("", &about(), 9).is_empty());
    }

    #[test]
    fn histograms_count_what_is_between_two_bounds() {
        let text = "# TYPE h histogram\nh_bucket{q=\"1\",le=\"0.5\"} 1\nh_bucket{q=\"1\",le=\"10\"} 3\nh_bucket{q=\"1\",le=\"+Inf\"} 4\n\
            h_sum{q=\"1\"} 20.5\nh_count{q=\"1\"} 4\nh_bucket{q=\"2\",le=\"0.5\"} 0\nh_bucket{q=\"2\",le=\"10\"} 0\n\
            h_bucket{q=\"2\",le=\"+Inf\"} 0\nh_sum{q=\"2\"} 0\nh_count{q=\"2\"} 0\n";
        let found = metrics(text);
        assert_eq!((found.len(), &found[0]["histogram"]["aggregationTemporality"]), (1, &json!(2)));
        let points = found[0]["histogram"]["dataPoints"].as_array().expect("points");
        assert_eq!(points.len(), 2);
        let first = json!({"attributes": [{"key": "q", "value": {"stringValue": "1"}}], "startTimeUnixNano": "1152921504606846976",
            "timeUnixNano": "9", "count": "4", "sum": 20.5, "bucketCounts": ["1", "2", "1"], "explicitBounds": [0.5, 10.0]});
        assert_eq!(points[0], first);
        assert_eq!(points[1]["bucketCounts"], json!(["0", "0", "0"]));
    }

    #[test]
    fn a_request_has_so_many_points_and_no_more() {
        let text = |series: usize| {
            let lines = (0..series).map(|number| format!("c{{q=\"{number}\"}} {number}\n"));
            format!("# TYPE c counter\n{}# TYPE g gauge\ng 1\n", lines.collect::<String>())
        };
        let sizes = |series: usize| {
            let count = |metric: &Value| {
                ["sum", "gauge"]
                    .iter()
                    .filter_map(|kind| metric[kind]["dataPoints"].as_array())
                    .map(Vec::len)
                    .sum::<usize>()
            };
            let all = requests(&text(series), &about(), 9);
            let of = |request: &Value| {
                request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
                    .as_array()
                    .expect("metrics")
                    .iter()
                    .map(count)
                    .sum::<usize>()
            };
            all.iter().map(of).collect::<Vec<usize>>()
        };
        assert_eq!(sizes(POINTS_MAX - 1), [POINTS_MAX]);
        assert_eq!(sizes(POINTS_MAX), [POINTS_MAX, 1]);
        assert_eq!(sizes(2 * POINTS_MAX + 3), [POINTS_MAX, POINTS_MAX, 4]);
        assert_eq!(metrics(&text(2 * POINTS_MAX)).len(), 3, "a family in parts, each a metric of that name");
    }
}
