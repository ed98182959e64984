//! What becomes of a request: messages as another parser reads them, and what is said of a wrong one.

use clock::WallTime;
use injection::{Generator, Injection, InjectionError};
use mail_parser::{MessageParser, MimeHeaders};
use message::{Draft, IdGenerator, Meta};
use serde_json::{Value, json};

fn injection(request: Value) -> Injection {
    serde_json::from_value(request).expect("a request of the right shape")
}

fn request(content: Value, recipients: Value) -> Value {
    json!({"envelope_sender": "s@from.test", "content": content, "recipients": recipients})
}

fn draft(generator: &Generator<'_>, number: usize) -> Result<Draft, String> {
    let id = IdGenerator::new([0; 6], 0).next(WallTime::EPOCH);
    generator.draft(number, id, Meta::new(), WallTime::EPOCH).map_err(|error| error.to_string())
}

fn texts(request: Value) -> Vec<Result<String, String>> {
    let injection = injection(request);
    let generator = Generator::new(&injection, 1).expect("templates compile");
    let text = |number| draft(&generator, number).map(|mut d| String::from_utf8(d.data().to_vec()).expect("ASCII"));
    (0..generator.len()).map(text).collect()
}

fn refusal(request: Value) -> InjectionError {
    Generator::new(&injection(request), 1).err().expect("it is refused")
}

#[test]
fn texts_and_attachments_become_a_message_each_reader_understands() {
    let content = json!({
        "from": {"email": "news@from.test", "name": "{{ brand }}, Inc."},
        "reply_to": {"email": "re@from.test"},
        "subject": "Grüße an {{ name }}",
        "text_body": "Hello {{ first }} <3",
        "html_body": "<b>Hello {{ first }}</b><img src='cid:logo@x'>",
        "amp_html_body": "<html amp4email>{{ first }}</html>",
        "headers": {"X-Who": "{{ email }}", "Subject": "overwritten"},
        "attachments": [
            {"data": "AAEC/w==", "base64": true, "content_type": "image/png", "content_id": "logo@x", "file_name": "l.png"},
            {"data": "a,b {{ first }}", "content_type": "text/csv", "file_name": "t.csv"},
        ],
    });
    let recipients = json!([
        {"email": "ann@to.test", "name": "Ann", "substitutions": {"first": "A & B"}, "metadata": {"order": 7}},
        {"email": "bob@to.test"},
    ]);
    let mut request = request(content, recipients);
    request["substitutions"] = json!({"brand": "Acme", "first": "you", "email": "hidden"});
    let injection = injection(request);
    let generator = Generator::new(&injection, 1).expect("sound");
    let mut first = draft(&generator, 0).expect("a message");
    assert_eq!(first.meta.get("extra"), Some(&json!({"order": 7})));
    assert_eq!((first.envelope.sender.as_str(), first.envelope.recipients[0].as_str()), ("s@from.test", "ann@to.test"));
    let data = first.data();
    let message = MessageParser::new().parse(&data[..]).expect("a message");
    assert_eq!(message.subject(), Some("Grüße an Ann"));
    let from = message.from().and_then(|from| from.first()).expect("From");
    assert_eq!((from.name(), from.address()), (Some("Acme, Inc."), Some("news@from.test")));
    let to = message.to().and_then(|to| to.first()).expect("To");
    assert_eq!((to.name(), to.address()), (Some("Ann"), Some("ann@to.test")));
    assert_eq!(message.header_raw("X-Who").map(str::trim), Some("ann@to.test"));
    assert_eq!(message.header_raw("Reply-To").map(str::trim), Some("re@from.test"));
    assert_eq!(message.body_text(0).as_deref(), Some("Hello A & B <3\r\n"));
    assert_eq!(message.body_html(0).as_deref(), Some("<b>Hello A &amp; B</b><img src='cid:logo@x'>\r\n"));
    assert!(message.header("Date").is_none() && message.header("Message-ID").is_none());
    let attached: Vec<_> =
        message.attachments().map(|part| (part.attachment_name(), part.contents().to_vec())).collect();
    assert!(attached.contains(&(Some("l.png"), vec![0, 1, 2, 255])), "{attached:?}");
    assert!(attached.contains(&(Some("t.csv"), b"a,b {{ first }}".to_vec())), "not a template: {attached:?}");
    let second = String::from_utf8(draft(&generator, 1).expect("a message").data().to_vec()).expect("ASCII");
    assert!(second.contains("To: bob@to.test\r\n") && second.contains("Hello you <3"), "{second}");
    assert!(
        second.contains("X-Who: bob@to.test\r\n"),
        "the recipient's own address wins over what all share: {second}"
    );
}

