//! MailExchangers: the hosts that take mail for a domain, in order, and the name of their site.
//!
//! In:  a [`RoutingDomain`] with the answer to its MX question, an address literal, or an `mx_list`.
//! Out: hosts by preference, `site_name()`, and whether this is real MX, implicit MX, null MX, a literal or a list.
//! Fails with: [`RouteError`]. That a name has no MX is not an error (implicit MX, RFC 5321 section 5.1); that it does not
//! exist is.
//!
//! Deliberately not here: addresses (they depend on the egress path; see `plan`), where MTA-STS policies come from.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use thiserror::Error;

use crate::domain::{RouteHost, RoutingDomain, canonical_name};
use crate::mta_sts::{StsFault, StsMode, StsPolicy};
use crate::mx_list::{MX_LIST_ENTRIES_MAX, MxListEntry, MxListError};
use crate::reply::LocalReply;
use crate::resolver::{DnsError, MxAnswer};
use crate::site::roll_up;

/// Hosts kept of one MX answer, lowest preferences first. A 64 KiB answer could name thousands, each costing address
/// look-ups and connection attempts.
pub const MX_HOSTS_MAX: usize = 64;

/// How long the finding "no MX, use the domain itself" is believed, in seconds.
pub const IMPLICIT_MX_TTL_SECS: u32 = 300;

/// The hosts that take mail for a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailExchangers {
    domain: RoutingDomain,
    kind: RouteKind,
    hosts: Vec<Exchanger>,
    site_name: String,
    ttl_secs: u32,
    is_secure: bool,
    sts: StsMode,
    /// For reports: the policy, or why there is none that is announced.
    sts_policy: Option<Arc<StsPolicy>>,
    sts_fault: Option<StsFault>,
}

/// Where the hosts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RouteKind {
    /// MX records.
    Mx,
    /// No MX records: the domain itself (RFC 5321 section 5.1).
    ImplicitMx,
    /// The domain declares that it takes no mail (RFC 7505).
    NullMx,
    /// An address literal.
    Literal,
    /// The queue's `mx_list`.
    MxList,
}

/// One host to deliver to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchanger {
    /// Host name in lower case with its final dot; for an address literal the address; for an `mx_list` table its `name`.
    pub name: String,
    /// Lower is tried first.
    pub preference: u16,
    /// The address when none has to be looked up.
    pub ip: Option<IpAddr>,
    /// The port written in the domain or in the `mx_list` entry.
    pub port: Option<u16>,
}

/// Why a domain has no mail exchangers.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RouteError {
    /// The domain does not exist.
    #[error("domain {domain} does not exist (NXDOMAIN)")]
    NxDomain {
        /// The domain asked for.
        domain: RoutingDomain,
    },
    /// DNS did not tell.
    #[error("cannot resolve the MX of {domain}: {cause}")]
    Dns {
        /// The domain asked for.
        domain: RoutingDomain,
        /// What happened.
        cause: DnsError,
    },
    /// The MTA-STS policy of the domain allows none of its hosts.
    #[error("no MX host of {domain} is allowed by its MTA-STS policy (enforce)")]
    MtaSts {
        /// The domain asked for.
        domain: RoutingDomain,
    },
}

impl MailExchangers {
    /// The exchangers of a domain, given the answer to its MX question.
    ///
    /// For an address literal no question is asked and `answer` is not looked at; see also [`Self::from_literal`].
    pub fn from_answer(domain: &RoutingDomain, answer: Result<MxAnswer, DnsError>) -> Result<Self, RouteError> {
        let name = match domain.host() {
            RouteHost::Name(name) => name,
            RouteHost::Literal(ip) => return Ok(Self::literal(domain, *ip)),
        };
        match answer {
            Ok(answer) if !answer.records.is_empty() => Self::from_records(domain, &answer),
            // A name without MX is its own host: that the look-up of its addresses is secure is all DANE asks for.
            Ok(_) | Err(DnsError::NoData) => Ok(Self::implicit(domain, name)),
            Err(DnsError::NxDomain) => Err(RouteError::NxDomain { domain: domain.clone() }),
            Err(cause) => Err(RouteError::Dns { domain: domain.clone(), cause }),
        }
    }

    /// The one exchanger of an address literal; `None` when `domain` is a name.
    pub fn from_literal(domain: &RoutingDomain) -> Option<Self> {
        match domain.host() {
            RouteHost::Literal(ip) => Some(Self::literal(domain, *ip)),
            RouteHost::Name(_) => None,
        }
    }

