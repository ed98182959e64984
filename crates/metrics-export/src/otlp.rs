//! The text of `/metrics` as bodies of OTLP requests (`ExportMetricsServiceRequest` of opentelemetry-proto, in the JSON that
//! protobuf defines and OTLP narrows: names in lowerCamelCase, whole numbers of 64 bits as strings, enumerations as numbers).
//!
//! In: text, who we are, since when we count, now. Out: bodies of at most [`POINTS_MAX`] data points each, one after the other: a
//! collector takes some megabytes at once, and a server may have a hundred thousand series. Each is made when it is asked for, and
//! nothing of the text behind it is read before: besides the text one request is in memory, however many series there are. Counters are
//! cumulative sums, gauges gauges, histograms histograms: those of Prometheus count all that is at or below a bound, those of OTLP what is
//! between two. Pure; a sample that is no number is left out.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use telemetry::families::{Family, Line, Sample};

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

/// The bodies, made one by one of a text.
#[derive(Debug)]
pub struct Requests {
    text: String,
    /// What of it was read.
    read: usize,
    about: About,
    now_ns: u64,
    /// The family in which that place is; its samples are none: each becomes a point when it is read.
    family: Family,
    /// Of a histogram what its lines have said so far.
    histogram: Option<(Labels, Histogram)>,
}

/// What one request holds.
#[derive(Default)]
struct Batch {
    metrics: Vec<Value>,
    /// Those of the family that is being read.
    points: Vec<Value>,
    count: usize,
}

/// Names and values.
type Labels = Vec<(String, String)>;

impl Requests {
    /// Of the text of `/metrics`, as it was at `now_ns`.
    pub fn new(text: String, about: About, now_ns: u64) -> Requests {
        Requests { text, read: 0, about, now_ns, family: Family::default(), histogram: None }
    }

    /// The next line that says something, and where it ends; none at the end of the text.
    fn line(&self) -> Option<(Line<'_>, usize)> {
        let mut from = self.read;
        while from < self.text.len() {
            let rest = &self.text[from..];
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            from += length;
            if let Some(line) = Line::parse(rest[..length].trim_end_matches(['\n', '\r'])) {
                return Some((line, from));
            }
        }
        None
    }

    /// Adds what a sample says; of a histogram, once all its lines are read.
    fn add(&mut self, sample: Sample, batch: &mut Batch) {
        if self.family.kind != "histogram" {
            return batch.points(self.point(&sample));
        }
        let Sample { name, mut labels, number } = sample;
        let bound = labels.iter().position(|(name, _)| name == "le").map(|place| labels.remove(place).1);
        if self.histogram.as_ref().is_none_or(|(of, _)| *of != labels) {
            batch.points(self.histogram_point());
            self.histogram = Some((labels, Histogram::default()));
        }
        let part = name.strip_prefix(&self.family.name).unwrap_or_default();
        if let Some((_, histogram)) = &mut self.histogram {
            histogram.note(part, bound.as_deref(), &number);
        }
    }

    fn point(&self, sample: &Sample) -> Option<Value> {
        let (name, value) = number(&sample.number)?;
        let now = self.now_ns.to_string();
        let point = json!({"attributes": attributes(&sample.labels), "timeUnixNano": now, name: value});
        let began = || ("startTimeUnixNano", json!(self.about.began_ns.to_string()));
        Some(with(point, (self.family.kind == "counter").then(began)))
    }

    /// Of the histogram whose lines were read.
    fn histogram_point(&mut self) -> Option<Value> {
        self.histogram.take().map(|(labels, histogram)| histogram.point(&labels, &self.about, self.now_ns))
    }
}

impl Iterator for Requests {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        let mut batch = Batch::default();
        while batch.count < POINTS_MAX
            && let Some((line, end)) = self.line()
        {
            if let Line::Sample(sample) = line {
                self.read = end;
                self.add(sample, &mut batch);
                continue;
            }
            // The last histogram of a family ends with it.
            let mut next = self.family.clone();
            let ended = next.take(line);
            self.read = end;
            if ended.is_some() {
                batch.points(self.histogram_point());
                batch.end(&self.family);
            }
            self.family = next;
        }
        if batch.count < POINTS_MAX {
            batch.points(self.histogram_point());
        }
        batch.end(&self.family);
        (!batch.metrics.is_empty()).then(|| request(batch.metrics, &self.about))
    }
}

impl Batch {
    fn points(&mut self, point: Option<Value>) {
        self.count += usize::from(point.is_some());
        self.points.extend(point);
    }

