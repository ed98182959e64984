//! Reports as they are written: golden octets, checked by Python's `email` package too, and what comes back when read.

use mime::{DeliveryReport, Enclosed, NewReport, PerMessage, PerRecipient, Typed};
use proptest::prelude::*;
use std::io::Write as _;
use std::process::{Command, Stdio};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/report.eml");

fn report() -> DeliveryReport {
    let failed = PerRecipient {
        original_recipient: Some(Typed::new("rfc822", "old@target.test")),
        final_recipient: Typed::new("rfc822", "b@target.test"),
        action: "failed".into(),
        status: (5, 1, 1),
        remote_mta: Some(Typed::new("dns", "mx.target.test")),
        diagnostic_code: Some(Typed::new("smtp", "550 5.1.1 no such user \u{fc}")),
        last_attempt_date: Some("Sat, 21 Nov 2026 22:45:29 +0000".into()),
        final_log_id: Some("0123".into()),
        ..PerRecipient::default()
    };
    let delayed = PerRecipient {
        final_recipient: Typed::new("rfc822", "c@target.test"),
        action: "delayed".into(),
        status: (4, 4, 1),
        will_retry_until: Some("Sat, 28 Nov 2026 22:45:29 +0000".into()),
        ..PerRecipient::default()
    };
    let per_message = PerMessage {
        reporting_mta: Typed::new("dns", "mail.test"),
        original_envelope_id: Some("q+1".into()),
        arrival_date: Some("Sat, 21 Nov 2026 22:45:28 +0000".into()),
        ..PerMessage::default()
    };
    DeliveryReport { per_message, per_recipient: vec![failed, delayed], original_message: None }
}

fn written(report: &DeliveryReport, text: &str, enclosed: Enclosed<'_>) -> Vec<u8> {
    NewReport {
        from: "mailer-daemon@mail.test",
        to: "a@source.test",
        subject: "Undelivered mail",
        date: "Sat, 21 Nov 2026 22:45:29 +0000",
        unique: "0123456789abcdef",
        text,
        report,
        enclosed,
    }
    .to_bytes()
}

#[test]
fn a_report_is_written_as_its_golden_octets() {
    let header = b"From: <a@source.test>\r\nSubject: =_report_0123456789abcdef_0\r\n\r\n";
    let now = written(&report(), "Your message was not delivered.\n\n  b@target.test\n", Enclosed::Header(header));
    if std::env::var_os("GOLDEN_WRITE").is_some() {
        std::fs::write(GOLDEN, &now).expect("a writable tree");
    }
    let golden = std::fs::read(GOLDEN).expect("the golden report is in the tree");
    assert_eq!(String::from_utf8_lossy(&now), String::from_utf8_lossy(&golden));
    assert!(now.windows(5).filter(|w| w == b"_0123").count() > 0);
}

#[test]
fn python_reads_a_report_as_it_was_meant() {
    let body = "Gr\u{fc}n.\r\n--=_report_0123456789abcdef_0--\r\n".as_bytes();
    let head = b"From: <a@source.test>\r\nSubject: lost\r\n\r\n";
    let raw = written(&report(), "Not delivered: gr\u{fc}n\n", Enclosed::Message(head, body));
    let mut python = Command::new("python3").arg("-c").arg(PYTHON).stdin(Stdio::piped()).spawn().expect("python3");
    python.stdin.take().expect("a pipe").write_all(&raw).expect("python reads");
    assert!(python.wait().expect("ends").success());
}

#[test]
fn what_is_written_reads_back() {
    let head = b"Subject: x\r\n\r\n";
    let raw = written(&report(), "text\n", Enclosed::Message(head, b"body\r\n"));
    let read = DeliveryReport::parse(&raw).expect("sound").expect("a report");
    let mut expected = report();
    expected.per_recipient[0].diagnostic_code = Some(Typed::new("smtp", "550 5.1.1 no such user \\x{FC}"));
    expected.original_message = Some(b"Subject: x\r\n\r\nbody\r\n".to_vec());
    assert_eq!(read, expected);
    let raw = written(&report(), "text\n", Enclosed::Nothing);
    assert_eq!(DeliveryReport::parse(&raw).expect("sound").expect("a report").original_message, None);
}

#[test]
fn enclosed_headers_are_cut_at_a_line() {
    let header = "X: 0123456789\r\n".repeat(10_000);
    let raw = written(&report(), "text\n", Enclosed::Header(header.as_bytes()));
    let enclosed = DeliveryReport::parse(&raw).expect("sound").expect("a report").original_message.expect("enclosed");
    assert!(
        enclosed.len() <= mime::limits::HEADER_ENCLOSED_MAX && enclosed.len() > mime::limits::HEADER_ENCLOSED_MAX - 20
    );
    assert!(enclosed.ends_with(b"0123456789\r\n"));
}

proptest! {
    /// Nothing a peer or a sender says becomes a field or a part of its own, and no line is too long.
    #[test]
    fn nothing_breaks_out(diagnostic in "\\PC{0,80}([\r\n]{1,3}[A-Z]{1,5}: ?\\PC{0,900}){0,3}", body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut report = report();
        report.per_recipient[0].diagnostic_code = Some(Typed::new("smtp", diagnostic.clone()));
        report.per_recipient[0].final_recipient = Typed::new("rfc822", diagnostic.clone());
        let text = format!("{diagnostic}\n");
        let raw = written(&report, &text, Enclosed::Message(b"A: b\r\n\r\n", &body));
        let read = DeliveryReport::parse(&raw).expect("sound").expect("a report");
        prop_assert_eq!(read.per_recipient.len(), 2);
        prop_assert!(read.per_recipient.iter().all(|r| r.extensions.is_empty()));
        prop_assert_eq!(read.original_message, Some([b"A: b\r\n\r\n", &body[..]].concat()));
        let end = memchr::memmem::find(&raw, b"message/rfc822").expect("enclosed");
        prop_assert!(raw[..end].split(|o| *o == b'\n').all(|line| line.len() <= 999));
    }
}

const PYTHON: &str = r#"
import email, email.policy, sys
m = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
assert not m.defects, m.defects
assert m.get_content_type() == 'multipart/report' and m.get_param('report-type') == 'delivery-status'
assert m['Auto-Submitted'] == 'auto-replied' and m['To'] == 'a@source.test' and m['Message-ID']
text, status, original = m.get_payload()
assert 'gr\u00fcn' in text.get_content()
assert status.get_content_type() == 'message/delivery-status' and not status.defects
message, failed, delayed = status.get_payload()
assert message['Reporting-MTA'] == 'dns; mail.test' and message['Original-Envelope-Id'] == 'q+1'
assert failed['Final-Recipient'] == 'rfc822; b@target.test' and failed['Action'] == 'failed' and failed['Status'] == '5.1.1'
assert delayed['Action'] == 'delayed' and delayed['Will-Retry-Until']
inner = original.get_payload()[0]
assert inner['Subject'] == 'lost' and '_report_' in inner.get_payload()
"#;
