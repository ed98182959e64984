//! What policy does with messages that failed or that an operator moves: `requeue_message` and `rebind_message`.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::preload;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::victim::nobody;
use e2e::wire::Client;
use serde_json::{Value, json};
use std::fs;

const REBIND: &str = "/api/admin/rebind/v1";
const SCHED: &str = "/api/admin/inspect-sched-q/v1";

fn launch(scratch: &Scratch, sink: &Sink) -> Launch {
    let launch = Launch::policy(policy_file("moving.lua"));
    launch.env("MOVING_DIR", scratch.join("relay")).env("MOVING_TO", sink.address.to_string())
}

fn submit(relay: &Kumod, to: &str) {
    let reply = Client::connect(relay.smtp()).submit("a@source.test", to, "a move");
    assert_eq!(reply.code, 250, "{reply:?}");
}

/// The messages of a scheduled queue by their first recipient.
fn queue(relay: &Kumod, name: &str) -> Vec<(String, Value)> {
    let (status, text) = http::get(relay.http(), &format!("{SCHED}?queue_name={name}"));
    let listed: Value = if status == 200 { serde_json::from_str(&text).expect("JSON") } else { Value::Null };
    let messages = listed["messages"].as_array().cloned().unwrap_or_default();
    let named = |m: Value| (m["message"]["recipient"].as_str().unwrap_or_default().to_owned(), m["message"].clone());
    let mut named: Vec<_> = messages.into_iter().map(named).collect();
    named.sort_by(|a, b| a.0.cmp(&b.0));
    named
}

fn names(of: &[(String, Value)]) -> Vec<&str> {
    of.iter().map(|(name, _)| &**name).collect()
}

#[test]
fn policy_moves_bounces_or_leaves_what_failed() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let mut relay = launch(&scratch, &sink).start();
    for who in ["move", "reject", "fail", "recipient", "null", "stay"] {
        submit(&relay, &format!("{who}@dead.test"));
    }
    let logs = Logs::new(scratch.join("relay/logs"));
    let failed = logs.await_type("TransientFailure", 6, LATER);
    assert_eq!(failed.len(), 6);
    let delivered = logs.await_type("Delivery", 1, LATER);
    assert_eq!(delivered[0]["queue"], "moved@dead.test!alive.test");
    assert_eq!((&delivered[0]["num_attempts"], &delivered[0]["meta"]["tenant"]), (&json!(1), &json!("moved")));
    let response = delivered[0]["meta"]["x_response"].as_str().expect("the first handler's");
    assert!(response.starts_with("400 KumoMTA internal: "), "{response}");
    let received = |who: &str| logs.of_type("Reception").into_iter().find(|r| r["recipient"] == who).expect("received");
    let grown = delivered[0]["size"].as_u64().zip(received("move@dead.test")["size"].as_u64()).expect("sizes");
    assert_eq!(grown.0 - grown.1, "X-Moved: LoggedTransientFailure true\r\n".len() as u64);
    let bounced = logs.await_type("Bounce", 1, LATER);
    assert_eq!((&bounced[0]["recipient"], &bounced[0]["response"]["code"]), (&json!("reject@dead.test"), &json!(450)));
    let text = bounced[0]["response"]["content"].as_str().expect("text");
    assert!(text.starts_with("given up after ") && text.ends_with(", true"), "{text}");

    let left = ["fail@dead.test", "recipient@dead.test", "stay@dead.test"];
    until(SOON, "three that wait", || (relay.metric("message_count") == 3.0).then_some(()));
    let found = queue(&relay, "dead.test");
    assert_eq!(names(&found), left);
    let note = |who: usize| found[who].1["meta"]["x_response"].is_string();
    assert!(!note(0) && !note(1) && note(2), "what fails changes nothing: {found:?}");
    relay.process.await_stderr("the fault", SOON, |l| l.contains("a fault of the script").then_some(()));
    relay.process.await_stderr("the recipients", SOON, |l| l.contains("its recipients were changed").then_some(()));

    // What policy changed is on disk.
    relay.process.kill();
    let relay = launch(&scratch, &sink).start();
    // A kill may have taken the note of an attempt, which is made again then.
    let found = until(LATER, "three messages", || Some(queue(&relay, "dead.test")).filter(|f| f.len() == 3));
    assert_eq!(names(&found), left);
    let (due, now) = (found[2].1["due"].as_str().expect("a time"), time::OffsetDateTime::now_utc());
    let due = time::OffsetDateTime::parse(due, &time::format_description::well_known::Rfc3339).expect("a time");
    assert!(due - now > time::Duration::minutes(30), "its time is on disk: {due}");
    assert!(found[2].1["num_attempts"].as_u64() >= Some(1) && found[2].1["meta"]["x_response"].is_string());
    assert_eq!(sink.await_arrivals(1, SOON).len(), 1);
    relay.stop();
}

