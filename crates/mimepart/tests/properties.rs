//! Properties over arbitrary octets and over made-up mail: nothing panics, nothing is lost, what is written reads back.

use bytes::Bytes;
use clock::WallTime;
use mail_parser::MessageParser;
use mimepart::{
    AddrSpec, Address, AttachmentOptions, Builder, CheckFixSettings, Conformance, Content, FIELDS, FieldValue, Group,
    Mailbox, MimeParams, MimePart, Outcome, PartId, TypedField, append_text, check_fix,
};
use proptest::prelude::*;

/// Octets that make structure likely, arbitrary ones among them.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\r\n".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        3 => Just(b"Content-Type: multipart/mixed; boundary=b\r\n".to_vec()),
        2 => Just(b"Content-Type: multipart/related; boundary=\"b c\"\r\n".to_vec()),
        1 => Just(b"Content-Type: text/html; charset=iso-8859-1\r\n".to_vec()),
        1 => Just(b"Content-Type: message/rfc822\r\n".to_vec()),
        1 => Just(b"Content-Transfer-Encoding: base64\r\n".to_vec()),
        1 => Just(b"Content-Transfer-Encoding: quoted-printable\r\n".to_vec()),
        1 => Just(b"Content-Disposition: attachment; filename*0*=x''%41; filename*1=\"q\r\n".to_vec()),
        1 => Just("Subject : gr\u{fc}n =?utf-8?q?=C3?=\r\n ".as_bytes().to_vec()),
        1 => Just(b"From: <a@b>, \"q\" (c) [d] x: y;\r\nno colon\r\n".to_vec()),
        5 => Just(b"--b\r\n".to_vec()),
        2 => Just(b"--b c\n".to_vec()),
        2 => Just(b"--b--\r\n".to_vec()),
        1 => Just(b"--b c--".to_vec()),
        2 => Just(b"text =C3=BC= \t".to_vec()),
        2 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|p| p.concat())
}

/// A leaf with content of some kind.
fn leaf() -> impl Strategy<Value = MimePart> {
    prop_oneof![
        "(\\PC|\r?\n| |--b){0,60}".prop_map(|text| MimePart::new_text("text/plain", &text).expect("text")),
        "[ -~\r\n]{0,200}".prop_map(|text| MimePart::new_html(&text).expect("text")),
        (proptest::collection::vec(any::<u8>(), 0..200), proptest::option::of("\\PC{0,80}"), any::<bool>()).prop_map(
            |(data, file_name, inline)| {
                let options = AttachmentOptions { file_name, inline, content_id: None };
                MimePart::new_binary("application/octet-stream", &data, Some(&options)).expect("valid")
            }
        ),
    ]
}

/// A tree of parts that share boundaries by intent.
fn tree() -> impl Strategy<Value = MimePart> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        (proptest::collection::vec(inner, 1..4), prop_oneof![Just("b"), Just("b.1"), Just("b c"), Just("bb")]).prop_map(
            |(parts, boundary)| MimePart::new_multipart("multipart/mixed", parts, Some(boundary), 0).expect("valid"),
        )
    })
}

fn ids(part: &MimePart, id: &PartId, out: &mut Vec<PartId>) {
    out.push(id.clone());
    for (place, child) in part.children().enumerate() {
        ids(child, &id.child(place), out);
    }
}

/// Contents of all leaves in order.
fn contents(part: &MimePart) -> Vec<(String, Content)> {
    let mut all = Vec::new();
    ids(part, &PartId::ROOT, &mut all);
    let leaves = all.iter().filter_map(|id| part.part(id)).filter(|p| !p.is_multipart());
    leaves.map(|p| (p.content_type().value, p.body())).collect()
}

/// Text as lines ended by CRLF.
fn canonical(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let text = if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" };
    text.replace('\n', "\r\n")
}

