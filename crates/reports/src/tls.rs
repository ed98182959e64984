//! What one outbound session saw of a domain's TLS, as TLS reports count it (RFC 8460 section 4).
//!
//! In: the policy that was followed, and how the session went. Out: [`TlsSeen`], whose [`TlsRow`] is equal for sessions that a
//! report counts together, and which has a form in JSON, in which it waits for the end of the period. Cannot fail.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One session, for one of the domains whose mail it carried or was to carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSeen {
    /// The domain of recipients.
    pub domain: String,
    /// What was seen.
    pub row: TlsRow,
}

/// What sessions have in common that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TlsRow {
    /// What the domain asks for.
    pub policy: TlsPolicy,
    /// Why it did not go as it should; none when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<SessionFailure>,
}

/// What was to be satisfied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TlsPolicy {
    /// Of which kind.
    pub kind: TlsPolicyType,
    /// Its lines, or TLSA records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub text: Vec<String>,
    /// The domain it is about.
    pub domain: String,
    /// The host patterns of an MTA-STS policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mx_hosts: Vec<String>,
}

/// The kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsPolicyType {
    Tlsa,
    Sts,
    NoPolicyFound,
}

/// How a session failed, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionFailure {
    /// Which kind of failure.
    pub result: TlsResult,
    /// Our address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending_ip: Option<IpAddr>,
    /// The host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiving_host: String,
    /// Its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving_ip: Option<IpAddr>,
    /// In words; no more than [`SessionFailure::REASON_OCTETS_MAX`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The result types of RFC 8460 section 4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsResult {
    StarttlsNotSupported,
    CertificateHostMismatch,
    CertificateExpired,
    CertificateNotTrusted,
    ValidationFailure,
    TlsaInvalid,
    DnssecInvalid,
    DaneRequired,
    StsPolicyFetchError,
    StsPolicyInvalid,
    StsWebpkiInvalid,
}

impl SessionFailure {
    /// Octets of the reason: rows with different ones are counted apart.
    pub const REASON_OCTETS_MAX: usize = 200;

    /// The reason, cut.
    pub fn reason(text: &str) -> String {
        text[..text.floor_char_boundary(SessionFailure::REASON_OCTETS_MAX)].to_owned()
    }
}
