//! Alignment and the verdict (RFC 7489 sections 3.1 and 6.6).
//!
//! In: the author's domain, its policy, the results of DKIM and SPF, organisations that were walked to. Out: the verdict with its
//! reason. Cannot fail, asks nobody.

use super::discover::Found;
use super::record::DmarcPolicy;
use super::{DmarcDisposition, DmarcInput};
use crate::text::{domain_name, is_within, shown};
use mimepart::AuthenticationResult;
use std::collections::BTreeMap;

/// How the organisation of a domain is known.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    /// By the public suffix list.
    ByList,
    /// By walks up the tree: domains and their organisations, none where DNS did not answer. What is not in it is not aligned.
    ByWalk(&'a BTreeMap<String, Option<String>>),
}

/// What comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) disposition: DmarcDisposition,
    pub(super) word: &'static str,
    pub(super) reason: String,
    /// Signatures, and SPF, that are aligned and passed.
    pub(super) passed: (bool, bool),
    /// `pct=` or `t=` made the policy milder.
    pub(super) is_spared: bool,
}

/// Passes when something aligned passes; else the policy counts, but not while something aligned may pass later.
pub(super) fn judge(from: &str, found: &Found, input: DmarcInput<'_>, known: Known<'_>) -> Verdict {
    let aligned = aligned(from, found, input, known);
    if let Some((method, domain, _)) = aligned.iter().find(|(_, _, word)| *word == "pass") {
        let reason = format!("{method} passed for {}", shown(domain));
        let has = |wanted: &str| aligned.iter().any(|(method, _, word)| *method == wanted && *word == "pass");
        let passed = (has("dkim"), has("spf"));
        return Verdict { disposition: DmarcDisposition::Pass, word: "pass", reason, passed, is_spared: false };
    }
    if let Some((method, domain, _)) = aligned.iter().find(|(_, _, word)| *word == "temperror") {
        let reason = format!("{method} cannot be checked now for {}", shown(domain));
        let passed = (false, false);
        return Verdict {
            disposition: DmarcDisposition::TempError,
            word: "temperror",
            reason,
            passed,
            is_spared: false,
        };
    }
    let is_spared = found.record.is_testing || input.sample_percent >= found.record.percent;
    let policy = if is_spared { found.policy.milder() } else { found.policy };
    let disposition = match policy {
        DmarcPolicy::None => DmarcDisposition::None,
        DmarcPolicy::Quarantine => DmarcDisposition::Quarantine,
        DmarcPolicy::Reject => DmarcDisposition::Reject,
    };
    let spared = if policy == found.policy { "" } else { ", softened by t= or pct=" };
    let (by, word) = (shown(&found.published_by), found.policy.word());
    let reason = format!("nothing passed that is aligned with {}; policy of {by}: {word}{spared}", shown(from));
    Verdict { disposition, word: "fail", reason, passed: (false, false), is_spared: policy != found.policy }
}

/// Method, domain and result of what is aligned.
fn aligned<'a>(
    from: &str,
    found: &Found,
    input: DmarcInput<'a>,
    known: Known<'_>,
) -> Vec<(&'static str, String, &'a str)> {
    identities(found, input)
        .filter_map(|(method, domain, word, is_strict)| {
            let is_aligned = match known {
                Known::ByWalk(organisations) if !is_strict && domain != from => match organisations.get(&domain)? {
                    Some(organisation) => *organisation == found.organisation,
                    // It may be, once DNS answers.
                    None => return Some((method, domain, "temperror")),
                },
                _ => is_aligned(from, &found.organisation, &domain, is_strict),
            };
            is_aligned.then_some((method, domain, word))
        })
        .collect()
}

/// The domains that may be aligned: method, domain, result, and whether it has to be the author's own.
fn identities<'a>(found: &Found, input: DmarcInput<'a>) -> impl Iterator<Item = (&'static str, String, &'a str, bool)> {
    let (is_dkim_strict, is_spf_strict) = (found.record.is_dkim_strict, found.record.is_spf_strict);
    let dkim = input.dkim.iter().take(IDENTITIES_MAX).filter(|result| result.method == "dkim");
    let dkim = dkim.map(move |result| ("dkim", result.props.get("header.d").cloned(), result, is_dkim_strict));
    let spf = [("spf", spf_domain(input.spf), input.spf, is_spf_strict)];
    let spf = spf.into_iter().filter(|(_, _, result, _)| result.method == "spf");
    dkim.chain(spf).filter_map(|(method, domain, result, is_strict)| {
        Some((method, domain_name(&domain?)?, result.result.as_str(), is_strict))
    })
}

/// The domains whose organisation has to be known: what passed, or may pass, below that of the author, and is not the author's.
pub(super) fn to_be_known(from: &str, found: &Found, input: DmarcInput<'_>) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    for domain in others(from, found, input) {
        if is_within(&domain, &found.organisation) && !wanted.contains(&domain) && wanted.len() < WALKS_MAX {
            wanted.push(domain);
        }
    }
    wanted
}

/// Domains that passed, or may pass, are not the author's, and need not be.
fn others<'a>(from: &'a str, found: &'a Found, input: DmarcInput<'a>) -> impl Iterator<Item = String> + 'a {
    identities(found, input)
        .filter(move |(_, domain, word, is_strict)| {
            !is_strict && matches!(*word, "pass" | "temperror") && domain != from
        })
        .map(|(_, domain, ..)| domain)
}

/// Whether it has to be known which organisation the author's domain is of.
pub(super) fn has_others(from: &str, found: &Found, input: DmarcInput<'_>) -> bool {
    others(from, found, input).next().is_some()
}

/// Something passed for the author's domain itself, which is aligned whatever its organisation.
pub(super) fn has_own_pass(from: &str, found: &Found, input: DmarcInput<'_>) -> bool {
    identities(found, input).any(|(_, domain, word, _)| word == "pass" && domain == from)
}

/// The domain SPF was asked about: of the sender, else of HELO.
fn spf_domain(spf: &AuthenticationResult) -> Option<String> {
    match spf.props.get("smtp.mailfrom") {
        Some(sender) => Some(sender.rsplit_once('@').map_or(sender.as_str(), |(_, domain)| domain).to_owned()),
        None => spf.props.get("smtp.helo").cloned(),
    }
}

/// Strict: the same domain. Relaxed: of the same organisation.
pub(super) fn is_aligned(from: &str, organisation: &str, domain: &str, is_strict: bool) -> bool {
    if is_strict {
        return domain == from;
    }
    match organisation == public_suffix::organisation(from) {
        true => public_suffix::organisation(domain) == organisation,
        // A record said that the author's domain is an organisation of its own.
        false => is_within(domain, organisation),
    }
}

/// Results of DKIM that are looked at.
pub const IDENTITIES_MAX: usize = 100;

/// Domains of results whose organisation is walked to.
pub const WALKS_MAX: usize = 10;
