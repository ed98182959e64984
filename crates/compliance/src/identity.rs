//! What DNS says of a message's domains and of the addresses it leaves from: keys, alignment, SPF, DMARC, names.
//!
//! In: a message, a resolver. Out: findings, and rules that are left open because DNS did not answer: that is never a finding, as
//! a server that does not answer would refuse mail that is sound. Cannot fail.

use crate::{Demands, Finding, Report, Rule, SIGNATURES_MAX, SOURCES_MAX, Subject};
use route::Resolver;
use sender_check::dkim::{Claim, KeyTrouble};
use sender_check::dmarc::{Published, author_domain, published};
use sender_check::spf::{SpfDisposition, SpfQuery, check_host};
use sender_check::{domain_name, iprev, shown};
use std::net::{IpAddr, Ipv4Addr};

/// What the signatures of a message claim.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    pub(crate) sound: Vec<Claim>,
    /// Why the first that cannot be used cannot.
    trouble: Option<String>,
}

/// Reads them, those at the top first.
pub(crate) fn signatures(subject: &Subject<'_>) -> Signatures {
    let mut found = Signatures::default();
    for field in subject.headers.named("DKIM-Signature").take(SIGNATURES_MAX) {
        match Claim::read(&field, subject.now_unix_secs) {
            Ok(claim) => found.sound.push(claim),
            Err(why) => found.trouble = found.trouble.or(Some(why)),
        }
    }
    found
}

/// Gives the signatures whose keys are there, or may be there.
pub(crate) async fn check<'a>(
    resolver: &dyn Resolver,
    subject: &Subject<'_>,
    demands: &Demands,
    signatures: &'a Signatures,
    report: &mut Report,
) -> Vec<&'a Claim> {
    let keys = keys(resolver, signatures, report).await;
    // Without one author's domain nothing can be aligned with it; that is a finding already.
    if let Ok(from) = author_domain(subject.headers) {
        let author = author(resolver, &from, report).await;
        alignment(subject, &from, &author, &keys, report);
    }
    if let Some(domain) = sender_domain(subject) {
        spf(resolver, subject, &domain, demands, report).await;
    }
    for source in demands.sources.iter().take(SOURCES_MAX) {
        let found = iprev(resolver, *source).await;
        let why = found.reason.unwrap_or_default();
        match found.result.as_str() {
            "pass" => {}
            "temperror" => report.leave_open(Rule::Ptr, why),
            _ => report.find(Rule::Ptr, why),
        }
    }
    keys.usable
}

/// What became of the keys of signatures.
#[derive(Debug, Default)]
struct Keys<'a> {
    /// Those whose keys are there, or may be there: DNS did not answer.
    usable: Vec<&'a Claim>,
    /// Why the first of the others proves nothing.
    missing: Option<String>,
}

/// One key that is published is enough, but what has none proves nothing.
async fn keys<'a>(resolver: &dyn Resolver, signatures: &'a Signatures, report: &mut Report) -> Keys<'a> {
    let mut keys = Keys::default();
    let (mut unknown, mut is_published) = (None, false);
    for claim in &signatures.sound {
        let of = |why: String| format!("{} of {}: {why}", shown(claim.selector()), shown(claim.domain()));
        match claim.find_key(resolver).await {
            Ok(()) => {
                is_published = true;
                keys.usable.push(claim);
            }
            Err(KeyTrouble::None(why)) => keys.missing = keys.missing.or(Some(of(why))),
            Err(KeyTrouble::Unknown(why)) => {
                unknown = unknown.or(Some(of(why)));
                keys.usable.push(claim);
            }
        }
    }
    if is_published {
        return keys;
    }
    match (unknown, &keys.missing, &signatures.trouble) {
        (Some(why), ..) => report.leave_open(Rule::Dkim, why),
        (None, Some(why), _) => report.find(Rule::Dkim, why.as_str()),
        (None, None, Some(why)) => report.find(Rule::Dkim, format!("the signature cannot be used: {why}")),
        (None, None, None) => report.find(Rule::Dkim, "the message is not signed"),
    }
    keys
}

async fn author(resolver: &dyn Resolver, from: &str, report: &mut Report) -> Published {
    match published(resolver, from).await {
        Ok(author) => {
            if !author.has_record() {
                report.find(Rule::Dmarc, format!("{} has no DMARC record, nor has its organisation", shown(from)));
            }
            author
        }
        Err(why) => {
            report.leave_open(Rule::Dmarc, why);
            Published::unknown(from)
        }
    }
}

/// DMARC wants one of the two aligned; that the other is too is advice.
fn alignment(subject: &Subject<'_>, from: &str, author: &Published, keys: &Keys<'_>, report: &mut Report) {
    let signed = keys.usable.iter().map(|claim| claim.domain());
    let by_dkim = signed.clone().any(|domain| author.aligns_dkim(domain));
    let sender = sender_domain(subject);
    let by_spf = sender.as_deref().is_some_and(|domain| author.aligns_spf(domain));
    if !by_dkim && !keys.usable.is_empty() {
        let found: Vec<&str> = signed.collect();
        let mut what = format!("d= is {}, From is of {}", shown(&found.join(", ")), shown(from));
        // It may be the author's.
        if let Some(why) = &keys.missing {
            what.push_str(&format!("; of no use is {}", shown(why)));
        }
        report.findings.push(Finding { rule: Rule::DkimAlignment, what, is_demanded: !by_spf });
    }
    if let Some(sender) = sender.filter(|_| !by_spf) {
        let what = format!("MAIL FROM is of {}, From is of {}", shown(&sender), shown(from));
        report.findings.push(Finding { rule: Rule::SpfAlignment, what, is_demanded: !by_dkim });
    }
}

/// The domain of MAIL FROM; none for the null sender.
fn sender_domain(subject: &Subject<'_>) -> Option<String> {
    let (_, domain) = subject.sender.rsplit_once('@')?;
    domain_name(domain)
}

async fn spf(resolver: &dyn Resolver, subject: &Subject<'_>, domain: &str, demands: &Demands, report: &mut Report) {
    // Whether there is a record can be asked without knowing from where mail will leave.
    let is_known = !demands.sources.is_empty();
    let sources = if is_known { &demands.sources[..] } else { &[NOBODY] };
    for source in sources.iter().take(SOURCES_MAX) {
        let query = SpfQuery {
            ip: *source,
            domain,
            sender: Some(subject.sender),
            helo: domain,
            receiver: domain,
            now_unix_secs: subject.now_unix_secs,
        };
        let found = check_host(resolver, &query).await;
        let why = found.result.reason.unwrap_or_default();
        match found.disposition {
            SpfDisposition::Pass => {}
            SpfDisposition::TempError => report.leave_open(Rule::Spf, why),
            // One record, one finding, whatever the address.
            SpfDisposition::None | SpfDisposition::PermError => {
                let what = format!("SPF of {} is {}: {why}", shown(domain), found.disposition.word());
                // For the address it leaves from it may never come to what is wrong.
                let is_demanded = is_known || found.disposition == SpfDisposition::None;
                return report.findings.push(Finding { rule: Rule::Spf, what, is_demanded });
            }
            _ if !is_known => {}
            other => {
                let what = format!("SPF of {} says {} of {source}: {why}", shown(domain), other.word());
                report.find(Rule::SpfSource, what);
            }
        }
    }
}

/// An address that nobody has (RFC 5737).
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
