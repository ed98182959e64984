//! What only a `DKIM-Signature` has besides what it is made over (RFC 6376 section 3.5): version, identity, times, queries.
//!
//! In: a tag list, the time, a key. Out: nothing but that they agree. Can fail: [`Refusal`].

use crate::dkim::key::PublicKey;
use crate::results::Refusal;
use crate::signature::{Signature, number, required};
use crate::tags::{Tags, listed};
use crate::text::{domain_name, is_within, shown};

/// A signature field, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DkimHeader {
    pub(crate) signature: Signature,
    /// The domain of `i=`.
    identity_domain: String,
    made_unix_secs: Option<u64>,
    expires_unix_secs: Option<u64>,
}

impl DkimHeader {
    pub(crate) fn parse(tags: &Tags) -> Result<DkimHeader, Refusal> {
        let version = required(tags, "v")?;
        if version != "1" {
            return Err(Refusal::permanent(format!("v= is \"{}\", expected 1", shown(version))));
        }
        let signature = Signature::parse(tags, "simple/simple", |_| true)?;
        let identity_domain = identity_domain(tags, &signature.key.domain)?;
        if let Some(queries) = tags.get("q")
            && !listed(queries).any(|query| query == "dns/txt")
        {
            return Err(Refusal::permanent(format!("q= is \"{}\", expected dns/txt among it", shown(queries))));
        }
        let time = |tag| tags.get(tag).map(|text| number(tag, text)).transpose();
        let (made_unix_secs, expires_unix_secs) = (time("t")?, time("x")?);
        Ok(DkimHeader { signature, identity_domain, made_unix_secs, expires_unix_secs })
    }

    /// `x=` must be behind `t=`, and not yet over.
    pub(crate) fn check_time(&self, now_unix_secs: u64) -> Result<(), Refusal> {
        let Some(expires) = self.expires_unix_secs else { return Ok(()) };
        if self.made_unix_secs.is_some_and(|made| expires <= made) {
            return Err(Refusal::permanent("x= is not later than t="));
        }
        if expires < now_unix_secs {
            return Err(Refusal::fail(format!("the signature expired at {expires}")));
        }
        Ok(())
    }

    /// A key with the flag `s` signs for no subdomains (section 3.6.1).
    pub(crate) fn check_key(&self, key: &PublicKey) -> Result<(), Refusal> {
        if key.is_strict() && self.identity_domain != self.signature.key.domain {
            return Err(Refusal::permanent("the key does not sign for subdomains, but i= has one"));
        }
        Ok(())
    }
}

/// The domain of `i=`, which is `d=` or below it.
fn identity_domain(tags: &Tags, domain: &str) -> Result<String, Refusal> {
    let Some(identity) = tags.get("i") else { return Ok(domain.to_owned()) };
    let found = identity.rsplit_once('@').and_then(|(_, name)| domain_name(name));
    found.filter(|name| is_within(name, domain)).ok_or_else(|| {
        Refusal::permanent(format!(
            "i= is \"{}\", expected an identity of {} or below it",
            shown(identity),
            shown(domain)
        ))
    })
}
