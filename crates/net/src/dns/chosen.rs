//! Who is asked for names, as policy, environment or system choose.
//!
//! In: [`DnsSettings`]. Out: a [`Resolver`], caches of the resolvers with a name, the limits of a cache. Asks nobody. Fails with
//! [`DnsSetupError`], which names the function of the policy that is to be mended.

use super::build::build;
use super::hickory::HickoryResolver;
use super::mx_cache::{MxCache, MxCacheLimits};
use super::setup_error::DnsSetupError;
use config::DnsSettings;
use route::Resolver;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Whom the policy wants to be asked, or else the environment, or else the system.
///
/// # Errors
/// What was chosen is not usable.
pub fn chosen_resolver(dns: &DnsSettings) -> Result<Arc<dyn Resolver>, DnsSetupError> {
    match &dns.resolver {
        Some(form) => build(form).map_err(|cause| cause.of("kumo.dns.configure_resolver")),
        None => resolver(),
    }
}

/// The resolvers that scripts ask by name. MTA-STS policies are not looked at.
///
/// # Errors
/// One is not usable.
pub fn named_resolvers(dns: &DnsSettings) -> Result<BTreeMap<String, Arc<MxCache>>, DnsSetupError> {
    let one = |(name, form)| {
        let of = |cause: DnsSetupError| cause.of(&format!("kumo.dns.define_resolver `{name}`"));
        Ok((String::clone(name), Arc::new(MxCache::new(build(form).map_err(of)?, cache_limits(dns)))))
    };
    dns.named.iter().map(one).collect()
}

/// The limits of a cache of what resolvers say.
pub fn cache_limits(dns: &DnsSettings) -> MxCacheLimits {
    MxCacheLimits {
        lookups_max: dns.mx_concurrency_limit,
        lookup_timeout: dns.mx_timeout.get(),
        negative_ttl: dns.mx_negative_cache_ttl.get(),
        ..MxCacheLimits::default()
    }
}

/// The resolver of `POSTRIDER_RESOLVERS` (`ip:port,...`), else the system's; without one, the local host is asked, as the C
/// library does.
fn resolver() -> Result<Arc<dyn Resolver>, DnsSetupError> {
    if let Ok(list) = std::env::var(SERVERS) {
        let wrong = |text: &str| DnsSetupError::Environment { name: SERVERS, text: text.to_owned() };
        let parse = |text: &str| text.trim().parse().map_err(|_| wrong(text));
        let servers = list.split(',').map(parse).collect::<Result<Vec<SocketAddr>, _>>()?;
        return Ok(Arc::new(HickoryResolver::asking(&servers)?));
    }
    let found = HickoryResolver::from_system().or_else(|error| {
        tracing::warn!("{error}; asking 127.0.0.1:53");
        HickoryResolver::asking(&[SocketAddr::from(([127, 0, 0, 1], 53))])
    });
    Ok(Arc::new(found?))
}

/// The variable of the environment that names DNS servers other than the system's.
const SERVERS: &str = "POSTRIDER_RESOLVERS";
