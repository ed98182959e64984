//! SPF (RFC 7208): may this address send mail of this domain?
//!
//! In: a resolver, the client's address, the domain, what the client said of itself. Out: [`SpfCheck`]. Cannot fail: what goes
//! wrong is a result too.
//! The rooms below: `record` (a record's terms), `macros` (its macro strings), `check` (the evaluation, with its DNS
//! questions and their limits), `explain` (the words of a domain that refuses).

mod check;
mod explain;
mod macros;
mod record;

pub use check::{LOOKUP_TERMS_MAX, MX_NAMES_MAX, PTR_NAMES_MAX, VOID_LOOKUPS_MAX};
pub use explain::EXPLANATION_CHARS_MAX;
pub use macros::{EXPANSION_BYTES_MAX, MacroString};
pub use record::{RECORD_BYTES_MAX, SpfRecord, SyntaxError};

use crate::results::{add_prop, result};
use mimepart::AuthenticationResult;
use route::Resolver;
use serde::Serialize;
use std::net::IpAddr;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct SpfQuery<'a> {
    /// The client's address.
    pub ip: IpAddr,
    /// The domain whose record decides: that of the sender, or of HELO.
    pub domain: &'a str,
    /// The sender of the envelope; `None` or empty when HELO is checked or the sender is null.
    pub sender: Option<&'a str>,
    /// What the client said in HELO or EHLO.
    pub helo: &'a str,
    /// The name of this host, for `%{r}`.
    pub receiver: &'a str,
    /// The time, for `%{t}`.
    pub now_unix_secs: u64,
}

impl<'a> SpfQuery<'a> {
    /// The question for an envelope (RFC 7208 section 2.4): of the sender's domain, or of HELO when the sender is null.
    pub fn of_envelope(
        ip: IpAddr,
        sender: &'a str,
        helo: &'a str,
        receiver: &'a str,
        now_unix_secs: u64,
    ) -> SpfQuery<'a> {
        let domain = if sender.is_empty() { helo } else { domain_of(sender) };
        let sender = Some(sender).filter(|sender| !sender.is_empty());
        SpfQuery { ip, domain, sender, helo, receiver, now_unix_secs }
    }
}

/// The results of RFC 7208 section 2.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpfDisposition {
    /// No record, or no domain to ask about.
    None,
    /// The domain says nothing of this address.
    Neutral,
    /// It may.
    Pass,
    /// It may not.
    Fail,
    /// Probably it may not.
    SoftFail,
    /// DNS did not answer.
    TempError,
    /// The record cannot be evaluated.
    PermError,
}

impl SpfDisposition {
    /// The word used in results.
    pub fn word(self) -> &'static str {
        match self {
            SpfDisposition::None => "none",
            SpfDisposition::Neutral => "neutral",
            SpfDisposition::Pass => "pass",
            SpfDisposition::Fail => "fail",
            SpfDisposition::SoftFail => "softfail",
            SpfDisposition::TempError => "temperror",
            SpfDisposition::PermError => "permerror",
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpfCheck {
    pub disposition: SpfDisposition,
    /// Method `spf`, with property `smtp.mailfrom` or `smtp.helo`.
    pub result: AuthenticationResult,
    /// What the domain says to those it refuses (section 6.2). These are its words, not ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// The function `check_host()` of RFC 7208 section 4.
pub async fn check_host(resolver: &dyn Resolver, query: &SpfQuery<'_>) -> SpfCheck {
    let (verdict, explanation) = check::check(resolver, query).await;
    let mut made = result("spf", verdict.disposition.word(), Some(verdict.reason));
    // What is said to be checked is the domain that was: DMARC goes by it.
    match query.sender.filter(|sender| !sender.is_empty()) {
        Some(sender) if domain_of(sender) == query.domain => add_prop(&mut made, "smtp.mailfrom", sender),
        Some(_) => add_prop(&mut made, "smtp.mailfrom", query.domain),
        None => add_prop(&mut made, "smtp.helo", query.domain),
    }
    SpfCheck { disposition: verdict.disposition, result: made, explanation }
}

/// The domain of a sender; a sender without `@` is one.
fn domain_of(sender: &str) -> &str {
    sender.rsplit_once('@').map_or(sender, |(_, domain)| domain)
}
