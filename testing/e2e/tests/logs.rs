//! What consumers read: KumoMTA's log records in zstd segments, its metric names, its liveness check.

use e2e::http;
use e2e::kumod::{Kumod, Launch};
use e2e::logs::{self, Logs};
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{SOON, until};
use e2e::wire::Client;
use serde_json::Value;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

#[test]
fn reception_and_delivery_have_kumomtas_fields() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let front = Launch::front(&scratch, sink.address).start();
    submit(&front, "one@Target.test");
    front.await_empty(SOON);
    let logs = Logs::new(scratch.join("front/logs"));
    let local = front.smtp().to_string();
    front.stop();

    let (receptions, deliveries) = (logs.of_type("Reception"), logs.of_type("Delivery"));
    assert_eq!((receptions.len(), deliveries.len()), (1, 1));
    let (reception, delivery) = (&receptions[0], &deliveries[0]);
    let names = |record: &Value| record.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for record in [reception, delivery] {
        assert_eq!(names(record), [&FIELDS[..], &["session_id"]].concat(), "of {}", record["type"]);
    }
    assert_ne!(reception["session_id"], delivery["session_id"], "of the session in, and of that out");

    for record in [reception, delivery] {
        let id = record["id"].as_str().unwrap_or_default();
        assert!(id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{record}");
        assert_eq!(record["sender"], "a@source.test");
        assert_eq!(record["recipient"], "one@Target.test", "one recipient is a string");
        assert_eq!(record["queue"], "target.test");
        assert_eq!(record["num_attempts"], 0);
        assert_eq!(record["bounce_classification"], "Uncategorized");
        assert_eq!(record["reception_protocol"], "ESMTP");
        assert!(record["size"].as_u64().is_some_and(|size| size > 100), "{record}");
        assert!(record["timestamp"].is_u64() && record["created"].is_u64(), "{record}");
        assert!(record["event_time"].as_str().is_some_and(|t| t.ends_with('Z') && t.contains('.')), "{record}");
        assert_eq!(record["nodeid"].as_str().map(str::len), Some(36));
        assert!(record["feedback_report"].is_null() && record["headers"].is_object(), "{record}");
    }
    assert_eq!(reception["id"], delivery["id"]);
    assert_eq!(reception["created_time"], delivery["created_time"]);
    assert_eq!(reception["site"], "");
    assert_eq!(reception["response"]["code"], 250);
    assert_eq!(reception["response"]["content"], "");
    assert_eq!(reception["peer_address"]["name"], "client.test", "{reception}");
    let client: SocketAddr = reception["peer_address"]["addr"].as_str().and_then(|a| a.parse().ok()).expect("ip:port");
    assert!(client.ip().is_loopback() && client.to_string() != local);
    assert!(reception["delivery_protocol"].is_null() && reception["egress_source"].is_null(), "{reception}");

    assert_eq!(delivery["response"]["content"], "thrown away", "{delivery}");
    assert_eq!(delivery["response"]["enhanced_code"], serde_json::json!({"class": 2, "subject": 0, "detail": 0}));
    assert_eq!(delivery["delivery_protocol"], "ESMTP");
    assert_eq!(delivery["egress_pool"], "unspecified");
    assert_eq!(delivery["egress_source"], "unspecified");
    assert_eq!(delivery["peer_address"]["name"], "sink.test", "{delivery}");
    assert_eq!(delivery["source_address"]["address"].as_str().map(|a| a.starts_with("127.0.0.1:")), Some(true));
    assert!(delivery["site"].as_str().is_some_and(|s| s.starts_with("unspecified->") && s.ends_with("@smtp_client")));
}

