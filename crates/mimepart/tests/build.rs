//! Messages put together: their nesting, and that another reader sees the same.

use clock::WallTime;
use mail_parser::{MessageParser, MimeHeaders};
use mimepart::{AttachmentOptions, Builder, MimePart, PartError, PartId};

const NOW: WallTime = WallTime::from_unix_secs(1_700_000_000);

fn options(file_name: Option<&str>, inline: bool, content_id: Option<&str>) -> AttachmentOptions {
    AttachmentOptions { file_name: file_name.map(str::to_owned), inline, content_id: content_id.map(str::to_owned) }
}

/// Types of all parts, nested.
fn nesting(part: &MimePart) -> String {
    let children: Vec<String> = part.children().map(nesting).collect();
    let kind = part.content_type().value;
    if children.is_empty() { kind } else { format!("{kind}[{}]", children.join(" ")) }
}

fn full() -> Builder {
    let mut builder = Builder::new();
    builder.text_html("<p>gr\u{fc}n</p>");
    builder.text_plain("gr\u{fc}n");
    builder.text_amp_html("<amp>");
    builder.attach("image/png", b"\x89PNG", Some(&options(None, true, Some("<pic@x>")))).expect("valid");
    let name = "\u{fc}ber lange Namen, die nicht auf eine Zeile passen und also geteilt werden m\u{fc}ssen.txt";
    builder.attach("text/csv", b"a,b\n", Some(&options(Some(name), false, None))).expect("valid");
    builder.attach_part(MimePart::new_binary("application/x", b"", None).expect("valid"));
    builder
}

#[test]
fn levels_are_nested_as_they_should() {
    let built = |fill: &dyn Fn(&mut Builder)| {
        let mut builder = Builder::new();
        fill(&mut builder);
        builder.build(NOW, 7).map(|message| nesting(&message))
    };
    let inline = options(None, true, None);
    assert_eq!(built(&|_| {}), Err(PartError::NothingToBuild));
    assert_eq!(built(&|b| b.text_plain("x")).as_deref(), Ok("text/plain"));
    assert_eq!(built(&|b| b.text_html("x")).as_deref(), Ok("text/html"));
    assert_eq!(built(&|b| b.attach("a/b", b"", None).expect("valid")).as_deref(), Ok("multipart/mixed[a/b]"));
    assert_eq!(built(&|b| b.attach("a/b", b"", Some(&inline)).expect("valid")).as_deref(), Ok("multipart/mixed[a/b]"));
    assert_eq!(
        full().build(NOW, 7).map(|m| nesting(&m)).as_deref(),
        Ok("multipart/mixed[multipart/related[multipart/alternative[text/plain text/x-amp-html text/html] image/png] \
            text/csv application/x]")
    );
}

#[test]
fn another_reader_sees_what_was_built() {
    let octets = full().build(NOW, 7).expect("valid").to_bytes();
    assert!(octets.split(|&b| b == b'\n').all(|line| line.len() <= 79));
    let seen = MessageParser::default().parse(&octets).expect("a message");
    assert_eq!(seen.body_text(0).as_deref(), Some("gr\u{fc}n\r\n"));
    assert_eq!(seen.body_html(0).as_deref(), Some("<p>gr\u{fc}n</p>\r\n"));
    assert_eq!(seen.date().map(|d| d.to_timestamp()), Some(NOW.unix_secs()));
    let named: Vec<_> = seen.attachments().filter_map(|a| a.attachment_name()).collect();
    assert_eq!(named.len(), 1);
    assert!(named[0].starts_with("\u{fc}ber lange") && named[0].ends_with("m\u{fc}ssen.txt"), "{named:?}");
    assert!(seen.attachments().any(|a| a.contents() == b"a,b\n"));
    assert!(seen.parts.iter().any(|p| p.content_id() == Some("pic@x") && p.contents() == b"\x89PNG"));
    let ours = MimePart::parse(octets).simple_structure();
    assert_eq!(ours.text_part, Some(PartId::ROOT.child(0).child(0).child(0)));
    assert_eq!(ours.attachments.len(), 3);
}

