//! Whose DMARC record counts (RFC 7489 section 6.6.3, RFC 9091): the author's domain's, its organisation's, its public suffix's.
//!
//! In: a resolver and the author's domain. Out: [`Found`], or nothing. Can fail: when DNS does not answer, with the reason.
//! At most [`DMARC_QUESTIONS_MAX`] questions: three for records, two for whether a domain exists when `np=` has to be known.

use super::record::{DmarcPolicy, DmarcRecord};
use super::walk::walk;
use crate::questions::{addresses, exchangers, texts};
use crate::text::shown;
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
pub(super) async fn policy_by_walk(resolver: &dyn Resolver, from: &str) -> Result<Option<Found>, String> {
    let walk = walk(resolver, from).await?;
    let organisation = walk.organisation();
    if let Some(record) = walk.record_of(from).cloned() {
        let (policy, organisation) = (record.policy, organisation.to_owned());
        return Ok(Some(Found { record, policy, published_by: from.to_owned(), organisation }));
    }
    // That of the organisation, else that of the public suffix above it.
    let suffix = walk.records.last().filter(|(_, record)| record.is_suffix == Some(true));
    let above = walk.record_of(organisation).map(|record| (organisation, record));
    match above.or(suffix.map(|(name, record)| (name.as_str(), record))) {
        Some((name, record)) => below(resolver, from, organisation, name, record.clone()).await.map(Some),
        None => Ok(None),
    }
}

/// Asks, nearest first.
pub(super) async fn policy(resolver: &dyn Resolver, from: &str) -> Result<Option<Found>, String> {
    let organisation = organisation_of(from);
    if let Some(record) = record_of(resolver, from).await? {
        // The domain itself may say that it is an organisation, or above all of them.
        let organisation = if record.is_suffix.is_some() { from } else { organisation };
        let (policy, organisation) = (record.policy, organisation.to_owned());
        return Ok(Some(Found { record, policy, published_by: from.to_owned(), organisation }));
    }
    if organisation != from
        && let Some(record) = record_of(resolver, organisation).await?
    {
        return below(resolver, from, organisation, organisation, record).await.map(Some);
    }
    match suffix_of(organisation) {
        Some(suffix) => match record_of(resolver, suffix).await? {
            Some(record) if record.is_suffix == Some(true) => {
                below(resolver, from, organisation, suffix, record).await.map(Some)
            }
            _ => Ok(None),
        },
        None => Ok(None),
    }
}

/// The organisational domain of a name; of a public suffix, and of a name under none, the name itself.
pub(super) fn organisation_of(name: &str) -> &str {
    psl::domain_str(name).unwrap_or(name)
}

/// The public suffix above an organisation.
fn suffix_of(organisation: &str) -> Option<&str> {
    psl::suffix_str(organisation).filter(|suffix| *suffix != organisation)
}

/// A record that was published for a domain above `from`.
async fn below(
    resolver: &dyn Resolver,
    from: &str,
    organisation: &str,
    published_by: &str,
    record: DmarcRecord,
) -> Result<Found, String> {
    let exists = record.nonexistent_policy.is_none() || exists(resolver, from).await?;
    let policy = record.for_subdomain(exists);
    Ok(Found { record, policy, published_by: published_by.to_owned(), organisation: organisation.to_owned() })
}

/// The one record of a domain; of several none counts.
pub(super) async fn record_of(resolver: &dyn Resolver, domain: &str) -> Result<Option<DmarcRecord>, String> {
    let texts = texts(resolver, &format!("_dmarc.{domain}")).await;
    let texts = texts.map_err(|error| format!("the policy of {}: {}", shown(domain), shown(&error.to_string())))?;
    let mut records = texts.iter().filter_map(|text| DmarcRecord::parse(text));
    Ok(records.next().filter(|_| records.next().is_none()))
}

/// RFC 9091 section 2.7: a domain exists when it has addresses or takes mail.
async fn exists(resolver: &dyn Resolver, domain: &str) -> Result<bool, String> {
    let why = |error: route::DnsError| format!("whether {} exists: {}", shown(domain), shown(&error.to_string()));
    if !addresses(resolver, domain, IpStrategy::Ipv4AndIpv6).await.map_err(why)?.is_empty() {
        return Ok(true);
    }
    exchangers(resolver, domain).await.map(|found| !found.is_empty()).map_err(why)
}

/// Most questions for one message.
pub const DMARC_QUESTIONS_MAX: usize = 5;
