//! The conformance check: each flag, what is refused, what is fixed, and that a rebuilt message says what it said.

use bytes::Bytes;
use clock::WallTime;
use mail_parser::MessageParser;
use mimepart::limits::{DEPTH_MAX, LINE_OCTETS_MAX};
use mimepart::{CheckFixSettings, Conformance, MimePart, Outcome, PartError, PartId, check_fix};

const NOW: WallTime = WallTime::from_unix_secs(1_700_000_000);
const HEAD: &str =
    "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <a@b>\r\nMIME-Version: 1.0\r\nFrom: a@b.example\r\n";

fn found(raw: &[u8]) -> String {
    Conformance::of(raw, &MimePart::parse(raw.to_vec())).to_string()
}

fn outcome(raw: &[u8], checks: &str, fixes: &str, settings: &CheckFixSettings) -> Result<Outcome, PartError> {
    let (checks, fixes) = (Conformance::parse(checks)?, Conformance::parse(fixes)?);
    check_fix(&Bytes::copy_from_slice(raw), checks, fixes, settings, NOW, 7)
}

fn fixed(raw: &[u8], fixes: &str) -> String {
    match outcome(raw, "", fixes, &CheckFixSettings::default()) {
        Ok(Outcome::Fixed(octets)) => String::from_utf8(octets).expect("ASCII"),
        other => panic!("expected a fix, got {other:?}"),
    }
}

fn all() -> String {
    Conformance::ALL.to_string()
}

/// So many multiparts in one another.
fn nested(depth: usize) -> String {
    let start = |n: usize| format!("Content-Type: multipart/mixed; boundary=b{n}\r\n\r\n--b{n}\r\n");
    let inside = (0..depth).map(start).collect::<String>();
    format!("{HEAD}{inside}\r\nx\r\n") + &(0..depth).rev().map(|n| format!("--b{n}--\r\n")).collect::<String>()
}

#[test]
fn every_condition_is_found() {
    let line = |octets: usize| "x".repeat(octets);
    let cases = [
        (format!("{HEAD}\r\nbody\r\n"), ""),
        (format!("{HEAD}\r\nlast line open"), ""),
        (HEAD.to_owned(), ""),
        (format!("{HEAD}no colon\r\n\r\nbody"), "MISSING_COLON_VALUE"),
        (format!("{HEAD}\r\nbare\nLF"), "NON_CANONICAL_LINE_ENDINGS"),
        (format!("{HEAD}\r\nbare\rCR"), "NON_CANONICAL_LINE_ENDINGS"),
        (format!("{HEAD}\r\nCR at the end\r"), "NON_CANONICAL_LINE_ENDINGS"),
        (format!("{HEAD}Subject : x\r\n\r\nbody"), "NAME_ENDS_WITH_SPACE"),
        (format!("{HEAD}\r\n{}\r\n", line(LINE_OCTETS_MAX)), ""),
        (format!("{HEAD}\r\n{}\r\n", line(LINE_OCTETS_MAX + 1)), "LINE_TOO_LONG"),
        (format!("{HEAD}X: {}\r\n\r\n", line(LINE_OCTETS_MAX - 2)), "LINE_TOO_LONG"),
        (format!("{HEAD}\r\n\u{fc}"), "NEEDS_TRANSFER_ENCODING"),
        (format!("{HEAD}Subject: \u{fc}\r\n\r\n"), "NEEDS_TRANSFER_ENCODING"),
        (format!("{HEAD}\r\nnul\0"), "NEEDS_TRANSFER_ENCODING"),
        (HEAD.replace("Date:", "X-Date:") + "\r\n", "MISSING_DATE_HEADER"),
        (HEAD.replace("Message-ID:", "X-Id:") + "\r\n", "MISSING_MESSAGE_ID_HEADER"),
        (HEAD.replace("MIME-Version:", "X-Version:") + "\r\n", "MISSING_MIME_VERSION"),
        (String::new(), "MISSING_DATE_HEADER|MISSING_MESSAGE_ID_HEADER|MISSING_MIME_VERSION"),
        (
            "no header\r\n".into(),
            "MISSING_COLON_VALUE|MISSING_DATE_HEADER|MISSING_MESSAGE_ID_HEADER|MISSING_MIME_VERSION",
        ),
        (
            format!("{HEAD}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nX : 1\r\nodd\r\n\r\nx\r\n--b--\r\n"),
            "MISSING_COLON_VALUE|NAME_ENDS_WITH_SPACE",
        ),
        (format!("{HEAD}Content-Type: multipart/mixed\r\n\r\nx\r\n"), "MIME_INVALID_BOUNDARY"),
        (format!("{HEAD}Content-Type: multipart/mixed; boundary=\" \"\r\n\r\nx\r\n"), "MIME_INVALID_BOUNDARY"),
        (nested(DEPTH_MAX - 1), ""),
        (nested(DEPTH_MAX), "MIME_NESTING_LIMIT_EXCEEDED"),
    ];
    for (raw, flags) in cases {
        assert_eq!(found(raw.as_bytes()), flags, "{raw}");
    }
}

