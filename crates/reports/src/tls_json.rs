//! A TLS report: the JSON of RFC 8460 section 4.4, and the message it travels in (section 5.3).
//!
//! In: who reports, a period, a domain and its [`Account`]. Out: octets. Cannot fail. Policies and failures are in one order, so
//! that a report that is made again after a crash is the same.

use crate::dmarc_xml::report_id;
use crate::mail::{Letter, Reporter, domain_of, file_stem, gzip};
use crate::period::{Period, rfc3339};
use crate::tally::Account;
use crate::tls::{SessionFailure, TlsPolicy, TlsRow};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a report is called where it is posted, compressed.
pub const TLS_MEDIA_TYPE: &str = "application/tlsrpt+gzip";

/// The report as JSON.
pub fn tls_json(reporter: &Reporter, domain: &str, period: Period, account: &Account<(), TlsRow>) -> Vec<u8> {
    let mut policies: BTreeMap<&TlsPolicy, (u64, BTreeMap<&SessionFailure, u64>)> = BTreeMap::new();
    for (row, count) in &account.rows {
        let (successes, failures) = policies.entry(&row.policy).or_default();
        match &row.failure {
            None => *successes += count,
            Some(failure) => *failures.entry(failure).or_default() += count,
        }
    }
    let policies: Vec<Value> = policies.iter().map(|(policy, counts)| of_policy(policy, counts)).collect();
    let report = json!({
        "organization-name": reporter.org_name,
        "date-range": {"start-datetime": rfc3339(period.begin_secs()), "end-datetime": rfc3339(period.last_secs())},
        "contact-info": reporter.email,
        "report-id": id(reporter, domain, period),
        "policies": policies,
    });
    report.to_string().into_bytes()
}

/// The report as a message to one of those who asked for it. It asks that TLS keeps nobody from taking it: a report of what is
/// broken is to arrive where it is broken (RFC 8460 section 3, RFC 8689 section 4.2).
pub fn tls_mail(reporter: &Reporter, domain: &str, period: Period, to: &str, json: &[u8], now_secs: i64) -> Vec<u8> {
    let id = id(reporter, domain, period);
    let subject = format!("Report Domain: {domain} Submitter: {} Report-ID: <{id}>", reporter.submitter);
    let mut letter = Letter::new(reporter, to, &subject, &format!("tlsrpt.{id}"), now_secs);
    letter.field("TLS-Report-Domain", domain);
    letter.field("TLS-Report-Submitter", &reporter.submitter);
    letter.field("TLS-Required", "No");
    letter.multipart("report; report-type=\"tlsrpt\"", BOUNDARY);
    let text = format!(
        "This is an SMTP TLS report about {domain}.\nFrom: {}\nTo:   {}\n",
        rfc3339(period.begin_secs()),
        rfc3339(period.last_secs())
    );
    letter.text(BOUNDARY, &text);
    let name = format!("{}.json.gz", file_stem(reporter, domain, period));
    letter.file(BOUNDARY, TLS_MEDIA_TYPE, &name, &gzip(json));
    letter.end(BOUNDARY)
}

fn id(reporter: &Reporter, domain: &str, period: Period) -> String {
    format!("{}@{}", report_id(reporter, domain, period), domain_of(&reporter.email))
}

fn of_policy(policy: &TlsPolicy, (successes, failures): &(u64, BTreeMap<&SessionFailure, u64>)) -> Value {
    let mut shown = Map::new();
    shown.insert("policy-type".to_owned(), json!(policy.kind));
    if !policy.text.is_empty() {
        shown.insert("policy-string".to_owned(), json!(policy.text));
    }
    shown.insert("policy-domain".to_owned(), json!(policy.domain));
    if !policy.mx_hosts.is_empty() {
        shown.insert("mx-host".to_owned(), json!(policy.mx_hosts));
    }
    let failed: u64 = failures.values().sum();
    let mut of_policy = Map::new();
    of_policy.insert("policy".to_owned(), Value::Object(shown));
    let summary = json!({"total-successful-session-count": successes, "total-failure-session-count": failed});
    of_policy.insert("summary".to_owned(), summary);
    if !failures.is_empty() {
        let details: Vec<Value> = failures.iter().map(|(failure, count)| of_failure(failure, *count)).collect();
        of_policy.insert("failure-details".to_owned(), Value::Array(details));
    }
    Value::Object(of_policy)
}

