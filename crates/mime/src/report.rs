//! Reports about mail, read: delivery status notifications (RFC 3464) and feedback reports (RFC 5965).
//!
//! Owns [`DeliveryReport`] and [`FeedbackReport`]. In: raw bytes of a message. Out: what it says, `None` when it is no
//! such report. Fails on what claims to be one and lacks what the RFC demands, or goes beyond a bound. A look at the
//! `Content-Type` alone decides for ordinary mail; only reports are taken apart.

use crate::multipart::{MediaType, Part, parts};
use crate::report_fields::{Group, groups};
use std::collections::BTreeMap;
use thiserror::Error;

/// What a delivery status notification says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryReport {
    /// About the message.
    pub per_message: PerMessage,
    /// About each recipient.
    pub per_recipient: Vec<PerRecipient>,
    /// The message or its header, as enclosed; cut at [`ORIGINAL_OCTETS_MAX`].
    pub original_message: Option<Vec<u8>>,
}

/// Fields about the message (RFC 3464 section 2.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerMessage {
    /// `Original-Envelope-Id`.
    pub original_envelope_id: Option<String>,
    /// `Reporting-MTA`: type and name.
    pub reporting_mta: Typed,
    /// `DSN-Gateway`.
    pub dsn_gateway: Option<Typed>,
    /// `Received-From-MTA`.
    pub received_from_mta: Option<Typed>,
    /// `Arrival-Date`, as written.
    pub arrival_date: Option<String>,
    /// Every other field, names in lower case.
    pub extensions: BTreeMap<String, Vec<String>>,
}

/// Fields about a recipient (RFC 3464 section 2.3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerRecipient {
    /// `Original-Recipient`.
    pub original_recipient: Option<Typed>,
    /// `Final-Recipient`.
    pub final_recipient: Typed,
    /// `Action`, lower case: `failed`, `delayed`, `delivered`, `relayed`, `expanded`.
    pub action: String,
    /// `Status`: class, subject, detail.
    pub status: (u8, u16, u16),
    /// `Remote-MTA`.
    pub remote_mta: Option<Typed>,
    /// `Diagnostic-Code`.
    pub diagnostic_code: Option<Typed>,
    /// `Last-Attempt-Date`, as written.
    pub last_attempt_date: Option<String>,
    /// `Final-Log-ID`.
    pub final_log_id: Option<String>,
    /// `Will-Retry-Until`, as written.
    pub will_retry_until: Option<String>,
    /// Every other field, names in lower case.
    pub extensions: BTreeMap<String, Vec<String>>,
}

/// `type; value`, as `rfc822; a@b.example`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// Before the semicolon.
    pub kind: String,
    /// Behind it.
    pub value: String,
}

/// What a feedback report says (RFC 5965 section 3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedbackReport {
    /// `Feedback-Type`.
    pub feedback_type: String,
    /// `User-Agent`.
    pub user_agent: String,
    /// `Version`.
    pub version: String,
    /// `Arrival-Date` (or `Received-Date`), as written.
    pub arrival_date: Option<String>,
    /// `Incidents`.
    pub incidents: Option<u32>,
    /// `Original-Envelope-Id`.
    pub original_envelope_id: Option<String>,
    /// `Original-Mail-From`, angle brackets taken off.
    pub original_mail_from: Option<String>,
    /// `Reporting-MTA`.
    pub reporting_mta: Option<Typed>,
    /// `Source-IP`.
    pub source_ip: Option<String>,
    /// `Authentication-Results`.
    pub authentication_results: Vec<String>,
    /// `Original-Rcpt-To`, angle brackets taken off.
    pub original_rcpt_to: Vec<String>,
    /// `Reported-Domain`.
    pub reported_domain: Vec<String>,
    /// `Reported-URI`.
    pub reported_uri: Vec<String>,
    /// Every other field, names in lower case.
    pub extensions: BTreeMap<String, Vec<String>>,
    /// The message or its header, as enclosed; cut at [`ORIGINAL_OCTETS_MAX`].
    pub original_message: Option<Vec<u8>>,
}

