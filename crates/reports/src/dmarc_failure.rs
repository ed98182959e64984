//! A DMARC failure report about one message: an authentication failure report (RFC 6591) in the format of RFC 5965, with what
//! RFC 7489 section 7.3.1 adds.
//!
//! In: who reports, what was seen, the message's header. Out: a message. Cannot fail. Of the message only the header is given
//! back, at most [`FAILURE_HEADER_OCTETS_MAX`] of it and never its body: addresses of recipients are left out unless the operator
//! says otherwise, and what is in bodies is nobody's who only owns a domain.

use crate::dmarc::{Alignment, Disposition, DmarcRow, DmarcSeen};
use crate::mail::{Letter, Reporter, domain_of, one_line};
use crate::period::rfc5322;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A message that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureSeen {
    /// What an aggregate report would count.
    pub seen: DmarcSeen,
    /// `ruf=`, as it stands in the record.
    pub reports_to: String,
    /// Its identity here.
    pub id: String,
    /// When it came, in seconds since 1970.
    pub arrived_secs: i64,
    /// The envelope's sender; empty when null.
    pub mail_from: String,
    /// The envelope's recipients.
    pub recipients: Vec<String>,
    /// The `Authentication-Results` of the check: method and result, `spf=fail smtp.mailfrom=a.test`, each.
    pub results: Vec<String>,
    /// `i=` of the first signature of the row that did not pass; empty when none failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dkim_identity: String,
    /// Its header as it came.
    #[serde(with = "base64_octets")]
    pub header: Vec<u8>,
}

/// Octets as base64 in JSON.
mod base64_octets {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(octets: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(octets))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// The report as a message to one of those who asked for it; with `redacts` nobody learns from it whom the message was for.
pub fn failure_mail(reporter: &Reporter, failure: &FailureSeen, to: &str, redacts: bool, now_secs: i64) -> Vec<u8> {
    let domain = &failure.seen.domain;
    let id = format!("{}@{}", one_line(&failure.id), domain_of(&reporter.email));
    let subject = format!("DMARC failure report about {domain}");
    let mut letter = Letter::new(reporter, to, &subject, &format!("dmarc-failure.{id}"), now_secs);
    letter.multipart("report; report-type=feedback-report", BOUNDARY);
    let text = format!(
        "This is a report about a message {}.\nAuthor's domain: {}\nFrom address:    {}\nReceived:        {}\n",
        what_failed(&failure.seen.row),
        failure.seen.row.header_from,
        failure.seen.row.source_ip,
        rfc5322(failure.arrived_secs)
    );
    letter.text(BOUNDARY, &text);
    letter.part(BOUNDARY, &[("Content-Type", "message/feedback-report")]);
    fields(&mut letter, reporter, failure, redacts);
    letter.part(BOUNDARY, &[("Content-Type", "text/rfc822-headers"), ("Content-Transfer-Encoding", "8bit")]);
    letter.raw(&header(&failure.header, redacts));
    letter.end(BOUNDARY)
}

/// With `fo=1` and others a domain hears of messages that passed too.
fn what_failed(row: &DmarcRow) -> &'static str {
    match (row.dkim, row.spf) {
        (Alignment::Fail, Alignment::Fail) => "that did not pass DMARC",
        (Alignment::Pass, Alignment::Fail) => {
            "that passed DMARC by DKIM alone: SPF did not pass for the author's domain"
        }
        (Alignment::Fail, Alignment::Pass) => {
            "that passed DMARC by SPF alone: DKIM did not pass for the author's domain"
        }
        (Alignment::Pass, Alignment::Pass) => "that passed DMARC, though one of its checks failed",
    }
}

fn fields(letter: &mut Letter, reporter: &Reporter, failure: &FailureSeen, redacts: bool) {
    let row = &failure.seen.row;
    letter.field("Feedback-Type", "auth-failure");
    letter.field("User-Agent", concat!("Postrider/", env!("CARGO_PKG_VERSION")));
    letter.field("Version", "1");
    letter.field("Auth-Failure", "dmarc");
    let failed = [(row.dkim, "dkim"), (row.spf, "spf")];
    let failed = failed.into_iter().filter_map(|(found, word)| (found == Alignment::Fail).then_some(word));
    let failed: Vec<&str> = failed.collect();
    letter.field("Identity-Alignment", &if failed.is_empty() { "none".to_owned() } else { failed.join(", ") });
    letter.field("Original-Mail-From", &format!("<{}>", mail_from(&failure.mail_from, redacts)));
    if !redacts {
        failure.recipients.iter().for_each(|to| letter.field("Original-Rcpt-To", &format!("<{to}>")));
    }
    letter.field("Arrival-Date", &rfc5322(failure.arrived_secs));
    letter.field("Source-IP", &row.source_ip.to_string());
    letter.field("Reported-Domain", &failure.seen.domain);
    let results: Vec<String> = failure.results.iter().map(|result| format!("; {}", said(result, redacts))).collect();
    letter.field("Authentication-Results", &format!("{}{}", reporter.submitter, results.concat()));
    letter.field("Delivery-Result", delivery_result(row.disposition));
    if let Some(signature) = row.dkim_results.iter().find(|seen| seen.word() != "pass") {
        letter.field("DKIM-Domain", &signature.domain);
        if !failure.dkim_identity.is_empty() {
            letter.field("DKIM-Identity", &identity(&failure.dkim_identity, redacts));
        }
        if !signature.selector.is_empty() {
            letter.field("DKIM-Selector", &signature.selector);
        }
    }
    letter.raw(b"\r\n");
}

