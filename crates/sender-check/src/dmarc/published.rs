//! What the author's domain publishes, for those who send in its name and have no results of checks yet.
//!
//! In: a resolver and the author's domain. Out: [`Published`], which says what would be aligned. Can fail: DNS did not answer.
//! Organisations come from the public suffix list.

use super::discover::{Found, policy};
use super::judge::is_aligned;
use crate::text::domain_name;
use public_suffix::organisation;
use route::Resolver;

/// A domain and its policy, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    from: String,
    found: Option<Found>,
}

/// Asks for the policy of the author's domain (in A-labels).
///
/// # Errors
/// Why it is not known.
pub async fn published(resolver: &dyn Resolver, from: &str) -> Result<Published, String> {
    Ok(Published { from: from.to_owned(), found: policy(resolver, from).await? })
}

impl Published {
    /// What is known of a domain without asking: no policy.
    pub fn unknown(from: &str) -> Published {
        Published { from: from.to_owned(), found: None }
    }

    /// There is a policy.
    pub fn has_record(&self) -> bool {
        self.found.is_some()
    }

    /// A signature of this domain is the author's.
    pub fn aligns_dkim(&self, domain: &str) -> bool {
        self.aligns(domain, self.found.as_ref().is_some_and(|found| found.record.is_dkim_strict))
    }

    /// A sender of this domain is the author.
    pub fn aligns_spf(&self, domain: &str) -> bool {
        self.aligns(domain, self.found.as_ref().is_some_and(|found| found.record.is_spf_strict))
    }

    fn aligns(&self, domain: &str, is_strict: bool) -> bool {
        let organisation = self.found.as_ref().map_or_else(|| organisation(&self.from), |found| &found.organisation);
        domain_name(domain).is_some_and(|domain| is_aligned(&self.from, organisation, &domain, is_strict))
    }
}
