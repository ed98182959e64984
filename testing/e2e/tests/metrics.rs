//! `/metrics`: what is counted by provider, by owner and by ready queue, under KumoMTA's names; and that the page is sound.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};

fn start(scratch: &Scratch, to: SocketAddr) -> Kumod {
    Launch::policy(policy_file("provided.lua"))
        .env("PROVIDED_DIR", scratch.path())
        .env("PROVIDED_TO", to.to_string())
        .start()
}

fn submit(node: &Kumod, to: &str) {
    let reply = Client::connect(node.smtp()).submit("a@source.test", to, "counted");
    assert_eq!(reply.code, 250, "{reply:?}");
}

#[test]
fn deliveries_and_queues_are_counted_by_provider_and_owner() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let node = start(&scratch, sink.address);
    for to in ["one@a.test", "two@a.test", "three@own.test", "four@dead.test"] {
        submit(&node, to);
    }
    node.await_metric("total_messages_delivered{service=\"smtp_client\"}", 3.0, SOON);
    node.await_metric("total_messages_transfail{service=\"smtp_client\"}", 1.0, LATER);
    node.await_metric("scheduled_count_total", 1.0, SOON);
    let way = "{provider=\"big\",source=\"ip-1\",pool=\"shared\"}";
    for (series, value) in [
        ("total_messages_delivered_by_provider{provider=\"big\"}", 2.0),
        ("total_messages_delivered_by_provider{provider=\"mx_list:own.test\"}", 1.0),
        ("total_messages_transfail_by_provider{provider=\"big\"}", 1.0),
        ("total_messages_fail_by_provider{provider=\"big\"}", 0.0),
        (&format!("total_messages_delivered_by_provider_and_source{way}"), 2.0),
        (&format!("total_messages_transfail_by_provider_and_source{way}"), 1.0),
        ("queued_count_by_provider{provider=\"big\"}", 1.0),
        ("queued_count_by_provider_and_pool{provider=\"big\",pool=\"shared\"}", 1.0),
        ("scheduled_by_domain{domain=\"dead.test\"}", 1.0),
        ("scheduled_by_tenant{tenant=\"acme\"}", 1.0),
        ("scheduled_by_tenant_campaign{tenant=\"acme\",campaign=\"news\"}", 1.0),
        ("ready_count{service=\"smtp_client\"}", 0.0),
    ] {
        assert_eq!(node.metric(series), value, "{series} in {}", node.metrics());
    }
    // What the dashboard shows is there, but for what nobody had cause to count.
    let refused = Client::connect(node.smtp()).say("NONSENSE");
    assert_eq!(refused.code / 100, 5, "{refused:?}");
    let page = node.metrics();
    let families = |text: &str| {
        text.lines()
            .filter_map(|l| Some(l.strip_prefix("# TYPE ")?.split(' ').next()?.to_owned()))
            .collect::<BTreeSet<_>>()
    };
    let (there, shown) = (families(&page), on_dashboard());
    let absent: Vec<&String> = shown.difference(&there).collect();
    assert_eq!(absent, ["dispatcher_watchdog_aborted_total", "total_connections_denied"], "in {page}");
    assert!(absent.iter().all(|name| COUNTED.contains(&format!("\"{name}\""))), "{absent:?}");
    assert!(shown.len() > 20, "{shown:?}");
    node.stop();
}

/// The metrics that the dashboard asks for.
fn on_dashboard() -> BTreeSet<String> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut names = BTreeSet::new();
    for text in targets.map(|target| target["expr"].as_str().expect("an expression")) {
        for (at, _) in text.match_indices('{') {
            let before = &text[..at];
            let from = before.rfind(|c: char| !c.is_ascii_lowercase() && c != '_').map_or(0, |other| other + 1);
            let name = &before[from..];
            names.insert(name.strip_suffix("_bucket").unwrap_or(name).to_owned());
        }
    }
    names
}

const DASHBOARD: &str = include_str!("../../../share/grafana/postrider.json");
const COUNTED: &str = include_str!("../../../crates/telemetry/src/metrics.rs");

#[test]
fn a_server_says_what_it_runs_on() {
    let scratch = Scratch::new();
    let node = start(&scratch, "127.0.0.1:1".parse().expect("an address"));
    let info = http::json(node.http(), "GET", "/api/machine-info", &Value::Null);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    assert_eq!((&info["kernel_version"], &info["process_kind"]), (&json!(kernel.trim()), &json!("kumod")), "{info}");
    let cores = std::thread::available_parallelism().expect("cores").get();
    assert_eq!(info["num_cores"], json!(cores), "{info}");
    for name in ["hostname", "node_id", "platform", "fingerprint", "version", "online_since"] {
        assert!(info[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {info}");
    }
    assert!(info["total_memory_bytes"].as_u64().is_some_and(|octets| octets > 1 << 20), "{info}");
    node.stop();
}

#[test]
fn connections_are_counted_by_ready_queue_and_provider() {
    let scratch = Scratch::new();
    // Somebody who never says a word.
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port");
    let node = start(&scratch, mute.local_addr().expect("an address"));
    submit(&node, "one@a.test");
    let service = "smtp_client:ip-1->mx_list:a.test@smtp_client";
    node.await_metric(&format!("connection_count{{service=\"{service}\"}}"), 1.0, SOON);
    let listener = Client::connect(node.smtp());
    for series in [
        "connection_count{service=\"smtp_client\"}",
        "connection_count_by_provider{provider=\"big\"}",
        "connection_count_by_provider_and_pool{provider=\"big\",pool=\"shared\"}",
    ] {
        assert_eq!(node.metric(series), 1.0, "{series} in {}", node.metrics());
    }
    node.await_metric("connection_count{service=\"esmtp_listener\"}", 1.0, SOON);
    drop(listener);
    let page = node.metrics();
    let mut families = BTreeSet::new();
    for name in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(families.insert(name), "{name} comes twice in {page}");
    }
    let named = |line: &str| families.iter().any(|family| line.starts_with(family));
    let stray = page.lines().find(|line| !line.starts_with('#') && !named(line));
    assert_eq!(stray, None, "a series without a type");
}
