//! Orders over HTTP against the whole program: what is suspended stays over a kill, what is bounced ends with a record,
//! what is wrong is told apart.

use e2e::http;
use e2e::kumod::{Kumod, Launch};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use std::fs;
use std::net::SocketAddr;

const BOUNCE: &str = "/api/admin/bounce/v1";
const SUSPEND: &str = "/api/admin/suspend/v1";
const SUSPEND_READY: &str = "/api/admin/suspend-ready-q/v1";
const REBIND: &str = "/api/admin/rebind/v1";
const FLUSH: &str = "/api/admin/flush/v1";
const HOLD: &str = "/api/admin/hold/v1";
const XFER: &str = "/api/admin/xfer/v1";
const MESSAGE: &str = "/api/admin/inspect-message/v1";
const SCHED: &str = "/api/admin/inspect-sched-q/v1";

fn submit(relay: &Kumod, to: &str) {
    let reply = Client::connect(relay.smtp()).submit("a@source.test", to, "an order");
    assert_eq!(reply.code, 250, "{reply:?}");
}

fn list(relay: &Kumod, path: &str) -> Vec<Value> {
    serde_json::from_str(&http::get(relay.http(), path).1).expect("a list")
}

fn recipients(sink: &Sink, count: usize) -> Vec<String> {
    let mut all: Vec<String> = sink.await_arrivals(count, SOON).into_iter().flat_map(|a| a.recipients).collect();
    all.sort();
    all
}

fn nobody() -> SocketAddr {
    "127.0.0.1:1".parse().expect("an address")
}

#[test]
fn a_suspension_outlives_a_kill_and_ends_when_it_is_taken_back() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let mut relay = Launch::relay(&scratch, sink.address).start();
    let order = json!({"domain": "held.test", "reason": "maintenance", "duration": "1 hour"});
    let id = http::json(relay.http(), "POST", SUSPEND, &order)["id"].clone();
    let brief = json!({"domain": "held.test", "tenant": "t", "reason": "brief", "survives_restart": false});
    http::json(relay.http(), "POST", SUSPEND, &brief);
    submit(&relay, "one@held.test");
    submit(&relay, "one@free.test");
    assert_eq!(recipients(&sink, 1), ["one@free.test"]);
    // Its answer may not be here yet: then it would be sent again.
    until(SOON, "the end of what was delivered", || (relay.metric("message_count") == 1.0).then_some(()));
    relay.process.kill();

    let relay = Launch::relay(&scratch, sink.address).start();
    let listed = list(&relay, SUSPEND);
    assert_eq!(listed.len(), 1, "the other was for that run only: {listed:?}");
    assert_eq!((&listed[0]["id"], &listed[0]["domain"]), (&id, &json!("held.test")));
    submit(&relay, "two@held.test");
    submit(&relay, "two@free.test");
    assert_eq!(recipients(&sink, 2), ["one@free.test", "two@free.test"]);
    relay.await_metric("scheduled_count_total", 2.0, SOON);

    let (status, text) =
        http::send(relay.http(), "DELETE", SUSPEND, "application/json", &json!({"id": id}).to_string());
    assert_eq!((status, text), (200, format!("removed {}\n", id.as_str().expect("an id"))));
    assert_eq!(recipients(&sink, 4), ["one@free.test", "one@held.test", "two@free.test", "two@held.test"]);
    relay.stop();
    let kept = fs::read_to_string(scratch.join("relay/data/orders.json")).expect("the list");
    assert!(!kept.contains("held.test"), "{kept}");
}