#[test]
fn a_whole_message_is_a_template_and_is_made_sendable() {
    let text = "From: a@b.test\nTo: {{ to_header }}\nSubject: Grüße\n\nHi {{ name }}, {{ missing }}é";
    let made = texts(request(json!(text), json!([{"email": "x@y.test", "name": "Zoë"}, {"email": "z@y.test"}])));
    let first = made[0].as_ref().expect("a message");
    assert!(first.contains("To: =?UTF-8?Q?Zo=C3=AB?= <x@y.test>\r\n"), "{first}");
    assert!(first.contains("MIME-Version: 1.0\r\n") && first.contains("Subject: =?"), "{first}");
    assert!(first.is_ascii() && !first.replace("\r\n", "").contains('\n'), "{first}");
    let body =
        |text: &str| MessageParser::new().parse(text).and_then(|m| m.body_text(0).map(|t| t.trim_end().to_owned()));
    assert_eq!(body(first).as_deref(), Some("Hi Zoë, é"));
    let second = made[1].as_ref().expect("a message");
    assert!(second.contains("To: z@y.test\r\n"), "{second}");
    assert_eq!(body(second).as_deref(), Some("Hi , é"), "who has no name");
}

#[test]
fn recipients_share_a_body_when_nothing_differs() {
    for content in [json!({"text_body": "one for all", "subject": "s"}), json!("Subject: s\r\n\r\none for all\r\n")] {
        let recipients = json!([{"email": "a@to.test"}, {"email": "b@to.test", "name": "B"}]);
        let injection = injection(request(content.clone(), recipients));
        let generator = Generator::new(&injection, 1).expect("sound");
        let mut drafts = [0, 1].map(|number| draft(&generator, number).expect("a message"));
        let [a, b] = [0, 1].map(|n| drafts[n].body().as_ptr());
        assert_eq!(a, b, "{content}");
        let heads = [0, 1].map(|n| String::from_utf8(drafts[n].head()).expect("ASCII"));
        assert_eq!(
            heads[1].contains("To: \"B\" <b@to.test>") || heads[1].contains("To: B <b@to.test>"),
            content.is_object()
        );
        assert!(!heads[0].contains("b@to.test"), "nobody learns of another");
    }
}

#[test]
fn the_dialect_decides_what_is_a_template() {
    let content = json!({"text_body": "{{ name }} {{#if vip}}!{{/if}}", "headers": {"To": "undisclosed-recipients:;"}});
    let mut request = request(content, json!([{"email": "a@b.test", "name": "Ann", "substitutions": {"vip": true}}]));
    request["template_dialect"] = json!("Static");
    let made = texts(request.clone());
    assert!(made[0].as_ref().expect("made").contains("{{ name }} {{#if vip}}!{{/if}}"));
    assert_eq!(made[0].as_ref().expect("made").matches("To:").count(), 1, "the request says to whom");
    request["template_dialect"] = json!("Handlebars");
    assert!(texts(request)[0].as_ref().expect("made").contains("Ann !"));
}

#[test]
fn what_is_wrong_has_its_place() {
    let to = json!([{"email": "a@b.test"}]);
    for (content, pointer) in [
        (json!({"subject": "x"}), "/content"),
        (json!({"text_body": "{{ open"}), "/content/text_body"),
        (json!({"text_body": "", "html_body": "{% if %}"}), "/content/html_body"),
        (json!({"text_body": "", "headers": {"X y": "1"}}), "/content/headers/X y"),
        (json!({"text_body": "", "headers": {"a/b": "{{"}}), "/content/headers/a~1b"),
        (json!({"text_body": "", "headers": {"content-type": "x/y"}}), "/content/headers/content-type"),
        (json!({"text_body": "", "from": {"email": "{{ x", "name": ""}}), "/content/from/email"),
        (json!({"text_body": "", "from": {"email": "nobody"}}), "/content"),
        (
            json!({"text_body": "", "attachments": [{"data": "*", "base64": true, "content_type": "a/b"}]}),
            "/content/attachments/0/data",
        ),
        (json!({"text_body": "", "attachments": [{"data": "", "content_type": "a b"}]}), "/content/attachments/0"),
        (json!({"text_body": "", "subject": "a\r\nBcc: x@y.test"}), "/content"),
        (json!("{{ open"), "/content"),
    ] {
        let error = refusal(request(content.clone(), to.clone()));
        assert_eq!(error.pointer, pointer, "{content}: {error}");
    }
    let mut wrong = request(json!("Subject: x\r\n\r\n"), to);
    wrong["envelope_sender"] = json!("no sender");
    assert_eq!(refusal(wrong).pointer, "/envelope_sender");
}

