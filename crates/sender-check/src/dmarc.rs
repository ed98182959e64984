//! DMARC (RFC 7489, RFC 9989): does what SPF and DKIM prove fit the author's domain, and what does that domain want done when not?
//!
//! In: a resolver, the header fields, the results of DKIM and SPF, a number for `pct=`. Out: [`DmarcCheck`]. Cannot fail: what
//! goes wrong is a result too.
//! The rooms below: `record` (the record's tags), `discover` (whose record counts), `judge` (alignment, and the verdict),
//! `author` (the domain of From), `walk` (organisations by DNS), `published` (what a domain publishes, without a message).
//!
//! Organisational domains come from the public suffix list, or, when asked so, from the walk up the tree of RFC 9989, which
//! knows no list and asks up to eight questions for each domain instead of three for all. Its tags `np=`, `psd=` and `t=` count
//! either way.

mod author;
mod discover;
mod judge;
mod published;
mod record;
mod walk;

pub use author::{FROM_MAILBOXES_MAX, domain as author_domain};
pub use discover::DMARC_QUESTIONS_MAX;
pub use judge::{IDENTITIES_MAX, WALKS_MAX};
pub use published::{Published, published};
pub use record::{DmarcPolicy, DmarcRecord, ReportTags};
pub use walk::WALK_QUESTIONS_MAX;

use crate::results::{add_prop, result};
use discover::Found;
use judge::{Known, Verdict};
use mime::HeaderView;
use mimepart::AuthenticationResult;
use route::Resolver;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the author's domain wants done, or why that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DmarcDisposition {
    /// Something aligned passed.
    Pass,
    /// Nothing: there is no record, or it asks for nothing.
    None,
    /// To be treated as suspicious.
    Quarantine,
    /// To be refused.
    Reject,
    /// DNS did not answer.
    TempError,
    /// There is no one author's domain.
    PermError,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DmarcCheck {
    pub disposition: DmarcDisposition,
    /// Method `dmarc`, with properties `header.from` and, when there is a record, `policy.dmarc`.
    pub result: AuthenticationResult,
    /// What reports about it want to know, when there is a record.
    #[serde(skip)]
    pub facts: Option<Box<DmarcFacts>>,
}

/// What a report says of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmarcFacts {
    /// The author's domain.
    pub from: String,
    /// Where the record is.
    pub published_by: String,
    /// The record.
    pub record: DmarcRecord,
    /// A signature that is aligned passed.
    pub has_dkim_passed: bool,
    /// SPF is aligned and passed.
    pub has_spf_passed: bool,
    /// `pct=` or `t=` made the policy milder for this message.
    pub is_spared: bool,
}

/// What DMARC is judged from besides the message.
#[derive(Clone, Copy, Debug)]
pub struct DmarcInput<'a> {
    /// The results of [`crate::dkim::verify`].
    pub dkim: &'a [AuthenticationResult],
    /// The result of [`crate::spf::check_host`].
    pub spf: &'a AuthenticationResult,
    /// A number from 0 to 99, drawn anew for each message: a policy with `pct=` counts when it is smaller.
    pub sample_percent: u8,
}

/// How the organisation of a domain is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Organisations {
    /// By the public suffix list (RFC 7489 section 3.2).
    #[default]
    PublicSuffixList,
    /// By the walk up the tree (RFC 9989 section 4.10).
    TreeWalk,
}

/// Finds the policy of the author's domain and judges the message by it; organisations come from the public suffix list.
pub async fn check(resolver: &dyn Resolver, headers: HeaderView<'_>, input: DmarcInput<'_>) -> DmarcCheck {
    check_by(Organisations::PublicSuffixList, resolver, headers, input).await
}

/// The same, with a choice of how organisations are found.
pub async fn check_by(
    organisations: Organisations,
    resolver: &dyn Resolver,
    headers: HeaderView<'_>,
    input: DmarcInput<'_>,
) -> DmarcCheck {
    let from = match author::domain(headers) {
        Ok(from) => from,
        Err(reason) => return made(DmarcDisposition::PermError, "permerror", reason),
    };
    let by_walk = organisations == Organisations::TreeWalk;
    let policy = match by_walk {
        true => discover::policy_by_walk(resolver, &from, input).await,
        false => discover::policy(resolver, &from).await,
    };
    let mut check = match policy {
        Err(reason) => made(DmarcDisposition::TempError, "temperror", reason),
        Ok(None) => made(DmarcDisposition::None, "none", format!("{from} has no DMARC record")),
        Ok(Some(found)) => {
            let verdict = match by_walk {
                true => judged_by_walk(resolver, &from, &found, input).await,
                false => judge::judge(&from, &found, input, Known::ByList),
            };
            let mut check = made(verdict.disposition, verdict.word, verdict.reason);
            add_prop(&mut check.result, "policy.dmarc", found.policy.word());
            check.facts = Some(Box::new(DmarcFacts {
                from: from.clone(),
                published_by: found.published_by,
                record: found.record,
                has_dkim_passed: verdict.passed.0,
                has_spf_passed: verdict.passed.1,
                is_spared: verdict.is_spared,
            }));
            check
        }
    };
    add_prop(&mut check.result, "header.from", &from);
    check
}

/// The verdict, once the organisations are known of what may be aligned.
async fn judged_by_walk(resolver: &dyn Resolver, from: &str, found: &Found, input: DmarcInput<'_>) -> Verdict {
    let mut known = BTreeMap::new();
    for domain in judge::to_be_known(from, found, input) {
        let walked = walk::walk(resolver, &domain).await;
        known.insert(domain, walked.ok().map(|walk| walk.organisation().to_owned()));
    }
    judge::judge(from, found, input, Known::ByWalk(&known))
}

fn made(disposition: DmarcDisposition, word: &str, reason: String) -> DmarcCheck {
    DmarcCheck { disposition, result: result("dmarc", word, Some(reason)), facts: None }
}
