//! What a DMARC check saw of one message, as aggregate reports count it (RFC 7489 section 7.2, appendix C).
//!
//! In: words and names of a check. Out: [`DmarcSeen`]: the domain whose policy counts, the policy, and a [`DmarcRow`], equal for
//! messages that a report counts together. It has a form in JSON, in which it waits for the end of the period. Cannot fail.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DmarcSeen {
    /// The domain that published the policy.
    pub domain: String,
    /// What it published.
    pub policy: PublishedPolicy,
    /// What was seen.
    pub row: DmarcRow,
    /// The message was itself a report of somebody.
    pub is_report: bool,
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

impl DmarcSeen {
    /// With texts that strangers wrote no longer than is of use: they are kept until the period is over, once a row.
    pub fn bounded(mut self) -> DmarcSeen {
        let uris = &mut self.policy.reports_to;
        if uris.len() > REPORTS_TO_OCTETS_MAX {
            // No more than whole ones: half an address is another one.
            uris.truncate(uris.floor_char_boundary(REPORTS_TO_OCTETS_MAX));
            uris.truncate(uris.rfind(',').unwrap_or_default());
        }
        let row = &mut self.row;
        let signatures = row.dkim_results.iter_mut();
        let names = signatures.flat_map(|seen| [&mut seen.domain, &mut seen.selector, &mut seen.result]);
        let names = names.chain([&mut row.header_from, &mut row.envelope_from]);
        let names = names.chain([&mut row.spf_result.domain, &mut row.spf_result.result]);
        names.for_each(|name| name.truncate(name.floor_char_boundary(NAME_OCTETS_MAX)));
        self
    }
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

/// Octets of `rua=` that are kept: eight addresses of a length that has been seen.
pub const REPORTS_TO_OCTETS_MAX: usize = 1024;
/// Octets of a name: no longer one is in DNS.
const NAME_OCTETS_MAX: usize = 255;
/// Signatures of a row.
pub const DKIM_RESULTS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_wrote_is_kept_up_to_a_length() {
        let seen = |uris: &str, name: usize| {
            let policy = PublishedPolicy {
                is_dkim_strict: false,
                is_spf_strict: false,
                policy: Disposition::None,
                subdomain_policy: Disposition::None,
                percent: 100,
                failure_options: "0".to_owned(),
                reports_to: uris.to_owned(),
            };
            let text = || "x".repeat(name);
            let row = DmarcRow {
                source_ip: [192, 0, 2, 1].into(),
                disposition: Disposition::None,
                dkim: Alignment::Pass,
                spf: Alignment::Pass,
                overrides: Vec::new(),
                header_from: text(),
                envelope_from: text(),
                dkim_results: vec![DkimSeen { domain: text(), selector: text(), result: text() }],
                spf_result: SpfSeen { domain: text(), is_helo: false, result: text() },
            };
            DmarcSeen { domain: "a.test".to_owned(), policy, row, is_report: false }
        };
        let first = format!("mailto:{}@a.test", "x".repeat(REPORTS_TO_OCTETS_MAX - 16));
        let whole = format!("{first},m");
        assert_eq!(whole.len(), REPORTS_TO_OCTETS_MAX);
        assert_eq!(seen(&whole, NAME_OCTETS_MAX).bounded(), seen(&whole, NAME_OCTETS_MAX));
        assert_eq!(seen(&format!("{whole}a"), NAME_OCTETS_MAX + 1).bounded(), seen(&first, NAME_OCTETS_MAX));
        assert_eq!(seen(&"x".repeat(REPORTS_TO_OCTETS_MAX + 1), 1).bounded().policy.reports_to, "", "no whole one");
    }
}
