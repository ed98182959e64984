//! Reports as mail servers and feedback loops write them, and as nobody should.

use mime::{DeliveryReport, FeedbackReport, ReportError, Typed};
use proptest::prelude::*;

#[test]
fn a_delivery_status_notification_is_read() {
    let report = DeliveryReport::parse(DSN.as_bytes()).expect("sound").expect("a report");
    let message = &report.per_message;
    assert_eq!(message.reporting_mta, Typed::new("dns", "mail.example.org"));
    assert_eq!(message.original_envelope_id.as_deref(), Some("q+1"));
    assert_eq!(message.extensions["x-queue-id"], ["4F1D2"]);
    let [failed, delayed] = &report.per_recipient[..] else { panic!("{report:?}") };
    assert_eq!((failed.action.as_str(), failed.status), ("failed", (5, 1, 1)));
    assert_eq!(failed.original_recipient, Some(Typed::new("rfc822", "old@example.org")));
    assert_eq!(failed.final_recipient, Typed::new("rfc822", "new@example.org"));
    assert_eq!(failed.diagnostic_code, Some(Typed::new("smtp", "550 5.1.1 <new@example.org>: no such; user")));
    assert_eq!(failed.remote_mta, Some(Typed::new("dns", "mx.example.net")));
    assert_eq!((delayed.action.as_str(), delayed.status), ("delayed", (4, 4, 1)));
    assert_eq!(delayed.will_retry_until.as_deref(), Some("Sun, 22 Nov 2026 10:00:00 +0000"));
    let original = String::from_utf8(report.original_message.expect("enclosed")).expect("text");
    assert_eq!(original, "From: <a@b.test>\r\nSubject: lost\r\n");
    assert_eq!(FeedbackReport::parse(DSN.as_bytes()), Ok(None));
}

#[test]
fn a_feedback_report_is_read() {
    let report = FeedbackReport::parse(ARF.as_bytes()).expect("sound").expect("a report");
    assert_eq!((report.feedback_type.as_str(), report.user_agent.as_str()), ("abuse", "SomeGenerator/1.0"));
    assert_eq!((report.version.as_str(), report.incidents), ("1", Some(3)));
    assert_eq!(report.original_mail_from.as_deref(), Some("<sender@example.com>"));
    assert_eq!(report.original_rcpt_to, ["<one@example.net>", "two@example.net"]);
    assert_eq!(report.reporting_mta, Some(Typed::new("dns", "mail.example.net")));
    assert_eq!(report.extensions["x-own"], ["1", "2"]);
    assert_eq!(report.original_message.as_deref(), Some(&b"Subject: Earn money\r\n\r\nSpam Spam\r\n"[..]));
    assert_eq!(DeliveryReport::parse(ARF.as_bytes()), Ok(None));
}

#[test]
fn what_is_no_report_is_none_and_a_broken_one_says_why() {
    for ordinary in ["", "Subject: x\r\n\r\nbody", "Content-Type: multipart/mixed; boundary=x\r\n\r\n--x--\r\n"] {
        assert_eq!(DeliveryReport::parse(ordinary.as_bytes()), Ok(None), "{ordinary}");
        assert_eq!(FeedbackReport::parse(ordinary.as_bytes()), Ok(None), "{ordinary}");
    }
    let dsn = |from: &str, to: &str| {
        assert!(DSN.contains(from), "{from}");
        DeliveryReport::parse(DSN.replace(from, to).as_bytes()).expect_err(to)
    };
    assert_eq!(dsn("message/delivery-status", "text/x"), ReportError::NoPart("message/delivery-status"));
    assert_eq!(dsn("Reporting-MTA", "Reporting"), ReportError::Missing("Reporting-MTA"));
    assert_eq!(dsn("Final-Recipient", "Final"), ReportError::Missing("Final-Recipient"));
    assert_eq!(dsn("Action: failed", "Act: failed"), ReportError::Missing("Action"));
    for status in ["5.1", "5.1.1.1", "3.1.1", "5.1.1000", "5.-1.1", ""] {
        let error = dsn("Status: 5.1.1 (bad)", &format!("Status: {status}"));
        assert!(matches!(error, ReportError::Malformed { name: "Status", .. }), "{status}: {error}");
    }
    let arf = |from: &str, to: &str| FeedbackReport::parse(ARF.replace(from, to).as_bytes()).expect_err(to);
    assert_eq!(arf("Version", "Versio"), ReportError::Missing("Version"));
    assert!(matches!(arf("Incidents: 3", "Incidents: -3"), ReportError::Malformed { name: "Incidents", .. }));
}