    /// The family ends, here at least.
    fn end(&mut self, family: &Family) {
        if !self.points.is_empty() {
            self.metrics.push(metric(family, std::mem::take(&mut self.points)));
        }
    }
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

/// A value of a data point, and which kind it is.
fn number(number: &Value) -> Option<(&'static str, Value)> {
    match number.as_i64() {
        Some(whole) => Some(("asInt", json!(whole.to_string()))),
        None => number.as_f64().map(|number| ("asDouble", json!(number))),
    }
}

/// What one histogram's samples say.
#[derive(Debug, Default)]
struct Histogram {
    bounds: Vec<f64>,
    /// Up to each bound, then all.
    counts: Vec<u64>,
    count: u64,
    sum: f64,
}

impl Histogram {
    /// Takes in a line: which part of the histogram it is, up to which bound, and its number.
    fn note(&mut self, part: &str, bound: Option<&str>, number: &Value) {
        let count = number.as_u64().unwrap_or_default();
        match (part, bound) {
            ("_sum", _) => self.sum = number.as_f64().unwrap_or_default(),
            ("_count", _) => self.count = count,
            ("_bucket", Some(bound)) if bound != "+Inf" => {
                if let Ok(bound) = bound.parse() {
                    self.bounds.push(bound);
                    self.counts.push(count);
                }
            }
            _ => {}
        }
    }

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

    fn requests(text: &str) -> Requests {
        Requests::new(text.to_owned(), about(), 9)
    }

    fn metrics(text: &str) -> Vec<Value> {
        let of = |request: &Value| {
            request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("metrics").clone()
        };
        requests(text).flat_map(|request| of(&request)).collect()
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
        let request = requests("# TYPE g gauge\ng 1\n").next().expect("a request");
        let resource = &request["resourceMetrics"][0];
        assert_eq!(
            resource["resource"],
            json!({"attributes": [{"key": "service.name", "value": {"stringValue": "mail"}}]})
        );
        assert_eq!(resource["scopeMetrics"][0]["scope"], json!({"name": "postrider", "version": "1.2.3"}));
        assert!(requests("").next().is_none() && requests("# TYPE g gauge\ng NaN\n").next().is_none());
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

    /// So many series of a counter, and a gauge.
    fn text(series: usize) -> String {
        let lines = (0..series).map(|number| format!("c{{q=\"{number}\"}} {number}\n"));
        format!("# TYPE c counter\n{}# TYPE g gauge\ng 1\n", lines.collect::<String>())
    }

    /// Data points of a request.
    fn size(request: &Value) -> usize {
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().expect("metrics");
        let kinds = metrics.iter().flat_map(|metric| ["sum", "gauge", "histogram"].map(|kind| &metric[kind]));
        kinds.filter_map(|data| data["dataPoints"].as_array()).map(Vec::len).sum()
    }

    #[test]
    fn a_request_has_so_many_points_and_no_more() {
        let sizes = |series: usize| requests(&text(series)).map(|request| size(&request)).collect::<Vec<usize>>();
        assert_eq!(sizes(POINTS_MAX - 1), [POINTS_MAX]);
        assert_eq!(sizes(POINTS_MAX), [POINTS_MAX, 1]);
        assert_eq!(sizes(2 * POINTS_MAX + 3), [POINTS_MAX, POINTS_MAX, 4]);
        assert_eq!(metrics(&text(2 * POINTS_MAX)).len(), 3, "a family in parts, each a metric of that name");
    }

    #[test]
    fn histograms_are_whole_wherever_a_request_ends() {
        let of = |number: usize| {
            format!(
                "h_bucket{{q=\"{number}\",le=\"1\"}} 1\nh_bucket{{q=\"{number}\",le=\"+Inf\"}} 3\nh_sum{{q=\"{number}\"}} 2\nh_count{{q=\"{number}\"}} 3\n"
            )
        };
        let text = |count: usize| {
            format!("# TYPE h histogram\n{}# TYPE g gauge\ng 1\n", (0..count).map(of).collect::<String>())
        };
        for (count, sizes) in [
            (POINTS_MAX - 1, vec![POINTS_MAX]),
            (POINTS_MAX, vec![POINTS_MAX, 1]),
            (POINTS_MAX + 1, vec![POINTS_MAX, 2]),
        ] {
            let all: Vec<Value> = requests(&text(count)).collect();
            assert_eq!(all.iter().map(size).collect::<Vec<usize>>(), sizes);
            let found = metrics(&text(count));
            let points = found.iter().filter_map(|metric| metric["histogram"]["dataPoints"].as_array()).flatten();
            let mut named = 0;
            for point in points {
                assert_eq!(point["attributes"][0]["value"]["stringValue"], json!(named.to_string()));
                assert_eq!((&point["bucketCounts"], &point["count"]), (&json!(["1", "2"]), &json!("3")), "{point}");
                named += 1;
            }
            assert_eq!(named, count, "each once");
        }
    }

    #[test]
    fn no_more_is_read_than_a_request_needs() {
        let text = text(4 * POINTS_MAX);
        let mut all = requests(&text);
        for number in 1..=4 {
            assert_eq!(size(&all.next().expect("a request")), POINTS_MAX);
            let so_far = text.lines().take(1 + number * POINTS_MAX).map(|line| line.len() + 1).sum::<usize>();
            assert_eq!(all.read, so_far, "nothing behind request {number}");
            let held = all.family.samples.len() + usize::from(all.histogram.is_some());
            assert_eq!(held, 0, "nothing of request {number} is kept");
        }
        assert_eq!((size(&all.next().expect("the gauge")), all.read, all.next()), (1, text.len(), None));
    }
}
