//! Whose DMARC record counts (RFC 7489 section 6.6.3, RFC 9091): the author's domain's, its organisation's, its public suffix's.
//!
//! In: a resolver and the author's domain. Out: [`Found`], or nothing. Can fail: when DNS does not answer, with the reason.
//! At most [`DMARC_QUESTIONS_MAX`] questions: three for records, two for whether a domain exists when `np=` has to be known.
//! By the walk: those of a walk, and one for that.

use super::record::{DmarcPolicy, DmarcRecord};
use super::walk::walk_from;
use super::{DmarcInput, Organisations, judge};
use crate::questions::{addresses, exchangers, is_in_dns, texts};
use crate::text::shown;
use Organisations::{PublicSuffixList, TreeWalk};
use route::{IpStrategy, Resolver};

/// A policy for an author's domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) record: DmarcRecord,
    /// The one of its policies that counts here.
    pub(super) policy: DmarcPolicy,
    /// Where the record is.
    pub(super) published_by: String,
    /// The organisation the author's domain belongs to.
    pub(super) organisation: String,
}

/// The same by the walk up the tree (RFC 9989 section 4.10.1).
pub(super) async fn policy_by_walk(
    resolver: &dyn Resolver,
    from: &str,
    input: DmarcInput<'_>,
) -> Result<Option<Found>, String> {
    match record_of(TreeWalk, resolver, from).await? {
        Some(record) => own_by_walk(resolver, from, record, input).await.map(Some),
        None => above_by_walk(resolver, from).await,
    }
}

/// The author's domain has a record. What is above it counts only when another domain may be aligned (RFC 9989 section 4.10.2).
async fn own_by_walk(
    resolver: &dyn Resolver,
    from: &str,
    record: DmarcRecord,
    input: DmarcInput<'_>,
) -> Result<Found, String> {
    let policy = record.policy;
    let mut found = Found { record, policy, published_by: from.to_owned(), organisation: from.to_owned() };
    if judge::has_others(from, &found, input) {
        match walk_from(resolver, from, Some(found.record.clone())).await {
            Ok(walk) => found.organisation = walk.organisation().to_owned(),
            // Whatever is above it, the message passes.
            Err(_) if judge::has_own_pass(from, &found, input) => {}
            Err(why) => return Err(why),
        }
    }
    Ok(found)
}

/// The author's domain has no record.
async fn above_by_walk(resolver: &dyn Resolver, from: &str) -> Result<Option<Found>, String> {
    let walk = walk_from(resolver, from, None).await?;
    let organisation = walk.organisation();
    // That of the organisation, else that of the public suffix above it.
    let suffix = walk.records.last().filter(|(_, record)| record.is_suffix == Some(true));
    let above = walk.record_of(organisation).map(|record| (organisation, record));
    match above.or(suffix.map(|(name, record)| (name.as_str(), record))) {
        Some((name, record)) => below(TreeWalk, resolver, from, organisation, name, record.clone()).await.map(Some),
        None => Ok(None),
    }
}

/// Asks, nearest first.
pub(super) async fn policy(resolver: &dyn Resolver, from: &str) -> Result<Option<Found>, String> {
    let organisation = public_suffix::organisation(from);
    if let Some(record) = record_of(PublicSuffixList, resolver, from).await? {
        // The domain itself may say that it is an organisation, or above all of them.
        let organisation = if record.is_suffix.is_some() { from } else { organisation };
        let (policy, organisation) = (record.policy, organisation.to_owned());
        return Ok(Some(Found { record, policy, published_by: from.to_owned(), organisation }));
    }
    if organisation != from
        && let Some(record) = record_of(PublicSuffixList, resolver, organisation).await?
    {
        return below(PublicSuffixList, resolver, from, organisation, organisation, record).await.map(Some);
    }
    match suffix_of(organisation) {
        Some(suffix) => match record_of(PublicSuffixList, resolver, suffix).await? {
            Some(record) if record.is_suffix == Some(true) => {
                below(PublicSuffixList, resolver, from, organisation, suffix, record).await.map(Some)
            }
            _ => Ok(None),
        },
        None => Ok(None),
    }
}

/// The public suffix above an organisation.
fn suffix_of(organisation: &str) -> Option<&str> {
    public_suffix::suffix(organisation).filter(|suffix| *suffix != organisation)
}

/// A record that was published for a domain above `from`.
async fn below(
    by: Organisations,
    resolver: &dyn Resolver,
    from: &str,
    organisation: &str,
    published_by: &str,
    record: DmarcRecord,
) -> Result<Found, String> {
    let exists = record.nonexistent_policy.is_none() || exists(by, resolver, from).await?;
    let policy = record.for_subdomain(exists);
    Ok(Found { record, policy, published_by: published_by.to_owned(), organisation: organisation.to_owned() })
}

/// The one record of a domain; of several none counts.
pub(super) async fn record_of(
    by: Organisations,
    resolver: &dyn Resolver,
    domain: &str,
) -> Result<Option<DmarcRecord>, String> {
    let texts = texts(resolver, &format!("_dmarc.{domain}")).await;
    let texts = texts.map_err(|error| format!("the policy of {}: {}", shown(domain), shown(&error.to_string())))?;
    let mut records = texts.iter().filter(|text| DmarcRecord::is_one(text));
    let one = records.next().filter(|_| records.next().is_none());
    Ok(one.and_then(|text| match by {
        PublicSuffixList => DmarcRecord::parse(text),
        TreeWalk => DmarcRecord::parse_for_walk(text),
    }))
}

/// By list, a domain exists when it has addresses or takes mail (RFC 9091 section 2.7); by walk, when DNS knows its name (RFC 9989).
async fn exists(by: Organisations, resolver: &dyn Resolver, domain: &str) -> Result<bool, String> {
    let why = |error: route::DnsError| format!("whether {} exists: {}", shown(domain), shown(&error.to_string()));
    if by == TreeWalk {
        return is_in_dns(resolver, domain).await.map_err(why);
    }
    if !addresses(resolver, domain, IpStrategy::Ipv4AndIpv6).await.map_err(why)?.is_empty() {
        return Ok(true);
    }
    exchangers(resolver, domain).await.map(|found| !found.is_empty()).map_err(why)
}

/// Most questions for one message.
pub const DMARC_QUESTIONS_MAX: usize = 5;
