//! `msg`: header fields read, edited and imported.

use crate::support::{assert_has, draft_of, error_of, received, received_with};
use policy::ConnMeta;
use serde_json::json;

#[test]
fn values_are_decoded() {
    received(
        "assert(msg:get_first_named_header_value 'subject' == 'gr\\u{fc}n')
         assert(msg:get_first_named_header_value 'absent' == nil)
         local all = msg:get_all_named_header_values 'X-TENANT' assert(#all == 2 and all[1] == 't1' and all[2] == 't2')
         assert(#msg:get_all_named_header_values 'absent' == 0)
         local pairs = msg:get_all_headers() assert(#pairs == 6 and pairs[4][1] == 'X-Tenant' and pairs[4][2] == 't1')",
    );
}

#[test]
fn address_headers() {
    received(
        "local from = msg:from_header()
         assert(from.user == 'one' and from.domain == 'from.test' and from.email == 'one@from.test' and from.name == 'Some One')
         assert(tostring(from) == '[{\"name\":\"Some One\",\"address\":{\"local_part\":\"one\",\"domain\":\"from.test\"}}]')
         local to = msg:to_header().list
         assert(#to == 2 and to[1].name == nil and to[2].name == 'B' and to[2].email == 'b@y.test' and to[2].user == 'b' and to[2].domain == 'y.test')
         assert(msg:get_address_header('TO').list[1].email == 'a@x.test' and msg:get_address_header 'Cc' == nil)",
    );
    assert_has(&error_of("return msg:to_header().domain"), &["holds 2 entries, expected exactly one mailbox"]);
    let bad = received_with("msg:from_header()", draft_of(b"From: <unclosed\r\n\r\n"), ConnMeta::new())
        .expect_err("malformed");
    assert_has(&bad.to_string(), &["header From:"]);
    let group = draft_of(b"To: team: a@x.test, B <b@y.test>;\r\n\r\n");
    let body = "assert(tostring(msg:to_header()):match '^%[{\"name\":\"team\",\"entries\":%[{') assert(#msg:to_header().list == 2)";
    received_with(body, group, ConnMeta::new()).expect("a group is a list");
}

#[test]
fn edits() {
    let mut draft = received(
        "msg:prepend_header('X-First', 'one') msg:append_header('X-Last', 'bytes \\xff')
         msg:prepend_header('Comments', 'gr\\u{fc}n', true) msg:remove_all_named_headers 'x-tenant' msg:remove_x_headers { 'X-CAMPAIGN', 'Absent' }",
    );
    let head = draft.head();
    let text = String::from_utf8_lossy(&head);
    assert!(text.starts_with("Comments: =?"), "{text}");
    assert_has(&text, &["\r\nX-First: one\r\nFrom:", "\r\nX-Last: bytes \u{fffd}\r\n\r\n"]);
    assert!(!text.to_lowercase().contains("x-tenant") && !text.contains("X-Campaign"), "{text}");
    assert!(head.contains(&0xff), "raw values are binary safe");
    let mut draft = received("msg:remove_x_headers()");
    assert_eq!(draft.headers().len(), 3);
}

#[test]
fn bad_edits_are_named_and_change_nothing() {
    assert_has(&error_of("msg:prepend_header('Bad Name', 'x')"), &["msg:prepend_header \"Bad Name\""]);
    assert_has(&error_of("msg:append_header('X', 'a\\r\\nInjected: yes')"), &["msg:append_header \"X\""]);
    assert_has(&error_of("msg:prepend_header('X')"), &["bad argument"]);
    assert_has(&error_of("msg:remove_x_headers 'X-One'"), &["bad argument"]);
    let mut draft = received("pcall(msg.prepend_header, msg, 'Bad Name', 'x')");
    assert_eq!(draft.headers().len(), 6);
}

#[test]
fn x_headers_become_metadata() {
    let draft = received("msg:import_x_headers()");
    assert_eq!(draft.meta.get("x_tenant"), Some(&json!("t1")), "the first of a name");
    assert_eq!(draft.meta.get("x_campaign"), Some(&json!("c1")));
    let draft = received("msg:import_x_headers { 'Subject' }");
    assert_eq!(draft.meta.as_map().len(), 1);
    assert_eq!(draft.meta.get("subject"), Some(&json!("gr\u{fc}n")));
}

#[test]
fn rules_import_headers() {
    let mut draft = received(
        "msg:import_headers { { name = 'X-Tenant', match = 'all', target = 'tenants', remove = true },
                              { name = 'X-Camp*', transform = 'pascal_case' }, { name = 'Absent' } }",
    );
    assert_eq!(draft.meta.get("tenants"), Some(&json!(["t1", "t2"])));
    assert_eq!(draft.meta.get("XCampaign"), Some(&json!("c1")));
    assert_eq!(draft.meta.as_map().len(), 2, "what does not match writes nothing");
    assert_eq!(draft.headers().all_values("x-tenant").len(), 0);
    let error = |rule: &str| error_of(&format!("msg:import_headers {{ {rule} }}"));
    assert_has(
        &error("{ name = 'X', mach = 'all' }"),
        &["msg:import_headers", "unknown field `mach`", "did you mean `match`"],
    );
    assert_has(&error("{ name = 'X', match = 'every' }"), &["unknown variant `every`", "`first`"]);
    assert_has(&error("{ match = 'all' }"), &["missing field `name`"]);
    assert_has(&error("{ name = 'X-*', target = 't' }"), &["wildcard", "target"]);
    assert_has(&error_of("msg:import_headers()"), &["msg:import_headers"]);
}

#[test]
fn authentication_results_have_every_field() {
    let mut draft = received(
        "msg:add_authentication_results('mx.test', { { method = 'spf', method_version = 2, result = 'fail', reason = 'not its host', \
         props = { ['smtp.mailfrom'] = 'a.test', ['smtp.helo'] = 'h.test' } }, { method = 'dkim', result = 'none' } })",
    );
    let value = draft.headers().first_value("Authentication-Results").expect("added");
    let said = value.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_has(
        &said,
        &[
            "mx.test;",
            "spf/2=fail",
            "reason=\"not its host\"",
            "smtp.mailfrom=a.test",
            "smtp.helo=h.test",
            "; dkim=none",
        ],
    );
    for (result, why) in [("{ method = 'spf' }", "result"), ("{ method = 'spf', result = 'pass', prop = {} }", "prop")]
    {
        let error = error_of(&format!("msg:add_authentication_results('mx.test', {{ {result} }})"));
        assert_has(&error, &["msg:add_authentication_results", why]);
    }
}
