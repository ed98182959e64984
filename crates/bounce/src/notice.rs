//! Non-delivery reports made from a log record (`kumo.generate_rfc3464_message`).
//!
//! In: the record, who reports, what the sender asked for, what is enclosed. Out: the bytes of a multipart/report
//! (RFC 3464, RFC 6522). Cannot fail. Which records are reported is [`is_notified`]'s to say.

use crate::Action;
use mime::{DeliveryReport, Enclosed, NewReport, PerMessage, PerRecipient, Typed};
use record::{LogRecord, RecordType, Timestamp};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// A report to be made.
#[derive(Clone, Debug)]
pub struct Notice<'a> {
    /// What happened.
    pub record: &'a LogRecord,
    /// Who says so; `kind` is `dns` as a rule.
    pub reporting_mta: &'a Typed,
    /// Whom it happened to.
    pub recipients: Vec<Told<'a>>,
    /// The sender's ENVID (RFC 3461), decoded.
    pub envelope_id: Option<&'a str>,
    /// What the sender gets back.
    pub enclosed: Enclosed<'a>,
    /// What tells this report from all others.
    pub unique: &'a str,
}

/// A recipient that the sender is told of.
#[derive(Clone, Debug)]
pub struct Told<'a> {
    /// The address.
    pub address: &'a str,
    /// The sender's ORCPT (RFC 3461), decoded.
    pub original: Option<Typed>,
}

/// Whether a record is one of a failure that is reported (KumoMTA behaviour): the sender is known, and it is an expiration,
/// or a bounce by an SMTP server or by this one in its place.
pub fn is_notified(record: &LogRecord, enable_bounce: bool, enable_expiration: bool) -> bool {
    let is_smtp = record.delivery_protocol.as_deref().is_none_or(|protocol| protocol == "ESMTP");
    let is_wanted = match record.kind {
        RecordType::Bounce => enable_bounce && is_smtp,
        RecordType::Expiration => enable_expiration,
        _ => false,
    };
    is_wanted && !record.sender.is_empty()
}

impl Notice<'_> {
    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let record = self.record;
        let mta = self.reporting_mta.value.as_str();
        let per_message = PerMessage {
            reporting_mta: self.reporting_mta.clone(),
            original_envelope_id: self.envelope_id.map(str::to_owned),
            arrival_date: Some(date(record.created)),
            ..PerMessage::default()
        };
        let per_recipient: Vec<PerRecipient> = self.recipients.iter().map(|told| self.fields(told)).collect();
        let raw = NewReport {
            from: &format!("mailer-daemon@{mta}"),
            to: &record.sender,
            subject: Action::Failed.subject(),
            date: &date(record.timestamp),
            unique: self.unique,
            text: &Action::Failed.text(mta, &per_recipient),
            report: &DeliveryReport { per_message, per_recipient, original_message: None },
            enclosed: self.enclosed,
        };
        raw.to_bytes()
    }

    fn fields(&self, told: &Told<'_>) -> PerRecipient {
        let LogRecord { response, peer_address, timestamp, id, .. } = self.record;
        let kind = if told.address.is_ascii() { "rfc822" } else { "utf-8" };
        let code = response.enhanced_code.as_ref();
        let peer = peer_address.as_ref().filter(|peer| !peer.name.is_empty());
        PerRecipient {
            original_recipient: told.original.clone(),
            final_recipient: Typed::new(kind, told.address),
            action: Action::Failed.word().to_owned(),
            status: code.map_or((Action::Failed.class(), 0, 0), |c| (Action::Failed.class(), c.subject, c.detail)),
            remote_mta: peer.map(|peer| Typed::new("dns", peer.name.trim_end_matches('.'))),
            diagnostic_code: Some(Typed::new("smtp", response.to_single_line())),
            last_attempt_date: Some(date(*timestamp)),
            final_log_id: Some(id.clone()),
            ..PerRecipient::default()
        }
    }
}

fn date(at: Timestamp) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(at.unix_seconds()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    // The format has no fallible component for a valid moment.
    moment.format(&Rfc2822).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{EnhancedCode, PeerAddress, Response};
    use std::borrow::Cow;

    fn record(kind: RecordType) -> LogRecord {
        let reply = Response::new(550, Some(EnhancedCode::new(5, 1, 1)), "no such user");
        let mut record =
            LogRecord::new(kind, Timestamp::from_unix_seconds(100), Timestamp::from_unix_seconds(10), reply);
        record.sender = "from@here.test".to_owned();
        record.id = "0123".to_owned();
        record
    }

    #[test]
    fn bounces_of_servers_and_expirations_are_reported_where_wanted_and_to_somebody() {
        use RecordType::{AdminBounce, Bounce, Expiration, TransientFailure};
        for (kind, wanted, protocol, expected) in [
            (Bounce, (true, false), Some("ESMTP"), true),
            (Bounce, (true, false), None, true),
            (Bounce, (true, true), Some("Lua"), false),
            (Bounce, (false, true), Some("ESMTP"), false),
            (Expiration, (false, true), None, true),
            (Expiration, (true, false), None, false),
            (TransientFailure, (true, true), Some("ESMTP"), false),
            (AdminBounce, (true, true), None, false),
        ] {
            let mut record = record(kind);
            record.delivery_protocol = protocol.map(Cow::Borrowed);
            assert_eq!(is_notified(&record, wanted.0, wanted.1), expected, "{kind:?} {wanted:?} {protocol:?}");
            record.sender.clear();
            assert!(!is_notified(&record, true, true), "to nobody");
        }
    }

    #[test]
    fn a_report_says_what_the_record_says() {
        let mut record = record(RecordType::Bounce);
        record.peer_address = Some(PeerAddress { name: "mx.there.test.".to_owned(), ..PeerAddress::default() });
        let notice = Notice {
            record: &record,
            reporting_mta: &Typed::new("dns", "mta.here.test"),
            recipients: vec![Told { address: "to@there.test", original: Some(Typed::new("rfc822", "old@there.test")) }],
            envelope_id: Some("q1"),
            enclosed: Enclosed::Header(b"Subject: hello\r\n\r\n"),
            unique: "u1",
        };
        let report = DeliveryReport::parse(&notice.to_bytes()).expect("reads").expect("is a report");
        assert_eq!(report.per_message.reporting_mta, Typed::new("dns", "mta.here.test"));
        assert_eq!(report.per_message.original_envelope_id.as_deref(), Some("q1"));
        assert_eq!(report.per_message.arrival_date.as_deref(), Some("Thu, 01 Jan 1970 00:00:10 +0000"));
        let recipient = &report.per_recipient[0];
        assert_eq!(recipient.final_recipient, Typed::new("rfc822", "to@there.test"));
        assert_eq!(recipient.original_recipient, Some(Typed::new("rfc822", "old@there.test")));
        assert_eq!((recipient.action.as_str(), recipient.status), ("failed", (5, 1, 1)));
        assert_eq!(recipient.remote_mta, Some(Typed::new("dns", "mx.there.test")));
        assert_eq!(recipient.diagnostic_code, Some(Typed::new("smtp", "550 5.1.1 no such user")));
        assert_eq!(recipient.last_attempt_date.as_deref(), Some("Thu, 01 Jan 1970 00:01:40 +0000"));
        assert_eq!(recipient.final_log_id.as_deref(), Some("0123"));
        assert!(report.original_message.is_some_and(|original| original.starts_with(b"Subject: hello")));
    }
}
