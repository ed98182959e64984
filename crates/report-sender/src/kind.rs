//! The two kinds of reports about a period, as far as they differ in how they are counted.

use reports::{DmarcRow, PublishedPolicy, TlsRow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::hash::Hash;

/// What is counted for one kind of report.
pub(crate) trait Kind: Send + Sync + 'static {
    /// What a domain says of itself.
    type Policy: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What is counted together.
    type Row: Clone + Eq + Hash + Serialize + DeserializeOwned + Send + Sync + 'static;
    /// In names of files, metrics and metadata.
    const NAME: &'static str;
}

/// DMARC aggregate reports.
pub(crate) enum Dmarc {}

impl Kind for Dmarc {
    type Policy = PublishedPolicy;
    type Row = DmarcRow;
    const NAME: &'static str = "dmarc";
}

/// TLS reports.
pub(crate) enum Tls {}

impl Kind for Tls {
    type Policy = ();
    type Row = TlsRow;
    const NAME: &'static str = "tls";
}

#[cfg(test)]
pub(crate) mod tests {
    use reports::{Bounds, TlsPolicy, TlsPolicyType, TlsRow};

    /// A session with a domain that has no policy.
    pub(crate) fn row(domain: &str) -> TlsRow {
        let (kind, domain) = (TlsPolicyType::NoPolicyFound, domain.to_owned());
        TlsRow { policy: TlsPolicy { kind, text: Vec::new(), domain, mx_hosts: Vec::new() }, failure: None }
    }

    /// Room for so many of everything.
    pub(crate) fn room(most: usize) -> Bounds {
        Bounds { domains_max: most, domains_per_organisation_max: most, rows_max: most, rows_per_domain_max: most }
    }
}
