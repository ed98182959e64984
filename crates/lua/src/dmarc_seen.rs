//! What reports of DMARC say of a check that a script had made.
//!
//! In: the check, the results it was made from, the message, what the script says became of it. Out: what aggregate reports count,
//! and, where the author's domain asks for it, what a failure report says. Fails when the script says what no report can.

use message::Draft;
use mlua::{Table, Value};
use reports::{
    Alignment, DKIM_RESULTS_MAX, Disposition, DkimSeen, DmarcRow, DmarcSeen, DmarcWants, FAILURE_HEADER_OCTETS_MAX,
    FailureSeen, Override, PublishedPolicy, SpfSeen,
};
use sender_check::AuthenticationResult;
use sender_check::dmarc::{DmarcCheck, DmarcDisposition, DmarcFacts, DmarcPolicy};
use std::net::IpAddr;

/// What a script says of a message that was checked: `reporting_info`.
#[derive(Debug, Default)]
pub(crate) struct ReportingInfo {
    /// The message is in no report.
    ignore: bool,
    /// What became of it, where that is something else than the policy asks for.
    disposition: Option<Disposition>,
    /// Why.
    reason: Option<Override>,
}

impl ReportingInfo {
    /// Reads it.
    pub(crate) fn read(given: &Value) -> mlua::Result<ReportingInfo> {
        let Value::Table(table) = given else { return Ok(ReportingInfo::default()) };
        for pair in table.pairs::<String, Value>() {
            let (name, _) = pair?;
            // Who reports is said once, in `init`; KumoMTA's words for it change nothing here.
            if !KEYS.contains(&name.as_str()) {
                return Err(refused(&format!("unknown field `{name}`, expected one of {}", KEYS.join(", "))));
            }
        }
        let disposition = match text(table, "disposition")? {
            None => None,
            Some(word) => Some(Disposition::parse(&word).ok_or_else(|| {
                refused(&format!("invalid disposition {word:?}: expected none, quarantine or reject"))
            })?),
        };
        let comment = text(table, "comment")?.unwrap_or_default();
        let comment = comment[..comment.floor_char_boundary(COMMENT_OCTETS_MAX)].to_owned();
        let reason = match text(table, "reason")? {
            None => disposition.map(|_| "local_policy".to_owned()),
            Some(kind) if Override::KINDS.contains(&kind.as_str()) => Some(kind),
            Some(kind) => {
                let known = Override::KINDS.join(", ");
                return Err(refused(&format!("invalid reason {kind:?}: expected one of {known}")));
            }
        };
        let ignore = table.get::<Option<bool>>("ignore")?.unwrap_or_default();
        Ok(ReportingInfo { ignore, disposition, reason: reason.map(|kind| Override { kind, comment }) })
    }

    /// True when nobody is to hear of the message.
    pub(crate) fn is_ignored(&self) -> bool {
        self.ignore
    }
}

/// What is counted; nothing when the domain has no record, or nobody knows yet whether the message passes.
pub(crate) fn counted(
    check: &DmarcCheck,
    (dkim, spf): (&[AuthenticationResult], &AuthenticationResult),
    source_ip: IpAddr,
    sender: &str,
    info: ReportingInfo,
    is_report: bool,
) -> Option<DmarcSeen> {
    let facts = check.facts.as_deref()?;
    let wanted = match check.disposition {
        DmarcDisposition::Pass | DmarcDisposition::None => Disposition::None,
        DmarcDisposition::Quarantine => Disposition::Quarantine,
        DmarcDisposition::Reject => Disposition::Reject,
        DmarcDisposition::TempError | DmarcDisposition::PermError => return None,
    };
    let mut overrides = Vec::new();
    if facts.is_spared {
        overrides.push(Override { kind: "sampled_out".to_owned(), comment: String::new() });
    }
    if let Some(reason) = info.reason.filter(|_| info.disposition.is_none_or(|taken| taken != wanted)) {
        overrides.push(reason);
    }
    let row = DmarcRow {
        source_ip,
        disposition: info.disposition.unwrap_or(wanted),
        dkim: Alignment::of(facts.has_dkim_passed),
        spf: Alignment::of(facts.has_spf_passed),
        overrides,
        header_from: facts.from.clone(),
        envelope_from: sender.rsplit_once('@').map(|(_, domain)| domain.to_ascii_lowercase()).unwrap_or_default(),
        dkim_results: dkim.iter().filter_map(signature).take(DKIM_RESULTS_MAX).collect(),
        spf_result: spf_seen(spf),
    };
    Some(DmarcSeen { domain: facts.published_by.clone(), policy: published(facts), row, is_report })
}