fn reparsed(part: &MimePart) -> MimePart {
    MimePart::parse(part.to_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn an_untouched_message_is_written_as_it_came(raw in prop_oneof![soup(), proptest::collection::vec(any::<u8>(), 0..300)]) {
        let message = MimePart::parse(raw.clone());
        prop_assert_eq!(message.to_bytes(), raw);
    }

    #[test]
    fn readers_and_fixers_never_panic(raw in soup(), html in any::<bool>(), detect in any::<bool>()) {
        let message = MimePart::parse(raw.clone());
        let mut all = Vec::new();
        ids(&message, &PartId::ROOT, &mut all);
        for id in &all {
            let part = message.part(id).expect("listed");
            let _ = (part.body(), part.simple_structure(), part.to_string());
            for header in part.headers().iter(None) {
                let _ = header.value();
            }
            for field in &FIELDS {
                let _ = part.headers().get_typed(field);
            }
        }
        let _ = append_text(raw.clone(), "x", html);
        let settings = CheckFixSettings { detect_encoding: detect, ..CheckFixSettings::default() };
        let raw = Bytes::from(raw);
        let outcome = check_fix(&raw, Conformance::NONE, Conformance::ALL, &settings, WallTime::EPOCH, 1);
        let octets = match outcome.expect("default settings") {
            Outcome::Fixed(octets) => octets,
            _ => raw.to_vec(),
        };
        let fixed = MimePart::parse(octets.clone());
        prop_assert_eq!(Conformance::of(&octets, &fixed).to_string(), "", "{}", String::from_utf8_lossy(&octets));
        let shape = |part: &MimePart| { let mut out = Vec::new(); ids(part, &PartId::ROOT, &mut out); out };
        prop_assert_eq!(shape(&fixed), all, "{}", String::from_utf8_lossy(&octets));
    }

    #[test]
    fn a_built_tree_reads_back(tree in tree()) {
        let again = reparsed(&tree);
        prop_assert_eq!(contents(&again), contents(&tree));
        let octets = tree.to_bytes();
        prop_assert!(octets.is_ascii() && octets.split(|&b| b == b'\n').all(|line| line.len() <= 999));
        let rebuilt = tree.rebuild().expect("valid");
        prop_assert_eq!(contents(&reparsed(&rebuilt)), contents(&tree));
    }

    #[test]
    fn a_new_body_reads_back_and_others_stay(
        tree in tree(), which in any::<prop::sample::Index>(), text in "(\\PC|\r?\n|\t| |--b|--b c--|A: 1){0,80}",
    ) {
        let mut message = reparsed(&tree);
        let mut all = Vec::new();
        ids(&message, &PartId::ROOT, &mut all);
        let leaves: Vec<_> = all.into_iter().filter(|id| !message.part(id).expect("listed").is_multipart()).collect();
        let which = which.index(leaves.len());
        let mut expect = contents(&message);
        expect[which].1 = match &expect[which].1 {
            Content::Text(_) => Content::Text(canonical(&text)),
            Content::Octets(_) => Content::Octets(text.clone().into_bytes()),
        };
        message.part_mut(&leaves[which]).expect("listed").set_body(text.as_bytes()).expect("writable");
        prop_assert_eq!(&contents(&message), &expect);
        prop_assert_eq!(&contents(&reparsed(&message)), &expect);
    }

    #[test]
    fn edits_of_soup_read_back(raw in soup(), which in any::<prop::sample::Index>(), child in tree()) {
        let mut message = MimePart::parse(raw);
        let mut all = Vec::new();
        ids(&message, &PartId::ROOT, &mut all);
        let which = &all[which.index(all.len())];
        message.part_mut(which).expect("listed").headers_mut().append("X-New", "1").expect("valid");
        prop_assert!(reparsed(&message).part(which).is_some_and(|p| p.headers().get_first_named("x-new").is_some()));
        let before = message.part(which).expect("listed").children().len();
        if message.append_part(which, &child).is_ok() {
            let again = reparsed(&message);
            let parent = again.part(which).expect("still there");
            prop_assert_eq!(parent.children().len(), before + 1);
            prop_assert_eq!(contents(parent.part(&PartId::ROOT.child(before)).expect("new")), contents(&child));
        }
    }

    #[test]
    fn another_reader_sees_the_same_text(plain in "(\\PC|\n| ){1,200}", html in "(\\PC|\n| ){1,200}", data in proptest::collection::vec(any::<u8>(), 1..200)) {
        let mut builder = Builder::new();
        builder.text_plain(&plain);
        builder.text_html(&html);
        builder.attach("application/octet-stream", &data, None).expect("valid");
        let octets = builder.build(WallTime::EPOCH, 1).expect("something").to_bytes();
        let seen = MessageParser::default().parse(&octets).expect("a message");
        let plain = canonical(&plain);
        let html = canonical(&html);
        prop_assert_eq!(seen.body_text(0).map(|text| text.into_owned()), Some(plain));
        prop_assert_eq!(seen.body_html(0).map(|text| text.into_owned()), Some(html));
        prop_assert_eq!(seen.attachment(0).map(|a| a.contents().to_vec()), Some(data));
    }

    #[test]
    fn parameters_read_back(value in "[a-z]{1,10}/[a-z.+-]{1,10}", name in "[a-z][a-z0-9-]{0,20}", text in "\\PC{0,200}|[\\x00-\\x7f]{0,50}") {
        let meant = MimeParams::new(&value).with(&name, &text);
        let mut part = MimePart::default();
        let field = TypedField::by_accessor("content_type").expect("in the table");
        part.headers_mut().set_typed(field, &FieldValue::MimeParams(meant.clone())).expect("valid");
        prop_assert_eq!(reparsed(&part).headers().content_type(), Some(meant));
        prop_assert!(part.to_bytes().split(|&b| b == b'\n').all(|line| line.len() <= 100));
    }

    #[test]
    fn addresses_read_back(entries in proptest::collection::vec(address(), 0..5)) {
        let mut part = MimePart::default();
        let field = TypedField::by_accessor("to").expect("in the table");
        let meant = FieldValue::AddressList(entries);
        // a refusal is fine; something else read than was meant is not
        if part.headers_mut().set_typed(field, &meant).is_ok() {
            let read = reparsed(&part).headers().get_typed(field).expect("readable");
            prop_assert_eq!(read, Some(meant));
        }
    }

    #[test]
    fn ordinary_addresses_are_never_refused(name in "[a-zA-Z\u{e4}\u{4e2d},.\"\\\\()<>@:; ]{0,100}", local in "[a-z0-9.\" ]{1,30}") {
        let mailbox = Mailbox {
            name: Some(name.split(' ').filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")).filter(|n| !n.is_empty()),
            address: AddrSpec { local_part: local, domain: "example.com".into() },
        };
        let mut part = MimePart::default();
        let field = TypedField::by_accessor("sender").expect("in the table");
        part.headers_mut().set_typed(field, &FieldValue::Mailbox(mailbox.clone())).expect("ordinary");
        prop_assert_eq!(reparsed(&part).headers().get_typed(field), Ok(Some(FieldValue::Mailbox(mailbox))));
    }
}

fn mailbox() -> impl Strategy<Value = Mailbox> {
    (
        proptest::option::of("[^ ]{0,3}\\PC{0,40}[^ ]|[a-z ]{1,5}[a-z]"),
        "\\PC{0,10}|[a-z]{1,5}",
        "\\PC{0,10}|[a-z.]{1,9}",
    )
        .prop_map(|(name, local_part, domain)| Mailbox {
            name: name.map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()),
            address: AddrSpec { local_part, domain },
        })
}

fn address() -> impl Strategy<Value = Address> {
    prop_oneof![
        3 => mailbox().prop_map(Address::Mailbox),
        1 => ("[a-z]{1,9}", proptest::collection::vec(mailbox(), 0..3))
            .prop_map(|(name, entries)| Address::Group(Group { name, entries })),
    ]
}
