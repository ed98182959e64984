//! `msg`: identity, envelope, metadata, due time, content; and `conn_meta`.

use crate::support::{assert_has, draft, draft_of, error_of, load, now, received, received_with};
use clock::WallTime;
use policy::{ConnMeta, Policy};
use serde_json::json;

#[test]
fn identity_and_envelope() {
    let id = draft().id.to_string();
    received(&format!(
        "assert(msg:id() == '{id}') assert(tostring(msg) == 'Message({id})') assert(msg:num_attempts() == 0)
         local s = msg:sender()
         assert(s.user == 'sender' and s.domain == 'from.test' and s.email == 'sender@from.test' and tostring(s) == s.email)
         local r = msg:recipient()
         assert(r.email == 'user@To.Test' and r == msg:recipient_list()[1] and #msg:recipient_list() == 1)
         assert(msg:queue_name() == 'to.test') assert(not pcall(function() return s.nonsense end))"
    ));
}

#[test]
fn a_script_may_insist_on_the_disk() {
    assert!(received("msg:set_force_sync(true)").force_sync);
    assert!(!received("msg:set_force_sync(true) msg:set_force_sync(false)").force_sync);
}

#[test]
fn addresses_can_be_changed() {
    let draft = received(
        "msg:set_sender('\"odd one\"@new.test') assert(msg:sender().user == 'odd one')
         local own = msg:sender() msg:set_sender('') assert(msg:sender().email == '' and msg:sender().domain == '') msg:set_sender(own)
         msg:set_recipient { 'a@b.test', own }
         local list = msg:recipient() assert(#list == 2 and list[2] == own and list[1].email == 'a@b.test')",
    );
    assert_eq!(draft.envelope.sender.as_str(), "\"odd one\"@new.test");
    assert_eq!(draft.envelope.recipients.len(), 2);
    assert_eq!(received("msg:set_recipient('only@b.test')").envelope.recipients[0].as_str(), "only@b.test");
}

#[test]
fn reports_are_tables() {
    let report = |kind: &str, part: &str, fields: &str| {
        let head = format!("Content-Type: multipart/report; report-type={kind}; boundary=b\r\n\r\n--b\r\n\r\nx\r\n");
        format!("{head}--b\r\nContent-Type: message/{part}\r\n\r\n{fields}\r\n--b--\r\n")
    };
    let run = |raw: &str, body: &str| received_with(body, draft_of(raw.as_bytes()), ConnMeta::new());
    let dsn = report(
        "delivery-status",
        "delivery-status",
        "Reporting-MTA: dns; mx.test\r\n\r\nFinal-Recipient: rfc822; a@b.test\r\nAction: failed\r\nStatus: 5.1.1\r\n\
         Diagnostic-Code: smtp; 550 no\r\nLast-Attempt-Date: Sat, 21 Nov 2026 22:45:29 +0100\r\n",
    );
    run(
        &dsn,
        "assert(msg:parse_rfc5965() == nil) local r = msg:parse_rfc3464()
         local m = r.per_message.reporting_mta assert(m.mta_type == 'dns' and m.name == 'mx.test')
         local p = r.per_recipient[1] assert(p.final_recipient.recipient == 'a@b.test' and p.original_recipient == nil)
         assert(p.action == 'failed' and p.status.class == 5 and p.status.subject == 1 and p.status.detail == 1)
         assert(p.diagnostic_code.diagnostic_type == 'smtp' and p.diagnostic_code.diagnostic == '550 no')
         assert(p.last_attempt_date:find '^2026%-11%-21T21:45:29')",
    )
    .expect("a report");
    let arf = report("feedback-report", "feedback-report", "Feedback-Type: abuse\r\nUser-Agent: x\r\nVersion: 1\r\n");
    run(
        &arf,
        "assert(msg:parse_rfc3464() == nil) local r = msg:parse_rfc5965()
         assert(r.feedback_type == 'abuse' and r.version == '1' and r.original_rcpto_to[1] == nil)",
    )
    .expect("a report");
    received("assert(msg:parse_rfc3464() == nil and msg:parse_rfc5965() == nil)");
    let broken = run(&dsn.replace("Status: 5.1.1", "Status: 9"), "msg:parse_rfc3464()").expect_err("malformed");
    assert_has(&broken.to_string(), &["msg:parse_rfc3464", "Status", "`9`"]);
}

#[test]
fn bad_addresses_are_named() {
    assert_has(&error_of("msg:set_sender('no at sign')"), &["msg:set_sender", "no at sign"]);
    assert_has(&error_of("msg:set_sender(5)"), &["msg:set_sender: expected an address", "found integer"]);
    assert_has(&error_of("msg:set_sender(conn_meta)"), &["found other userdata"]);
    assert_has(&error_of("msg:set_sender('a\\xff@b.test')"), &["is not UTF-8"]);
    assert_has(&error_of("msg:set_recipient('')"), &["msg:set_recipient: the null address"]);
    assert_has(&error_of("msg:set_recipient {}"), &["an empty list: expected at least one address"]);
    assert_has(&error_of("msg:set_recipient { 'a@b.test', 'x@' }"), &["msg:set_recipient: \"x@\""]);
}

#[test]
fn metadata_keeps_json_values() {
    let draft = received(
        "for name, value in pairs { s = 'text', i = 7, f = 1.5, w = 2.0, b = false, e = {}, l = { 'a', { 'b' } }, m = { k = { 1 } } } do
           msg:set_meta(name, value)
         end
         assert(msg:get_meta 's' == 'text' and msg:get_meta 'b' == false and msg:get_meta 'f' == 1.5)
         assert(math.type(msg:get_meta 'i') == 'integer' and math.type(msg:get_meta 'w') == 'float')
         assert(msg:get_meta('l')[2][1] == 'b' and msg:get_meta('m').k[1] == 1 and next(msg:get_meta 'e') == nil)
         local copy = msg:get_meta 'm' copy.k = 'changed' assert(msg:get_meta('m').k[1] == 1)
         msg:set_meta('gone', 1) msg:set_meta('gone', nil) assert(msg:get_meta 'gone' == nil and msg:get_meta 'never' == nil)",
    );
    let expected =
        [("l", json!(["a", ["b"]])), ("m", json!({"k": [1]})), ("i", json!(7)), ("w", json!(2.0)), ("e", json!({}))];
    expected.iter().for_each(|(name, value)| assert_eq!(draft.meta.get(name), Some(value), "{name}"));
    assert_eq!(draft.meta.as_map().get("gone"), Some(&serde_json::Value::Null), "nil is stored as null");
}

#[test]
fn members_come_in_one_order_in_every_state() {
    let draft = received("msg:set_meta('m', { zeta = 1, alpha = 2, mid = 3, beta = 4, omega = 5 })");
    let text = draft.meta.get("m").map(ToString::to_string);
    assert_eq!(text.as_deref(), Some(r#"{"alpha":2,"beta":4,"mid":3,"omega":5,"zeta":1}"#));
}

#[test]
fn metadata_that_json_cannot_hold_is_refused() {
    for (value, words) in [
        ("function() end", &["msg:set_meta `x`", "value: a function cannot be stored"][..]),
        ("{ a = { msg } }", &["a[1]: a userdata cannot be stored"]),
        ("{ a = 'gr\\xff' }", &["a: string", "is not UTF-8"]),
        ("0/0", &["expected a finite number"]),
        ("{ 1, 2, x = 3 }", &["list items and the name `x`"]),
        ("{ 1, nil, 3 }", &["a list without item 2"]),
        ("{ [true] = 1 }", &["a boolean as key"]),
    ] {
        assert_has(&error_of(&format!("msg:set_meta('x', {value})")), words);
    }
    assert_has(&error_of("local t = {} t.t = t msg:set_meta('x', t)"), &["nested deeper than 64 levels"]);
    assert_has(
        &error_of("local t = { 1 } for _ = 1, 30 do t = { t, t } end msg:set_meta('x', t)"),
        &["more than 1000000 values"],
    );
    assert_has(&error_of("msg:set_meta()"), &["bad argument"]);
    assert_has(&error_of("msg:set_meta({}, 1)"), &["bad argument", "String"]);
}

#[test]
fn the_queue_name_follows_metadata() {
    received(
        "msg:set_meta('tenant', 't') assert(msg:queue_name() == 't@to.test')
         msg:set_meta('campaign', 'c') assert(msg:queue_name() == 'c:t@to.test')
         msg:set_meta('routing_domain', 'r.test') assert(msg:queue_name() == 'c:t@to.test!r.test')
         msg:set_meta('queue', 'null') assert(msg:queue_name() == 'null')",
    );
    assert_has(&error_of("msg:set_meta('tenant', 5) msg:queue_name()"), &["meta `tenant` is 5: expected a string"]);
}

#[test]
fn due_is_a_date_or_now() {
    let draft =
        received("assert(msg:set_due '2030-01-02T03:04:05+01:00' == '2030-01-02T02:04:05Z') msg:set_force_sync(true)");
    assert_eq!(draft.due, WallTime::from_unix_secs(1_893_549_845));
    assert!(received("assert(msg:set_due(nil):match '^20%d%d%-')").due > WallTime::from_unix_secs(1_700_000_000));
    assert_has(&error_of("msg:set_due 'tomorrow'"), &["msg:set_due \"tomorrow\"", "RFC 3339"]);
}

#[test]
fn constraints_are_set_imported_and_cleared() {
    let set = "local found = msg:set_scheduling { first_attempt = '2030-01-02T03:04:05Z' } assert(found.first_attempt == '2030-01-02T03:04:05Z')";
    let scheduling = |draft: &message::Draft| queue::schedule::of(&draft.meta);
    let draft = received(set);
    assert_eq!(scheduling(&draft).map(|s| s.next_attempt(0)), Some(1_893_553_445_000_000));
    assert_eq!(scheduling(&received(&format!("{set} assert(msg:set_scheduling(nil) == nil)"))), None);
    let raw = b"X-Schedule: {\"expires\": \"2030-01-02T03:04:05Z\"}\r\nSubject: s\r\n\r\nbody\r\n";
    let import = "assert(msg:import_scheduling_header('X-Schedule', true).expires) assert(msg:import_scheduling_header('X-Other', true) == nil)";
    let mut draft = received_with(import, draft_of(raw), ConnMeta::new()).expect("sound script");
    assert!(scheduling(&draft).is_some_and(|s| s.expires.is_some()));
    assert!(!String::from_utf8_lossy(&draft.data()).contains("X-Schedule"));
    assert_has(&error_of("msg:set_scheduling { dow = 'Mon' }"), &["msg:set_scheduling", "`tz`", "missing"]);
    assert_has(&error_of("msg:set_scheduling { expires = 'soon' }"), &["expires", "soon", "RFC 3339"]);
}

#[test]
fn content_is_binary_safe() {
    let raw: Vec<u8> = [b"A: b\r\n\r\n".as_slice(), &(0..=255).collect::<Vec<u8>>()].concat();
    let draft = received_with("msg:set_data(msg:get_data() .. '\\0\\xff')", draft_of(&raw), ConnMeta::new());
    assert_eq!(draft.expect("sound script").data(), [raw.as_slice(), b"\0\xff"].concat());
    let draft = received(
        "msg:prepend_header('X-New', 'v') assert(msg:get_data():match '^X%-New: v\\r\\nFrom') msg:set_data('From: x@y.test\\r\\n\\r\\nnew')",
    );
    assert_eq!(draft.clone().data(), &b"From: x@y.test\r\n\r\nnew"[..]);
    assert_eq!(draft.clone().headers().len(), 1);
}

#[test]
fn a_kept_message_gives_errors_only() {
    let loaded =
        load("kumo.on('smtp_server_message_received', function(msg) if kept then kept:id() end kept = msg end)");
    assert!(now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).is_ok());
    let second = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new()));
    assert_has(&format!("{second:?}"), &["msg is used after its event has ended"]);

    let rejected = "if kept then kept:get_data() end kept = msg kumo.reject(550, 'no')";
    let loaded = load(&format!("kumo.on('smtp_server_message_received', function(msg) {rejected} end)"));
    assert!(now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).is_err());
    let second = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new()));
    assert_has(&format!("{second:?}"), &["msg is used after its event has ended"]);
}

#[test]
fn conn_meta_is_shared_by_the_events_of_a_connection() {
    let loaded = load(
        "kumo.on('smtp_server_connection_accepted', function(conn) conn:set_meta('seen', { at = 1 }) end)
         kumo.on('smtp_server_data', function(msg, conn) assert(conn:get_meta('seen').at == 1) assert(conn:get_meta 'none' == nil) end)
         kumo.on('smtp_server_mail_from', function(sender, conn) conn:set_meta('f', print) end)",
    );
    let conn = ConnMeta::new();
    now(loaded.policy.smtp_server_connection_accepted(conn.clone())).expect("sound handler");
    assert_eq!(conn.get("seen"), Some(json!({"at": 1})));
    now(loaded.policy.smtp_server_data(draft(), conn.clone())).expect("sound handler");
    let error = now(loaded.policy.smtp_server_mail_from(smtp_wire::ReversePath(None), conn)).expect_err("a function");
    assert_has(&error.to_string(), &["conn_meta:set_meta `f`", "a function cannot be stored"]);
}