/// What a failure report says, when the author's domain wants one about this message.
pub(crate) fn failure(
    check: &DmarcCheck,
    (dkim, spf): (&[AuthenticationResult], &AuthenticationResult),
    seen: &DmarcSeen,
    draft: &mut Draft,
    arrived_secs: i64,
) -> Option<FailureSeen> {
    let facts = check.facts.as_deref()?;
    let tags = &facts.record.reports;
    let ruf = tags.ruf.clone()?;
    // For a public suffix it would be other people's mail (RFC 9991).
    if facts.record.is_suffix == Some(true) || seen.is_report || is_automatic(draft) {
        return None;
    }
    let wants = DmarcWants::new(None, Some(&ruf), tags.fo.as_deref(), tags.rf.as_deref());
    let options = wants.failure_options;
    let (dkim_passed, spf_passed) = (facts.has_dkim_passed, facts.has_spf_passed);
    let is_wanted = (options.all_failed && !dkim_passed && !spf_passed)
        || (options.any_failed && !(dkim_passed && spf_passed))
        || (options.dkim && dkim.iter().any(|result| result.result == "fail"))
        || (options.spf && matches!(spf.result.as_str(), "fail" | "softfail"));
    if !is_wanted || wants.failure.is_empty() {
        return None;
    }
    let mut header = draft.head();
    header.truncate(FAILURE_HEADER_OCTETS_MAX);
    Some(FailureSeen {
        seen: seen.clone(),
        reports_to: ruf,
        id: draft.id.to_string(),
        arrived_secs,
        mail_from: draft.envelope.sender.as_str().to_owned(),
        recipients: draft.envelope.recipients.iter().map(|to| to.as_str().to_owned()).collect(),
        results: [&check.result, spf].into_iter().chain(dkim.iter().take(DKIM_RESULTS_MAX)).map(words).collect(),
        dkim_identity: failed_identity(dkim),
        header,
    })
}

fn published(facts: &DmarcFacts) -> PublishedPolicy {
    let record = &facts.record;
    let fo = record.reports.fo.as_deref().map(reports::FailureOptions::parse).unwrap_or_default();
    PublishedPolicy {
        is_dkim_strict: record.is_dkim_strict,
        is_spf_strict: record.is_spf_strict,
        policy: disposition(record.policy),
        subdomain_policy: disposition(record.subdomain_policy.unwrap_or(record.policy)),
        percent: record.percent,
        failure_options: fo.text(),
        reports_to: record.reports.rua.clone().unwrap_or_default(),
    }
}

fn disposition(policy: DmarcPolicy) -> Disposition {
    match policy {
        DmarcPolicy::None => Disposition::None,
        DmarcPolicy::Quarantine => Disposition::Quarantine,
        DmarcPolicy::Reject => Disposition::Reject,
    }
}

fn signature(result: &AuthenticationResult) -> Option<DkimSeen> {
    let domain = result.props.get("header.d")?.clone();
    let selector = result.props.get("header.s").cloned().unwrap_or_default();
    Some(DkimSeen { domain, selector, result: result.result.clone() })
}

/// Of the first signature that counts and did not pass.
fn failed_identity(dkim: &[AuthenticationResult]) -> String {
    let counts = dkim.iter().filter_map(|result| Some((result, signature(result)?)));
    let failed = counts.take(DKIM_RESULTS_MAX).find(|(_, seen)| seen.word() != "pass");
    failed.and_then(|(result, _)| result.props.get("header.i").cloned()).unwrap_or_default()
}

fn spf_seen(spf: &AuthenticationResult) -> SpfSeen {
    let sender = spf.props.get("smtp.mailfrom");
    let domain = match sender {
        Some(sender) => sender.rsplit_once('@').map_or(sender.as_str(), |(_, domain)| domain),
        None => spf.props.get("smtp.helo").map(String::as_str).unwrap_or_default(),
    };
    SpfSeen { domain: domain.to_owned(), is_helo: sender.is_none(), result: spf.result.clone() }
}

/// A message that a program wrote, or that nobody is to answer: a report about it may make another one.
fn is_automatic(draft: &mut Draft) -> bool {
    let is_null = draft.envelope.sender.0.is_none();
    let field = draft.headers().first("Auto-Submitted");
    is_null || field.is_some_and(|field| !field.decoded().trim().eq_ignore_ascii_case("no"))
}