#[test]
fn a_rebinding_moves_mail_to_another_queue_and_a_kill_leaves_it_there() {
    for kind in ["RocksDB", "LocalDisk"] {
        let scratch = Scratch::new();
        let sink = Sink::start(&scratch, "sink", &[]);
        let launch = || Launch::relay(&scratch, sink.address).env("RELAY_KIND", kind);
        let mut relay = launch().start();
        for domain in ["old.test", "new.test"] {
            let order = json!({"domain": domain, "reason": "maintenance", "duration": "1 hour"});
            http::json(relay.http(), "POST", SUSPEND, &order);
        }
        (0..3).for_each(|n| submit(&relay, &format!("r{n}@old.test")));
        relay.await_metric("scheduled_count_total", 3.0, SOON);
        let listed = json!({"domain": "old.test", "reason": "r", "data": {}, "trigger_rebind_event": true});
        let (status, text) = http::send(relay.http(), "POST", REBIND, "application/json", &listed.to_string());
        assert!(status == 400 && text.contains("trigger_rebind_event"), "{status} {text}");
        let order = json!({"domain": "old.test", "reason": "they moved", "data": {"queue": "new.test", "why": "test"}});
        assert_eq!(http::json(relay.http(), "POST", REBIND, &order)["messages"], 3);
        let moved = |relay: &Kumod| {
            let (status, text) = http::get(relay.http(), &format!("{SCHED}?queue_name=new.test"));
            let queue: Value = serde_json::from_str(&text).unwrap_or_default();
            (status == 200 && queue["messages"].as_array().is_some_and(|all| all.len() == 3)).then_some(queue)
        };
        let queue = until(SOON, "three messages in the other queue", || moved(&relay));
        assert_eq!(queue["messages"][0]["message"]["meta"]["why"], "test", "{queue}");
        until(SOON, "the end of the order", || list(&relay, REBIND).is_empty().then_some(()));
        let logs = Logs::new(scratch.join("relay/logs"));
        let records = logs.await_type("AdminRebind", 3, LATER);
        let text = "Rebound from old.test to new.test: they moved";
        assert_eq!((&records[0]["response"]["code"], &records[0]["response"]["content"]), (&json!(250), &json!(text)));
        assert_eq!((&records[0]["queue"], &records[0]["site"]), (&json!("new.test"), &json!("")));

        relay.process.kill();
        let relay = launch().start();
        until(LATER, "three messages in the other queue again", || moved(&relay));
        let suspended = list(&relay, SUSPEND).into_iter().find(|s| s["domain"] == "new.test").expect("in force");
        let body = json!({"id": suspended["id"]}).to_string();
        assert_eq!(http::send(relay.http(), "DELETE", SUSPEND, "application/json", &body).0, 200);
        assert_eq!(recipients(&sink, 3), ["r0@old.test", "r1@old.test", "r2@old.test"]);
        relay.await_empty(SOON);
        relay.stop();
        assert_eq!(recipients(&sink, 3).len(), 3, "once each");
    }
}

#[test]
fn a_bounce_ends_what_waits_and_says_how_much() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).env("RELAY_RETRY", "1h").start();
    (0..20).for_each(|n| submit(&relay, &format!("r{n}@gone.test")));
    submit(&relay, "one@stays.test");
    relay.await_metric("scheduled_count_total", 21.0, LATER);
    let order = json!({"domain": "gone.test", "reason": "wrong list"});
    let given = http::json(relay.http(), "POST", BOUNCE, &order);
    assert_eq!((&given["messages"], &given["bounced"], &given["total_bounced"]), (&json!(20), &json!({}), &json!(0)));
    let listed = until(SOON, "20 bounced", || {
        let listed = list(&relay, BOUNCE).remove(0);
        (listed["total_bounced"] == 20 && listed["pending"] == 0).then_some(listed)
    });
    assert_eq!(listed["bounced"], json!({"gone.test": 20}));
    submit(&relay, "late@gone.test");
    until(SOON, "the late one", || (list(&relay, BOUNCE)[0]["total_bounced"] == 21).then_some(()));
    until(SOON, "one left", || (relay.metric("message_count") == 1.0).then_some(()));
    relay.stop();

    let records = Logs::new(scratch.join("relay/logs")).of_type("AdminBounce");
    assert_eq!(records.len(), 21);
    for record in &records {
        let response = &record["response"];
        assert_eq!((&response["code"], &record["site"]), (&json!(551), &json!("localhost")), "{record}");
        assert_eq!(response["enhanced_code"], json!({"class": 5, "subject": 7, "detail": 1}));
        assert_eq!(response["content"], "Administrator bounced with reason: wrong list");
    }
    let left = Launch::verb("spool").arg("list").arg("--spool").arg(scratch.join("relay/data")).run().success();
    assert!(left.stdout.contains("stays.test") && !left.stdout.contains("gone.test"), "{}", left.stdout);
}

