//! What a policy says of DNS as a whole, apart from the tables of options.
//!
//! Owns [`DnsSettings`]: one field a `kumo.dns` function. The defaults are KumoMTA's. It looks nothing up.

use crate::duration::Duration;
use crate::resolver::ResolverForm;
use std::collections::BTreeMap;

/// `kumo.dns.configure_resolver`, `kumo.dns.set_*` and their sisters.
#[derive(Clone, Debug, PartialEq)]
pub struct DnsSettings {
    /// Who is asked; the system's resolver when absent.
    pub resolver: Option<ResolverForm>,
    /// Resolvers that scripts ask by name.
    pub named: BTreeMap<String, ResolverForm>,
    /// MX questions at a time.
    pub mx_concurrency_limit: usize,
    /// Time limit of one question.
    pub mx_timeout: Duration,
    /// How long a failure is believed.
    pub mx_negative_cache_ttl: Duration,
    /// MX resolution asks for MTA-STS policies.
    pub is_mta_sts_enabled: bool,
    /// Policies by domain that are used instead of fetched ones.
    pub test_mta_sts: BTreeMap<String, String>,
    /// The port policies are fetched from; another than 443 is for tests.
    pub mta_sts_port: u16,
}

impl Default for DnsSettings {
    fn default() -> Self {
        DnsSettings {
            resolver: None,
            named: BTreeMap::new(),
            mx_concurrency_limit: 128,
            mx_timeout: Duration::from_secs(5),
            mx_negative_cache_ttl: Duration::from_secs(300),
            is_mta_sts_enabled: true,
            test_mta_sts: BTreeMap::new(),
            mta_sts_port: 443,
        }
    }
}
