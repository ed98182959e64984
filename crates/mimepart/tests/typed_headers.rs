//! Headers: order, edits, and every type of value, read and written.

use mimepart::{FIELDS, FieldKind, FieldValue, Header, Headers, MimePart, PartError, TypedField};
use serde_json::json;

fn headers(raw: &str) -> Headers {
    MimePart::parse(format!("{raw}\r\n").into_bytes()).headers().clone()
}

fn text(headers: &Headers) -> String {
    String::from_utf8(headers.to_bytes()).expect("ASCII")
}

fn field(accessor: &str) -> &'static TypedField {
    TypedField::by_accessor(accessor).expect("in the table")
}

fn value(json: serde_json::Value) -> FieldValue {
    serde_json::from_value(json).expect("a shape")
}

#[test]
fn fields_keep_their_order() {
    let mut all = headers("A: 1\r\nb: 2\r\nA: =?utf-8?q?=C3=BC?=\r\nodd line\r\n");
    let names = |h: &Headers, name| h.iter(name).map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(names(&all, None), ["A", "b", "A"]);
    assert_eq!(names(&all, Some("a")), ["A", "A"]);
    all.append("Z", "\u{fc}").expect("valid");
    all.prepend("Y", &"word ".repeat(30)).expect("valid");
    assert_eq!(all.remove_all_named("a"), 2);
    let y = "Y:".to_owned() + &" word".repeat(14) + "\r\n" + &" word".repeat(15) + "\r\n" + " word\r\n";
    assert_eq!(text(&all), y + "b: 2\r\nodd line\r\nZ: =?UTF-8?Q?=C3=BC?=\r\n");
    assert_eq!(all.get_first_named("z").map(|f| f.unstructured()).as_deref(), Some("\u{fc}"));
    assert_eq!(all.get_first_named("none"), None);
    assert!(matches!(all.append("a b", "x"), Err(PartError::Header(_))));
    assert!(matches!(all.append("a", "x\r\nBcc: y"), Err(PartError::Header(_))));
}

#[test]
fn the_table_has_every_accessor_once() {
    let mut accessors: Vec<_> = FIELDS.iter().filter_map(|f| f.accessor).collect();
    assert_eq!(accessors.len(), 20);
    for known in &FIELDS {
        assert_eq!(TypedField::by_name(&known.name.to_uppercase()), Some(known));
        let expected = known.name.to_ascii_lowercase().replace('-', "_");
        assert!(known.accessor.is_none_or(|accessor| accessor == expected), "{known:?}");
    }
    accessors.sort_unstable();
    accessors.dedup();
    assert_eq!(accessors.len(), 20);
}

#[test]
fn values_have_the_documented_shapes() {
    let mailbox = json!({"name": "Ann", "address": {"local_part": "a", "domain": "b"}});
    let nameless = json!({"address": {"local_part": "c", "domain": "d"}});
    let cases = [
        ("from", "Ann <a@b>, c@d", json!([mailbox, nameless])),
        ("sender", "Ann <a@b>", mailbox.clone()),
        ("to", "g: Ann <a@b>;, c@d", json!([{"name": "g", "entries": [mailbox]}, nameless])),
        ("reply_to", "", json!([])),
        ("message_id", "<x@y>", json!("x@y")),
        ("references", "<x@y>\r\n <z>", json!(["x@y", "z"])),
        ("subject", "=?utf-8?q?=C3=BC?= x", json!("\u{fc} x")),
        ("mime_version", "1.0", json!("1.0")),
        ("content_type", "text/plain; CharSet=x", json!({"value": "text/plain", "parameters": {"charset": "x"}})),
        ("content_transfer_encoding", "base64", json!({"value": "base64", "parameters": {}})),
    ];
    for (accessor, raw, shape) in cases {
        let field = field(accessor);
        let mut all = headers(&format!("X: 1\r\n{}: {raw}\r\n", field.name.to_lowercase()));
        let read = all.get_typed(field).expect("readable").expect("there");
        assert_eq!(serde_json::to_value(&read).expect("plain data"), shape, "{accessor}");
        // the shape given back, and the text given, are the same
        for given in [value(shape.clone()), FieldValue::Text(raw.replace("\r\n", ""))] {
            all.set_typed(field, &given).expect("compatible");
            let again = all.get_typed(field).expect("readable").expect("there");
            assert_eq!(serde_json::to_value(&again).expect("plain data"), shape, "{accessor}");
            assert_eq!(all.len(), 2);
        }
        assert_eq!(headers("X: 1\r\n").get_typed(field), Ok(None));
    }
    let header =
        Header { name: "authentication-results".into(), raw_value: b"mx; spf=pass smtp.mailfrom=a@b".to_vec() };
    assert_eq!(
        serde_json::to_value(header.value().expect("readable")).expect("plain data"),
        json!({"serv_id": "mx", "results": [{"method": "spf", "result": "pass", "props": {"smtp.mailfrom": "a@b"}}]})
    );
    let header = Header { name: "X-Other".into(), raw_value: b"Ann <a@b>".to_vec() };
    assert_eq!(header.value(), Ok(FieldValue::Text("Ann <a@b>".into())));
    assert!(matches!(header.value_as(FieldKind::MailboxList), Ok(FieldValue::MailboxList(list)) if list.len() == 1));
}

