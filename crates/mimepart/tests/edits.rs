//! Edits of parts: what changes, and that nothing else does.

use mimepart::limits::{DEPTH_MAX, PARTS_MAX};
use mimepart::{MimePart, PartError, PartId, append_text};

const MIXED: &str = "Subject: s\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\npre\r\n--b\r\nX-A: 1\r\n\r\none\r\n\
    --b\r\nContent-Type: application/x; a=1\r\n\r\ntwo\r\n--b--\r\nepi";

fn first() -> PartId {
    PartId::ROOT.child(0)
}

fn edited(raw: &str, edit: impl FnOnce(&mut MimePart)) -> String {
    let mut message = MimePart::parse(raw.to_owned().into_bytes());
    edit(&mut message);
    String::from_utf8(message.to_bytes()).expect("ASCII")
}

fn with_body(raw: &str, id: &PartId, content: &[u8]) -> String {
    edited(raw, |m| m.part_mut(id).expect("a part").set_body(content).expect("writable"))
}

#[test]
fn a_body_is_encoded_as_it_needs() {
    let head = "pre\r\n--b\r\nX-A: 1\r\n";
    let cases: [(&[u8], &str); 4] = [
        (b"new\nlines", "\r\nnew\r\nlines\r\n"),
        (
            "gr\u{fc}n, und noch mehr davon".as_bytes(),
            "Content-Type: text/plain;\r\n\tcharset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\ngr=C3=BCn, und noch mehr davon\r\n",
        ),
        (
            "\u{65e5}\u{672c}".as_bytes(),
            "Content-Type: text/plain;\r\n\tcharset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n5pel5pysDQo=\r\n",
        ),
        (b"\xff\xfe", "Content-Transfer-Encoding: base64\r\n\r\n//4=\r\n"),
    ];
    for (content, expect) in cases {
        let all = MIXED.replace(&format!("{head}\r\none"), &format!("{head}{expect}"));
        assert_eq!(with_body(MIXED, &first(), content), all);
    }
    let binary = with_body(MIXED, &PartId::ROOT.child(1), b"ASCII");
    assert!(
        binary.contains("application/x; a=1\r\nContent-Transfer-Encoding: base64\r\n\r\nQVNDSUk=\r\n\r\n--b--"),
        "{binary}"
    );
}

#[test]
fn the_character_set_is_kept_while_it_does() {
    let raw = "Content-Type: text/html; charset=iso-8859-1; x=1\r\nContent-Transfer-Encoding: base64\r\n\r\neA==";
    assert_eq!(
        with_body(raw, &PartId::ROOT, b"new\n"),
        "Content-Type: text/html; charset=iso-8859-1; x=1\r\n\r\nnew\r\n"
    );
    let new = with_body(raw, &PartId::ROOT, "\u{fc} and more".as_bytes());
    assert!(new.starts_with("Content-Type: text/html;\r\n\tcharset=utf-8;\r\n\tx=1\r\n"), "{new}");
    let wide = with_body("Content-Type: text/plain; charset=utf-16\r\n\r\n", &PartId::ROOT, b"a");
    assert!(wide.contains("charset=utf-8"), "{wide}");
}

#[test]
fn messages_without_header_or_body_take_both() {
    assert_eq!(with_body("", &PartId::ROOT, b"x"), "\r\nx\r\n");
    assert_eq!(with_body("no header\r\n", &PartId::ROOT, b"A: 1\r\n"), "\r\nA: 1\r\n");
    assert_eq!(with_body("A: 1", &PartId::ROOT, b"x"), "A: 1\r\n\r\nx\r\n");
    assert_eq!(
        edited("no header\r\n", |m| m.headers_mut().append("A", "1").expect("valid")),
        "A: 1\r\n\r\nno header\r\n"
    );
    assert_eq!(edited("A: 1\r\n\r\nx", |m| assert_eq!(m.headers_mut().remove_all_named("a"), 1)), "\r\nx");
    let parts = edited("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n--b--", |m| {
        m.part_mut(&first()).expect("a part").set_body(b"x").expect("writable");
    });
    assert_eq!(parts, "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n\r\n--b--");
    let unended = with_body("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b", &first(), b"x");
    assert_eq!(unended, "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n");
    let open = edited("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n--b--", |m| {
        m.part_mut(&first()).expect("a part").headers_mut().append("A", "1").expect("valid");
    });
    assert_eq!(open, "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nA: 1\r\n\r\n--b--");
}

#[test]
fn a_body_is_replaced_with_its_type() {
    let new = edited(MIXED, |m| {
        let part = m.part_mut(&PartId::ROOT.child(1)).expect("a part");
        part.replace_body(b"<p>", Some("text/html")).expect("writable");
        assert!(matches!(part.replace_body(b"x", Some("html")), Err(PartError::ContentType { .. })));
    });
    assert_eq!(new, MIXED.replace("application/x; a=1\r\n\r\ntwo", "text/html\r\n\r\n<p>\r\n"));
    let new = edited("\r\nx", |m| {
        let body = b"--n\r\n\r\none\r\n--n--\r\n";
        m.replace_body(body, Some("multipart/mixed; boundary=n")).expect("writable");
        assert_eq!(m.children().len(), 1);
    });
    assert!(new.ends_with("--n\r\n\r\none\r\n--n--\r\n"), "{new}");
}

