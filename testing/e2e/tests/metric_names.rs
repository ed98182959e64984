//! KumoMTA's metrics, all of them, held against what a running server shows: each is there with its type, or has a reason
//! (`crates/telemetry/tests/kumomta_names.tsv`).

use e2e::certificate::DkimKey;
use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const TABLE: &str = include_str!("../../../crates/telemetry/tests/kumomta_names.tsv");
const MESSAGES: usize = 10;

/// A server that has delivered mail, has some left, and whose first source has no address.
fn busy(scratch: &Scratch) -> (Kumod, Sink) {
    let sink = Sink::start(scratch, "sink", &[]);
    let (key, _record) = DkimKey::Ed25519.make(scratch);
    let node = Launch::policy(policy_file("counted.lua"))
        .env("COUNTED_DIR", scratch.join("counted"))
        .env("COUNTED_TO", sink.address.to_string())
        .env("COUNTED_KEY", key)
        .start();
    let mut client = Client::connect(node.smtp());
    let live = (0..MESSAGES).map(|number| format!("{number}@a.test"));
    for to in live.chain(["late@dead.test".to_owned()]) {
        let reply = client.submit("a@source.test", &to, "counted");
        assert_eq!(reply.code, 250, "{reply:?}");
    }
    let refused = Client::connect(node.smtp()).say("NONSENSE");
    assert_eq!(refused.code / 100, 5, "{refused:?}");
    sink.await_arrivals(MESSAGES, LATER);
    node.await_metric("total_messages_delivered{service=\"smtp_client\"}", MESSAGES as f64, SOON);
    node.await_metric("total_messages_transfail{service=\"smtp_client\"}", 1.0, LATER);
    node.await_metric("scheduled_count_total", 1.0, SOON);
    let ill = "egress_source_health_suspensions_total{reason=\"Unplumbed\",source=\"sick\"}";
    node.await_metric(ill, 1.0, LATER);
    (node, sink)
}

/// The bounds of the buckets of a histogram.
fn bounds<'a>(page: &'a str, name: &str) -> BTreeSet<&'a str> {
    let begin = format!("{name}_bucket{{");
    let buckets = page.lines().filter(|line| line.starts_with(&begin));
    buckets.filter_map(|line| Some(line.split_once("le=\"")?.1.split_once('"')?.0)).collect()
}

/// KumoMTA's.
const BOUNDS: [&str; 12] = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "+Inf"];

#[test]
fn each_metric_of_kumomta_is_there_with_its_type_or_has_a_reason() {
    let scratch = Scratch::new();
    let (node, _sink) = busy(&scratch);
    let page = node.metrics();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: BTreeMap<&str, &str> = types.collect();
    let mut rows = BTreeMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('\t').expect("a type");
        let (kind, remark) = rest.split_once('\t').unwrap_or((rest, ""));
        rows.insert(name, kind);
        let shown = types.get(name);
        match remark.split_once(": ") {
            None => assert_eq!(shown, Some(&kind), "{name} in {page}"),
            Some(("when", _)) => assert!(shown.is_none_or(|shown| *shown == kind), "{name} is a {shown:?}"),
            Some(_) => assert_eq!(shown, None, "{name}: {remark}"),
        }
        if shown == Some(&"histogram") {
            assert_eq!(bounds(&page, name), BTreeSet::from(BOUNDS), "{name}");
        }
    }
    let is_ours = |name: &&&str| name.starts_with("postrider_") || rows.contains_key(**name);
    let strangers: Vec<&&str> = types.keys().filter(|name| !is_ours(name)).collect();
    assert!(strangers.is_empty(), "neither KumoMTA's nor called ours: {strangers:?}");
    node.stop();
}

#[test]
fn what_is_printed_of_the_metrics_is_what_a_server_shows_and_more() {
    let scratch = Scratch::new();
    let nobody = "127.0.0.1:1".parse().expect("an address");
    let printed = Launch::relay(&scratch, nobody).arg("--dump-metric-metadata").run().success();
    assert!(!scratch.join("relay").exists(), "nothing was started");
    let printed: Vec<Value> = serde_json::from_str(&printed.stdout).expect("a list");
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let names: Vec<String> = printed.iter().map(|one| text(&one["name"])).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "each once, in order: {names:?}");
    let named = |name: &str| {
        let one = printed.iter().find(|one| one["name"] == name);
        one.unwrap_or_else(|| panic!("{name} is not among {names:?}"))
    };
    for line in TABLE.lines().filter(|line| !line.starts_with('#') && !line.contains("\tabsent: ")) {
        let (name, rest) = line.split_once('\t').expect("a type");
        assert_eq!(named(name)["type"], rest.split('\t').next().expect("a type"), "{name}");
    }

    let (node, _sink) = busy(&scratch);
    let page = node.metrics();
    let mut family = &Value::Null;
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").map(|rest| rest.split_once(' ').expect("a help")) {
            family = named(name);
            assert_eq!(family["help"], help, "{name}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest, format!("{} {}", text(&family["name"]), text(&family["type"])));
        } else {
            let labels = line.split_once('{').map_or("", |(_, rest)| rest.rsplit_once('}').expect("an end").0);
            let labels =
                labels.split("\",").filter_map(|label| label.split_once("=\"")).map(|(name, _)| name.to_owned());
            let labels: BTreeSet<String> = labels.filter(|name| name != "le").collect();
            let expected = family["labels"].as_array().expect("a list").iter().map(text).collect();
            assert_eq!(labels, expected, "{line}");
        }
    }
    node.stop();
}

#[test]
fn what_happened_is_counted() {
    let scratch = Scratch::new();
    let (node, _sink) = busy(&scratch);
    let page = node.metrics();
    let value = |series: &str| http::value(&page, series).unwrap_or_else(|| panic!("no {series} in {page}"));
    let all = MESSAGES as f64 + 1.0;
    let unplumbed = "source=\"sick\",reason=\"Unplumbed\"";
    for (series, expected) in [
        ("smtpsrv_transaction_duration_count", all),
        ("smtpsrv_read_data_duration_count", all),
        ("smtpsrv_process_data_duration_count", all),
        ("message_save_latency_count", all),
        ("dkim_signer_sign_count", all),
        ("queue_resolve_latency_count", 2.0),
        ("lruttl_cache_size{cache_name=\"addresses\"}", 2.0),
        (&format!("egress_source_health_suspended{{{unplumbed}}}"), 1.0),
        ("egress_source_health_suspensions_total{reason=\"Unplumbed\",source=\"sick\"}", 1.0),
    ] {
        assert_eq!(value(series), expected, "{series} in {page}");
    }
    for (series, least) in [
        ("deliver_message_latency_rollup_count{service=\"smtp_client\"}", MESSAGES as f64),
        ("bind_failures", 1.0),
        ("egress_source_connection_failures_total{kind=\"Unplumbed\",source=\"sick\"}", 1.0),
        ("dkim_signer_creation_count", 1.0),
        ("dkim_signer_key_fetch_count", 1.0),
        ("dkim_signer_cache_hit", 1.0),
        ("memoize_cache_lookup_count{cache_name=\"addresses\"}", 2.0),
        ("lua_count", 1.0),
        ("lua_load_count", 1.0),
    ] {
        assert!(value(series) >= least, "{series} in {page}");
    }
    assert!(value("smtpsrv_transaction_duration_sum") >= value("smtpsrv_process_data_duration_sum"), "{page}");
    // Looked at every three seconds.
    node.await_metric("system_cpu_usage_normalized", f64::MIN_POSITIVE, LATER);
    node.stop();
}
