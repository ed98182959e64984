//! A DMARC record (RFC 7489 section 6.3).
//!
//! In: the octets of a TXT record. Out: [`DmarcRecord`], or `None` when it is none. Cannot fail: what is wrong in a record
//! counts as not there (section 6.6.3), and without a policy as one that asks for nothing when it wants reports.

use crate::tags::{LIST_BYTES_MAX, TAGS_MAX};
use serde::Serialize;

/// What is asked of receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DmarcPolicy {
    None,
    Quarantine,
    Reject,
}

impl DmarcPolicy {
    /// The word of `p=`.
    pub fn word(self) -> &'static str {
        match self {
            DmarcPolicy::None => "none",
            DmarcPolicy::Quarantine => "quarantine",
            DmarcPolicy::Reject => "reject",
        }
    }

    /// The next milder one: for messages that `pct=` or `t=` spare (section 6.6.4).
    pub(super) fn milder(self) -> DmarcPolicy {
        match self {
            DmarcPolicy::Reject => DmarcPolicy::Quarantine,
            DmarcPolicy::Quarantine | DmarcPolicy::None => DmarcPolicy::None,
        }
    }

    fn parse(text: &str) -> Option<DmarcPolicy> {
        let known = [DmarcPolicy::None, DmarcPolicy::Quarantine, DmarcPolicy::Reject];
        known.into_iter().find(|policy| policy.word().eq_ignore_ascii_case(text))
    }
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmarcRecord {
    /// `p=`.
    pub policy: DmarcPolicy,
    /// `sp=`: for subdomains; as `p=` when absent.
    pub subdomain_policy: Option<DmarcPolicy>,
    /// `np=`: for subdomains that do not exist; as `sp=` when absent.
    pub nonexistent_policy: Option<DmarcPolicy>,
    /// `adkim=s`.
    pub is_dkim_strict: bool,
    /// `aspf=s`.
    pub is_spf_strict: bool,
    /// `pct=`.
    pub percent: u8,
    /// `t=y`.
    pub is_testing: bool,
    /// `psd=y` is `Some(true)`: domains below are organisations. `psd=n` is `Some(false)`: this is one.
    pub is_suffix: Option<bool>,
    /// What it says of reports.
    pub reports: ReportTags,
}

/// Tags about reports, as they stand in the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportTags {
    /// `rua=`.
    pub rua: Option<String>,
    /// `ruf=`.
    pub ruf: Option<String>,
    /// `fo=`.
    pub fo: Option<String>,
    /// `rf=`.
    pub rf: Option<String>,
}

impl DmarcRecord {
    /// Reads a record (RFC 7489).
    pub fn parse(record: &[u8]) -> Option<DmarcRecord> {
        DmarcRecord::read(record, false)
    }

    /// Reads a record as RFC 9989 has it: what says whether it is a public suffix needs no `p=`, and `pct=` is no tag.
    pub(super) fn parse_for_walk(record: &[u8]) -> Option<DmarcRecord> {
        DmarcRecord::read(record, true).map(|record| DmarcRecord { percent: 100, ..record })
    }

    /// It says that it is a record; whether it can be used is another question.
    pub(super) fn is_one(record: &[u8]) -> bool {
        tags(record).is_some()
    }

    fn read(record: &[u8], is_policy_spared: bool) -> Option<DmarcRecord> {
        let tags = tags(record)?;
        let get = |name: &str| tags.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| *value);
        let is = |name: &str, value: &str| get(name).is_some_and(|found| found.eq_ignore_ascii_case(value));
        let policy = |name: &str| get(name).and_then(DmarcPolicy::parse);
        let text = |name: &str| get(name).filter(|value| value.len() <= REPORT_TAG_BYTES_MAX).map(str::to_owned);
        let is_suffix = if is("psd", "y") { Some(true) } else { is("psd", "n").then_some(false) };
        let asks_for_nothing =
            get("rua").is_some_and(|uris| uris.contains(':')) || (is_policy_spared && is_suffix.is_some());
        Some(DmarcRecord {
            policy: policy("p").or(asks_for_nothing.then_some(DmarcPolicy::None))?,
            subdomain_policy: policy("sp"),
            nonexistent_policy: policy("np"),
            is_dkim_strict: is("adkim", "s"),
            is_spf_strict: is("aspf", "s"),
            percent: get("pct").and_then(|text| text.parse().ok()).filter(|percent| *percent <= 100).unwrap_or(100),
            is_testing: is("t", "y"),
            is_suffix,
            reports: ReportTags { rua: text("rua"), ruf: text("ruf"), fo: text("fo"), rf: text("rf") },
        })
    }

    /// What it says of domains below the one it is published for.
    pub(super) fn for_subdomain(&self, exists: bool) -> DmarcPolicy {
        let of_subdomains = self.subdomain_policy.unwrap_or(self.policy);
        if exists { of_subdomains } else { self.nonexistent_policy.unwrap_or(of_subdomains) }
    }
}