#[test]
fn parts_are_added_behind_the_others() {
    let child = MimePart::parse(b"X-New: 1\r\n\r\nnew".as_slice());
    let new = edited(MIXED, |m| m.append_part(&PartId::ROOT, &child).expect("a multipart"));
    assert_eq!(new, MIXED.replace("\r\n--b--", "\r\n--b\r\nX-New: 1\r\n\r\nnew\r\n--b--"));
    let open = "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\none";
    let new = edited(open, |m| m.append_part(&PartId::ROOT, &child).expect("a multipart"));
    assert_eq!(new, format!("{open}\r\n--b\r\nX-New: 1\r\n\r\nnew\r\n--b--\r\n"));
    let bare = edited("Content-Type: multipart/mixed\r\n\r\nnothing", |m| {
        m.append_part(&PartId::ROOT, &child).expect("a multipart");
        m.append_part(&PartId::ROOT, &child).expect("a multipart");
    });
    assert_eq!(MimePart::parse(bare.into_bytes()).children().len(), 2);
    let mut message = MimePart::parse(MIXED);
    let error = message.append_part(&first(), &child).expect_err("a leaf");
    assert_eq!(error.to_string(), "part \"0\" is text/plain, expected multipart/*: it cannot hold parts");
    let error = message.append_part(&PartId::ROOT.child(7), &child).expect_err("not there");
    assert_eq!(error, PartError::NoSuchPart { id: "7".into() });
}

#[test]
fn content_cannot_change_the_structure() {
    // a part that holds its parent's delimiter: a copy of the message inside itself, a text, a type changed by hand
    let message = MimePart::parse(MIXED);
    let twice = edited(MIXED, |m| m.append_part(&PartId::ROOT, &message).expect("a multipart"));
    let twice = MimePart::parse(twice.into_bytes());
    assert_eq!(twice.children().map(|c| c.children().len()).collect::<Vec<_>>(), [0, 0, 2]);

    let text = MimePart::parse(with_body(MIXED, &first(), b"a\r\n--b\r\n\r\nb\r\n--b--\r\n").into_bytes());
    assert_eq!(text.children().len(), 2);
    assert_eq!(text.part(&first()).expect("a part").body().into_bytes(), b"a\r\n--b\r\n\r\nb\r\n--b--\r\n");

    let renamed = edited(MIXED, |m| {
        m.headers_mut().remove_all_named("content-type");
        m.headers_mut().append("Content-Type", "multipart/mixed; boundary=\"new one\"").expect("valid");
    });
    let renamed = MimePart::parse(renamed.into_bytes());
    assert_eq!(renamed.children().len(), 2);
    assert_eq!(renamed.part(&first()).expect("a part").body().into_bytes(), b"one");
}

#[test]
fn growth_at_the_bound_and_past_it() {
    let leaf = MimePart::new_text_plain("x").expect("text");
    let wrap = |part: MimePart| MimePart::new_multipart("multipart/mixed", vec![part], None, 1);
    let deep = |levels: usize| (1..levels).try_fold(leaf.clone(), |part, _| wrap(part));
    assert!(deep(DEPTH_MAX).is_ok());
    assert!(matches!(deep(DEPTH_MAX + 1), Err(PartError::TooDeep { max: DEPTH_MAX })));
    let mut root = wrap(leaf.clone()).expect("a multipart");
    assert_eq!(
        root.append_part(&PartId::ROOT, &deep(DEPTH_MAX).expect("fits")),
        Err(PartError::TooDeep { max: DEPTH_MAX })
    );
    assert_eq!(root.append_part(&PartId::ROOT, &deep(DEPTH_MAX - 1).expect("fits")), Ok(()));

    let wide = |count: usize| MimePart::new_multipart("multipart/mixed", vec![leaf.clone(); count], None, 1);
    assert!(matches!(wide(PARTS_MAX), Err(PartError::TooManyParts { max: PARTS_MAX })));
    let mut most = wide(PARTS_MAX - 2).expect("fits");
    assert_eq!(most.append_part(&PartId::ROOT, &leaf), Ok(()));
    assert_eq!(most.append_part(&PartId::ROOT, &leaf), Err(PartError::TooManyParts { max: PARTS_MAX }));
}

#[test]
fn text_is_appended_to_what_people_read() {
    let appended = |raw: &str, text: &str, is_html: bool| {
        let new = append_text(raw.to_owned().into_bytes(), text, is_html).expect("writable");
        new.map(|octets| String::from_utf8(octets).expect("ASCII"))
    };
    let plain = "A: 1\r\n\r\nhello";
    assert_eq!(appended(plain, "bye", false).as_deref(), Some("A: 1\r\n\r\nhello\r\nbye\r\n"));
    assert_eq!(appended(plain, "bye", true), None);
    let html = "Content-Type: text/html\r\n\r\n<body>a</BODY></html>\r\n";
    assert_eq!(appended(html, "<p>", true), Some(html.replace("</BODY>", "<p></BODY>")));
    assert_eq!(appended(html, "<p>", false), None);
    let open = "Content-Type: text/html\r\n\r\n<p>a\r\n";
    assert_eq!(appended(open, "b", true).as_deref(), Some("Content-Type: text/html\r\n\r\n<p>a\r\nb\r\n"));
    assert_eq!(appended(MIXED, "x", false), Some(MIXED.replace("one\r\n", "one\r\nx\r\n\r\n")));
    let encoded = "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: base64\r\n\r\n/A==\r\n";
    let new = appended(encoded, "and more of it", false).expect("has text");
    assert_eq!(
        new,
        "Content-Type: text/plain;\r\n\tcharset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=C3=BC\r\nand more of it\r\n"
    );
    // What does not decode would be lost if it were written anew.
    assert_eq!(append_text(b"A: 1\r\n\r\ngr\xfcn".to_vec(), "x", false), Ok(None));
}