#[test]
fn an_operator_leaves_it_to_policy_how_mail_is_moved() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let relay = launch(&scratch, &sink).start();
    (0..2).for_each(|n| submit(&relay, &format!("r{n}@dead.test")));
    relay.await_metric("total_messages_transfail{service=\"smtp_client\"}", 2.0, SOON);
    relay.await_metric("scheduled_count_total", 2.0, SOON);
    let order =
        |data: Value| json!({"domain": "dead.test", "reason": "test", "data": data, "trigger_rebind_event": true});
    http::json(relay.http(), "POST", REBIND, &order(json!({"fail": "not like that"})));
    relay.process.await_stderr("the fault", SOON, |l| l.contains("not like that").then_some(()));
    until(SOON, "the end of the order", || (http::get(relay.http(), REBIND).1 == "[]").then_some(()));
    assert_eq!(names(&queue(&relay, "dead.test")), ["r0@dead.test", "r1@dead.test"]);

    http::json(relay.http(), "POST", REBIND, &order(json!({"to": "alive", "reason": "asked"})));
    let logs = Logs::new(scratch.join("relay/logs"));
    let delivered = logs.await_type("Delivery", 2, LATER);
    assert!(delivered.iter().all(|r| r["queue"] == "alive.test" && r["meta"]["x_reason"] == "asked"), "{delivered:?}");
    assert_eq!(logs.of_type("AdminRebind").len(), 2);
    relay.stop();
}

/// The spool does not answer for a moment: who was to be moved is not left behind.
#[test]
fn an_order_keeps_a_message_that_cannot_be_read_for_another_try() {
    let scratch = Scratch::new();
    let launch = Launch::relay(&scratch, nobody()).env("RELAY_RETRY", "1h");
    let tried = |node: &Kumod| {
        let is_tried = |(_, message): &(String, Value)| message["num_attempts"] == 1;
        until(SOON, "a message that was tried", || queue(node, "x.test").first().is_some_and(is_tried).then_some(()));
    };
    let node = launch.start();
    submit(&node, "b@x.test");
    tried(&node);
    node.stop();

    let switch = scratch.write("reads", "-");
    let library = preload::library(&scratch, "reads");
    let node = launch.env("LD_PRELOAD", library).env("READS_FILE", &switch).start();
    tried(&node);
    fs::write(&switch, "f").expect("armed");
    let order = json!({"domain": "x.test", "reason": "test", "data": {"queue": "moved.test"}});
    http::json(node.http(), "POST", REBIND, &order);
    let tries = || node.process.stderr().matches("is kept for later").count();
    until(SOON, "a second try that fails", || (tries() > 1).then_some(()));
    fs::write(&switch, "-").expect("disarmed");
    until(SOON, "a message that was moved", || (names(&queue(&node, "moved.test")) == ["b@x.test"]).then_some(()));
    until(SOON, "the end of the order", || (http::get(node.http(), REBIND).1 == "[]").then_some(()));
    node.stop();
}
