//! The tree of odd and ordinary mail: what is found in it, and that it is written as it came.

use mimepart::limits::{BOUNDARY_OCTETS_MAX, DEPTH_MAX, HEADER_BYTES_MAX, PARTS_MAX};
use mimepart::{Content, MimePart, PartId};

/// Ids and types of all parts, in order.
fn shown(part: &MimePart) -> Vec<String> {
    fn walk(part: &MimePart, id: &PartId, out: &mut Vec<String>) {
        out.push(format!("{id} {}", part.content_type().value).trim_start().to_owned());
        for (place, child) in part.children().enumerate() {
            walk(child, &id.child(place), out);
        }
    }
    let mut out = Vec::new();
    walk(part, &PartId::ROOT, &mut out);
    out
}

fn body(message: &MimePart, places: &[usize]) -> String {
    let id = places.iter().fold(PartId::ROOT, |id, place| id.child(*place));
    match message.part(&id).expect("a part").body() {
        Content::Text(text) => text,
        Content::Octets(octets) => String::from_utf8_lossy(&octets).into_owned(),
    }
}

#[test]
fn torture_samples_have_these_parts() {
    let mixed = "Content-Type: multipart/mixed; boundary=b\r\n\r\n";
    let cases: [(String, &[&str]); 16] = [
        (String::new(), &["text/plain"]),
        ("\r\n".into(), &["text/plain"]),
        ("no header here\r\n".into(), &["text/plain"]),
        ("Subject: only".into(), &["text/plain"]),
        ("Subject: \u{fc}\r\n\r\nbody".into(), &["text/plain"]),
        (
            format!("{mixed}pre\r\n--b\r\n\r\none\r\n--b\r\nContent-Type: text/html\r\n\r\ntwo\r\n--b--\r\nepi"),
            &["multipart/mixed", "0 text/plain", "1 text/html"],
        ),
        // the closing delimiter is missing
        (format!("{mixed}--b\r\n\r\none\r\n--b\r\n\r\ntwo"), &["multipart/mixed", "0 text/plain", "1 text/plain"]),
        // bare LF
        (format!("{mixed}--b\n\none\n--b--\n").replace("\r\n", "\n"), &["multipart/mixed", "0 text/plain"]),
        // what looks like the boundary, in the preamble and behind the end
        (
            format!("{mixed}x--b\r\n--bc\r\n --b\r\n--b \t\r\n\r\none\r\n--b--\r\n--b\r\n\r\nno"),
            &["multipart/mixed", "0 text/plain"],
        ),
        // parts without octets
        (format!("{mixed}--b\r\n--b\r\n\r\n--b--"), &["multipart/mixed", "0 text/plain", "1 text/plain"]),
        (format!("{mixed}--b"), &["multipart/mixed", "0 text/plain"]),
        // no delimiter at all, only a closing one, no boundary
        (format!("{mixed}text"), &["multipart/mixed"]),
        (format!("{mixed}--b--\r\n"), &["multipart/mixed"]),
        ("Content-Type: multipart/mixed\r\n\r\n--b\r\n\r\nx\r\n--b--".into(), &["multipart/mixed"]),
        // an inner multipart not closed; a message inside is content
        (
            format!(
                "{mixed}--b\r\nContent-Type: multipart/related; boundary=\"b c\"\r\n\r\n--b c\r\n\r\nin\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n{mixed}--x\r\n--b--"
            ),
            &["multipart/mixed", "0 multipart/related", "0.0 text/plain", "1 message/rfc822"],
        ),
        ("Content-Type: nonsense\r\n\r\nx".into(), &["text/plain"]),
    ];
    for (raw, parts) in cases {
        let message = MimePart::parse(raw.clone().into_bytes());
        assert_eq!(shown(&message), parts, "{raw}");
        assert_eq!(message.to_bytes(), raw.as_bytes());
    }
}