#[test]
fn a_ready_queue_is_suspended_by_its_name_and_a_flush_does_not_wait_for_the_retry() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).env("RELAY_RETRY", "1h").start();
    submit(&relay, "one@a.test");
    relay.await_metric("scheduled_count_total", 1.0, LATER);
    let failed = "total_messages_transfail{service=\"smtp_client\"}";
    relay.await_metric(failed, 1.0, SOON);
    let page = relay.metrics();
    let name = page.lines().find_map(|line| line.strip_prefix("ready_count{service=\"smtp_client:")?.split('"').next());
    let name = name.expect("a ready queue").to_owned();
    let held = json!({"name": name, "reason": "test", "expires": "2999-01-01T00:00:00Z"});
    let id = http::json(relay.http(), "POST", SUSPEND_READY, &held)["id"].clone();
    assert_eq!(list(&relay, SUSPEND_READY)[0]["expires"], "2999-01-01T00:00:00Z");
    assert_eq!(http::json(relay.http(), "POST", FLUSH, &json!({"reason": "now"}))["messages"], 1);
    until(SOON, "a flush that is done", || list(&relay, FLUSH).is_empty().then_some(()));
    assert_eq!(relay.metric(failed), 1.0, "it is due and has no way");
    http::send(relay.http(), "DELETE", SUSPEND_READY, "application/json", &json!({"id": id}).to_string());
    relay.await_metric(failed, 2.0, SOON);
    relay.stop();
}

#[test]
fn what_is_wrong_is_told_apart_and_changes_nothing() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).start();
    let rows = [
        ("POST", BOUNCE, "text/plain", "{}", 415, "expected application/json"),
        ("POST", BOUNCE, "application/json", "{", 400, "not JSON"),
        ("POST", BOUNCE, "application/json", "{}", 422, "reason"),
        ("POST", BOUNCE, "application/json", "{\"reason\":\"r\",\"domian\":\"d\"}", 422, "domian"),
        ("POST", SUSPEND, "application/json", "{\"reason\":\"r\",\"duration\":\"soon\"}", 422, "soon"),
        ("POST", SUSPEND, "application/json", "{\"reason\":\"r\",\"expires\":\"soon\"}", 422, "expires"),
        ("DELETE", SUSPEND, "application/json", "{\"id\":\"x\"}", 422, "id"),
        (
            "DELETE",
            SUSPEND,
            "application/json",
            "{\"id\":\"00000000-0000-0000-0000-000000000001\"}",
            404,
            "no such entry",
        ),
        ("PUT", SUSPEND, "application/json", "{}", 405, "PUT is not for this path"),
    ];
    for (method, path, kind, body, expected, says) in rows {
        let (status, text) = http::send(relay.http(), method, path, kind, body);
        assert_eq!(status, expected, "{method} {path} {body}: {text}");
        assert!(text.contains(says), "{method} {path} {body}: {text}");
    }
    assert!([BOUNCE, SUSPEND, SUSPEND_READY, FLUSH].iter().all(|path| list(&relay, path).is_empty()));
    relay.stop();
    fs::write(scratch.join("relay/data/orders.json"), "[]").expect("writes");
    let refused = Launch::relay(&scratch, nobody()).run();
    assert!(!refused.status.success() && refused.stderr.contains("orders.json"), "{refused:?}");
}

#[test]
fn an_order_is_taken_back_as_what_it_is() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).start();
    let order = json!({"domain": "a.test", "reason": "maintenance"});
    let ready = json!({"name": "unspecified->a.test@smtp_client", "reason": "maintenance"});
    let given = [(BOUNCE, &order), (SUSPEND, &order), (HOLD, &order), (SUSPEND_READY, &ready)]
        .map(|(path, order)| (path, http::json(relay.http(), "POST", path, order)["id"].clone()));
    let paths = [BOUNCE, SUSPEND, HOLD, SUSPEND_READY, FLUSH, REBIND, XFER];
    let take_back = |path: &str, id: &Value| {
        http::send(relay.http(), "DELETE", path, "application/json", &json!({"id": id}).to_string()).0
    };
    for (own, id) in &given {
        for path in paths.iter().filter(|path| *path != own) {
            assert_eq!(take_back(path, id), 404, "{path} is not {own}");
        }
    }
    for (path, id) in &given {
        assert_eq!((list(&relay, path).len(), take_back(path, id)), (1, 200), "{path}");
    }
    relay.stop();
}