/// The envelope's sender. Those who send to many have the recipient in its local part (VERP).
fn mail_from(address: &str, redacts: bool) -> Cow<'_, str> {
    match address.rsplit_once('@').filter(|_| redacts) {
        Some((_, domain)) => format!("redacted@{domain}").into(),
        None => address.into(),
    }
}

/// Whom a signature is for, which may name the recipient likewise: the part before the `@` is left out.
fn identity(text: &str, redacts: bool) -> Cow<'_, str> {
    match text.rsplit_once('@').filter(|_| redacts) {
        Some((_, domain)) => format!("@{domain}").into(),
        None => text.into(),
    }
}

/// A result of a check; of the envelope's sender and of who signed only their domains.
fn said(result: &str, redacts: bool) -> Cow<'_, str> {
    let cut = |name: &str, at: &str| {
        let (before, address) = result.split_once(name)?;
        let (_, rest) = address.rsplit_once('@')?;
        Some(format!("{before}{name}{at}{rest}").into())
    };
    let redacted = redacts.then(|| cut(MAIL_FROM, "").or_else(|| cut(SIGNED_BY, "@"))).flatten();
    redacted.unwrap_or_else(|| result.into())
}

/// RFC 6591 section 3.2.2: where it went.
fn delivery_result(disposition: Disposition) -> &'static str {
    match disposition {
        Disposition::None => "delivered",
        Disposition::Quarantine => "policy",
        Disposition::Reject => "reject",
    }
}

