//! route: from a domain to the hosts that take its mail, and the name of that set of hosts (its site).
//!
//! In:  a [`RoutingDomain`] (parsed once at the edge), DNS answers as values, an `mx_list`, the egress path's port, CIDR
//!      tests and a shuffle seed.
//! Out: [`MailExchangers`] (hosts by preference, site name) and a [`ConnectionPlan`] (addresses in the order to try them, or
//!      the reason why there are none, with the SMTP reply that is logged for it).
//!
//! Who asks whom: the driver holds a [`Resolver`] (the seam trait lives here, with its consumer), asks it, and hands the
//! answers to [`MailExchangers::from_answer`] and [`ConnectionPlan::new`]. Nothing here waits, reads a clock or draws a
//! random number.
//!
//! What can fail: [`DomainError`] (text that is not a domain), [`RouteError`] (a domain that does not resolve).
//!
//! Deliberately not here: caching and time limits of look-ups (`net::dns`), fetching of MTA-STS policies (`net::mta_sts`),
//! whether a certificate satisfies DANE (`net::dane`).

mod domain;
mod exchangers;
mod mta_sts;
mod mx_list;
mod plan;
mod reply;
mod resolver;
mod site;

pub use domain::{DOMAIN_TEXT_BYTES_MAX, DomainError, RouteHost, RoutingDomain};
pub use exchangers::{Exchanger, IMPLICIT_MX_TTL_SECS, MX_HOSTS_MAX, MailExchangers, RouteError, RouteKind};
pub use mta_sts::{
    STS_MAX_AGE_SECS, STS_PATTERNS_MAX, STS_POLICY_BYTES_MAX, StsError, StsFault, StsMode, StsPolicy, StsRecord,
};
pub use mx_list::{MX_LIST_ENTRIES_MAX, MxListEntry, MxListError};
pub use plan::{CANDIDATES_MAX, Candidate, ConnectionPlan, PlanOptions, ResolvedHost};
pub use reply::{INTERNAL_REPLY_PREFIX, LocalReply};
pub use resolver::{
    BoxFuture, DnsError, HostTrust, IpAnswer, IpStrategy, MxAnswer, MxRecord, Resolver, TlsaAnswer, TlsaRecord,
    TxtAnswer,
};