#[test]
fn a_message_says_where_it_is_and_why_and_is_held_released_and_bounced_by_its_id() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).env("RELAY_RETRY", "1h").start();
    submit(&relay, "one@a.test");
    submit(&relay, "two@a.test");
    relay.await_metric("total_messages_transfail{service=\"smtp_client\"}", 2.0, LATER);
    relay.await_metric("scheduled_count_total", 2.0, LATER);
    let inspect = |path: String| -> Value {
        let (status, text) = http::get(relay.http(), &path);
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).expect("JSON")
    };
    let queue = inspect(format!("{SCHED}?queue_name=a.test&want_body=true"));
    assert_eq!((&queue["num_scheduled"], queue["messages"].as_array().map(Vec::len)), (&json!(2), Some(2)));
    let message = &queue["messages"][0];
    let (id, content) = (message["id"].as_str().expect("an id").to_owned(), &message["message"]);
    assert_eq!((&message["state"], &message["why"]), (&json!("waiting"), &json!("LoggedTransientFailure")));
    assert_eq!(message["until"], content["due"]);
    assert_eq!((&content["sender"], &content["num_attempts"]), (&json!("a@source.test"), &json!(1)));
    assert!(content["data"].as_str().is_some_and(|data| data.contains("Subject: an order")), "{content}");

    let held = http::json(relay.http(), "POST", HOLD, &json!({"messages": [id], "reason": "evidence"}));
    let state = |id: &str| inspect(format!("{MESSAGE}?id={id}"))["state"].clone();
    until(SOON, "a held message", || (state(&id) == "held").then_some(()));
    http::json(relay.http(), "POST", FLUSH, &json!({"reason": "now"}));
    relay.await_metric("total_messages_transfail{service=\"smtp_client\"}", 3.0, SOON);
    assert_eq!(state(&id), "held");
    http::send(relay.http(), "DELETE", HOLD, "application/json", &json!({"id": held["id"]}).to_string());
    until(SOON, "a released message", || (state(&id) == "waiting").then_some(()));

    let dashed = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
    http::json(relay.http(), "POST", BOUNCE, &json!({"messages": [dashed], "reason": "done", "duration": 0}));
    until(SOON, "a bounced message", || {
        (http::get(relay.http(), &format!("{MESSAGE}?id={id}")).0 == 404).then_some(())
    });
    assert_eq!(inspect(format!("{SCHED}?queue_name=a.test"))["num_scheduled"], 1);
    let rows = [
        (format!("{MESSAGE}?id=zz"), 400, "32 hexadecimal digits"),
        (format!("{MESSAGE}?id={}", "0".repeat(32)), 404, "no such message"),
        (format!("{SCHED}?queue_name=b.test"), 404, "no such queue: b.test"),
        (format!("{SCHED}?queue=b.test"), 400, "queue"),
    ];
    for (path, expected, says) in rows {
        let (status, text) = http::get(relay.http(), &path);
        assert!(status == expected && text.contains(says), "{path}: {status} {text}");
    }
    relay.stop();
}

#[test]
fn a_message_in_delivery_is_found_and_a_suspended_one_says_until_when() {
    let scratch = Scratch::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let relay = Launch::relay(&scratch, silent.local_addr().expect("its address")).start();
    let order = json!({"domain": "b.test", "reason": "later", "expires": "2999-01-01T00:00:00Z"});
    http::json(relay.http(), "POST", SUSPEND, &order);
    let reply = Client::connect(relay.smtp()).submit("a@source.test", "one@a.test", "an order");
    let id = reply.lines[0].split("ids=").nth(1).expect("an id").trim().to_owned();
    submit(&relay, "one@b.test");
    let found: Value = until(SOON, "a message that waits for its peer", || {
        let found: Value = serde_json::from_str(&http::get(relay.http(), &format!("{MESSAGE}?id={id}")).1).ok()?;
        (found["why"] == "BehindOthers" || found["state"] == "in_delivery").then_some(found)
    });
    assert_eq!(found["message"]["recipient"], "one@a.test", "{found}");
    let queue: Value =
        serde_json::from_str(&http::get(relay.http(), &format!("{SCHED}?queue_name=b.test")).1).expect("JSON");
    let message = &queue["messages"][0];
    assert_eq!((&message["state"], &message["why"]), (&json!("due"), &json!("ReadyQueueWasSuspended")));
    assert_eq!((&message["until"], &message["what"]), (&json!("2999-01-01T00:00:00Z"), &json!("later")));
}