#[test]
fn flags_are_read() {
    assert_eq!(Conformance::parse(""), Ok(Conformance::NONE));
    assert_eq!(Conformance::parse(&all()), Ok(Conformance::ALL));
    let two = Conformance::parse(" line_too_long | MISSING_DATE_HEADER ").expect("known");
    assert_eq!(two.to_string(), "LINE_TOO_LONG|MISSING_DATE_HEADER");
    for bad in
        ["LINE_TOO_SHORT", "LINE_TOO_LONG|", "LINE_TOO_LONG||MISSING_DATE_HEADER", "LINE_TOO_LONG,MISSING_DATE_HEADER"]
    {
        assert!(Conformance::parse(bad).is_err(), "{bad}");
    }
    let error = Conformance::parse("MISING_DATE").expect_err("unknown").to_string();
    assert!(error.starts_with("unknown conformance flag \"MISING_DATE\", nearest is MISSING_DATE_HEADER; expected some of MISSING_COLON_VALUE, "), "{error}");
    assert!(error.contains("MISSING_MIME_VERSION"), "{error}");
}

#[test]
fn checks_come_before_fixes() {
    let raw = format!("{HEAD}Subject : x\r\n\r\n\u{fc}");
    let outcome =
        |checks, fixes| outcome(raw.as_bytes(), checks, fixes, &CheckFixSettings::default()).expect("settings");
    let refused = outcome("NEEDS_TRANSFER_ENCODING|NAME_ENDS_WITH_SPACE|LINE_TOO_LONG", "NAME_ENDS_WITH_SPACE");
    assert_eq!(refused.to_string(), "Message has conformance issues: NAME_ENDS_WITH_SPACE|NEEDS_TRANSFER_ENCODING");
    assert_eq!(outcome("", ""), Outcome::Unchanged);
    assert_eq!(outcome("LINE_TOO_LONG", "LINE_TOO_LONG|MISSING_DATE_HEADER"), Outcome::Unchanged);
    assert!(matches!(outcome("LINE_TOO_LONG", "NAME_ENDS_WITH_SPACE"), Outcome::Fixed(_)));
}

#[test]
fn missing_headers_are_added_and_nothing_else() {
    let raw = "From: Ann <a@b.example>\r\nSubject :  odd\n\nbody\n";
    let new = fixed(raw.as_bytes(), "MISSING_DATE_HEADER|MISSING_MESSAGE_ID_HEADER|MISSING_MIME_VERSION");
    let (before, after) = new.split_once("Message-ID: <").expect("an id");
    assert_eq!(before, "From: Ann <a@b.example>\r\nSubject :  odd\nDate: Tue, 14 Nov 2023 22:13:20 +0000\r\n");
    let (id, after) = after.split_once(">\r\n").expect("an id");
    assert!(id.ends_with("@b.example") && id.len() < 60, "{id}");
    assert_eq!(after, "MIME-Version: 1.0\r\n\nbody\n");
    assert!(fixed(b"body only\r\n", "MISSING_MESSAGE_ID_HEADER").ends_with("@localhost>\r\n\r\nbody only\r\n"));
    let settings = CheckFixSettings { message_id: Some("<fixed@x>".into()), ..CheckFixSettings::default() };
    let new = outcome(b"\r\n", "", "MISSING_MESSAGE_ID_HEADER", &settings);
    assert_eq!(new, Ok(Outcome::Fixed(b"Message-ID: <fixed@x>\r\n\r\n".to_vec())));
    let settings = CheckFixSettings { message_id: Some("a b".into()), ..CheckFixSettings::default() };
    let error = outcome(b"\r\n", "", "MISSING_MESSAGE_ID_HEADER", &settings).expect_err("no id").to_string();
    assert!(error.contains("Message-ID") && error.contains("a b"), "{error}");
}

