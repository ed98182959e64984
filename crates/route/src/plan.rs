//! ConnectionPlan: which addresses to connect to, in which order; or why there are none.
//!
//! In:  [`MailExchangers`], the addresses found for each host, the egress path's port and CIDR tests, a shuffle seed.
//! Out: candidates by preference ascending, shuffled inside one preference with IPv4 and IPv6 mixed (so that load spreads
//!      over equal hosts); or a verdict with its SMTP reply.
//!
//! Nothing fails here: every bad case is a verdict. An address inside prohibited_hosts condemns the whole set, also when
//! skip_hosts would have left it out, because a domain pointing at our own loopback is either a mistake or an attack.
//!
//! Deliberately not here: connecting, and which settings apply.

use std::net::{IpAddr, SocketAddr};

use crate::exchangers::{Exchanger, MailExchangers};
use crate::reply::LocalReply;
use crate::resolver::{DnsError, HostTrust};

/// Candidates kept in one plan. Each may cost a connect timeout; nobody's mail is served by trying more.
pub const CANDIDATES_MAX: usize = 256;

/// What to do about a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionPlan {
    /// Connect to these, in this order; never empty.
    Candidates(Vec<Candidate>),
    /// The domain takes no mail (RFC 7505).
    NullMx,
    /// A host resolves into prohibited_hosts.
    Prohibited {
        /// The host.
        host: String,
        /// Its forbidden address.
        addr: IpAddr,
    },
    /// Every address is in skip_hosts.
    AllSkipped,
    /// The hosts exist or not, but none has an address.
    NoAddresses,
    /// DNS does not know the domain, or did not tell about its hosts.
    Unresolvable {
        /// True when the domain is known not to exist. For listing and metrics; the reply is transient all the same.
        permanent: bool,
        /// What happened.
        text: String,
    },
}

/// One address to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The host it belongs to, as [`Exchanger::name`] has it.
    pub host: String,
    /// Address and port.
    pub addr: SocketAddr,
    /// The host's preference.
    pub preference: u16,
    /// What DNSSEC says of the address.
    pub trust: HostTrust,
}

/// An exchanger with the answer to its address question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedHost {
    /// The host.
    pub exchanger: Exchanger,
    /// Its addresses, or why they are not known.
    pub addresses: Result<Vec<IpAddr>, DnsError>,
    /// What DNSSEC says of them.
    pub trust: HostTrust,
}

/// What the egress path and source say about connecting.
pub struct PlanOptions<'a> {
    /// The source's `remote_port`; beats every other port.
    pub remote_port: Option<u16>,
    /// The path's `smtp_port`; used when neither source, domain nor `mx_list` names one.
    pub smtp_port: u16,
    /// Where randomness comes in: a fresh number for each plan.
    pub shuffle_seed: u64,
    /// True for addresses in `prohibited_hosts`.
    pub prohibited: &'a dyn Fn(IpAddr) -> bool,
    /// True for addresses in `skip_hosts`.
    pub skip: &'a dyn Fn(IpAddr) -> bool,
}

impl ConnectionPlan {
    /// Decides. `hosts` are those of `exchangers`, in any order.
    pub fn new(exchangers: &MailExchangers, hosts: &[ResolvedHost], options: &PlanOptions<'_>) -> Self {
        if exchangers.is_null_mx() {
            return Self::NullMx;
        }
        let all = all_candidates(hosts, options);
        if all.is_empty() {
            return why_no_address(hosts);
        }
        if let Some(bad) = all.iter().find(|c| (options.prohibited)(c.addr.ip())) {
            return Self::Prohibited { host: bad.host.clone(), addr: bad.addr.ip() };
        }
        let mut kept: Vec<Candidate> = all.into_iter().filter(|c| !(options.skip)(c.addr.ip())).collect();
        if kept.is_empty() {
            return Self::AllSkipped;
        }
        shuffle(&mut kept, options.shuffle_seed);
        // stable, so the shuffle survives inside a preference
        kept.sort_by_key(|c| c.preference);
        kept.truncate(CANDIDATES_MAX);
        Self::Candidates(kept)
    }

    /// The reply that is logged when there is nothing to connect to; `None` when there is.
    pub fn reply(&self) -> Option<LocalReply> {
        LocalReply::of_plan(self)
    }
}

impl From<&crate::exchangers::RouteError> for ConnectionPlan {
    fn from(error: &crate::exchangers::RouteError) -> Self {
        Self::Unresolvable { permanent: error.is_permanent(), text: error.to_string() }
    }
}

fn all_candidates(hosts: &[ResolvedHost], options: &PlanOptions<'_>) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = Vec::new();
    for host in hosts {
        let exchanger = &host.exchanger;
        let port = options.remote_port.or(exchanger.port).unwrap_or(options.smtp_port);
        for ip in host.addresses.as_deref().unwrap_or_default() {
            // ::ffff:127.0.0.1 is 127.0.0.1 and must not slip past an IPv4 CIDR
            let addr = SocketAddr::new(ip.to_canonical(), port);
            let (preference, trust) = (exchanger.preference, host.trust.clone());
            all.push(Candidate { host: exchanger.name.clone(), addr, preference, trust });
        }
    }
    // one host listed twice, or twice the same address: the better preference stays
    all.sort_by(|a, b| (&a.host, a.addr, a.preference).cmp(&(&b.host, b.addr, b.preference)));
    all.dedup_by(|later, first| later.host == first.host && later.addr == first.addr);
    all
}

fn why_no_address(hosts: &[ResolvedHost]) -> ConnectionPlan {
    let told_nothing = |host: &ResolvedHost| match &host.addresses {
        Err(cause) if !cause.is_permanent() => Some(format!("host {}: {cause}", host.exchanger.name)),
        _ => None,
    };
    match hosts.iter().find_map(told_nothing) {
        Some(text) => ConnectionPlan::Unresolvable { permanent: false, text },
        None => ConnectionPlan::NoAddresses,
    }
}

/// Fisher-Yates over the splitmix64 sequence of `seed`.
fn shuffle(candidates: &mut [Candidate], seed: u64) {
    let mut state = seed;
    for last in (1..candidates.len()).rev() {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        candidates.swap(last, (z % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
