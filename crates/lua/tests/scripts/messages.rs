//! Messages that scripts make, and what hooks are told.

use crate::support::{Loaded, draft, load, load_error, now};
use injection::Injection;
use message::{Draft, IdGenerator, MessageId};
use policy::{Administered, AuthInfo, Injected, Policy, PolicyError, Program, Requested};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A program that keeps what it is given, and refuses what is for `full.test`.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Vec<(Draft, bool)>>>);

impl Program for Desk {
    fn bump_config_epoch(&self) {}

    fn message_id(&self) -> Option<MessageId> {
        Some(IdGenerator::new([2; 6], 7).next(clock::WallTime::EPOCH))
    }

    fn inject_request(&self, _injection: Injection, _auth: AuthInfo) -> Requested<'_> {
        Box::pin(async { Err("a desk".to_owned()) })
    }

    fn administer(&self, _method: &'static str, _path: &'static str, _request: Value) -> Administered<'_> {
        Box::pin(async { Err("a desk".to_owned()) })
    }

    fn inject(&self, draft: Draft, deferred: bool) -> Injected<'_> {
        Box::pin(async move {
            if draft.envelope.recipients[0].domain() == "full.test" {
                return Err("451 storage is too full".to_owned());
            }
            self.0.lock().expect("one thread").push((draft, deferred));
            Ok(())
        })
    }
}

/// Runs `body` as handler of a hook that is told `record`.
fn told(body: &str, record: Value) -> (Result<(), PolicyError>, Vec<(Draft, bool)>) {
    let Loaded { policy, folder: _folder, .. } =
        load(&format!("kumo.on('log_disposition_x', function(msg, record) {body} end)"));
    let desk = Desk::default();
    policy.serves_in(Box::new(desk.clone()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let answer = runtime.block_on(policy.log_disposition("x", draft(), record));
    let injected = std::mem::take(&mut *desk.0.lock().expect("one thread"));
    (answer, injected)
}

fn record() -> Value {
    json!({
        "type": "Bounce", "id": "0123", "sender": "sender@from.test", "recipient": "user@To.Test", "queue": "to.test",
        "site": "mx", "size": 10, "response": {"code": 550, "enhanced_code": null, "content": "5.1.1 no", "command": null},
        "peer_address": null, "timestamp": 100, "created": 90, "num_attempts": 0, "egress_pool": null,
        "egress_source": null, "source_address": null, "feedback_report": null, "meta": {}, "headers": {},
        "delivery_protocol": "ESMTP", "reception_protocol": "ESMTP", "nodeid": "n"
    })
}

fn error(answer: Result<(), PolicyError>) -> String {
    answer.expect_err("an error").to_string()
}

#[test]
fn a_message_that_a_script_makes_is_injected_with_all_it_has() {
    let (answer, injected) = told(
        "local made = kumo.make_message('a@from.test', 'b@to.test', 'Subject: x\\r\\n\\r\\nbody\\r\\n') \
         made:set_meta('tenant', 't') made:append_header('X-More', '1') kumo.inject_message(made, true) \
         assert(made:id() ~= msg:id() and record.response.code == 550 and record.meta.none == nil)",
        record(),
    );
    answer.expect("no error");
    let (mut made, deferred) = injected.into_iter().next().expect("injected");
    assert!(deferred);
    assert_eq!((made.envelope.sender.as_str(), made.envelope.recipients[0].as_str()), ("a@from.test", "b@to.test"));
    assert_eq!(made.meta.get("tenant"), Some(&json!("t")));
    assert_eq!(&made.data()[..], b"Subject: x\r\nX-More: 1\r\n\r\nbody\r\n");
}

#[test]
fn what_cannot_be_injected_is_refused_with_the_reason() {
    for (body, says) in [
        ("kumo.inject_message(msg)", "kumo.inject_message: the message is in a queue, or on its way there, already"),
        (
            "local m = kumo.make_message('', 'b@to.test', '') kumo.inject_message(m) kumo.inject_message(m)",
            "kumo.inject_message: the message was injected already",
        ),
        (
            "kumo.inject_message(kumo.make_message('', 'b@full.test', ''))",
            "kumo.inject_message: 451 storage is too full",
        ),
        ("kumo.make_message('no', 'b@to.test', '')", "kumo.make_message: \"no\""),
        ("kumo.make_message('', '', '')", "kumo.make_message: the null address cannot be a recipient"),
        ("kumo.make_message('', {}, '')", "kumo.make_message: an empty list: expected at least one address"),
        ("kumo.generate_rfc3464_message({}, msg, record)", "missing"),
        (
            "kumo.generate_rfc3464_message({ reporting_mta = { mta_type = 'dns', name = 'm' } }, msg, { type = 'Bounce' })",
            "kumo.generate_rfc3464_message: log record: missing field",
        ),
    ] {
        let said = error(told(body, record()).0);
        assert!(said.contains(says), "{body}: {said}");
    }
    // Before that it may be made and looked at.
    let early = load_error(
        "kumo.on('init', function() local m = kumo.make_message('', 'b@to.test', 'Subject: x\\r\\n\\r\\n') \
         assert(m:get_first_named_header_value 'Subject' == 'x' and m:id() ~= kumo.make_message('', 'b@to.test', ''):id()) \
         kumo.inject_message(m) end)",
    );
    assert!(early.contains("kumo.inject_message: it can be called while the program serves, not before"), "{early}");
}

#[test]
fn a_hook_that_fails_is_an_error_and_one_without_a_handler_is_nothing() {
    let policy = load("").policy;
    now(policy.log_disposition("x", draft(), record())).expect("nobody hears");
    let said = error(told("error 'broken'", record()).0);
    assert!(said.contains("broken"), "{said}");
}

#[test]
fn reports_are_made_of_what_is_to_be_reported() {
    const MAKE: &str = "local report = kumo.generate_rfc3464_message({ enable_bounce = true, stable_content = true, \
        include_original_message = 'HeadersOnly', reporting_mta = { mta_type = 'dns', name = 'mta.test' } }, msg, record) \
        if report then kumo.inject_message(report) end";
    let made = |record: Value| {
        let (answer, injected) = told(MAKE, record);
        answer.expect("no error");
        injected.into_iter().next().map(|(mut draft, _)| {
            assert_eq!(
                (draft.envelope.sender.as_str(), draft.envelope.recipients[0].as_str()),
                ("", "sender@from.test")
            );
            String::from_utf8_lossy(&draft.data()).into_owned()
        })
    };
    let report = made(record()).expect("a report");
    assert!(report.contains("Final-Recipient: rfc822; user@To.Test\r\nAction: failed\r\n"), "{report}");
    assert!(report.contains("X-Tenant: t1") && !report.contains("\r\nbody"), "{report}");
    assert_eq!(made(record()), Some(report), "the same to the octet");
    for (member, value) in [
        ("type", json!("Expiration")),
        ("type", json!("TransientFailure")),
        ("sender", json!("")),
        ("delivery_protocol", json!("Lua")),
    ] {
        let mut other = record();
        other[member] = value;
        assert_eq!(made(other.clone()), None, "{other}");
    }
}