/// The tags of what says that it is a record, `v=` left out.
fn tags(record: &[u8]) -> Option<Vec<(&str, &str)>> {
    let text = std::str::from_utf8(&record[..record.len().min(LIST_BYTES_MAX)]).ok()?;
    let mut tags = text.split(';').take(TAGS_MAX).filter_map(|tag| {
        let (name, value) = tag.split_once('=')?;
        Some((name.trim(), value.trim()))
    });
    (tags.next() == Some(("v", "DMARC1"))).then(|| tags.collect())
}

/// Longest value of a tag about reports, in octets; a longer one counts as not there.
const REPORT_TAG_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read() {
        let record =
            DmarcRecord::parse(b"v=DMARC1 ; p=Reject;sp=quarantine; np=none; adkim=s; aspf=s; pct=20; t=y; psd=n; x; ruf=mailto:f@a.test; FO=1");
        let expected = DmarcRecord {
            policy: DmarcPolicy::Reject,
            subdomain_policy: Some(DmarcPolicy::Quarantine),
            nonexistent_policy: Some(DmarcPolicy::None),
            is_dkim_strict: true,
            is_spf_strict: true,
            percent: 20,
            is_testing: true,
            is_suffix: Some(false),
            reports: ReportTags {
                ruf: Some("mailto:f@a.test".to_owned()),
                fo: Some("1".to_owned()),
                ..ReportTags::default()
            },
        };
        assert_eq!(record, Some(expected));
    }

    #[test]
    fn what_is_wrong_does_not_count() {
        let record = DmarcRecord::parse(b"v=DMARC1; p=reject; sp=x; pct=101; adkim=q").expect("a record");
        let wanted = (DmarcPolicy::Reject, DmarcPolicy::Reject, 100, false);
        assert_eq!((record.policy, record.for_subdomain(false), record.percent, record.is_dkim_strict), wanted);
        for none in ["", "v=DMARC1", "v=DMARC1; p=x", "v=dmarc1; p=none", "p=none; v=DMARC1", "v=DMARC12; p=none"] {
            assert_eq!(DmarcRecord::parse(none.as_bytes()), None, "{none}");
        }
        let reported = DmarcRecord::parse(b"v=DMARC1; rua=mailto:a@b.example").map(|record| record.policy);
        assert_eq!(reported, Some(DmarcPolicy::None));
    }

    #[test]
    fn by_the_walk_psd_needs_no_policy_and_pct_is_no_tag() {
        for text in ["v=DMARC1; psd=n", "v=DMARC1; p=typo; psd=n"] {
            let record = DmarcRecord::parse_for_walk(text.as_bytes()).expect("a record");
            assert_eq!((record.policy, record.is_suffix), (DmarcPolicy::None, Some(false)), "{text}");
            assert_eq!(DmarcRecord::parse(text.as_bytes()), None, "{text}");
        }
        for none in ["v=DMARC1", "v=DMARC1; psd=u", "v=DMARC1; p=x"] {
            assert_eq!(DmarcRecord::parse_for_walk(none.as_bytes()), None, "{none}");
            assert!(DmarcRecord::is_one(none.as_bytes()), "{none}");
        }
        let percent = |record: Option<DmarcRecord>| record.map(|record| record.percent);
        let text = b"v=DMARC1; p=reject; pct=20";
        assert_eq!(percent(DmarcRecord::parse_for_walk(text)), Some(100));
        assert_eq!(percent(DmarcRecord::parse(text)), Some(20));
    }
}