#[test]
fn a_rebuilt_message_is_conformant_and_says_the_same() {
    let raw = [
        "Subject : gr\u{fc}n und ".to_owned()
            + &"lang ".repeat(300)
            + "\nodd line\nTo: J\u{fc}rgen <j@x.example>,"
            + &(0..80).map(|n| format!("u{n}@example.com")).collect::<Vec<_>>().join(",")
            + "\nodd line\nX-Single\n"
            + "Content-Type: multipart/mixed; boundary=\"b\"\n\npre\u{e4}mble\n--b\n\ntext gr\u{fc}n\n",
        "--b\nContent-Type: text/plain; charset=iso-8859-1\nContent-Transfer-Encoding: 8bit\n\ngr\u{1}n\n".into(),
        "--b\nContent-Type: application/x; name=\"\u{fc}.bin\"\n\nbin\rary\n".into(),
        "--b\nContent-Type: message/rfc822\n\nSubject: inner \u{fc}\n\ninner gr\u{fc}n\n--b--\nepi".into(),
    ];
    let mut raw = raw.concat().into_bytes();
    let place = raw.iter().position(|&b| b == 1).expect("marked");
    raw[place] = 0xfc;
    let new = fixed(&raw, &all()).into_bytes();
    assert_eq!(found(&new), "");
    let message = MimePart::parse(new.clone());
    let body = |place| message.part(&PartId::ROOT.child(place)).expect("a part").body().into_bytes();
    assert_eq!(body(0), "text gr\u{fc}n\r\n".as_bytes());
    assert_eq!(body(1), "gr\u{fc}n\r\n".as_bytes());
    assert_eq!(body(2), b"bin\rary");
    let inner = MimePart::parse(body(3));
    assert_eq!(inner.headers().get_first_named("subject").map(|h| h.unstructured()).as_deref(), Some("inner \u{fc}"));
    assert_eq!(inner.body().into_bytes(), "inner gr\u{fc}n\r\n".as_bytes());
    let header = |name: &str| message.headers().get_first_named(name).map(|h| h.unstructured());
    assert_eq!(header("subject"), Some("gr\u{fc}n und ".to_owned() + &"lang ".repeat(300) + " odd line"));
    assert_eq!(header("x-single").as_deref(), Some(""));
    let seen = MessageParser::default().parse(&new).expect("a message");
    let to: Vec<_> = seen.to().expect("To").iter().map(|a| (a.name(), a.address())).collect();
    assert_eq!((to.len(), to[0]), (81, (Some("J\u{fc}rgen"), Some("j@x.example"))));
    assert_eq!(to[80], (None, Some("u79@example.com")));
    assert_eq!(seen.body_text(1).as_deref(), Some("gr\u{fc}n\r\n"));
}

#[test]
fn what_is_conformant_is_kept_as_written() {
    let part = "--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\naGk=\r\n--b--\r\n";
    let raw = format!("{HEAD}DKIM-Signature: v=1;\r\n\tb=x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{part}");
    let rebuilt = MimePart::parse(raw.clone()).rebuild().expect("valid");
    assert_eq!(rebuilt.to_string(), raw);
    let again = rebuilt.rebuild().expect("valid");
    assert_eq!(again.to_string(), raw);
}

#[test]
fn character_sets_are_declared_and_guessed() {
    let text = |settings: &CheckFixSettings, octets: &[u8]| {
        let raw = [HEAD.as_bytes(), b"\r\n", octets].concat();
        match outcome(&raw, "", "NEEDS_TRANSFER_ENCODING", settings) {
            Ok(Outcome::Fixed(octets)) => {
                let message = MimePart::parse(octets);
                let charset = message.content_type().parameter("charset").map(str::to_owned);
                (charset, String::from_utf8_lossy(&message.body().into_bytes()).into_owned())
            }
            other => panic!("expected a fix, got {other:?}"),
        }
    };
    let off = CheckFixSettings::default();
    let on = CheckFixSettings { detect_encoding: true, ..CheckFixSettings::default() };
    let named = |charset: &str, text: &str| (Some(charset.to_owned()), text.to_owned());
    assert_eq!(text(&off, "gr\u{fc}n\r\n".as_bytes()), named("utf-8", "gr\u{fc}n\r\n"));
    assert_eq!(text(&off, b"gr\xfcn\r\n"), named("unknown-8bit", "gr\u{fffd}n\r\n"));
    let latin = b"gr\xfcn und \xfcber die Stra\xdfe\r\n";
    assert_eq!(text(&on, latin), named("windows-1252", "gr\u{fc}n und \u{fc}ber die Stra\u{df}e\r\n"));
    let only = CheckFixSettings { include_encodings: vec!["iso-8859-2".into()], ..on.clone() };
    assert_eq!(text(&only, latin).0.as_deref(), Some("ISO-8859-2"));
    let none = CheckFixSettings { include_encodings: vec!["utf-8".into()], ..on.clone() };
    assert_eq!(text(&none, latin).0.as_deref(), Some("unknown-8bit"));
    let bad = CheckFixSettings { exclude_encodings: vec!["klingon".into()], ..on };
    assert_eq!(outcome(b"", "", "", &bad), Err(PartError::UnknownCharset { label: "klingon".into() }));
    let declared = [HEAD.as_bytes(), b"Content-Type: text/plain; charset=us-ascii\r\n\r\n\xc3\xbc and more"].concat();
    assert!(fixed(&declared, "NEEDS_TRANSFER_ENCODING").contains("charset=utf-8"));
}

#[test]
fn a_multipart_without_parts_becomes_text() {
    let raw = format!("{HEAD}Content-Type: multipart/mixed; boundary=b\r\n\r\ngr\u{fc}n\n");
    let message = MimePart::parse(fixed(raw.as_bytes(), &all()).into_bytes());
    assert_eq!(message.content_type().value, "text/plain");
    assert_eq!(message.body().into_bytes(), "gr\u{fc}n\r\n".as_bytes());
}

#[test]
fn addresses_survive_in_a_header_that_does_not_parse() {
    let raw = format!("{HEAD}To: J\u{fc}rgen M\u{fc}ller <j@x.example>, nobody\r\n\r\nx");
    let new = fixed(raw.as_bytes(), &all());
    assert!(new.contains("To: =?UTF-8?Q?J=C3=BCrgen_M=C3=BCller?=\r\n <j@x.example>,\r\n nobody\r\n"), "{new}");
}