#[test]
fn incompatible_values_are_named() {
    let mut all = headers("From: a@b\r\nSender: x@y, z@w\r\n");
    let before = text(&all);
    let group = json!([{"name": "g", "entries": []}]);
    let cases = [
        ("from", FieldValue::Text("nobody".into())),
        ("from", FieldValue::Text("g: a@b;".into())),
        ("from", value(group)),
        ("from", value(json!({"value": "text/plain"}))),
        ("sender", FieldValue::Text("a@b, c@d".into())),
        ("to", value(json!(["x@y"]))),
        ("message_id", FieldValue::Text("<a b>\u{fc}".into())),
        ("message_id", value(json!(["x@y"]))),
        ("content_type", FieldValue::Text(";".into())),
        ("content_type", value(json!({"value": "a\r\nb"}))),
        ("subject", value(json!({"value": "x"}))),
        ("subject", FieldValue::Text("x\r\nBcc: y".into())),
        ("references", FieldValue::Text("<a".into())),
    ];
    for (accessor, given) in cases {
        let error = all.set_typed(field(accessor), &given).expect_err(accessor).to_string();
        assert!(error.contains(field(accessor).name), "{error}");
        assert_eq!(text(&all), before, "{accessor}");
    }
    let error = all.set_typed(field("from"), &FieldValue::Text("nobody".into())).expect_err("no address");
    assert_eq!(
        error.to_string(),
        "header From: \"nobody\" is not usable, expected a list of mailboxes (\"Name <user@domain>, user@domain\"): \
         address header: \"nobody\" is not an address, expected user@domain"
    );
    let error = all.get_typed(field("sender")).expect_err("two of them").to_string();
    assert!(error.starts_with("header Sender: \"x@y, z@w\" is not usable, expected one mailbox"), "{error}");
}

#[test]
fn setters_write_folded_and_encoded() {
    let mut all = headers("From: a@b\r\nX: 1\r\nFROM: c@d\r\n");
    // Not by `join`: with as many as the compiler can see it takes LLVM 22 two minutes.
    let long = (1..20).fold("M\u{fc}ller 0 <user0@example.com>".to_owned(), |long, n| {
        format!("{long}, M\u{fc}ller {n} <user{n}@example.com>")
    });
    all.set_typed(field("from"), &FieldValue::Text(long)).expect("compatible");
    all.set_typed(field("message_id"), &FieldValue::Text("a@b".into())).expect("compatible");
    all.set_typed(field("subject"), &FieldValue::Text("\u{20ac}".repeat(50))).expect("compatible");
    let written = text(&all);
    assert!(written.lines().all(|line| line.len() <= 78), "{written}");
    assert!(written.starts_with("From: =?UTF-8?Q?M=C3=BCller_0?= <user0@example.com>,\r\n =?UTF-8?Q?M"), "{written}");
    assert!(written.contains("\r\nX: 1\r\nMessage-ID: <a@b>\r\n"), "{written}");
    assert_eq!(written.matches("\nFROM").count(), 0);
}