fn of_failure(failure: &SessionFailure, count: u64) -> Value {
    let mut shown = Map::new();
    shown.insert("result-type".to_owned(), json!(failure.result));
    let text = |text: &str| (!text.is_empty()).then(|| json!(text));
    let fields = [
        ("sending-mta-ip", failure.sending_ip.map(|ip| json!(ip))),
        ("receiving-mx-hostname", text(&failure.receiving_host)),
        ("receiving-ip", failure.receiving_ip.map(|ip| json!(ip))),
        ("failed-session-count", Some(json!(count))),
        ("failure-reason-code", text(&failure.reason)),
    ];
    shown.extend(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    Value::Object(shown)
}

/// What is between parts; neither base64 nor our words have an `=_`.
const BOUNDARY: &str = "=_tls_report";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{TlsPolicyType, TlsResult};
    use std::collections::HashMap;

    fn reporter() -> Reporter {
        Reporter {
            org_name: "S".to_owned(),
            email: "tls@snd.test".to_owned(),
            extra_contact_info: None,
            submitter: "mx.snd.test".to_owned(),
            node: "n1".to_owned(),
        }
    }

    fn account() -> Account<(), TlsRow> {
        let policy = TlsPolicy {
            kind: TlsPolicyType::Sts,
            text: vec!["version: STSv1".to_owned(), "mode: testing".to_owned()],
            domain: "a.test".to_owned(),
            mx_hosts: vec!["*.a.test".to_owned()],
        };
        let failure = SessionFailure {
            result: TlsResult::CertificateExpired,
            sending_ip: Some([192, 0, 2, 1].into()),
            receiving_host: "mx.a.test".to_owned(),
            receiving_ip: Some([192, 0, 2, 2].into()),
            reason: "\"old\"".to_owned(),
        };
        let other =
            SessionFailure { result: TlsResult::StarttlsNotSupported, reason: String::new(), ..failure.clone() };
        let none = TlsPolicy { kind: TlsPolicyType::NoPolicyFound, text: vec![], mx_hosts: vec![], ..policy.clone() };
        let rows = [
            (TlsRow { policy: policy.clone(), failure: None }, 5),
            (TlsRow { policy: policy.clone(), failure: Some(failure) }, 2),
            (TlsRow { policy, failure: Some(other) }, 1),
            (TlsRow { policy: none, failure: None }, 9),
        ];
        Account { policy: (), rows: HashMap::from(rows), over: 0 }
    }

    #[test]
    fn sessions_are_summed_by_policy() {
        let day = Period::at(86_400, 86_400);
        let report: Value = serde_json::from_slice(&tls_json(&reporter(), "a.test", day, &account())).expect("JSON");
        assert_eq!(
            report["date-range"],
            json!({"start-datetime": "1970-01-02T00:00:00Z", "end-datetime": "1970-01-02T23:59:59Z"})
        );
        assert_eq!(report["report-id"], "a.test.86400.86400.n1@snd.test");
        let policies = report["policies"].as_array().expect("an array");
        assert_eq!(policies.len(), 2);
        assert_eq!(policies[0]["policy"]["policy-type"], "sts");
        assert_eq!(policies[0]["policy"]["mx-host"], json!(["*.a.test"]));
        let sums = json!({"total-successful-session-count": 5, "total-failure-session-count": 3});
        assert_eq!(policies[0]["summary"], sums);
        let details = policies[0]["failure-details"].as_array().expect("an array");
        assert_eq!(
            (details[0]["result-type"].as_str(), details[1]["result-type"].as_str()),
            (Some("starttls-not-supported"), Some("certificate-expired"))
        );
        assert_eq!(details[1]["failed-session-count"], 2);
        assert_eq!(details[1]["failure-reason-code"], "\"old\"");
        assert!(details[0].get("failure-reason-code").is_none());
        assert_eq!(policies[1]["policy"], json!({"policy-type": "no-policy-found", "policy-domain": "a.test"}));
        assert!(policies[1].get("failure-details").is_none());
    }

    #[test]
    fn its_message_is_as_receivers_expect() {
        let day = Period::at(86_400, 86_400);
        let mail = tls_mail(&reporter(), "a.test", day, "r@a.test", b"{}", 0);
        let mail = String::from_utf8(mail).expect("ASCII").replace("\r\n ", " ");
        for part in [
            "Subject: Report Domain: a.test Submitter: mx.snd.test Report-ID: <a.test.86400.86400.n1@snd.test>\r\n",
            "TLS-Report-Domain: a.test\r\nTLS-Report-Submitter: mx.snd.test\r\nTLS-Required: No\r\n",
            "Content-Type: multipart/report; report-type=\"tlsrpt\"; boundary=\"=_tls_report\"\r\n",
            "Content-Type: application/tlsrpt+gzip\r\n",
            "filename=\"mx.snd.test!a.test!86400!172799!n1.json.gz\"",
        ] {
            assert!(mail.contains(part), "{part}\n{mail}");
        }
    }
}
