//! `X-Schedule` against the whole program: when a message goes first, in which hours, and when it is too late, over a kill.

use e2e::http;
use e2e::kumod::{Kumod, Launch, policy_file};
use e2e::logs::Logs;
use e2e::scratch::Scratch;
use e2e::sink::Sink;
use e2e::until::{LATER, SOON};
use e2e::wire::{Client, Reply};
use serde_json::{Value, json};
use std::net::SocketAddr;
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

fn launch(scratch: &Scratch, to: SocketAddr) -> Launch {
    let launch = Launch::policy(policy_file("scheduling.lua"));
    launch.env("SCHEDULING_DIR", scratch.join("relay")).env("SCHEDULING_TO", to.to_string())
}

fn submit(relay: &Kumod, to: &str, schedule: &Value) -> Reply {
    let mut client = Client::connect(relay.smtp());
    client.begin("a@source.test", to);
    client.say(&format!("From: <a@source.test>\r\nSubject: later\r\nX-Schedule: {schedule}\r\n\r\nHello.\r\n."))
}

fn accepted(relay: &Kumod, to: &str, schedule: &Value) {
    let reply = submit(relay, to, schedule);
    assert_eq!(reply.code, 250, "{reply:?}");
}

fn from_now(span: Duration) -> String {
    let at = (OffsetDateTime::now_utc() + span).replace_nanosecond(0).expect("zero is sound");
    at.format(&Rfc3339).expect("RFC 3339")
}

#[test]
fn a_message_waits_for_its_first_attempt_over_a_kill_and_another_for_its_hours() {
    let scratch = Scratch::new();
    let sink = Sink::start(&scratch, "sink", &[]);
    let mut relay = launch(&scratch, sink.address).start();
    let first = from_now(Duration::hours(3));
    accepted(&relay, "first@a.test", &json!({"first_attempt": first}));
    let day = (OffsetDateTime::now_utc() + Duration::days(2)).weekday().to_string();
    let hours = json!({"dow": day, "tz": "UTC", "start": "10:00:00", "end": "11:00:00"});
    accepted(&relay, "hours@b.test", &hours);
    accepted(&relay, "now@c.test", &json!({"expires": from_now(Duration::hours(1))}));
    let arrivals = sink.await_arrivals(1, SOON);
    assert_eq!(arrivals[0].recipients, ["now@c.test"]);
    // A kill takes the records of the last moment.
    let logs = Logs::new(scratch.join("relay/logs"));
    logs.await_type("Delayed", 2, LATER);
    relay.process.kill();

    let relay = launch(&scratch, sink.address).start();
    relay.await_metric("scheduled_count_total", 2.0, SOON);
    let inspect = |queue: &str| -> Value {
        let (_, text) =
            http::get(relay.http(), &format!("/api/admin/inspect-sched-q/v1?queue_name={queue}&want_body=true"));
        let found: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        found["messages"][0].clone()
    };
    let message = inspect("a.test");
    assert_eq!((&message["why"], &message["until"]), (&json!("ScheduledForLater"), &json!(first)));
    assert!(!message["message"]["data"].as_str().expect("the content").contains("X-Schedule"), "{message}");
    let until = inspect("b.test")["until"].as_str().map(|at| OffsetDateTime::parse(at, &Rfc3339).expect("a date"));
    let until = until.expect("a time");
    assert_eq!((until.weekday().to_string(), until.time().as_hms()), (day, (10, 0, 0)));
    relay.stop();
    let delayed = logs.of_type("Delayed");
    assert_eq!(delayed.len(), 2, "{delayed:?}");
}

