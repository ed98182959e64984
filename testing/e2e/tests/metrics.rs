//! `/metrics`: what is counted by provider, by owner and by ready queue, under KumoMTA's names; and that the page is sound.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::peers;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

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
    assert_eq!(absent, ONLY_IN_TROUBLE, "in {page}");
    let is_counted = |name: &&String| COUNTED.iter().any(|source| source.contains(&format!("\"{name}\"")));
    assert!(absent.iter().all(is_counted), "{absent:?}");
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
/// Where metrics are named.
const COUNTED: [&str; 5] = [
    include_str!("../../../crates/telemetry/src/metrics.rs"),
    include_str!("../../../crates/telemetry/src/tallies.rs"),
    include_str!("../../../crates/telemetry/src/full_logs.rs"),
    include_str!("../../../crates/telemetry/src/event_counts.rs"),
    include_str!("../../../crates/engine/src/scrape.rs"),
];
/// What only trouble brings forth, or who sends events elsewhere.
const ONLY_IN_TROUBLE: [&str; 5] = [
    "dispatcher_watchdog_aborted_total",
    "egress_source_health_suspended",
    "log_hook_backlog_count",
    "log_submit_full",
    "postrider_event_stream_behind_seconds",
];

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

/// A server that has delivered, deferred and bounced mail, whose queue names need quoting, and that has connections open.
fn busy(scratch: &Scratch) -> (Kumod, Sink, Client) {
    let sink = Sink::start(scratch, "sink", &[]);
    let node = start(scratch, sink.address);
    for to in ["one@a.test", "two@own.test", "three@dead.test"] {
        submit(&node, to);
    }
    let refused = Client::connect(node.smtp()).say("NONSENSE");
    assert_eq!(refused.code / 100, 5, "{refused:?}");
    sink.await_arrivals(2, LATER);
    node.await_metric("total_messages_transfail{service=\"smtp_client\"}", 1.0, LATER);
    let request = json!({"envelope_sender": "a@source.test", "content": "Subject: x\r\n\r\nx\r\n",
        "recipients": [{"email": "q@dead.test"}]});
    http::json(node.http(), "POST", "/api/inject/v1", &request);
    let open = Client::connect(node.smtp());
    node.await_metric("connection_count{service=\"esmtp_listener\"}", 1.0, SOON);
    (node, sink, open)
}

#[test]
fn prometheus_own_library_reads_the_page() {
    let scratch = Scratch::new();
    let (node, _sink, _open) = busy(&scratch);
    let page = node.metrics();
    let mut command = std::process::Command::new(peers::file("metrics/venv/bin/python", "metrics_parsers.sh"));
    command.arg(peers::own("read_page.py"));
    let (status, out, said) = fed(command, &page);
    assert_eq!((status, said.as_str()), (Some(0), ""), "in {page}");
    let families: Value = serde_json::from_str(&out).expect("JSON");
    let families = families.as_object().expect("families");
    // The library calls counters by their names without `_total`.
    let known = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    for (name, kind) in known {
        let name = if kind == "counter" { name.strip_suffix("_total").unwrap_or(name) } else { name };
        assert_eq!(families[name]["type"], kind, "{name}");
    }
    assert!(families.len() > 50, "{families:?}");
    // The page is read with suspicion: each fault that the format may have is found.
    for (from, to, says) in [
        ("# TYPE message_count gauge\n", "", "not both HELP and TYPE: ['message_count']"),
        ("# HELP message_count messages in any state\n", "", "not both HELP and TYPE: ['message_count']"),
        ("\nmessage_count ", "\nmessage_count 1\nmessage_count ", "series ('message_count', ()) comes twice"),
        ("postrider_delivery_seconds_count ", "postrider_delivery_seconds_count 1", "the last bucket is"),
    ] {
        assert!(page.contains(from), "{from} in {page}");
        let mut command = std::process::Command::new(peers::file("metrics/venv/bin/python", "metrics_parsers.sh"));
        command.arg(peers::own("read_page.py"));
        let (status, _, said) = fed(command, &page.replacen(from, to, 1));
        assert!(status == Some(1) && said.contains(says), "{from}: {said}");
    }
    node.stop();
}

#[test]
fn promtool_finds_no_fault_but_in_names_that_are_kumomtas() {
    let scratch = Scratch::new();
    let (node, _sink, _open) = busy(&scratch);
    let page = node.metrics();
    let promtool = || {
        let mut command = std::process::Command::new(peers::file("metrics/promtool", "metrics_parsers.sh"));
        command.args(["check", "metrics"]);
        command
    };
    let (status, _, said) = fed(promtool(), &page);
    assert_ne!(status, Some(1), "it reads: {said}");
    let about_names = |line: &str| LINT_OF_NAMES.iter().any(|words| line.contains(words));
    let others: Vec<&str> = said.lines().filter(|line| !about_names(line)).collect();
    assert!(others.is_empty(), "{others:?}");
    let (status, _, said) = fed(promtool(), &format!("{page}message_count{{ 1\n"));
    assert_eq!(status, Some(1), "a page that does not read: {said}");
    node.stop();
}

/// What promtool would have named otherwise; KumoMTA's names are kept, and ours look like them.
const LINT_OF_NAMES: [&str; 5] = [
    "counter metrics should have \"_total\" suffix",
    "non-counter metrics should not have \"_total\" suffix",
    "non-histogram and non-summary metrics should not have \"_count\" suffix",
    "non-histogram and non-summary metrics should not have \"_sum\" suffix",
    "use base unit",
];

/// Exit code, stdout and stderr of a command that reads this.
fn fed(mut command: std::process::Command, text: &str) -> (Option<i32>, String, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    (ended.status.code(), text(&ended.stdout), text(&ended.stderr))
}
