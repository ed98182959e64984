//! A message that a task has in hand, neither in a queue nor with a connection, is found all the same, and so is one that is on its way
//! back to its queue after a start: who asks for it is not told that there is no such message.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::preload;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::victim::nobody;
use e2e::wire::Client;
use serde_json::{Value, json};
use std::fs;

/// Handlers that may take long, in the order in which a message meets them.
const EVENTS: [&str; 6] = [
    "throttle_insert_ready_queue",
    "smtp_client_rewrite_delivery_status",
    "log_disposition_slow",
    "requeue_message",
    REBIND_EVENT,
    START_EVENT,
];

fn submit(node: &Kumod) -> String {
    let reply = Client::connect(node.smtp()).submit("a@source.test", "b@x.test", "in between");
    assert_eq!(reply.code, 250, "{reply:?}");
    reply.lines[0].split("ids=").nth(1).expect("an id").trim().to_owned()
}

fn await_tried(node: &Kumod, id: &str) {
    until(SOON, "a message that was tried", || (inspect(node, id).1["why"] == "LoggedTransientFailure").then_some(()));
}

fn inspect(node: &Kumod, id: &str) -> (u16, Value) {
    let (status, text) = http::get(node.http(), &format!("/api/admin/inspect-message/v1?id={id}"));
    (status, serde_json::from_str(&text).unwrap_or(json!(text)))
}

/// What is wrong about how a message is found: by its id, and by the log. While messages come `back`, nobody can tell of those
/// that have not.
fn wrong(node: &Kumod, id: &str, back: bool) -> Option<String> {
    let (status, told) = inspect(node, id);
    if back && status == 503 && told.to_string().contains("earlier runs") {
        return None;
    }
    if (status, &told["queue_name"], &told["message"]["recipient"]) != (200, &json!("x.test"), &json!("b@x.test")) {
        return Some(format!("{status} {told}"));
    }
    let (_, text) = http::get(node.http(), &format!("/api/admin/search/v1?id={id}"));
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    let state = &found["messages"][0]["state"];
    (!["in_delivery", "ending"].iter().any(|known| state == known)).then(|| format!("search: {text}"))
}

#[test]
fn a_message_that_policy_is_asked_about_is_found() {
    let mut lost = Vec::new();
    for event in EVENTS {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &["--fail-rate", "100", "--fail-code", "451"]);
        let launch = Launch::policy(policy_file("in_between.lua"))
            .env("BETWEEN_DIR", scratch.path())
            .env("BETWEEN_TO", sink.address.to_string());
        let with_event = launch.clone().env("BETWEEN_EVENT", event);
        let mut node = if event == START_EVENT { &launch } else { &with_event }.start();
        let mut ids = vec![submit(&node)];
        if event == REBIND_EVENT {
            await_tried(&node, &ids[0]);
            let order = json!({"domain": "x.test", "reason": "test", "data": {}, "trigger_rebind_event": true});
            http::json(node.http(), "POST", "/api/admin/rebind/v1", &order);
        }
        if event == START_EVENT {
            // One waits behind the other.
            ids.push(submit(&node));
            ids.iter().for_each(|id| await_tried(&node, id));
            node.process.kill();
            node = with_event.start();
        }
        let line = format!("held in {event}");
        node.process.await_stderr(&line, SOON, |text| text.contains(&line).then_some(()));
        lost.extend(
            ids.iter().filter_map(|id| wrong(&node, id, event == START_EVENT)).map(|why| format!("{event}: {why}")),
        );
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}

/// Content that is not in memory is read when a connection has taken the message.
#[test]
fn a_message_that_is_read_for_its_delivery_is_found() {
    let scratch = Scratch::new();
    let launch = |to: std::net::SocketAddr| Launch::relay(&scratch, to).env("RELAY_RETRY", "1h");
    let node = launch(nobody()).start();
    let id = submit(&node);
    await_tried(&node, &id);
    node.stop();

    let sink = Sink::start(&scratch, "sink", &[]);
    let switch = scratch.write("reads", "-");
    let library = preload::library(&scratch, "reads");
    let node = launch(sink.address).env("LD_PRELOAD", library).env("READS_FILE", &switch).start();
    await_tried(&node, &id);
    fs::write(&switch, "h").expect("armed");
    http::json(node.http(), "POST", "/api/admin/flush/v1", &json!({"domain": "x.test", "reason": "test"}));
    until(SOON, "a read that is held up", || scratch.join("reads.now").exists().then_some(()));
    assert_eq!(wrong(&node, &id, false), None);
    fs::write(&switch, "-").expect("disarmed");
    sink.await_arrivals(1, SOON);
    node.await_empty(SOON);
    assert_eq!(inspect(&node, &id).0, 404, "it is over");
    node.stop();
}

/// RFC 5321 section 4.1.1.3: that of this host, in a queue that a start finds.
#[test]
fn mail_for_the_postmaster_is_kept_like_any_other() {
    let scratch = Scratch::new();
    let node = Launch::relay(&scratch, nobody()).env("RELAY_RETRY", "1s").start();
    for name in ["postmaster", "Postmaster"] {
        let reply = Client::connect(node.smtp()).submit("a@source.test", name, "to whom it may concern");
        assert_eq!(reply.code, 250, "{reply:?}");
    }
    until(SOON, "both were tried", || {
        (node.metric("total_messages_transfail{service=\"smtp_client\"}") >= 2.0).then_some(())
    });
    node.stop();
    let sink = Sink::start(&scratch, "sink", &[]);
    let node = Launch::relay(&scratch, sink.address).start();
    let mut recipients: Vec<String> =
        sink.await_arrivals(2, LATER).into_iter().flat_map(|arrival| arrival.recipients).collect();
    recipients.sort();
    assert_eq!(recipients, ["Postmaster@relay.test", "postmaster@relay.test"]);
    node.await_empty(SOON);
    node.stop();
}

const REBIND_EVENT: &str = "rebind_message";
const START_EVENT: &str = "spool_message_enumerated";