#[test]
fn what_is_wrong_with_one_recipient_leaves_the_others() {
    let content = json!({"text_body": "x", "headers": {"X-Who": "{{ who }}"}});
    let recipients = json!([
        {"email": "no address"},
        {"email": "a@b.test", "substitutions": {"who": "x\r\nBcc: evil@b.test"}},
        {"email": "b@b.test", "substitutions": {"who": "me"}},
    ]);
    let made = texts(request(content, recipients));
    assert!(made[0].as_ref().is_err_and(|why| why.starts_with("no address: ")), "{:?}", made[0]);
    assert!(made[1].as_ref().is_err_and(|why| why.starts_with("a@b.test: header X-Who: ")), "{:?}", made[1]);
    assert!(made[2].as_ref().is_ok_and(|text| text.contains("X-Who: me\r\n")), "{:?}", made[2]);
}

#[test]
fn errors_are_short_and_headers_few() {
    let content =
        json!({"text_body": "x", "subject": "{% for i in range(20000) %}xxxxxxxxxx{% endfor %}\r\nBcc: a@b.test"});
    let made = texts(request(content, json!([{"email": "a@b.test"}, {"email": "x".repeat(100_000)}])));
    let octets: Vec<usize> = made.iter().map(|text| text.as_ref().expect_err("wrong").len()).collect();
    assert!(octets.iter().all(|octets| *octets < 1100), "{octets:?}");
    let headers: serde_json::Map<String, Value> = (0..300).map(|n| (format!("X-{n}"), json!("x"))).collect();
    let error = refusal(request(json!({"text_body": "x", "headers": headers}), json!([])));
    assert_eq!(error.to_string(), "/content/headers: 300 headers: expected at most 256");
}

#[test]
fn unknown_fields_are_refused_on_every_level() {
    let sound = request(json!({"text_body": "x", "attachments": []}), json!([{"email": "a@b.test"}]));
    for (place, field) in [("", "sender"), ("/recipients/0", "mail"), ("/content", "body"), ("/trace_headers", "name")]
    {
        let mut wrong = sound.clone();
        wrong["trace_headers"] = json!({});
        wrong.pointer_mut(place).and_then(Value::as_object_mut).expect("an object").insert(field.into(), json!(1));
        let error = serde_json::from_value::<Injection>(wrong).expect_err("unknown").to_string();
        assert!(error.contains(&format!("unknown field `{field}`")), "{error}");
    }
    assert!(serde_json::from_value::<Injection>(request(json!(7), json!([]))).is_err());
    let shown = serde_json::to_value(injection(sound)).expect("JSON");
    assert_eq!(injection(shown.clone()).recipients[0].email, "a@b.test", "{shown}");
}

#[test]
fn portions_have_all_recipients_once() {
    let all: Vec<Value> = (0..7).map(|n| json!({"email": format!("{n}@b.test")})).collect();
    let whole = injection(request(json!("x: y\r\n\r\n"), json!(all)));
    let mut filled = whole.clone();
    filled.substitutions.insert("x".to_owned(), json!("y".repeat(1000)));
    assert_eq!(filled.common_octets() - whole.common_octets(), r#","substitutions":{"x":""}"#.len() + 1000);
    assert!(whole.common_octets() > 8 && !whole.recipients.is_empty());
    let portions: Vec<Injection> = whole.portions(3).collect();
    assert_eq!(portions.iter().map(|p| p.recipients.len()).collect::<Vec<_>>(), [3, 3, 1]);
    let emails: Vec<&str> = portions.iter().flat_map(|p| &p.recipients).map(|r| r.email.as_str()).collect();
    assert_eq!(emails, ["0@b.test", "1@b.test", "2@b.test", "3@b.test", "4@b.test", "5@b.test", "6@b.test"]);
}