    /// The exchangers of a queue with an `mx_list`: MX is not consulted, and the site is `mx_list:` and the labels.
    pub fn from_mx_list(domain: &RoutingDomain, list: &[MxListEntry]) -> Result<Self, MxListError> {
        if list.is_empty() {
            return Err(MxListError::Empty);
        }
        if list.len() > MX_LIST_ENTRIES_MAX {
            return Err(MxListError::TooLong { entries: list.len() });
        }
        let labels: Vec<&str> = list.iter().map(MxListEntry::label).collect();
        // the place in the list is the preference: the operator's order is kept, nothing is shuffled
        let hosts = (0u16..).zip(list).map(|(preference, entry)| Exchanger {
            name: entry.name.clone(),
            preference,
            ip: entry.ip,
            port: entry.port,
        });
        Ok(Self {
            domain: domain.clone(),
            kind: RouteKind::MxList,
            hosts: hosts.collect(),
            site_name: format!("mx_list:{}", labels.join(",")),
            ttl_secs: u32::MAX,
            is_secure: false,
            sts: StsMode::None,
            sts_policy: None,
            sts_fault: None,
        })
    }

    /// The domain these are the exchangers of.
    pub fn domain(&self) -> &RoutingDomain {
        &self.domain
    }

    /// Where the hosts come from.
    pub fn kind(&self) -> RouteKind {
        self.kind
    }

    /// True when real MX records were found (a null MX is one).
    pub fn is_mx(&self) -> bool {
        matches!(self.kind, RouteKind::Mx | RouteKind::NullMx)
    }

    /// True for an address literal.
    pub fn is_domain_literal(&self) -> bool {
        self.kind == RouteKind::Literal
    }

    /// True when the domain declares that it takes no mail.
    pub fn is_null_mx(&self) -> bool {
        self.kind == RouteKind::NullMx
    }

    /// The hosts by preference, ascending; inside one preference by name.
    pub fn hosts(&self) -> &[Exchanger] {
        &self.hosts
    }

    /// Host names grouped by preference, sorted inside each.
    pub fn by_pref(&self) -> BTreeMap<u16, Vec<&str>> {
        let mut groups: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
        for host in &self.hosts {
            groups.entry(host.preference).or_default().push(&host.name);
        }
        groups
    }

    /// The name of this set of hosts, rolled up as KumoMTA does it (see `site`).
    pub fn site_name(&self) -> &str {
        &self.site_name
    }

    /// How long this may be believed, in seconds; `u32::MAX` when no DNS was involved.
    pub fn ttl_secs(&self) -> u32 {
        self.ttl_secs
    }

    /// True when DNSSEC vouches for the names of the hosts (RFC 7672 section 2.2): for the MX records, or because there is
    /// no MX and so no name but the domain's own. Of a list it is the operator's word, see [`Self::trusted`].
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The same, as if DNSSEC vouched for the names: KumoMTA's `treat_mx_list_as_secure`.
    #[must_use]
    pub fn trusted(self) -> Self {
        Self { is_secure: true, ..self }
    }

    /// What the domain's MTA-STS policy asks for.
    pub fn sts(&self) -> StsMode {
        self.sts
    }

    /// The same under the domain's MTA-STS policy: `enforce` leaves out the hosts it does not allow, so that the site is
    /// another. Only what MX records (or their absence) name is judged. Fails when no host is left.
    pub fn under_policy(self, policy: &StsPolicy) -> Result<Self, RouteError> {
        let is_judged = matches!(self.kind, RouteKind::Mx | RouteKind::ImplicitMx);
        match policy.mode {
            _ if !is_judged => Ok(self),
            StsMode::None | StsMode::Testing => Ok(Self { sts: policy.mode, ..self }),
            StsMode::Enforce => {
                let allowed = self.hosts.iter().filter(|host| policy.allows(&host.name));
                let records: Vec<(u16, String)> = allowed.map(|host| (host.preference, host.name.clone())).collect();
                if records.is_empty() {
                    return Err(RouteError::MtaSts { domain: self.domain });
                }
                let kept = Self::assemble(&self.domain, self.kind, records, (self.ttl_secs, self.is_secure));
                Ok(Self { sts: policy.mode, ..kept })
            }
        }
    }

    /// The same with what reports say of the domain's MTA-STS policy.
    #[must_use]
    pub fn reported(self, sts_policy: Option<Arc<StsPolicy>>, sts_fault: Option<StsFault>) -> Self {
        Self { sts_policy, sts_fault, ..self }
    }