#[test]
fn refusals_on_both_sides_are_recorded() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &["--fail-rate", "100", "--fail-code", "550"]);
    let front = Launch::front(&scratch, sink.address).start();
    submit(&front, "one@target.test");
    let mut stranger = Client::connect(front.smtp[1]);
    stranger.expect("EHLO stranger.test", 250);
    stranger.expect("MAIL FROM:<spam@source.test>", 250);
    stranger.expect("RCPT TO:<victim@target.test>", 550);
    let logs = Logs::new(scratch.join("front/logs"));
    let bounce = &logs.await_type("Bounce", 1, SOON)[0];
    let rejection = &logs.await_type("Rejection", 1, SOON)[0];

    assert_eq!(bounce["response"]["code"], 550, "{bounce}");
    assert_eq!(bounce["response"]["content"], "refused on purpose");
    assert_eq!(bounce["recipient"], "one@target.test");
    assert_eq!(rejection["id"], "", "{rejection}");
    assert_eq!(rejection["queue"], "");
    assert_eq!(rejection["size"], 0);
    assert_eq!(rejection["sender"], "spam@source.test");
    assert_eq!(rejection["recipient"], "victim@target.test");
    assert_eq!(rejection["response"]["code"], 550);
    assert_eq!(rejection["response"]["content"], "relaying not permitted for 127.0.0.1");
    assert_eq!(rejection["response"]["command"], "RCPT TO:<victim@target.test>");
    assert!(rejection["reception_protocol"].is_null() && rejection["headers"] == serde_json::json!({}), "{rejection}");
    assert_eq!(rejection["peer_address"]["name"], "stranger.test", "{rejection}");
    let [trusting, closed] = [front.smtp[0], front.smtp[1]].map(|listener| listener.to_string());
    for (listener, expected) in [("total", 1.0), (&closed, 1.0), (&trusting, 0.0)] {
        let series = format!("smtp_server_rejections{{service=\"{listener}\"}}");
        assert_eq!(front.metric(&series), expected, "{series}");
    }
    for (listener, expected) in [("", 1.0), (&format!(":{trusting}"), 1.0), (&format!(":{closed}"), 0.0)] {
        let series = format!("total_messages_received{{service=\"esmtp_listener{listener}\"}}");
        assert_eq!(front.metric(&series), expected, "{series}");
    }
    front.stop();
}

#[test]
fn a_segment_is_writable_until_it_is_complete() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    // Ten seconds a segment: the first one is still open when we look.
    let relay = Launch::relay(&scratch, sink.address).start();
    submit(&relay, "one@target.test");
    let logs = Logs::new(scratch.join("relay/logs"));
    let segment = until(SOON, "a log segment", || logs.segments().pop());
    assert!(!logs::is_complete(&segment), "an open segment is read-only");
    relay.stop();
    assert!(logs.segments().iter().all(|s| logs::is_complete(s)), "a segment is still writable after the stop");
    let name = segment.file_name().expect("a name").to_string_lossy().into_owned();
    let shape: String = name.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert!("00000000-000000.000000000".starts_with(&shape) && shape.len() >= 15, "named {name}");
    assert_eq!(logs.of_type("Reception").len(), 1);

    // What a crash leaves open is closed at the next start.
    let mut relay = Launch::relay(&scratch, sink.address).start();
    submit(&relay, "two@target.test");
    let left = until(SOON, "a second segment", || logs.segments().into_iter().find(|s| !logs::is_complete(s)));
    relay.process.kill();
    assert!(!logs::is_complete(&left));
    let relay = Launch::relay(&scratch, sink.address).start();
    assert!(logs::is_complete(&left), "a segment of an earlier process is still writable");
    relay.stop();
}

