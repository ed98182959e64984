//! Metrics by OTLP: a collector that reads with protobuf's own code hears what `/metrics.json` tells, and one that does not answer costs
//! mail nothing.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::otlp_collector::{OtlpCollector, metrics};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn launch(scratch: &Scratch, sink: &Sink, endpoint: &str) -> Launch {
    Launch::policy(policy_file("otlp.lua"))
        .env("OTLP_DIR", scratch.path())
        .env("OTLP_TO", sink.address.to_string())
        .env("OTLP_ENDPOINT", endpoint)
}

fn submit(node: &Kumod, count: usize) {
    for number in 0..count {
        let reply = Client::connect(node.smtp()).submit("a@source.test", &format!("r{number}@x.test"), "counted");
        assert_eq!(reply.code, 250, "{reply:?}");
    }
}

/// Every number of `/metrics.json`, by family and labels; of a histogram its count.
fn told(node: &Kumod) -> BTreeMap<(String, BTreeMap<String, String>), Value> {
    let all = http::json(node.http(), "GET", "/metrics.json", &Value::Null);
    let mut told = BTreeMap::new();
    for (name, family) in all.as_object().expect("families") {
        let mut put = |labels: &[(&str, &str)], number: &Value| {
            let labels = labels.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect();
            let number = if number["count"].is_number() { &number["count"] } else { number };
            told.insert((name.clone(), labels), number.clone());
        };
        let value = &family["value"];
        match value {
            Value::Array(series) => {
                for one in series {
                    let labels = one.as_object().expect("labels").iter().filter(|(label, _)| *label != "@");
                    let labels: Vec<(&str, &str)> =
                        labels.map(|(label, value)| (label.as_str(), value.as_str().expect("text"))).collect();
                    put(&labels, &one["@"]);
                }
            }
            Value::Object(by_label) if !value["count"].is_number() => {
                let (label, numbers) = by_label.iter().next().expect("a label");
                let numbers = numbers.as_object().expect("numbers");
                numbers.iter().for_each(|(value, number)| put(&[(label.as_str(), value.as_str())], number));
            }
            plain => put(&[], plain),
        }
    }
    told
}

/// The same of what a collector heard.
fn heard(request: &Value) -> BTreeMap<(String, BTreeMap<String, String>), Value> {
    let mut heard = BTreeMap::new();
    for (name, metric) in metrics(request) {
        for point in metric["points"].as_array().expect("points") {
            let labels = point["labels"].as_object().expect("labels").iter();
            let labels =
                labels.map(|(label, value)| (label.clone(), value.as_str().expect("text").to_owned())).collect();
            let number = if point["count"].is_null() { &point["value"] } else { &point["count"] };
            let twice = heard.insert((name.clone(), labels), number.clone());
            assert_eq!(twice, None, "{name} has a point twice: {point}");
        }
    }
    heard
}

#[test]
fn a_collector_hears_what_the_page_tells() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let collector = OtlpCollector::start(&scratch, "");
    let node = launch(&scratch, &sink, &collector.endpoint()).start();
    submit(&node, 3);
    sink.await_arrivals(3, LATER);
    node.await_empty(LATER);
    let are_closed = || (node.metric("connection_count{service=\"esmtp_listener\"}") == 0.0).then_some(());
    until(SOON, "no connection", are_closed);
    let before = told(&node);
    let so_far = collector.requests().len();
    let requests = collector.await_requests(so_far + 2, LATER);
    let after = told(&node);
    // The first of the two may have begun before.
    let request = &requests[so_far + 1];
    assert_eq!(
        (&request["path"], &request["type"], &request["x"]),
        (&json!("/v1/metrics"), &json!("application/json"), &json!("yes"))
    );
    let resource = &request["resource"];
    assert_eq!((&resource["service.name"], &resource["team"]), (&json!("mail"), &json!("post office")), "{resource}");
    assert!(resource["service.instance.id"].as_str().is_some_and(|id| id.len() == 36), "{resource}");
    assert_eq!(request["scope"][0], "postrider");

    let heard = heard(request);
    let resting: BTreeMap<_, _> = before.iter().filter(|(series, number)| after.get(series) == Some(number)).collect();
    assert!(resting.len() > 40 && resting.len() + 20 > before.len(), "{} of {} rest", resting.len(), before.len());
    for (series, number) in &resting {
        let other = heard.get(series).unwrap_or_else(|| panic!("{series:?} was not heard"));
        assert_eq!(other.as_f64(), number.as_f64(), "{series:?}");
    }
    let strange: Vec<_> =
        heard.keys().filter(|series| !before.contains_key(series) && !after.contains_key(series)).collect();
    assert!(strange.is_empty(), "nobody else tells of {strange:?}");
    assert_eq!(
        heard[&("total_messages_delivered".to_owned(), [("service".to_owned(), "smtp_client".to_owned())].into())],
        3
    );
    kinds_are_right(&node, request, &requests[so_far]);
    node.stop();
}