#[test]
fn huge_reports_are_bounded() {
    let groups = |count: usize| {
        DSN.replace(
            "Final-Recipient: rfc822;d",
            &("Final-Recipient: rfc822;x\r\nAction: failed\r\nStatus: 5.0.0\r\n\r\n".repeat(count)
                + "Final-Recipient: rfc822;d"),
        )
    };
    let fits = mime::limits::GROUPS_MAX - 3;
    let report = DeliveryReport::parse(groups(fits).as_bytes()).expect("at the bound").expect("a report");
    assert_eq!(report.per_recipient.len(), fits + 2);
    assert!(matches!(DeliveryReport::parse(groups(fits + 1).as_bytes()), Err(ReportError::TooMany(..))));
    let original = ARF.replace("Spam Spam", &"x".repeat(mime::limits::ORIGINAL_OCTETS_MAX));
    let report = FeedbackReport::parse(original.as_bytes()).expect("sound").expect("a report");
    assert_eq!(report.original_message.map(|raw| raw.len()), Some(mime::limits::ORIGINAL_OCTETS_MAX));
}

proptest! {
    #[test]
    fn torn_and_spliced_reports_never_panic(which in any::<bool>(), cuts in proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u8>()), 1..8)) {
        let mut raw = if which { DSN.as_bytes().to_vec() } else { ARF.as_bytes().to_vec() };
        for (at, length, octet) in cuts {
            let at = usize::from(at) % raw.len().max(1);
            let end = (at + usize::from(length) % 40).min(raw.len());
            raw.splice(at.min(end)..end, [octet, b'\n', b':']);
        }
        let _ = DeliveryReport::parse(&raw);
        let _ = FeedbackReport::parse(&raw);
    }

    #[test]
    fn noise_in_the_status_part_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (head, rest) = DSN.split_once("Reporting-MTA").expect("there");
        let raw = [head.as_bytes(), &noise, b"Reporting-MTA", rest.as_bytes()].concat();
        let _ = DeliveryReport::parse(&raw);
    }
}

const DSN: &str = "From: <>\r\nContent-Type: multipart/report; report-type=\"delivery-status\";\r\n boundary=\"b/1\"\r\n\r\n\
--b/1\r\nContent-Type: text/plain\r\n\r\nYour mail got lost.\r\n\
--b/1\r\nContent-Type: message/delivery-status\r\n\r\n\
Reporting-MTA: dns; mail.example.org\r\nOriginal-Envelope-Id: q+1\r\nX-Queue-ID: 4F1D2\r\nArrival-Date: Sat, 21 Nov 2026 10:00:00 +0000\r\n\r\n\
Original-Recipient: rfc822;old@example.org\r\nFinal-Recipient: rfc822; new@example.org\r\nAction: failed\r\nStatus: 5.1.1 (bad)\r\nRemote-MTA: dns; mx.example.net\r\n\
Diagnostic-Code: smtp; 550 5.1.1 <new@example.org>: no such;\r\n    user\r\nLast-Attempt-Date: Sat, 21 Nov 2026 10:00:01 +0000\r\n\r\n\
Final-Recipient: rfc822;d@example.org\r\nAction: Delayed\r\nStatus: 4.4.1\r\nWill-Retry-Until: Sun, 22 Nov 2026 10:00:00 +0000\r\n\r\n\
--b/1\r\nContent-Type: text/rfc822-headers\r\n\r\nFrom: <a@b.test>\r\nSubject: lost\r\n\r\n--b/1--\r\n";

const ARF: &str = "From: <abuse@example.net>\r\nContent-Type: multipart/report; report-type=feedback-report; boundary=bb\r\n\r\n\
--bb\r\n\r\nThis is an abuse report.\r\n\
--bb\r\nContent-Type: message/feedback-report\r\n\r\n\
Feedback-Type: abuse\r\nUser-Agent: SomeGenerator/1.0\r\nVersion: 1\r\nIncidents: 3\r\nOriginal-Mail-From: <sender@example.com>\r\n\
Original-Rcpt-To: <one@example.net>\r\nOriginal-Rcpt-To: two@example.net\r\nReporting-MTA: dns; mail.example.net\r\nSource-IP: 192.0.2.1\r\n\
Arrival-Date: Sat, 21 Nov 2026 10:00:00 +0000\r\nX-Own: 1\r\nX-Own: 2\r\n\r\n\
--bb\r\nContent-Type: message/rfc822\r\n\r\nSubject: Earn money\r\n\r\nSpam Spam\r\n\r\n--bb--\r\n";
