//! A DMARC aggregate report: the XML of RFC 7489 appendix C, and the message it travels in (section 7.2.1.1).
//!
//! In: who reports, a period, a domain and its [`Account`]. Out: octets. Cannot fail: what XML 1.0 cannot say is replaced. Rows
//! are in one order, so that a report that is made again after a crash is the same.
//!
//! The element `feedback` stands in no namespace: appendix C declares one, nobody writes it, and readers look for the bare name.

use crate::dmarc::{DmarcRow, PublishedPolicy};
use crate::mail::{Letter, Reporter, domain_of, file_stem, gzip};
use crate::period::Period;
use crate::tally::Account;

/// The report as XML.
pub fn aggregate_xml(
    reporter: &Reporter,
    domain: &str,
    period: Period,
    account: &Account<PublishedPolicy, DmarcRow>,
) -> Vec<u8> {
    let mut xml = Xml::new();
    xml.open("feedback");
    xml.leaf("version", "1.0");
    xml.open("report_metadata");
    xml.leaf("org_name", &reporter.org_name);
    xml.leaf("email", &reporter.email);
    if let Some(extra) = &reporter.extra_contact_info {
        xml.leaf("extra_contact_info", extra);
    }
    xml.leaf("report_id", &report_id(reporter, domain, period));
    xml.open("date_range");
    xml.leaf("begin", &period.begin_secs().to_string());
    xml.leaf("end", &period.last_secs().to_string());
    xml.close("date_range");
    if account.over > 0 {
        let text =
            format!("{} more messages are not shown: there were more kinds of them than are counted", account.over);
        xml.leaf("error", &text);
    }
    xml.close("report_metadata");
    published(&mut xml, domain, &account.policy);
    let mut rows: Vec<(&DmarcRow, &u64)> = account.rows.iter().collect();
    rows.sort();
    rows.into_iter().for_each(|(row, count)| record(&mut xml, row, *count));
    xml.close("feedback");
    xml.0.into_bytes()
}

/// The report as a message to one of those who asked for it.
pub fn aggregate_mail(
    reporter: &Reporter,
    domain: &str,
    period: Period,
    to: &str,
    xml: &[u8],
    now_secs: i64,
) -> Vec<u8> {
    let id = format!("{}@{}", report_id(reporter, domain, period), domain_of(&reporter.email));
    let subject = format!("Report Domain: {domain} Submitter: {} Report-ID: <{id}>", reporter.submitter);
    let mut letter = Letter::new(reporter, to, &subject, &format!("dmarc.{id}"), now_secs);
    letter.multipart("mixed", BOUNDARY);
    let text = format!(
        "This is a DMARC aggregate report about {domain}.\nFrom: {}\nTo:   {}\n",
        crate::period::rfc3339(period.begin_secs()),
        crate::period::rfc3339(period.last_secs())
    );
    letter.text(BOUNDARY, &text);
    let name = format!("{}.xml.gz", file_stem(reporter, domain, period));
    letter.file(BOUNDARY, "application/gzip", &name, &gzip(xml));
    letter.end(BOUNDARY)
}

/// The same for each copy of a report, also for one that is sent again, and another one on each node.
pub(crate) fn report_id(reporter: &Reporter, domain: &str, period: Period) -> String {
    let domain: String = domain.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).collect();
    format!("{domain}.{}.{}.{}", period.begin_secs(), period.length_secs(), reporter.node)
}

fn published(xml: &mut Xml, domain: &str, policy: &PublishedPolicy) {
    let mode = |is_strict: bool| if is_strict { "s" } else { "r" };
    xml.open("policy_published");
    xml.leaf("domain", domain);
    xml.leaf("adkim", mode(policy.is_dkim_strict));
    xml.leaf("aspf", mode(policy.is_spf_strict));
    xml.leaf("p", policy.policy.word());
    xml.leaf("sp", policy.subdomain_policy.word());
    xml.leaf("pct", &policy.percent.to_string());
    xml.leaf("fo", &policy.failure_options);
    xml.close("policy_published");
}

fn record(xml: &mut Xml, row: &DmarcRow, count: u64) {
    xml.open("record");
    xml.open("row");
    xml.leaf("source_ip", &row.source_ip.to_string());
    xml.leaf("count", &count.to_string());
    xml.open("policy_evaluated");
    xml.leaf("disposition", row.disposition.word());
    xml.leaf("dkim", row.dkim.word());
    xml.leaf("spf", row.spf.word());
    for reason in &row.overrides {
        xml.open("reason");
        xml.leaf("type", &reason.kind);
        xml.leaf("comment", &reason.comment);
        xml.close("reason");
    }
    xml.close("policy_evaluated");
    xml.close("row");
    xml.open("identifiers");
    xml.leaf("envelope_from", &row.envelope_from);
    xml.leaf("header_from", &row.header_from);
    xml.close("identifiers");
    xml.open("auth_results");
    for seen in &row.dkim_results {
        xml.open("dkim");
        xml.leaf("domain", &seen.domain);
        if !seen.selector.is_empty() {
            xml.leaf("selector", &seen.selector);
        }
        xml.leaf("result", seen.word());
        xml.close("dkim");
    }
    xml.open("spf");
    xml.leaf("domain", &row.spf_result.domain);
    xml.leaf("scope", if row.spf_result.is_helo { "helo" } else { "mfrom" });
    xml.leaf("result", row.spf_result.word());
    xml.close("spf");
    xml.close("auth_results");
    xml.close("record");
}