#[test]
fn bodies_are_decoded() {
    let raw = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\
        Content-Transfer-Encoding: Quoted-Printable\r\n\r\ngr=FCn\r\n--b\r\nContent-Type: application/x\r\n\
        Content-Transfer-Encoding: base64\r\n\r\n/wA=\r\n--b\r\nContent-Transfer-Encoding: x-unknown\r\n\r\nas is\r\n--b--\r\n";
    let message = MimePart::parse(raw.as_slice());
    assert_eq!(body(&message, &[0]), "gr\u{fc}n");
    assert_eq!(message.part(&PartId::ROOT.child(1)).map(MimePart::body), Some(Content::Octets(vec![0xff, 0])));
    assert_eq!(body(&message, &[2]), "as is");
    assert!(body(&message, &[]).starts_with("--b\r\nContent-Type: text/plain"));
    assert!(message.part(&PartId::ROOT.child(3)).is_none() && message.part(&PartId::ROOT.child(0).child(0)).is_none());
}

#[test]
fn texts_and_attachments_are_told_apart() {
    let part = |header: &str| format!("--m\r\n{header}\r\n\r\nx\r\n");
    let raw = "Content-Type: multipart/mixed; boundary=m\r\n\r\n".to_owned()
        + "--m\r\nContent-Type: multipart/alternative; boundary=a\r\n\r\n--a\r\n\r\nplain\r\n\
           --a\r\nContent-Type: text/x-amp-html\r\n\r\namp\r\n\
           --a\r\nContent-Type: multipart/related; boundary=r\r\n\r\n--r\r\nContent-Type: text/html\r\n\r\nhtml\r\n\
           --r\r\nContent-Type: image/png\r\nContent-ID: <pic@x>\r\n\r\nx\r\n--r--\r\n\
           --a--\r\n"
        + &part(
            "Content-Type: text/plain\r\nContent-Disposition: attachment; filename*1*=na%6De%E2%82%AC; filename*0*=utf-8''long%20",
        )
        + &part("Content-Type: text/plain; name=\"=?utf-8?q?=C3=BC?=.txt\"")
        + &part("Content-Disposition: ATTACHMENT")
        + &part("Content-Type: text/plain\r\nContent-Disposition: inline")
        + &part("Content-Type: message/rfc822")
        + "--m\r\nContent-Type: multipart/digest; boundary=d\r\n\r\n--d\r\n\r\nSubject: x\r\n\r\n--d--\r\n"
        + "--m--\r\n";
    let found = MimePart::parse(raw.into_bytes()).simple_structure();
    let id = |id: &Option<PartId>| id.as_ref().map(PartId::to_string);
    assert_eq!(id(&found.text_part).as_deref(), Some("0.0"));
    assert_eq!(id(&found.amp_html_part).as_deref(), Some("0.1"));
    assert_eq!(id(&found.html_part).as_deref(), Some("0.2.0"));
    assert_eq!(found.header_part, PartId::ROOT);
    let attachments: Vec<_> = found
        .attachments
        .iter()
        .map(|a| {
            (a.part.to_string(), a.content_type.as_str(), a.file_name.as_deref(), a.inline, a.content_id.as_deref())
        })
        .collect();
    assert_eq!(
        attachments,
        [
            ("0.2.1".to_owned(), "image/png", None, true, Some("pic@x")),
            ("1".to_owned(), "text/plain", Some("long name\u{20ac}"), false, None),
            ("2".to_owned(), "text/plain", Some("\u{fc}.txt"), false, None),
            ("3".to_owned(), "application/octet-stream", None, false, None),
            ("4".to_owned(), "text/plain", None, true, None),
            ("5".to_owned(), "message/rfc822", None, false, None),
            ("6.0".to_owned(), "message/rfc822", None, false, None),
        ]
    );
    let simple = |raw: &str| MimePart::parse(raw.to_owned().into_bytes()).simple_structure();
    assert_eq!(simple("hello\r\n").text_part, Some(PartId::ROOT));
    assert_eq!(simple("Content-Type: text/html\r\n\r\nx").html_part, Some(PartId::ROOT));
    let attached = simple("Content-Disposition: attachment\r\n\r\nx");
    assert_eq!((attached.text_part, attached.attachments.len()), (None, 1));
    assert_eq!(simple("Content-Type: multipart/mixed\r\n\r\nx").attachments, []);
}

