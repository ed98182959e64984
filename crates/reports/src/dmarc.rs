//! What a DMARC check saw of one message, as aggregate reports count it (RFC 7489 section 7.2, appendix C).
//!
//! In: words and names of a check. Out: [`DmarcSeen`]: the domain whose policy counts, the policy, and a [`DmarcRow`], equal for
//! messages that a report counts together. It has a form in JSON, in which it waits for the end of the period. Cannot fail.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmarcSeen {
    /// The domain that published the policy.
    pub domain: String,
    /// What it published.
    pub policy: PublishedPolicy,
    /// What was seen.
    pub row: DmarcRow,
}

/// The tags of a record, as they counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPolicy {
    /// `adkim=s`.
    pub is_dkim_strict: bool,
    /// `aspf=s`.
    pub is_spf_strict: bool,
    /// `p=`.
    pub policy: Disposition,
    /// `sp=`; as `p=` when absent.
    pub subdomain_policy: Disposition,
    /// `pct=`.
    pub percent: u8,
    /// `fo=`.
    pub failure_options: String,
    /// `rua=`, as it stands in the record.
    pub reports_to: String,
}

/// What messages have in common that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DmarcRow {
    /// Who sent them.
    pub source_ip: IpAddr,
    /// What became of them.
    pub disposition: Disposition,
    /// DKIM gave an aligned pass.
    pub dkim: Alignment,
    /// SPF gave an aligned pass.
    pub spf: Alignment,
    /// Why something else became of them than the policy asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// The author's domain.
    pub header_from: String,
    /// The domain of the envelope's sender; none when that is null.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub envelope_from: String,
    /// The signatures, the first [`DKIM_RESULTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dkim_results: Vec<DkimSeen>,
    /// SPF.
    pub spf_result: SpfSeen,
}

/// What is, or is to be, done with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    None,
    Quarantine,
    Reject,
}

/// Whether a method gave an aligned pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alignment {
    Pass,
    Fail,
}

/// Why a policy was not followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Override {
    /// One of [`Override::KINDS`].
    pub kind: String,
    /// Words for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
}

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DkimSeen {
    /// `d=`.
    pub domain: String,
    /// `s=`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Its result.
    pub result: String,
}

/// The result of SPF.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SpfSeen {
    /// The domain that was asked about.
    pub domain: String,
    /// It was that of HELO, not that of the sender.
    pub is_helo: bool,
    /// Its result.
    pub result: String,
}

impl Disposition {
    /// As reports and records spell it.
    pub fn word(self) -> &'static str {
        match self {
            Disposition::None => "none",
            Disposition::Quarantine => "quarantine",
            Disposition::Reject => "reject",
        }
    }

    /// The reverse of [`Disposition::word`].
    pub fn parse(word: &str) -> Option<Disposition> {
        [Disposition::None, Disposition::Quarantine, Disposition::Reject].into_iter().find(|d| d.word() == word)
    }
}

impl Alignment {
    /// Of something that is so or not.
    pub fn of(is_pass: bool) -> Alignment {
        if is_pass { Alignment::Pass } else { Alignment::Fail }
    }

    /// As reports spell it.
    pub fn word(self) -> &'static str {
        match self {
            Alignment::Pass => "pass",
            Alignment::Fail => "fail",
        }
    }
}

impl Override {
    /// The kinds that reports may name.
    pub const KINDS: [&str; 6] =
        ["forwarded", "sampled_out", "trusted_forwarder", "mailing_list", "local_policy", "other"];
}

impl DkimSeen {
    /// The result as reports may have it.
    pub fn word(&self) -> &'static str {
        known(&self.result, &["pass", "fail", "policy", "neutral", "temperror", "permerror"])
    }
}

impl SpfSeen {
    /// The result as reports may have it.
    pub fn word(&self) -> &'static str {
        known(&self.result, &["pass", "fail", "softfail", "neutral", "temperror", "permerror"])
    }
}

fn known(word: &str, words: &[&'static str]) -> &'static str {
    words.iter().find(|known| **known == word).copied().unwrap_or("none")
}

/// Signatures of a row.
pub const DKIM_RESULTS_MAX: usize = 8;
