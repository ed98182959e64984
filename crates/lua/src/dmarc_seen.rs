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
    Some(DmarcSeen { domain: facts.published_by.clone(), policy: published(facts), row })
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
    if facts.record.is_suffix == Some(true) || is_automatic(draft) {
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

fn spf_seen(spf: &AuthenticationResult) -> SpfSeen {
    let sender = spf.props.get("smtp.mailfrom");
    let domain = match sender {
        Some(sender) => sender.rsplit_once('@').map_or(sender.as_str(), |(_, domain)| domain),
        None => spf.props.get("smtp.helo").map(String::as_str).unwrap_or_default(),
    };
    SpfSeen { domain: domain.to_owned(), is_helo: sender.is_none(), result: spf.result.clone() }
}

/// A message that a program wrote: a report about it may make another one.
fn is_automatic(draft: &mut Draft) -> bool {
    let field = draft.headers().first("Auto-Submitted");
    field.is_some_and(|field| !field.decoded().trim().eq_ignore_ascii_case("no"))
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
const KEYS: [&str; 4] = ["ignore", "disposition", "reason", "comment"];
/// Octets of a comment.
const COMMENT_OCTETS_MAX: usize = 200;
