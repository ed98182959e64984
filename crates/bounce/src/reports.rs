//! Reports about mail as log records and policies want them: KumoMTA's names.
//!
//! In: what the mime crate read. Out: the failures of a delivery report as facts of OOB records ([`failures`]), a
//! feedback report in its log form ([`feedback`]), and either as JSON for policies. Nothing fails: a date that does not
//! read is left out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mime::{DeliveryReport, PerMessage, PerRecipient, Typed};
use record::{ByteString, EnhancedCode, FeedbackReport, RemoteMta, Response, Timestamp};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// What an OOB record says of one recipient (KumoMTA behaviour).
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The original recipient if the report names it, else the final one.
    pub recipient: String,
    /// The SMTP reply the report tells, else 550 with its status code.
    pub response: Response,
    /// Who reports.
    pub reporting_mta: String,
    /// When the last attempt was made, if the report says so.
    pub at: Option<Timestamp>,
}

/// The recipients that failed.
pub fn failures(report: &DeliveryReport) -> Vec<Failure> {
    let failed = report.per_recipient.iter().filter(|recipient| recipient.action == "failed");
    let failure = |recipient: &PerRecipient| Failure {
        recipient: recipient.original_recipient.as_ref().unwrap_or(&recipient.final_recipient).value.clone(),
        response: response(recipient),
        reporting_mta: report.per_message.reporting_mta.value.clone(),
        at: recipient.last_attempt_date.as_deref().and_then(date),
    };
    failed.map(failure).collect()
}

/// A feedback report in its log form.
pub fn feedback(report: mime::FeedbackReport) -> FeedbackReport {
    let texts = |list: Vec<String>| list.into_iter().map(ByteString::from).collect();
    let supplemental_trace = report.original_message.as_deref().and_then(supplemental_trace);
    FeedbackReport {
        feedback_type: report.feedback_type.into(),
        user_agent: report.user_agent.into(),
        version: report.version.into(),
        arrival_date: report.arrival_date.as_deref().and_then(date),
        incidents: report.incidents,
        original_envelope_id: report.original_envelope_id.map(ByteString::from),
        original_mail_from: report.original_mail_from.map(ByteString::from),
        reporting_mta: report.reporting_mta.map(|mta| RemoteMta { mta_type: mta.kind, name: mta.value }),
        source_ip: report.source_ip.map(ByteString::from),
        authentication_results: texts(report.authentication_results),
        original_rcpto_to: texts(report.original_rcpt_to),
        reported_domain: texts(report.reported_domain),
        reported_uri: texts(report.reported_uri),
        extensions: report.extensions.into_iter().map(|(name, values)| (name, texts(values))).collect(),
        original_message: report.original_message.map(ByteString::from),
        supplemental_trace,
    }
}

/// `msg:parse_rfc5965()`: the fields of the log record.
pub fn feedback_json(report: mime::FeedbackReport) -> Value {
    serde_json::to_value(feedback(report)).unwrap_or_default()
}

/// `msg:parse_rfc3464()`: `per_message`, `per_recipient`, `original_message`.
pub fn delivery_json(report: &DeliveryReport) -> Value {
    let PerMessage { original_envelope_id, reporting_mta, dsn_gateway, received_from_mta, arrival_date, extensions } =
        &report.per_message;
    let per_message = object([
        ("original_envelope_id", text(original_envelope_id)),
        ("reporting_mta", mta(Some(reporting_mta))),
        ("dsn_gateway", mta(dsn_gateway.as_ref())),
        ("received_from_mta", mta(received_from_mta.as_ref())),
        ("arrival_date", moment(arrival_date)),
        ("extensions", lists(extensions)),
    ]);
    let original = report.original_message.as_deref().map(|raw| String::from_utf8_lossy(raw).into_owned());
    object([
        ("per_message", per_message),
        ("per_recipient", report.per_recipient.iter().map(recipient_json).collect()),
        ("original_message", text(&original)),
    ])
}

fn recipient_json(recipient: &PerRecipient) -> Value {
    let address = |typed: &Typed| json!({"recipient_type": typed.kind, "recipient": typed.value});
    let (class, subject, detail) = recipient.status;
    let diagnostic = |d: &Typed| json!({"diagnostic_type": d.kind, "diagnostic": d.value});
    object([
        ("original_recipient", recipient.original_recipient.as_ref().map(address).unwrap_or_default()),
        ("final_recipient", address(&recipient.final_recipient)),
        ("action", recipient.action.as_str().into()),
        ("status", json!({"class": class, "subject": subject, "detail": detail})),
        ("remote_mta", mta(recipient.remote_mta.as_ref())),
        ("diagnostic_code", recipient.diagnostic_code.as_ref().map(diagnostic).unwrap_or_default()),
        ("last_attempt_date", moment(&recipient.last_attempt_date)),
        ("final_log_id", text(&recipient.final_log_id)),
        ("will_retry_until", moment(&recipient.will_retry_until)),
        ("extensions", lists(&recipient.extensions)),
    ])
}

/// Absent members are left out.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let given = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn text(value: &Option<String>) -> Value {
    value.as_deref().map_or(Value::Null, Value::from)
}