/// A document that is being written.
struct Xml(String);

impl Xml {
    fn new() -> Xml {
        Xml("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned())
    }

    fn open(&mut self, name: &str) {
        self.0.extend(["<", name, ">\n"]);
    }

    fn close(&mut self, name: &str) {
        self.0.extend(["</", name, ">\n"]);
    }

    fn leaf(&mut self, name: &str, text: &str) {
        self.0.extend(["<", name, ">"]);
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&apos;"),
                // XML 1.0 has no word for these.
                '\u{fffe}' | '\u{ffff}' => self.0.push('?'),
                c if c.is_control() => self.0.push('?'),
                c => self.0.push(c),
            }
        }
        self.close(name);
    }
}

/// What is between parts; neither base64 nor our words have an `=_`.
const BOUNDARY: &str = "=_dmarc_report";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dmarc::{Alignment, Disposition, DkimSeen, Override, SpfSeen};
    use std::collections::HashMap;

    fn reporter() -> Reporter {
        Reporter {
            org_name: "A & B".to_owned(),
            email: "dmarc@rcv.test".to_owned(),
            extra_contact_info: None,
            submitter: "mx.rcv.test".to_owned(),
            node: "n1".to_owned(),
        }
    }

    fn account() -> Account<PublishedPolicy, DmarcRow> {
        let row = |last: u8| DmarcRow {
            source_ip: [192, 0, 2, last].into(),
            disposition: Disposition::Reject,
            dkim: Alignment::Fail,
            spf: Alignment::Fail,
            overrides: vec![Override { kind: "local_policy".to_owned(), comment: "<x>\u{1}".to_owned() }],
            header_from: "sub.a.test".to_owned(),
            envelope_from: String::new(),
            dkim_results: vec![DkimSeen { domain: "b.test".into(), selector: String::new(), result: "odd".into() }],
            spf_result: SpfSeen { domain: "c.test".into(), is_helo: true, result: "softfail".into() },
        };
        let policy = PublishedPolicy {
            is_dkim_strict: true,
            is_spf_strict: false,
            policy: Disposition::Reject,
            subdomain_policy: Disposition::None,
            percent: 100,
            failure_options: "0".to_owned(),
            reports_to: String::new(),
        };
        Account { policy, rows: HashMap::from([(row(2), 7), (row(1), 3)]), over: 4 }
    }

    #[test]
    fn a_report_says_what_was_counted() {
        let day = Period::at(86_400, 86_400);
        let xml = String::from_utf8(aggregate_xml(&reporter(), "a.test", day, &account())).expect("UTF-8");
        for part in [
            "<org_name>A &amp; B</org_name>",
            "<report_id>a.test.86400.86400.n1</report_id>\n<date_range>\n<begin>86400</begin>\n<end>172799</end>",
            "<error>4 more messages are not shown",
            "<domain>a.test</domain>\n<adkim>s</adkim>\n<aspf>r</aspf>\n<p>reject</p>\n<sp>none</sp>\n<pct>100</pct>\n<fo>0</fo>",
            "<source_ip>192.0.2.1</source_ip>\n<count>3</count>",
            "<reason>\n<type>local_policy</type>\n<comment>&lt;x&gt;?</comment>",
            "<envelope_from></envelope_from>\n<header_from>sub.a.test</header_from>",
            "<dkim>\n<domain>b.test</domain>\n<result>none</result>",
            "<spf>\n<domain>c.test</domain>\n<scope>helo</scope>\n<result>softfail</result>",
        ] {
            assert!(xml.contains(part), "{part}\n{xml}");
        }
        assert!(xml.find("192.0.2.1") < xml.find("192.0.2.2"), "in order");
    }

    #[test]
    fn its_message_is_as_receivers_expect() {
        let day = Period::at(86_400, 86_400);
        let xml = aggregate_xml(&reporter(), "a.test", day, &account());
        let mail =
            String::from_utf8(aggregate_mail(&reporter(), "a.test", day, "r@b.test", &xml, 172_800)).expect("ASCII");
        let unfolded = mail.replace("\r\n ", " ");
        for part in [
            "Subject: Report Domain: a.test Submitter: mx.rcv.test Report-ID: <a.test.86400.86400.n1@rcv.test>\r\n",
            "To: <r@b.test>\r\n",
            "Content-Type: application/gzip\r\n",
            "filename=\"mx.rcv.test!a.test!86400!172799!n1.xml.gz\"",
            "Message-ID: <dmarc.a.test.86400.86400.n1@rcv.test>",
        ] {
            assert!(unfolded.contains(part), "{part}\n{mail}");
        }
        assert!(mail.lines().all(|line| line.len() <= 100));
    }
}