#[test]
fn what_somebody_else_has_ordered_since_is_not_replaced() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).start();
    let none = "none".to_owned();
    for (path, about) in [(SUSPEND, json!({"domain": "a.test"})), (SUSPEND_READY, json!({"name": "s->a@smtp_client"}))]
    {
        let give = |reason: &str, replaces: Option<&String>| {
            let mut order = about.clone();
            (order["reason"], order["duration"]) = (json!(reason), json!("1h"));
            replaces.into_iter().for_each(|id| order["replaces"] = json!(id));
            let (status, text) = http::send(relay.http(), "POST", path, "application/json", &order.to_string());
            (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
        };
        let id = |given: &Value| given["id"].as_str().expect("an id").to_owned();
        let refused = |answer: (u16, Value), says: &str, holds: &str| {
            assert!(answer.0 == 409 && answer.1.as_str().is_some_and(|text| text.contains(says)), "{path}: {answer:?}");
            let reasons: Vec<Value> = list(&relay, path).into_iter().map(|order| order["reason"].clone()).collect();
            assert_eq!(reasons, [json!(holds)], "{path}: nothing has changed");
        };
        let (status, first) = give("first", Some(&none));
        assert_eq!(status, 200, "{first}");
        refused(give("at once", Some(&none)), "another order about the same since: first", "first");
        let (_, second) = give("second", Some(&id(&first)));
        assert_eq!(second["replaced"]["id"], first["id"], "{second}");
        // Somebody else, who knows of nothing.
        let (_, third) = give("third", None);
        refused(give("first again", Some(&id(&second))), "another order about the same since: third", "third");
        let withdrawal = |of: &Value| json!({"id": of["id"]}).to_string();
        let gone = http::send(relay.http(), "DELETE", path, "application/json", &withdrawal(&second));
        assert_eq!((gone.0, list(&relay, path).len()), (404, 1), "{gone:?}");
        let gone = http::send(relay.http(), "DELETE", path, "application/json", &withdrawal(&third));
        assert_eq!((gone.0, list(&relay, path).len()), (200, 0), "{gone:?}");
        let (status, text) = give("second again", Some(&id(&third)));
        assert!(status == 409 && text.as_str().is_some_and(|text| text.contains("no order about the same")), "{text}");
        assert!(list(&relay, path).is_empty(), "nothing has changed");
    }
    relay.stop();
}

#[test]
fn an_order_that_was_replaced_comes_back_as_it_was() {
    let scratch = Scratch::new();
    let relay = Launch::relay(&scratch, nobody()).start();
    let give = |order: &Value| http::json(relay.http(), "POST", BOUNCE, order);
    give(
        &json!({"domain": "a.test", "reason": "quietly", "duration": "1h", "suppress_logging": true, "survives_restart": false}),
    );
    let before = list(&relay, BOUNCE).remove(0);
    let given = give(&json!({"domain": "a.test", "reason": "loudly", "duration": "1h"}));
    assert_eq!(list(&relay, BOUNCE)[0]["suppress_logging"], Value::Null, "it is told where it is so");
    let mut again = given["replaced"].clone();
    assert_eq!(again["suppress_logging"], true, "{given}");
    again.as_object_mut().expect("an order").remove("id");
    (again["domain"], again["replaces"]) = (json!("a.test"), given["id"].clone());
    give(&again);
    let after = list(&relay, BOUNCE).remove(0);
    for part in ["domain", "reason", "expires", "survives_restart", "suppress_logging"] {
        assert_eq!(after[part], before[part], "{part}");
    }
    submit(&relay, "one@a.test");
    until(SOON, "its end", || (list(&relay, BOUNCE)[0]["total_bounced"] == 1).then_some(()));
    relay.stop();
    assert!(Logs::new(scratch.join("relay/logs")).of_type("AdminBounce").is_empty(), "as quietly as before");
}
