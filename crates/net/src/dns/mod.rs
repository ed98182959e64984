//! dns: the real resolver, and the cache of what routing made of its answers.
//!
//! In:  the policy's choice of a resolver ([`build`]) or the system's resolv.conf; routing domains; sets of exchangers.
//! Out: `route::MailExchangers` per domain and addresses per host.
//!
//! Two caches, one above the other: the DNS library keeps answers for their time to live; [`MxCache`] keeps the composed
//! result (hosts ordered, site named), and failures too, so that a dead domain with a long queue is asked about once in
//! five minutes and not once per message.
//!
//! Fails with: [`DnsSetupError`] at start; `route::RouteError` and `route::DnsError` per look-up.
//!
//! Deliberately not here: what the answers mean for mail (`route`).

mod build;
mod chosen;
mod families;
mod hickory;
mod hurried;
mod join;
mod mx_cache;
mod setup_error;
mod zones;

pub use build::build;
pub use chosen::{cache_limits, chosen_resolver, named_resolvers};
pub use hickory::{HOST_ADDRESSES_MAX, HickoryResolver, resolv_conf_options};
pub use hurried::Hurried;
pub use mx_cache::{MxCache, MxCacheLimits, MxCounts};
pub use setup_error::DnsSetupError;
pub use zones::ZoneResolver;