    /// The domain's MTA-STS policy, whatever its mode.
    pub fn sts_policy(&self) -> Option<&StsPolicy> {
        self.sts_policy.as_deref()
    }

    /// Why a policy that the domain announces cannot be had.
    pub fn sts_fault(&self) -> Option<StsFault> {
        self.sts_fault
    }

    fn literal(domain: &RoutingDomain, ip: IpAddr) -> Self {
        let site_name = match (ip, domain.port()) {
            (IpAddr::V6(v6), Some(port)) => format!("[{v6}]:{port}"),
            (ip, Some(port)) => format!("{ip}:{port}"),
            (ip, None) => ip.to_string(),
        };
        Self {
            domain: domain.clone(),
            kind: RouteKind::Literal,
            hosts: vec![Exchanger {
                name: ip.to_string(),
                preference: LITERAL_PREFERENCE,
                ip: Some(ip),
                port: domain.port(),
            }],
            site_name,
            ttl_secs: u32::MAX,
            is_secure: false,
            sts: StsMode::None,
            sts_policy: None,
            sts_fault: None,
        }
    }

    fn implicit(domain: &RoutingDomain, name: &str) -> Self {
        let records = vec![(IMPLICIT_MX_PREFERENCE, format!("{name}."))];
        Self::assemble(domain, RouteKind::ImplicitMx, records, (IMPLICIT_MX_TTL_SECS, true))
    }

    fn from_records(domain: &RoutingDomain, answer: &MxAnswer) -> Result<Self, RouteError> {
        let is_null = |host: &str| host.is_empty() || host == ".";
        if answer.records.iter().all(|r| is_null(&r.host)) {
            let records = vec![(answer.records[0].preference, ".".to_string())];
            return Ok(Self::assemble(domain, RouteKind::NullMx, records, (answer.ttl_secs, answer.is_secure)));
        }
        // a null host beside real ones means nothing (RFC 7505 section 3), and neither does a host that is no host name
        let usable = answer.records.iter().filter(|r| !is_null(&r.host));
        let mut records: Vec<(u16, String)> =
            usable.filter_map(|r| Some((r.preference, format!("{}.", canonical_name(&r.host).ok()?)))).collect();
        if records.is_empty() {
            let cause = DnsError::Malformed("no MX record names a host".to_string());
            return Err(RouteError::Dns { domain: domain.clone(), cause });
        }
        records.sort();
        records.dedup();
        records.truncate(MX_HOSTS_MAX);
        Ok(Self::assemble(domain, RouteKind::Mx, records, (answer.ttl_secs, answer.is_secure)))
    }

    fn assemble(
        domain: &RoutingDomain,
        kind: RouteKind,
        records: Vec<(u16, String)>,
        (ttl_secs, is_secure): (u32, bool),
    ) -> Self {
        let names: Vec<&str> = records.iter().map(|(_, name)| name.as_str()).collect();
        let site_name = roll_up(&names, domain.port());
        let host = |(preference, name)| Exchanger { name, preference, ip: None, port: domain.port() };
        let hosts = records.into_iter().map(host).collect();
        let (sts, sts_policy, sts_fault) = (StsMode::None, None, None);
        Self { domain: domain.clone(), kind, hosts, site_name, ttl_secs, is_secure, sts, sts_policy, sts_fault }
    }
}

impl RouteError {
    /// The domain that did not resolve.
    pub fn domain(&self) -> &RoutingDomain {
        match self {
            Self::NxDomain { domain } | Self::Dns { domain, .. } | Self::MtaSts { domain } => domain,
        }
    }

    /// True when the domain is known not to exist.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::NxDomain { .. })
    }

    /// The site under which metrics count such a domain: `NXDOMAIN:<domain>` or `DNSFAIL:<domain>` (KumoMTA behaviour).
    pub fn metrics_site(&self) -> String {
        match self {
            Self::NxDomain { domain } => format!("NXDOMAIN:{domain}"),
            Self::Dns { domain, .. } | Self::MtaSts { domain } => format!("DNSFAIL:{domain}"),
        }
    }

    /// The reply that is logged for messages to this domain.
    pub fn reply(&self) -> LocalReply {
        LocalReply::unresolvable(&self.to_string())
    }
}

/// The preference KumoMTA shows for an implicit MX.
const IMPLICIT_MX_PREFERENCE: u16 = 1;
const LITERAL_PREFERENCE: u16 = 1;

#[cfg(test)]
#[path = "exchangers_tests.rs"]
mod tests;