/// Counters only grow and count from one moment on, gauges are gauges, buckets hold together.
fn kinds_are_right(node: &Kumod, request: &Value, earlier: &Value) {
    let page = http::json(node.http(), "GET", "/metrics.json", &Value::Null);
    for (name, metric) in metrics(request) {
        let kind = match page[&name]["type"].as_str().expect("a type") {
            "counter" => ("sum", true, json!(true)),
            "histogram" => ("histogram", true, Value::Null),
            _ => ("gauge", false, Value::Null),
        };
        let found =
            (metric["kind"].as_str().expect("a kind"), metric["is_cumulative"] == true, metric["is_monotonic"].clone());
        assert_eq!(found, kind, "{name}");
        assert_eq!(metric["help"], page[&name]["help"], "{name}");
        for point in metric["points"].as_array().expect("points") {
            let (start, time) = (point["start"].as_u64().expect("a time"), point["time"].as_u64().expect("a time"));
            assert_eq!(start > 0, kind.1, "{name} {point}");
            assert!(start < time, "{name} {point}");
        }
        if kind.0 == "histogram" {
            let point = &metric["points"][0];
            let counts: Vec<u64> =
                point["counts"].as_array().expect("counts").iter().filter_map(Value::as_u64).collect();
            assert_eq!(counts.len(), point["bounds"].as_array().expect("bounds").len() + 1, "{name}");
            assert_eq!(Some(counts.iter().sum::<u64>()), point["count"].as_u64(), "{name}");
        }
    }
    let delivery = |request: &Value| metrics(request)["postrider_delivery_seconds"]["points"][0].clone();
    assert_eq!(delivery(request)["count"], 3);
    assert_eq!(delivery(request)["start"], delivery(earlier)["start"], "counted since one moment");
}

#[test]
fn a_collector_that_does_not_take_is_said_once_and_mail_goes_on() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let collector = OtlpCollector::start(&scratch, "503,400,hang,partial,ok,500,ok");
    let node = launch(&scratch, &sink, &collector.endpoint()).env("OTLP_TIMEOUT", "5s").start();
    submit(&node, 2);
    sink.await_arrivals(2, LATER);
    node.await_metric("postrider_otlp_exports_total", 3.0, LATER);
    let last = until(LATER, "a request behind the last fault", || collector.requests().get(8).cloned());
    let counted = |name: &str| metrics(&last)[name]["points"][0]["value"].clone();
    assert_eq!(counted("postrider_otlp_export_failures_total"), 5, "three not taken, one not wholly, and one later");
    let lines = |words: &str| node.process.stderr().lines().filter(|line| line.contains(words)).count();
    until(SOON, "the end of the second outage", || {
        (lines("metrics are taken by the collector again") == 2).then_some(())
    });
    assert_eq!(lines("metrics are not taken by the collector"), 2, "once an outage: {}", node.process.stderr());
    assert_eq!(lines("it answered 503"), 1, "what the first one was");
    node.stop();
}

#[test]
fn nobody_is_there_and_a_stop_does_not_wait() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    // A collector that never answers: its first request is under way at the stop.
    let collector = OtlpCollector::start(&scratch, "hang,hang,hang,hang,hang");
    let node = launch(&scratch, &sink, &collector.endpoint()).start();
    collector.await_requests(1, LATER);
    submit(&node, 1);
    sink.await_arrivals(1, SOON);
    let begun = std::time::Instant::now();
    node.stop();
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn options_that_cannot_be_used_are_refused_beforehand() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    for (endpoint, says) in [
        ("http://127.0.0.1:4318", "expected http://HOST or https://HOST, and a path as /v1/metrics"),
        ("http://joe:s3cret@127.0.0.1:4318/v1/metrics", "expected no user and password in it"),
        ("http://127.0.0.1:port/v1/metrics", "kumo.configure_otlp_metrics"),
    ] {
        let checked = launch(&scratch, &sink, endpoint).arg("--validate").run();
        assert_ne!(checked.status.code(), Some(0), "{endpoint}");
        assert!(checked.stderr.contains(says) && !checked.stderr.contains("s3cret"), "{endpoint}: {}", checked.stderr);
    }
    let good =
        launch(&scratch, &sink, "http://127.0.0.1:4318/v1/metrics?token=s3cret").arg("--validate").run().success();
    assert!(
        good.stdout.contains("metrics are sent to http://127.0.0.1:4318") && !good.stdout.contains("s3cret"),
        "{}",
        good.stdout
    );
}