#[test]
fn a_message_expires_at_its_own_time_though_it_waits_for_an_hour_and_was_recovered() {
    let scratch = Scratch::new();
    let nobody = "127.0.0.1:1".parse().expect("an address");
    let mut relay = launch(&scratch, nobody).start();
    accepted(&relay, "brief@a.test", &json!({"expires": from_now(Duration::seconds(4))}));
    accepted(&relay, "brief@b.test", &json!({"expires": from_now(Duration::minutes(90))}));
    // With an hour to the next attempt and less to live, there is no next attempt.
    let logs = Logs::new(scratch.join("relay/logs"));
    let expired = logs.await_type("Expiration", 1, LATER);
    assert_eq!(expired[0]["recipient"], "brief@a.test");
    relay.await_metric("scheduled_count_total", 1.0, SOON);
    let order = json!({"reason": "wait", "domain": "c.test", "duration": "1h"});
    http::json(relay.http(), "POST", "/api/admin/suspend/v1", &order);
    accepted(&relay, "brief@c.test", &json!({"expires": from_now(Duration::seconds(12))}));
    relay.process.kill();
    let relay = launch(&scratch, nobody).start();
    relay.await_metric("scheduled_count_total", 2.0, SOON);
    let is_it = |record: &Value| record["type"] == "Expiration" && record["recipient"] == "brief@c.test";
    logs.await_records("the expiration of a recovered message", 1, LATER, is_it);
    relay.stop();
}

#[test]
fn a_missed_deadline_ends_a_message_over_a_kill_and_policy_hears_of_it() {
    let scratch = Scratch::new();
    let nobody = "127.0.0.1:1".parse().expect("an address");
    let mut relay = launch(&scratch, nobody).start();
    // With an hour to the next attempt there is one before the deadline only if that is a minute ahead.
    accepted(&relay, "soon@a.test", &json!({"deliver_by": from_now(Duration::seconds(20))}));
    accepted(&relay, "late@b.test", &json!({"deliver_by": from_now(Duration::minutes(10))}));
    let logs = Logs::new(scratch.join("relay/logs"));
    let is_end = |record: &Value, of: &str| record["type"] == "Expiration" && record["recipient"] == of;
    let ended = logs.await_records("an end", 1, LATER, |record| is_end(record, "soon@a.test"));
    let content = ended[0]["response"]["content"].as_str().expect("text").to_owned();
    assert!(content.contains("(deliver_by). Last response: "), "{content}");
    relay.await_metric("scheduled_count_total", 1.0, SOON);
    let order = json!({"reason": "wait", "domain": "c.test", "duration": "1h"});
    http::json(relay.http(), "POST", "/api/admin/suspend/v1", &order);
    accepted(&relay, "held@c.test", &json!({"deliver_by": from_now(Duration::seconds(12))}));
    relay.process.kill();

    let relay = launch(&scratch, nobody).start();
    relay.await_metric("scheduled_count_total", 2.0, SOON);
    let ended = logs.await_records("the end of a recovered message", 1, LATER, |record| is_end(record, "held@c.test"));
    let content = ended[0]["response"]["content"].as_str().expect("text");
    assert!(content.starts_with("Not delivered by ") && content.ends_with("Z (deliver_by)"), "{content}");
    let (_, text) = http::get(relay.http(), "/api/admin/inspect-sched-q/v1?queue_name=b.test");
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    let until = found["messages"][0]["until"].as_str().map(|at| OffsetDateTime::parse(at, &Rfc3339).expect("a date"));
    let ahead = until.expect("a time") - OffsetDateTime::now_utc();
    assert!(ahead > Duration::minutes(8) && ahead < Duration::minutes(10), "before the deadline: {ahead}");
    relay.stop();
    let missed = std::fs::read_to_string(scratch.join("relay/missed")).expect("the handler ran");
    assert_eq!(missed, "soon@a.test\nheld@c.test\n", "each once, and its error changes nothing");
}

#[test]
fn constraints_that_make_no_sense_are_refused_with_their_reason() {
    let scratch = Scratch::new();
    let relay = launch(&scratch, "127.0.0.1:1".parse().expect("an address")).start();
    let rows = [
        (json!({"dow": "Mon"}), "missing"),
        (json!({"dow": "Mon", "tz": "Mars/Base", "start": "01:00:00", "end": "02:00:00"}), "Mars/Base"),
        (json!("soon"), "soon"),
    ];
    for (schedule, says) in rows {
        let reply = submit(&relay, "a@a.test", &schedule);
        assert!(reply.code == 554 && reply.text().contains(says), "{schedule}: {reply:?}");
    }
    relay.stop();
}