/// The header with CRLF line ends, without what names recipients, and without lines that no mail may have.
fn header(raw: &[u8], redacts: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len().min(FAILURE_HEADER_OCTETS_MAX));
    let mut is_hidden = false;
    for line in raw.split(|octet| *octet == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || out.len() + line.len() > FAILURE_HEADER_OCTETS_MAX {
            break;
        }
        let is_continued = line.first().is_some_and(|octet| matches!(octet, b' ' | b'\t'));
        if !is_continued {
            let name = line.split(|octet| *octet == b':').next().unwrap_or_default().trim_ascii();
            is_hidden = redacts && NAMING_RECIPIENTS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
            if is_hidden {
                out.extend_from_slice(name);
                let has_addresses = ADDRESS_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
                // An empty group is what an address list may be.
                out.extend_from_slice(if has_addresses { b": redacted:;\r\n" } else { b": redacted\r\n" });
            }
        }
        // What begins as the line between parts does is no field.
        if !is_hidden && !line.starts_with(b"--") {
            out.extend(
                line.iter().take(LINE_OCTETS_MAX).map(|octet| if matches!(octet, 0 | b'\r') { b'?' } else { *octet }),
            );
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

/// Those of the next that are lists of addresses.
const ADDRESS_FIELDS: [&str; 6] = ["To", "Cc", "Bcc", "Resent-To", "Resent-Cc", "Resent-Bcc"];
/// Before the envelope's sender in a result.
const MAIL_FROM: &str = "smtp.mailfrom=";
/// Before who signed.
const SIGNED_BY: &str = "header.i=";
/// Fields that say whom a message is for.
const NAMING_RECIPIENTS: [&str; 20] = [
    "To",
    "Cc",
    "Bcc",
    "Received",
    "Delivered-To",
    "X-Delivered-To",
    "X-Original-To",
    "Envelope-To",
    "X-Envelope-To",
    "X-Rcpt-To",
    "X-Forwarded-To",
    "Resent-To",
    "Resent-Cc",
    "Resent-Bcc",
    "Apparently-To",
    "Original-Recipient",
    "Final-Recipient",
    "X-Failed-Recipients",
    "Return-Path",
    "List-Unsubscribe",
];
/// Octets of a message's header that a report gives back.
pub const FAILURE_HEADER_OCTETS_MAX: usize = 32 * 1024;
/// Octets of a line.
const LINE_OCTETS_MAX: usize = 998;
/// What is between parts; no line that is given back begins as it does.
const BOUNDARY: &str = "=_dmarc_failure";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dmarc::{DkimSeen, PublishedPolicy, SpfSeen};

    fn failure(header: &[u8]) -> FailureSeen {
        let policy = PublishedPolicy {
            is_dkim_strict: false,
            is_spf_strict: false,
            policy: Disposition::Reject,
            subdomain_policy: Disposition::Reject,
            percent: 100,
            failure_options: "1".to_owned(),
            reports_to: String::new(),
        };
        let row = DmarcRow {
            source_ip: [192, 0, 2, 1].into(),
            disposition: Disposition::Reject,
            dkim: Alignment::Fail,
            spf: Alignment::Fail,
            overrides: Vec::new(),
            header_from: "a.test".to_owned(),
            envelope_from: "b.test".to_owned(),
            dkim_results: vec![DkimSeen { domain: "a.test".into(), selector: "s".into(), result: "fail".into() }],
            spf_result: SpfSeen { domain: "b.test".into(), is_helo: false, result: "fail".into() },
        };
        FailureSeen {
            seen: DmarcSeen { domain: "a.test".to_owned(), policy, row, is_report: false },
            reports_to: String::new(),
            id: "0123".to_owned(),
            arrived_secs: 0,
            mail_from: "x@b.test".to_owned(),
            recipients: vec!["secret@c.test".to_owned()],
            results: vec!["spf=fail smtp.mailfrom=b.test".to_owned()],
            dkim_identity: "@news.a.test".to_owned(),
            header: header.to_vec(),
        }
    }

    fn mail(header: &[u8], redacts: bool) -> String {
        let reporter = Reporter {
            org_name: "R".to_owned(),
            email: "dmarc@rcv.test".to_owned(),
            extra_contact_info: None,
            submitter: "mx.rcv.test".to_owned(),
            node: "n1".to_owned(),
        };
        let mail = failure_mail(&reporter, &failure(header), "ruf@a.test", redacts, 0);
        String::from_utf8(mail).expect("UTF-8").replace("\r\n ", " ")
    }

    #[test]
    fn recipients_are_not_told_unless_that_is_wanted() {
        let header = b"From: x@a.test\r\nTo: secret@c.test,\r\n\tsecret2@c.test\r\nSubject: s\r\n\r\nsecret body";
        let hidden = mail(header, true);
        assert!(!hidden.contains("secret"), "{hidden}");
        assert!(hidden.contains("To: redacted:;\r\nSubject: s\r\n--=_dmarc_failure--"), "{hidden}");
        let open = mail(header, false);
        assert!(open.contains("Original-Rcpt-To: <secret@c.test>\r\n") && open.contains("\tsecret2@c.test"), "{open}");
        assert!(!open.contains("secret body"), "{open}");
        for field in [
            "Feedback-Type: auth-failure",
            "Auth-Failure: dmarc",
            "Identity-Alignment: dkim, spf",
            "Source-IP: 192.0.2.1",
            "Reported-Domain: a.test",
            "Authentication-Results: mx.rcv.test; spf=fail smtp.mailfrom=b.test",
            "Delivery-Result: reject",
            "DKIM-Domain: a.test\r\nDKIM-Identity: @news.a.test\r\nDKIM-Selector: s",
            "Original-Mail-From: <redacted@b.test>",
        ] {
            assert!(hidden.contains(&format!("{field}\r\n")), "{field}\n{hidden}");
        }
    }

    #[test]
    fn what_failed_is_said_as_it_was() {
        use Alignment::{Fail, Pass};
        let mut row = failure(b"").seen.row;
        for (dkim, spf, says) in [
            (Fail, Fail, "did not pass DMARC"),
            (Pass, Fail, "SPF did not pass"),
            (Fail, Pass, "DKIM did not pass"),
            (Pass, Pass, "passed DMARC, though"),
        ] {
            (row.dkim, row.spf) = (dkim, spf);
            assert!(what_failed(&row).contains(says), "{dkim:?} {spf:?}: {}", what_failed(&row));
        }
    }

    /// As those who send to many write them.
    #[test]
    fn a_recipient_in_the_senders_address_is_not_told_either() {
        let results = "spf=fail smtp.mailfrom=bounces+ann=c.test@b.test smtp.helo=h.test";
        assert_eq!(said(results, true), "spf=fail smtp.mailfrom=b.test smtp.helo=h.test");
        assert_eq!(said(results, false), results);
        assert_eq!(
            said("dkim=fail header.d=a.test header.i=bounces+ann=c.test@a.test header.s=s", true),
            "dkim=fail header.d=a.test header.i=@a.test header.s=s"
        );
        assert_eq!((&*identity("ann@a.test", true), &*identity("ann@a.test", false)), ("@a.test", "ann@a.test"));
        assert_eq!((&*mail_from("bounces+ann=c.test@b.test", true), &*mail_from("", true)), ("redacted@b.test", ""));
    }

    #[test]
    fn the_header_that_is_given_back_is_bounded() {
        let long = format!("X: {}\r\nY: {}\r\n\r\n", "a".repeat(2000), "b".repeat(FAILURE_HEADER_OCTETS_MAX));
        let out = header(long.as_bytes(), false);
        assert_eq!(out.len(), LINE_OCTETS_MAX + 2);
        assert_eq!(header(b"A: 1\nB: \x002\r3\n--=_dmarc_failure--\n\nC: 3", false), b"A: 1\r\nB: ?2?3\r\n");
    }
}