#[test]
fn metrics_have_kumomtas_names() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let front = Launch::front(&scratch, sink.address).start();
    submit(&front, "one@target.test");
    front.await_empty(SOON);
    for (series, value) in [
        ("total_messages_received{service=\"esmtp_listener\"}", 1.0),
        (&format!("total_messages_received{{service=\"esmtp_listener:{}\"}}", front.smtp()), 1.0),
        (&format!("smtp_server_rejections{{service=\"{}\"}}", front.smtp()), 0.0),
        ("total_messages_delivered{service=\"smtp_client\"}", 1.0),
        ("total_connection_count{service=\"esmtp_listener\"}", 1.0),
        ("total_connection_count{service=\"smtp_client\"}", 1.0),
        ("message_count", 0.0),
        ("scheduled_count_total", 0.0),
    ] {
        let page = front.metrics();
        assert_eq!(http::value(&page, series), Some(value), "{series} in {page}");
    }
    let page = front.metrics();
    for name in
        ["memory_usage", "disk_free_bytes", "disk_free_percent", "disk_free_inodes", "ready_count", "connection_count"]
    {
        assert!(page.contains(&format!("# TYPE {name} gauge\n")), "{name} in {page}");
    }
    assert!(page.contains("# TYPE smtpsrv_process_data_duration histogram\n"), "{page}");
    assert_eq!(http::get(front.http(), "/api/check-liveness/v1").0, 200);
    assert_eq!(http::get(front.http(), "/no/such/page").0, 404);
    front.stop();
}

#[test]
fn segments_that_were_kept_long_enough_are_gone() {
    let scratch = Scratch::new();
    let logs = scratch.folder("logs");
    let old = ["20260101-000000.000000001", "20260101-000000.000000002"].map(|name| logs.join(name));
    let stays = ["20260101-000000.000000003-other", "notes"].map(|name| logs.join(name));
    for path in old.iter().chain(&stays) {
        std::fs::write(path, zstd::encode_all(&b"{}\n"[..], 1).expect("encodes")).expect("written");
        let file = std::fs::File::open(path).expect("opens");
        file.set_modified(SystemTime::now() - Duration::from_secs(7200)).expect("a time of its own");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o444)).expect("read-only");
    }
    let text = format!(
        "local kumo = require 'kumo'\nkumo.on('init', function()\n\
         kumo.define_spool {{ name = 'data', path = '{0}/data' }}\nkumo.define_spool {{ name = 'meta', path = '{0}/meta' }}\n\
         kumo.configure_local_logs {{ log_dir = '{0}/logs', retain_for = '1 hour' }}\n\
         kumo.start_http_listener {{ listen = '127.0.0.1:0' }}\nend)\n",
        scratch.path().display()
    );
    let server = Launch::policy(scratch.write("policy.lua", text)).start();
    until(SOON, "the old ones gone", || old.iter().all(|path| !path.exists()).then_some(()));
    assert!(stays.iter().all(|path| path.exists()), "what is none of this log's");
    server.stop();
}

#[test]
fn only_trusted_hosts_see_metrics() {
    let scratch = Scratch::new();
    let text = format!(
        "local kumo = require 'kumo'\nkumo.on('init', function()\n\
         kumo.define_spool {{ name = 'data', path = '{0}/data' }}\nkumo.define_spool {{ name = 'meta', path = '{0}/meta' }}\n\
         kumo.start_http_listener {{ listen = '127.0.0.1:0', trusted_hosts = {{ '192.0.2.1' }} }}\nend)\n",
        scratch.path().display()
    );
    let server = Launch::policy(scratch.write("policy.lua", text)).start();
    let (status, body) = http::get(server.http(), "/metrics");
    assert!([401, 403].contains(&status) && !body.contains("message_count"), "{status}: {body}");
    assert_eq!(http::get(server.http(), "/api/check-liveness/v1").0, 200);
    server.stop();
}

fn submit(server: &Kumod, to: &str) {
    let reply = Client::connect(server.smtp()).submit("a@source.test", to, "for the record");
    assert_eq!(reply.code, 250, "{reply:?}");
}

/// The fields every record has, in KumoMTA's order.
const FIELDS: [&str; 24] = [
    "type",
    "id",
    "sender",
    "recipient",
    "queue",
    "site",
    "size",
    "response",
    "peer_address",
    "timestamp",
    "event_time",
    "created",
    "created_time",
    "num_attempts",
    "bounce_classification",
    "egress_pool",
    "egress_source",
    "source_address",
    "feedback_report",
    "meta",
    "headers",
    "delivery_protocol",
    "reception_protocol",
    "nodeid",
];
