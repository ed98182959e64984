//! The two kinds of reports about a period, as far as they differ in how they are counted.

use reports::{DmarcRow, PublishedPolicy, SpfSeen, TlsRow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

/// What is counted for one kind of report.
pub(crate) trait Kind: Send + Sync + 'static {
    /// What a domain says of itself.
    type Policy: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What is counted together.
    type Row: Clone + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// In names of files, metrics and metadata.
    const NAME: &'static str;

    /// The stranger who chose what a row says: an address, of IPv6 a network of 64 bits. None where nobody outside did.
    fn stranger(row: &Self::Row) -> Option<IpAddr>;
    /// The row without the names that he chose.
    fn plain(row: Self::Row, domain: &str) -> Self::Row;
}

/// DMARC aggregate reports.
pub(crate) enum Dmarc {}

impl Kind for Dmarc {
    type Policy = PublishedPolicy;
    type Row = DmarcRow;
    const NAME: &'static str = "dmarc";

    fn stranger(row: &DmarcRow) -> Option<IpAddr> {
        Some(match row.source_ip.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            v4 => v4,
        })
    }

    /// From whom, what became of it, and whether it passed: without that a report says nothing. Who has a network has more addresses
    /// than there is room for: of those the network stands there.
    fn plain(row: DmarcRow, domain: &str) -> DmarcRow {
        let source_ip = Dmarc::stranger(&row).unwrap_or(row.source_ip);
        let spf_result = SpfSeen { domain: String::new(), ..row.spf_result };
        let (header_from, envelope_from) = (domain.to_owned(), String::new());
        DmarcRow { source_ip, header_from, envelope_from, dkim_results: Vec::new(), spf_result, ..row }
    }
}

/// TLS reports.
pub(crate) enum Tls {}

impl Kind for Tls {
    type Policy = ();
    type Row = TlsRow;
    const NAME: &'static str = "tls";

    fn stranger(_row: &TlsRow) -> Option<IpAddr> {
        None
    }

    fn plain(row: TlsRow, _domain: &str) -> TlsRow {
        row
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use reports::{Alignment, Bounds, Disposition, TlsPolicy, TlsPolicyType};

    /// A session with a domain that has no policy.
    pub(crate) fn row(domain: &str) -> TlsRow {
        let (kind, domain) = (TlsPolicyType::NoPolicyFound, domain.to_owned());
        TlsRow { policy: TlsPolicy { kind, text: Vec::new(), domain, mx_hosts: Vec::new() }, failure: None }
    }

    /// Room for so many of everything.
    pub(crate) fn room(most: usize) -> Bounds {
        Bounds { domains_max: most, domains_per_organisation_max: most, rows_max: most, rows_per_domain_max: most }
    }

    /// A policy that has reports sent there.
    pub(crate) fn policy(rua: &str) -> PublishedPolicy {
        PublishedPolicy {
            is_dkim_strict: false,
            is_spf_strict: false,
            policy: Disposition::None,
            subdomain_policy: Disposition::None,
            percent: 100,
            failure_options: "0".to_owned(),
            reports_to: rua.to_owned(),
        }
    }

    /// A row about `a.test`.
    pub(crate) fn dmarc_row() -> DmarcRow {
        DmarcRow {
            source_ip: [192, 0, 2, 1].into(),
            disposition: Disposition::None,
            dkim: Alignment::Pass,
            spf: Alignment::Fail,
            overrides: Vec::new(),
            header_from: "a.test".to_owned(),
            envelope_from: String::new(),
            dkim_results: Vec::new(),
            spf_result: SpfSeen { domain: "a.test".to_owned(), is_helo: false, result: "none".to_owned() },
        }
    }
}