#[test]
fn stable_content_does_not_depend_on_time_and_seed() {
    let build = |is_stable, now, seed| {
        let mut builder = full();
        builder.set_stable_content(is_stable);
        builder.build(now, seed).expect("valid").to_bytes()
    };
    let later = WallTime::from_unix_secs(1_800_000_000);
    assert_eq!(build(true, NOW, 1), build(true, later, 2));
    assert_eq!(build(false, NOW, 1), build(false, NOW, 1));
    assert_ne!(build(false, NOW, 1), build(false, NOW, 2));
    let mut plain = Builder::new();
    plain.text_plain("x");
    plain.set_stable_content(true);
    let text = plain.build(NOW, 1).expect("valid").to_string();
    assert_eq!(
        text,
        "Date: Fri, 21 Nov 1997 09:55:06 -0600\r\nMIME-Version: 1.0\r\nContent-Type: text/plain;\r\n\tcharset=us-ascii\r\n\r\nx\r\n"
    );
}

#[test]
fn single_parts() {
    let text = MimePart::new_text("text/css; charset=utf-8", "a{}").expect("valid");
    assert_eq!(text.to_bytes(), b"Content-Type: text/css;\r\n\tcharset=utf-8\r\n\r\na{}\r\n");
    let html = MimePart::new_html("\u{fc}").expect("valid").to_string();
    assert!(
        html.starts_with("Content-Type: text/html;\r\n\tcharset=utf-8\r\nContent-Transfer-Encoding: base64\r\n"),
        "{html}"
    );
    let binary = MimePart::new_binary("a/b; c=d", b"hi", Some(&options(Some("x y.bin"), true, Some("id@x"))));
    assert_eq!(
        binary.expect("valid").to_bytes(),
        b"Content-Type: a/b;\r\n\tc=d\r\nContent-Disposition: inline;\r\n\tfilename=\"x y.bin\"\r\n\
          Content-ID: <id@x>\r\nContent-Transfer-Encoding: base64\r\n\r\naGk=\r\n"
    );
    for bad in ["", "text", "text/", "te xt/plain", "text/plain\r\nX: y/"] {
        assert!(matches!(MimePart::new_text(bad, "x"), Err(PartError::ContentType { .. })), "{bad:?}");
        assert!(MimePart::new_binary(bad, b"x", None).is_err(), "{bad:?}");
    }
    assert!(MimePart::new_binary("a/b", b"", Some(&options(None, false, Some("a b>")))).is_err());
}

#[test]
fn multiparts_have_the_boundary_asked_for() {
    let text = |content: &str| MimePart::new_text_plain(content).expect("text");
    let multipart = |boundary: Option<&str>, content: &str| {
        MimePart::new_multipart("multipart/mixed", vec![text(content)], boundary, 3).map(|m| m.to_string())
    };
    let head = "Content-Type: multipart/mixed;\r\n\tboundary=";
    assert_eq!(
        multipart(Some("bb"), "x").expect("valid"),
        format!("{head}bb\r\n\r\n--bb\r\nContent-Type: text/plain;\r\n\tcharset=us-ascii\r\n\r\nx\r\n\r\n--bb--\r\n")
    );
    let dodged = multipart(Some("bb"), "x\n--bb--\n--bb.1\n").expect("valid");
    assert!(dodged.starts_with(&format!("{head}bb.2\r\n")), "{dodged}");
    let made = multipart(None, "x").expect("valid");
    assert!(made.starts_with(&format!("{head}\"=_")), "{made}");
    for bad in ["", "b ", "b\r\n", "\u{fc}", "b;", &"b".repeat(71)] {
        assert!(matches!(multipart(Some(bad), "x"), Err(PartError::Boundary { .. })), "{bad:?}");
    }
    assert!(multipart(Some(&"b".repeat(70)), "x").is_ok());
    let other = MimePart::new_multipart("text/plain", vec![], None, 1);
    assert!(matches!(other, Err(PartError::ContentType { .. })));
}
