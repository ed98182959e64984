//! HickoryResolver: `route::Resolver` over the hickory DNS client.
//!
//! In:  fully qualified names. Out: MX records and addresses as plain values, CNAMEs followed by the library.
//! Fails with: [`DnsSetupError`] when it is made; `route::DnsError` per look-up.
//!
//! Names are always asked for as they are: a search list would let `example.com` mean `example.com.corp.example`.
//! Deliberately not here: our own time limits and caching (see `mx_cache`).

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig as Servers, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as LibraryDnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData};
use hickory_resolver::system_conf::parse_resolv_conf;
use route::{BoxFuture, DnsError, IpAnswer, IpStrategy, MxAnswer, MxRecord, Resolver};

use super::config::{DnsSetupError, ResolverConfig};

/// Addresses kept of one host.
pub const HOST_ADDRESSES_MAX: usize = 64;

/// A DNS client with the library's answer cache.
pub struct HickoryResolver {
    client: TokioResolver,
}

impl HickoryResolver {
    /// Asks the servers of the system's resolv.conf.
    pub fn from_system() -> Result<Self, DnsSetupError> {
        Self::from_resolv_conf(Path::new(SYSTEM_RESOLV_CONF))
    }

    /// Asks the servers of a file in the format of resolv.conf(5).
    pub fn from_resolv_conf(path: &Path) -> Result<Self, DnsSetupError> {
        let unreadable = |source: io::Error| DnsSetupError::Unreadable { path: path.into(), source };
        let bytes = std::fs::read(path).map_err(unreadable)?;
        let (servers, mut options) = parse_resolv_conf(bytes)
            .map_err(|error| DnsSetupError::Unusable { path: path.into(), reason: error.to_string() })?;
        // `options timeout:0` would let no answer be in time
        options.timeout = options.timeout.max(RESOLV_CONF_TIMEOUT_MIN);
        Self::build(servers, options)
    }

    /// Asks the servers of `config`.
    pub fn from_config(config: &ResolverConfig) -> Result<Self, DnsSetupError> {
        if config.name_servers.is_empty() {
            return Err(DnsSetupError::NoNameServers);
        }
        if config.timeout.is_zero() {
            return Err(DnsSetupError::NoTimeout);
        }
        let server = |address: &std::net::SocketAddr| {
            let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
            connections.iter_mut().for_each(|c| c.port = address.port());
            NameServerConfig::new(address.ip(), true, connections)
        };
        let servers = config.name_servers.iter().map(server).collect();
        Self::build(Servers::from_parts(None, Vec::new(), servers), library_options(config))
    }

    /// Forgets every answer.
    pub fn clear_cache(&self) {
        self.client.clear_cache();
    }

    fn build(servers: Servers, mut options: ResolverOpts) -> Result<Self, DnsSetupError> {
        options.max_active_requests = ACTIVE_REQUESTS_MAX;
        let mut builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let client = builder.build().map_err(|error| DnsSetupError::Library { reason: error.to_string() })?;
        Ok(Self { client })
    }

    async fn look_up_mx(&self, name: &str) -> Result<MxAnswer, DnsError> {
        let lookup = self.client.mx_lookup(full_name(name)?).await.map_err(classify)?;
        let record = |data: &RData| match data {
            RData::MX(mx) => Some(MxRecord { preference: mx.preference, host: mx.exchange.to_lowercase().to_ascii() }),
            _ => None,
        };
        let (records, ttl_secs) = pick(&lookup, record, usize::MAX);
        if records.is_empty() { Err(DnsError::NoData) } else { Ok(MxAnswer { records, ttl_secs }) }
    }

    async fn look_up_ip(&self, host: &str, strategy: IpStrategy) -> Result<IpAnswer, DnsError> {
        let name = full_name(host)?;
        match strategy {
            IpStrategy::Ipv4Only => self.v4(name).await,
            IpStrategy::Ipv6Only => self.v6(name).await,
            IpStrategy::Ipv4AndIpv6 => {
                let (v4, v6) = tokio::join!(self.v4(name.clone()), self.v6(name));
                both(v4, v6)
            }
            IpStrategy::Ipv4ThenIpv6 => match self.v4(name.clone()).await {
                Ok(answer) => Ok(answer),
                v4 => both(v4, self.v6(name).await),
            },
            IpStrategy::Ipv6ThenIpv4 => match self.v6(name.clone()).await {
                Ok(answer) => Ok(answer),
                v6 => both(v6, self.v4(name).await),
            },
        }
    }