/// The reports this module reads, told by `Content-Type` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// [`DeliveryReport`].
    Delivery,
    /// [`FeedbackReport`].
    Feedback,
}

/// Why a message that claims to be a report is not read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReportError {
    /// There is no such part.
    #[error("a report without a part {0}")]
    NoPart(&'static str),
    /// A field that must be there is not.
    #[error("a report without the field {0}")]
    Missing(&'static str),
    /// A field that is not of its form.
    #[error("field {name} of a report: `{value}`: expected {expected}")]
    Malformed {
        /// Which.
        name: &'static str,
        /// What stands there.
        value: String,
        /// What should.
        expected: &'static str,
    },
    /// A bound was passed.
    #[error("a report with too many {0}: expected at most {1}")]
    TooMany(&'static str, usize),
}

impl ReportKind {
    /// What a message with this `Content-Type` claims to be.
    pub fn of_content_type(value: &str) -> Option<ReportKind> {
        let is_multipart = value.trim_start().get(..10).is_some_and(|start| start.eq_ignore_ascii_case("multipart/"));
        if !is_multipart {
            return None;
        }
        let media_type = MediaType::parse(value);
        let kind = media_type.parameter("report-type").filter(|_| media_type.name == "multipart/report")?;
        match kind.to_ascii_lowercase().as_str() {
            "delivery-status" => Some(ReportKind::Delivery),
            "feedback-report" => Some(ReportKind::Feedback),
            _ => None,
        }
    }
}

impl DeliveryReport {
    /// Reads a message; `None` when it is no `multipart/report` of type `delivery-status`.
    ///
    /// # Errors
    /// [`ReportError`]'s causes.
    pub fn parse(raw: &[u8]) -> Result<Option<DeliveryReport>, ReportError> {
        let Some(parts) = report_parts(raw, "delivery-status") else { return Ok(None) };
        let status = find(&parts, &["message/delivery-status", "message/global-delivery-status"])
            .ok_or(ReportError::NoPart("message/delivery-status"))?;
        let mut groups = groups(&status.content)?.into_iter();
        let per_message = per_message(groups.next().ok_or(ReportError::Missing("Reporting-MTA"))?)?;
        let per_recipient = groups.map(per_recipient).collect::<Result<Vec<_>, _>>()?;
        if per_recipient.is_empty() {
            return Err(ReportError::Missing("Final-Recipient"));
        }
        Ok(Some(DeliveryReport { per_message, per_recipient, original_message: original(&parts) }))
    }
}

impl FeedbackReport {
    /// Reads a message; `None` when it is no `multipart/report` of type `feedback-report`.
    ///
    /// # Errors
    /// [`ReportError`]'s causes.
    pub fn parse(raw: &[u8]) -> Result<Option<FeedbackReport>, ReportError> {
        let Some(parts) = report_parts(raw, "feedback-report") else { return Ok(None) };
        let report =
            find(&parts, &["message/feedback-report"]).ok_or(ReportError::NoPart("message/feedback-report"))?;
        let mut group = groups(&report.content)?.into_iter().next().ok_or(ReportError::Missing("Feedback-Type"))?;
        let must = |group: &mut Group, key: &str, name| group.take(key).ok_or(ReportError::Missing(name));
        let incidents = group.take("incidents").map(|text| {
            let expected = "a number";
            text.parse().map_err(|_| ReportError::Malformed { name: "Incidents", value: text, expected })
        });
        Ok(Some(FeedbackReport {
            feedback_type: must(&mut group, "feedback-type", "Feedback-Type")?,
            user_agent: must(&mut group, "user-agent", "User-Agent")?,
            version: must(&mut group, "version", "Version")?,
            arrival_date: group.take("arrival-date").or_else(|| group.take("received-date")),
            incidents: incidents.transpose()?,
            original_envelope_id: group.take("original-envelope-id"),
            original_mail_from: group.take("original-mail-from"),
            reporting_mta: group.take("reporting-mta").map(|text| Typed::parse(&text)),
            source_ip: group.take("source-ip"),
            authentication_results: group.take_all("authentication-results"),
            original_rcpt_to: group.take_all("original-rcpt-to"),
            reported_domain: group.take_all("reported-domain"),
            reported_uri: group.take_all("reported-uri"),
            extensions: group.rest(),
            original_message: original(&parts),
        }))
    }
}

impl Typed {
    /// `type; value`; without a semicolon the whole is the value.
    pub fn parse(text: &str) -> Typed {
        match text.split_once(';') {
            Some((kind, value)) => Typed { kind: kind.trim().to_owned(), value: value.trim().to_owned() },
            None => Typed { kind: String::new(), value: text.trim().to_owned() },
        }
    }

    /// Of these two.
    pub fn new(kind: impl Into<String>, value: impl Into<String>) -> Typed {
        Typed { kind: kind.into(), value: value.into() }
    }
}

fn per_message(mut group: Group) -> Result<PerMessage, ReportError> {
    let typed = |text: Option<String>| text.map(|text| Typed::parse(&text));
    Ok(PerMessage {
        original_envelope_id: group.take("original-envelope-id"),
        reporting_mta: typed(group.take("reporting-mta")).ok_or(ReportError::Missing("Reporting-MTA"))?,
        dsn_gateway: typed(group.take("dsn-gateway")),
        received_from_mta: typed(group.take("received-from-mta")),
        arrival_date: group.take("arrival-date"),
        extensions: group.rest(),
    })
}

fn per_recipient(mut group: Group) -> Result<PerRecipient, ReportError> {
    let typed = |text: Option<String>| text.map(|text| Typed::parse(&text));
    let status = group.take("status").ok_or(ReportError::Missing("Status"))?;
    let Some(numbers) = status_of(&status) else {
        let expected = "class.subject.detail";
        return Err(ReportError::Malformed { name: "Status", value: status, expected });
    };
    let action = group.take("action").ok_or(ReportError::Missing("Action"))?;
    Ok(PerRecipient {
        original_recipient: typed(group.take("original-recipient")),
        final_recipient: typed(group.take("final-recipient")).ok_or(ReportError::Missing("Final-Recipient"))?,
        action: action.split([' ', '(']).next().unwrap_or_default().to_ascii_lowercase(),
        status: numbers,
        remote_mta: typed(group.take("remote-mta")),
        diagnostic_code: typed(group.take("diagnostic-code")),
        last_attempt_date: group.take("last-attempt-date"),
        final_log_id: group.take("final-log-id"),
        will_retry_until: group.take("will-retry-until"),
        extensions: group.rest(),
    })
}

/// `5.1.1 (bad mailbox)`.
fn status_of(text: &str) -> Option<(u8, u16, u16)> {
    let code = text.split([' ', '\t', '(']).next()?;
    let mut numbers = code.split('.').map(|n| n.parse::<u16>().ok().filter(|n| *n <= STATUS_MAX));
    let (class, subject, detail) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let is_class = matches!(class, 2 | 4 | 5) && numbers.next().is_none();
    is_class.then_some((class as u8, subject, detail))
}

fn report_parts<'a>(raw: &'a [u8], kind: &str) -> Option<Vec<Part<'a>>> {
    let media_type = MediaType::of(raw);
    let is_report = media_type.name == "multipart/report"
        && media_type.parameter("report-type").is_some_and(|found| found.eq_ignore_ascii_case(kind));
    is_report.then(|| parts(raw, &media_type))
}

fn find<'p, 'a>(parts: &'p [Part<'a>], names: &[&str]) -> Option<&'p Part<'a>> {
    parts.iter().find(|part| names.contains(&part.media_type.name.as_str()))
}

fn original(parts: &[Part<'_>]) -> Option<Vec<u8>> {
    let names = ["message/rfc822", "text/rfc822-headers", "message/global", "message/global-headers"];
    find(parts, &names).map(|part| part.content[..part.content.len().min(ORIGINAL_OCTETS_MAX)].to_vec())
}

/// Octets kept of an enclosed message.
pub const ORIGINAL_OCTETS_MAX: usize = 256 << 10;
/// RFC 3463 section 2: numbers of up to three digits.
const STATUS_MAX: u16 = 999;
