//! `why` against canned answers: which questions it asks, and what it makes of the answers.

mod support;

use serde_json::{Value, json};
use support::Fixture;

const ID: &str = "0123456789abcdef0123456789abcdef";
const ORDER: &str = "5c9f2b1a-0000-4000-8000-000000000001";
const READY: &str = "ip-1->a@smtp_client";

fn message(state: &str, why: Value, until: Value, what: Value) -> Value {
    json!({"id": ID, "queue_name": "t@a.test", "state": state, "why": why, "until": until, "what": what,
        "message": {"sender": "s@b.test", "recipient": "r@a.test", "num_attempts": 2, "due": until}})
}

/// A server with one message, and whatever else there is.
fn server(message: Value, others: &[(&str, u16, Value)]) -> Fixture {
    let ready = json!({"queue_name": READY, "state": {"ready_count": 3, "connection_count": 1},
        "constraints": {"max_concurrent_dispatchers": {"value": 5}}, "dispatchers": [{"phase": "DeliveringMessage"}]});
    let queue = json!({"queue_name": "t@a.test", "num_scheduled": 1, "messages": [message]});
    let mut answers = others.to_vec();
    answers.extend([
        ("GET /api/admin/inspect-message/v1", 200, message),
        ("GET /api/admin/inspect-sched-q/v1?queue_name=t%40a.test&", 200, queue),
        ("GET /api/admin/resolve-egress-path/v1", 200, json!({"queue_name": "unspecified->a@smtp_client"})),
        ("GET /api/admin/inspect-ready-q/v1?queue_name=ip-1", 200, ready),
        ("GET /metrics.json", 200, json!({
            "ready_count": {"value": {"service": {"smtp_client": 3, "smtp_client:ip-1->a@smtp_client": 3, "smtp_client:ip-1->b@smtp_client": 0}}},
            "scheduled_count": {"value": {"queue": {"t@a.test": 1, "c.test": 4}}}})),
    ]);
    Fixture::new(&answers)
}

#[test]
fn a_message_that_waits_for_a_retry() {
    let server =
        server(message("waiting", json!("LoggedTransientFailure"), json!("2999-01-01T00:00:00Z"), Value::Null), &[]);
    let text = server.run(&["why", ID]).good();
    assert!(
        text.contains("(LoggedTransientFailure)") && text.contains("until       2999-01-01T00:00:00Z (in "),
        "{text}"
    );
    assert!(
        text.contains("attempts    2\n") && text.contains("  way         ip-1->a@smtp_client\n"),
        "found by its site: {text}"
    );
    assert!(text.contains("it has      3 messages, 1 connections of 5 allowed (1 DeliveringMessage)\n"), "{text}");
    assert!(text.contains(&format!("what would change it:\n  kcli flush --message {ID} --reason WHY")), "{text}");
    let all: Value = serde_json::from_str(&server.run(&["why", ID, "--json"]).good()).expect("JSON");
    assert_eq!(all[0]["of"]["message"]["id"], ID);
    assert_eq!(all[0]["of"]["ready_queues"][0]["queue_name"], READY);
}

#[test]
fn a_suspension_a_hold_and_a_bounce_say_how_they_are_undone() {
    let message = message("held", json!("HeldByOrder"), Value::Null, Value::Null);
    let order = |fields: Value| {
        let mut order = json!({"id": ORDER, "reason": "evidence"});
        order.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
        json!([order])
    };
    for (verb, fields, undone) in [
        ("suspend", json!({"tenant": "t"}), "suspend-cancel"),
        ("hold", json!({"messages": [ID]}), "hold-cancel"),
        ("bounce", json!({}), "bounce-cancel"),
        ("suspend-ready-q", json!({"name": READY}), "suspend-ready-q-cancel"),
    ] {
        let list = format!("GET /api/admin/{verb}/v1");
        let server = server(message.clone(), &[(&list, 200, order(fields))]);
        let text = server.run(&["why", ID]).good();
        assert!(text.contains(&format!("by an order: evidence (order {ORDER})\n")), "{verb}: {text}");
        assert!(text.contains(&format!("\n  kcli {undone} --id {ORDER}\n")), "{verb}: {text}");
    }
    let list = json!([{"id": ORDER, "reason": "another", "domain": "b.test"}]);
    let server = server(message, &[("GET /api/admin/suspend/v1", 200, list)]);
    assert!(!server.run(&["why", ID]).good().contains("another"), "not about this queue");
}

#[test]
fn a_queue_a_domain_and_a_ready_queue() {
    let what = json!(READY);
    let server = server(message("due", json!("ReadyQueueWasFull"), Value::Null, what), &[]);
    let of_queue = server.run(&["why", "t@a.test"]).good();
    assert!(
        of_queue.starts_with("scheduled queue t@a.test\n") && of_queue.contains("(ReadyQueueWasFull)"),
        "{of_queue}"
    );
    assert!(of_queue.contains(&format!("1 of 1 looked at, such as {ID}")), "{of_queue}");
    let of_domain = server.run(&["why", "A.test"]).good();
    assert_eq!(of_domain, of_queue, "its only queue");
    let of_ready = server.run(&["why", READY]).good();
    assert!(of_ready.starts_with(&format!("ready queue {READY}\n  it has      3 messages")), "{of_ready}");
    let broken = [("GET /api/admin/resolve-egress-path/v1", 500, json!("Error: no such option: x\n"))];
    let broken = self::server(message("due", json!("FailedToInsertIntoReadyQueue"), Value::Null, Value::Null), &broken);
    let text = broken.run(&["why", "t@a.test"]).good();
    assert!(
        text.contains("  way         cannot be found: GET ") && text.contains("500: no such option: x\n"),
        "{text}"
    );
    let of_nobody = server.run(&["why", "d.test"]).good();
    assert!(of_nobody.starts_with("d.test: no mail is queued\n") && of_nobody.contains(READY), "{of_nobody}");
    let pooled = json!({"queue_name": "unspecified->z@smtp_client", "pool_sources": ["ip-2", "ip-3"]});
    let pooled = [("GET /api/admin/resolve-egress-path/v1?domain=d.test", 200, pooled)];
    let pooled = self::server(message("due", json!("FailedToInsertIntoReadyQueue"), Value::Null, Value::Null), &pooled);
    let of_nobody = pooled.run(&["why", "d.test"]).good();
    for source in ["ip-2", "ip-3"] {
        let way = format!("  way         {source}->z@smtp_client (no such ready queue at the moment)\n");
        assert!(of_nobody.contains(&way) && !of_nobody.contains("unspecified"), "{of_nobody}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let server = Fixture::new(&[]);
    let error = server.run(&["why", ID]).failed();
    assert!(error.contains(&format!("there is no message {ID}")) && error.contains("kcli timeline"), "{error}");
    let error = server.run(&["why", "x->y@smtp_client"]).failed();
    assert!(error.contains("there is no ready queue \"x->y@smtp_client\""), "{error}");
    let server = Fixture::new(&[("GET /api/admin/bounce/v1", 401, json!("Error: denied\n"))]);
    assert!(server.run(&["why", ID]).failed().contains("401: denied"));
}