    async fn v4(&self, name: Name) -> Result<IpAnswer, DnsError> {
        addresses(&self.client.ipv4_lookup(name).await.map_err(classify)?)
    }

    async fn v6(&self, name: Name) -> Result<IpAnswer, DnsError> {
        addresses(&self.client.ipv6_lookup(name).await.map_err(classify)?)
    }
}

impl Resolver for HickoryResolver {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        Box::pin(self.look_up_mx(name))
    }

    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        Box::pin(self.look_up_ip(host, strategy))
    }
}

fn library_options(config: &ResolverConfig) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = config.timeout;
    options.attempts = config.attempts;
    options.num_concurrent_reqs = config.num_concurrent_reqs;
    options.cache_size = config.cache_size;
    options.edns0 = config.edns0;
    options.use_hosts_file = if config.use_hosts_file { ResolveHosts::Auto } else { ResolveHosts::Never };
    options.recursion_desired = config.recursion_desired;
    options.try_tcp_on_error = config.try_tcp_on_error;
    options.case_randomization = config.case_randomization;
    options.positive_min_ttl = config.positive_min_ttl;
    options.positive_max_ttl = config.positive_max_ttl;
    options.negative_min_ttl = config.negative_min_ttl;
    options.negative_max_ttl = config.negative_max_ttl;
    options
}

fn full_name(text: &str) -> Result<Name, DnsError> {
    let mut name =
        Name::from_ascii(text).map_err(|error| DnsError::Malformed(format!("`{text}` is no DNS name: {error}")))?;
    name.set_fqdn(true);
    Ok(name)
}

fn addresses(lookup: &Lookup) -> Result<IpAnswer, DnsError> {
    let address = |data: &RData| match data {
        RData::A(a) => Some(IpAddr::V4(a.0)),
        RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
        _ => None,
    };
    let (addresses, ttl_secs) = pick(lookup, address, HOST_ADDRESSES_MAX);
    if addresses.is_empty() { Err(DnsError::NoData) } else { Ok(IpAnswer { addresses, ttl_secs }) }
}

/// The records of interest, at most `max`, and the smallest time to live of the answer, CNAMEs included.
fn pick<T>(lookup: &Lookup, choose: impl Fn(&RData) -> Option<T>, max: usize) -> (Vec<T>, u32) {
    let chosen = lookup.answers().iter().filter_map(|record| choose(&record.data));
    let ttl_secs = lookup.answers().iter().map(|record| record.ttl).min();
    (chosen.take(max).collect(), ttl_secs.unwrap_or_default())
}

/// What two families say together. One that has addresses wins; else a failure that may pass is the truer answer,
/// because the other family may merely have none.
fn both(one: Result<IpAnswer, DnsError>, other: Result<IpAnswer, DnsError>) -> Result<IpAnswer, DnsError> {
    match (one, other) {
        (Ok(mut one), Ok(other)) => {
            one.addresses.extend(other.addresses);
            one.addresses.truncate(HOST_ADDRESSES_MAX);
            one.ttl_secs = one.ttl_secs.min(other.ttl_secs);
            Ok(one)
        }
        (Ok(answer), Err(_)) | (Err(_), Ok(answer)) => Ok(answer),
        (Err(one), Err(other)) if one.is_permanent() => Err(other),
        (Err(one), Err(_)) => Err(one),
    }
}

fn classify(error: NetError) -> DnsError {
    let by_code = |code: ResponseCode| match code {
        ResponseCode::NXDomain => DnsError::NxDomain,
        ResponseCode::NoError => DnsError::NoData,
        ResponseCode::ServFail => DnsError::ServFail,
        code => DnsError::Other(format!("the server answered {code}")),
    };
    match error {
        NetError::Timeout => DnsError::Timeout,
        NetError::Dns(LibraryDnsError::NoRecordsFound(none)) => by_code(none.response_code),
        NetError::Dns(LibraryDnsError::ResponseCode(code)) => by_code(code),
        NetError::Proto(error) => DnsError::Malformed(error.to_string()),
        NetError::Truncated => DnsError::Malformed(NetError::Truncated.to_string()),
        error => DnsError::Other(error.to_string()),
    }
}

const SYSTEM_RESOLV_CONF: &str = "/etc/resolv.conf";
const RESOLV_CONF_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Questions in flight on one TCP connection to a server. Above what [`super::MxCache`] lets through, because beyond it
/// the library answers "busy".
const ACTIVE_REQUESTS_MAX: usize = 1024;

#[cfg(test)]
#[path = "hickory_tests.rs"]
mod tests;