#[test]
fn depth_at_the_bound_and_past_it() {
    let nested = |levels: usize| {
        (0..levels).fold("\r\nleaf".to_owned(), |inner, n| {
            format!("Content-Type: multipart/mixed; boundary=b{n}x\r\n\r\n--b{n}x\r\n{inner}\r\n--b{n}x--\r\n")
        })
    };
    let depth = |raw: &str| {
        let message = MimePart::parse(raw.to_owned().into_bytes());
        assert_eq!(message.to_bytes(), raw.as_bytes());
        let mut id = PartId::ROOT;
        while message.part(&id.child(0)).is_some() {
            id = id.child(0);
        }
        (id.places().len() + 1, message.part(&id).map(MimePart::body))
    };
    assert_eq!(depth(&nested(DEPTH_MAX - 1)), (DEPTH_MAX, Some(Content::Text("leaf".into()))));
    let (levels, content) = depth(&nested(DEPTH_MAX));
    assert_eq!(levels, DEPTH_MAX);
    assert!(content.is_some_and(|c| c.into_bytes().starts_with(b"--b0x\r\n\r\nleaf")));
}

#[test]
fn parts_at_the_bound_and_past_it() {
    let raw = |count: usize| {
        format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}--b--\r\nend", "--b\r\n\r\nx\r\n".repeat(count))
    };
    let read = |count: usize| {
        let message = MimePart::parse(raw(count).into_bytes());
        assert_eq!(message.to_bytes(), raw(count).as_bytes());
        (message.children().len(), body(&message, &[PARTS_MAX - 2]))
    };
    assert_eq!(read(PARTS_MAX - 1), (PARTS_MAX - 1, "x".into()));
    assert_eq!(read(PARTS_MAX), (PARTS_MAX - 1, "x\r\n--b\r\n\r\nx\r\n--b--\r\nend".into()));
    assert_eq!(read(PARTS_MAX + 5).0, PARTS_MAX - 1);
}

#[test]
fn header_octets_at_the_bound_and_past_it() {
    let raw = |header_octets: usize| {
        let filler = header_octets - "A: 1\r\n".len() - "X: \r\n".len();
        format!("A: 1\r\nX: {}\r\n\r\nbody", "x".repeat(filler))
    };
    let read = |raw: String| {
        let message = MimePart::parse(raw.clone().into_bytes());
        assert_eq!(message.to_bytes(), raw.as_bytes());
        (message.headers().len(), message.body().into_bytes())
    };
    assert_eq!(read(raw(HEADER_BYTES_MAX)), (2, b"body".to_vec()));
    let (fields, body) = read(raw(HEADER_BYTES_MAX + 1));
    assert_eq!((fields, &body[..5]), (1, b"X: xx".as_slice()));
    let open = |octets: usize| format!("X: {}", "x".repeat(octets - "X: ".len()));
    assert_eq!(read(open(HEADER_BYTES_MAX)), (1, Vec::new()));
    let field = open(HEADER_BYTES_MAX + 1);
    assert_eq!(read(field.clone()), (0, field.into_bytes()));
    let many = |fields: usize| "A: 1\r\n".repeat(fields) + "\r\nbody";
    assert_eq!(read(many(10_000)), (10_000, b"body".to_vec()));
    assert_eq!(read(many(10_001)), (10_000, b"A: 1\r\n\r\nbody".to_vec()));
}

#[test]
fn boundaries_at_the_bound_and_past_it() {
    let parts = |octets: usize| {
        let boundary = "b".repeat(octets);
        let raw = format!("Content-Type: multipart/mixed; boundary={boundary}\r\n\r\n--{boundary}\r\n\r\nx");
        MimePart::parse(raw.into_bytes()).children().len()
    };
    assert_eq!((parts(BOUNDARY_OCTETS_MAX), parts(BOUNDARY_OCTETS_MAX + 1)), (1, 0));
}