/// A message that is a report about mail or TLS: it says so (RFC 6522, RFC 8460 section 5.3), or its subject is that of all reports
/// of DMARC and TLS (RFC 7489 section 7.2.1.1).
pub(crate) fn is_report(draft: &mut Draft) -> bool {
    let headers = draft.headers();
    let begins = |name: &str, start: &str| {
        let text = headers.first(name).map(|field| field.decoded().trim().to_ascii_lowercase());
        text.is_some_and(|text| text.starts_with(start))
    };
    begins("Content-Type", "multipart/report")
        || begins("Subject", "report domain:")
        || headers.first("TLS-Report-Domain").is_some()
}

/// A result as `Authentication-Results` has it.
fn words(result: &AuthenticationResult) -> String {
    let props: Vec<String> = result.props.iter().map(|(name, value)| format!(" {name}={value}")).collect();
    format!("{}={}{}", result.method, result.result, props.concat())
}

fn text(table: &Table, name: &str) -> mlua::Result<Option<String>> {
    table.get::<Option<String>>(name)
}

fn refused(why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("kumo.dmarc.check_msg: reporting_info: {why}"))
}

/// What a script may say.
const KEYS: [&str; 7] = ["ignore", "disposition", "reason", "comment", "org_name", "email", "extra_contact_info"];
/// Octets of a comment.
const COMMENT_OCTETS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use clock::WallTime;
    use message::{Envelope, IdGenerator, Meta, TlsDemand};
    use mlua::Lua;
    use sender_check::dmarc::DmarcRecord;
    use smtp_wire::{Mailbox, ReversePath};

    fn info(text: &str) -> mlua::Result<ReportingInfo> {
        let lua = Lua::new();
        ReportingInfo::read(&lua.load(format!("return {text}")).eval()?)
    }

    fn check(disposition: DmarcDisposition, (dkim, spf): (bool, bool), record: &str) -> DmarcCheck {
        let facts = DmarcFacts {
            from: "sub.a.test".to_owned(),
            published_by: "a.test".to_owned(),
            record: DmarcRecord::parse(record.as_bytes()).expect("a record"),
            has_dkim_passed: dkim,
            has_spf_passed: spf,
            is_spared: false,
        };
        DmarcCheck { disposition, result: result("dmarc", "fail", &[]), facts: Some(Box::new(facts)) }
    }

    fn result(method: &str, word: &str, props: &[(&str, &str)]) -> AuthenticationResult {
        let props = props.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        AuthenticationResult { method: method.to_owned(), result: word.to_owned(), props, ..Default::default() }
    }

    fn draft(head: &str) -> Draft {
        let recipients = vec![Mailbox::parse("to@b.test").expect("sound")];
        let sender = (!head.contains("X-Null")).then(|| Mailbox::parse("x@c.test").expect("sound"));
        let envelope = Envelope { sender: ReversePath(sender), recipients, dsn: None, tls: TlsDemand::Usual };
        let id = IdGenerator::new([0; 6], 0).next(WallTime::EPOCH);
        let raw = format!("{head}\r\nhello\r\n").into_bytes();
        Draft::new(id, envelope, Meta::new(), raw.into(), WallTime::EPOCH)
    }

    #[test]
    fn what_a_script_says_counts_and_is_checked() {
        let dkim = [result("dkim", "fail", &[("header.d", "a.test"), ("header.s", "s1")]), result("dkim", "none", &[])];
        let spf = result("spf", "softfail", &[("smtp.mailfrom", "x@B.test")]);
        let check = check(DmarcDisposition::Reject, (false, false), "v=DMARC1; p=reject; rua=mailto:r@a.test; pct=50");
        let counted = |text: &str| {
            let info = info(text).expect("sound");
            counted(&check, (&dkim, &spf), [192, 0, 2, 1].into(), "x@B.test", info, false).expect("counted")
        };
        let seen = counted("nil");
        assert_eq!((seen.domain.as_str(), seen.row.header_from.as_str()), ("a.test", "sub.a.test"));
        assert_eq!((seen.row.disposition, seen.row.overrides.len()), (Disposition::Reject, 0));
        assert_eq!((seen.row.envelope_from.as_str(), seen.row.spf_result.domain.as_str()), ("b.test", "B.test"));
        assert_eq!((seen.policy.percent, seen.policy.reports_to.as_str()), (50, "mailto:r@a.test"));
        let shown: Vec<_> = seen.row.dkim_results.iter().map(|d| (d.domain.as_str(), d.selector.as_str())).collect();
        assert_eq!(shown, [("a.test", "s1")]);
        let seen = counted("{ disposition = 'none', comment = 'why' }");
        assert_eq!(seen.row.disposition, Disposition::None);
        assert_eq!(seen.row.overrides, [Override { kind: "local_policy".to_owned(), comment: "why".to_owned() }]);
        assert!(counted("{ disposition = 'reject' }").row.overrides.is_empty(), "it is what the policy asks for");
        assert_eq!(counted("{ disposition = 'none', reason = 'mailing_list' }").row.overrides[0].kind, "mailing_list");
        assert!(info("{ ignore = true }").is_ok_and(|info| info.is_ignored()));
        for (wrong, says) in
            [("{ disposition = 'x' }", "\"x\""), ("{ reason = 'x' }", "forwarded"), ("{ a = 1 }", "`a`")]
        {
            let error = info(wrong).expect_err("refused").to_string();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }

    #[test]
    fn the_identity_is_that_of_the_first_signature_that_failed() {
        let of = |word, i: &str| result("dkim", word, &[("header.d", "a.test"), ("header.i", i)]);
        let none = result("dkim", "none", &[]);
        assert_eq!(failed_identity(&[none.clone(), of("pass", "@1"), of("fail", "@2"), of("fail", "@3")]), "@2");
        assert_eq!(failed_identity(&[none, of("pass", "@1")]), "");
    }

    #[test]
    fn failures_are_told_as_the_domain_asks() {
        let asks = |passed, spf: &str, tags: &str, head: &str| {
            let check = check(DmarcDisposition::None, passed, &format!("v=DMARC1; p=none; {tags}"));
            let spf = result("spf", spf, &[("smtp.helo", "h.test")]);
            let dkim = [result("dkim", "pass", &[("header.d", "a.test")])];
            let results = (&dkim[..], &spf);
            let mut draft = draft(head);
            let is_report = is_report(&mut draft);
            let info = ReportingInfo::default();
            let seen = counted(&check, results, [192, 0, 2, 1].into(), "", info, is_report).expect("counted");
            failure(&check, results, &seen, &mut draft, 7)
        };
        let (from, ruf) = ("From: x@a.test\r\n", "ruf=mailto:f@a.test");
        let told = asks((false, false), "none", ruf, from).expect("a failure");
        assert_eq!(
            (told.arrived_secs, told.mail_from.as_str(), told.recipients.as_slice()),
            (7, "x@c.test", &["to@b.test".to_owned()][..])
        );
        assert_eq!(told.results, ["dmarc=fail", "spf=none smtp.helo=h.test", "dkim=pass header.d=a.test"]);
        assert!(told.header.starts_with(from.as_bytes()) && !told.header.ends_with(b"hello\r\n"));
        for (passed, spf, tags, head, is_told) in [
            ((true, false), "none", ruf, from, false),
            ((true, false), "none", "ruf=mailto:f@a.test; fo=1", from, true),
            ((true, true), "pass", "ruf=mailto:f@a.test; fo=1", from, false),
            ((true, false), "softfail", "ruf=mailto:f@a.test; fo=s", from, true),
            ((true, false), "fail", "ruf=mailto:f@a.test; fo=d", from, false),
            ((false, false), "none", "rua=mailto:f@a.test", from, false),
            ((false, false), "none", "ruf=mailto:f@a.test; psd=y", from, false),
            ((false, false), "none", "ruf=mailto:f@a.test; rf=iodef", from, false),
            ((false, false), "none", ruf, "Auto-Submitted: auto-replied\r\n", false),
            ((false, false), "none", ruf, "Auto-Submitted: no\r\n", true),
            ((false, false), "none", ruf, "X-Null: 1\r\n", false),
            ((false, false), "none", ruf, "Content-Type: Multipart/Report; report-type=feedback-report\r\n", false),
            ((false, false), "none", ruf, "Content-Type: multipart/mixed\r\n", true),
            ((false, false), "none", ruf, "Subject: Report Domain: a.test Submitter: b.test\r\n", false),
            ((false, false), "none", ruf, "Subject: About Report Domain: a.test\r\n", true),
            ((false, false), "none", ruf, "TLS-Report-Domain: a.test\r\n", false),
        ] {
            assert_eq!(asks(passed, spf, tags, head).is_some(), is_told, "{passed:?} {spf} {tags} {head}");
        }
    }
}