fn mta(typed: Option<&Typed>) -> Value {
    typed.map_or(Value::Null, |typed| json!({"mta_type": typed.kind, "name": typed.value}))
}

/// RFC 3339 if it reads, else as it stands.
fn moment(value: &Option<String>) -> Value {
    let Some(text) = value.as_deref() else { return Value::Null };
    date(text).map_or_else(|| text.into(), |at| at.rfc3339().as_str().into())
}

fn lists(lists: &BTreeMap<String, Vec<String>>) -> Value {
    if lists.is_empty() { Value::Null } else { json!(lists) }
}

/// `550 5.1.1 no such user` of `Diagnostic-Code: smtp; ...`; without one, 550 and the status.
fn response(recipient: &PerRecipient) -> Response {
    let (class, subject, detail) = recipient.status;
    let status = EnhancedCode::new(class, subject, detail);
    let diagnostic = recipient.diagnostic_code.as_ref();
    let content = diagnostic.map(|d| d.value.as_str()).unwrap_or_default();
    let reply = content.split_at_checked(3).filter(|(code, rest)| {
        let is_smtp = diagnostic.is_some_and(|d| d.kind.eq_ignore_ascii_case("smtp"));
        is_smtp && code.bytes().all(|b| b.is_ascii_digit()) && (rest.is_empty() || rest.starts_with([' ', '-']))
    });
    let code = reply.and_then(|(code, _)| code.parse::<u16>().ok()).filter(|code| (200..600).contains(code));
    match (code, reply) {
        (Some(code), Some((_, rest))) => {
            let told = Response::from_text(code, rest.trim_start_matches(['-', ' ']));
            let enhanced_code = told.enhanced_code.or(Some(status));
            Response { enhanced_code, ..told }
        }
        _ => Response::new(550, Some(status), content),
    }
}

/// A date of RFC 5322, comments left out.
fn date(text: &str) -> Option<Timestamp> {
    let text = text.split('(').next().unwrap_or_default().trim();
    let moment = OffsetDateTime::parse(text, &Rfc2822).ok()?;
    Some(Timestamp::from_unix_seconds(moment.unix_timestamp()))
}

/// The trace header this server, or KumoMTA, adds: any `X-` field whose base64 is a JSON object with `"_@_": "\_/"`.
fn supplemental_trace(original: &[u8]) -> Option<Value> {
    let block = mime::HeaderBlock::parse(original);
    let values = block.view(original).iter().filter(|field| field.is_x()).map(|field| field.decoded());
    let object = |value: String| {
        let packed: String = value.split_whitespace().collect();
        let value: Value = serde_json::from_slice(&STANDARD.decode(packed).ok()?).ok()?;
        (value.get("_@_")? == "\\_/").then_some(value)
    };
    values.filter(|value| value.len() <= TRACE_OCTETS_MAX).find_map(object)
}

/// Longest trace header that is looked at (octets).
const TRACE_OCTETS_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn recipient(status: (u8, u16, u16), diagnostic: Option<(&str, &str)>) -> PerRecipient {
        let diagnostic_code = diagnostic.map(|(kind, value)| Typed::new(kind, value));
        PerRecipient { status, diagnostic_code, ..PerRecipient::default() }
    }

    #[test]
    fn responses_come_from_the_diagnostic_else_from_the_status() {
        for (diagnostic, line) in [
            (Some(("smtp", "550 5.7.1 go away")), "550 5.7.1 go away"),
            (Some(("SMTP", "451-no code here")), "451 5.1.2 no code here"),
            (Some(("smtp", "554")), "554 5.1.2"),
            (Some(("x-unix", "550 user")), "550 5.1.2 550 user"),
            (Some(("smtp", "no reply")), "550 5.1.2 no reply"),
            (Some(("smtp", "999 x")), "550 5.1.2 999 x"),
            (Some(("smtp", "5\u{fc}")), "550 5.1.2 5\u{fc}"),
            (None, "550 5.1.2"),
        ] {
            assert_eq!(response(&recipient((5, 1, 2), diagnostic)).to_single_line(), line, "{diagnostic:?}");
        }
    }

    #[test]
    fn dates_read_with_their_comments() {
        let at = |text| date(text).map(Timestamp::unix_seconds);
        assert_eq!(at("Sat, 21 Nov 2026 22:45:29 +0100 (CET)"), Some(1_795_297_529));
        assert_eq!(at("yesterday"), None);
    }

    #[test]
    fn the_trace_header_is_found_in_the_original() {
        let packed = STANDARD.encode(r#"{"_@_":"\\_/","recipient":"a@b.test"}"#);
        let (first, second) = packed.split_at(20);
        let original = format!("X-Other: aGVsbG8=\r\nX-KumoRef: {first}\r\n\t{second}\r\n\r\nbody");
        let found = supplemental_trace(original.as_bytes()).expect("a trace");
        assert_eq!(found["recipient"], "a@b.test");
        assert_eq!(supplemental_trace(original.replace("X-Kumo", "Kumo").as_bytes()), None);
    }
}
