//! HickoryResolver: `route::Resolver` over the hickory DNS client.
//!
//! In:  fully qualified names. Out: MX records and addresses as plain values, CNAMEs followed by the library.
//! Fails with: [`DnsSetupError`] when it is made; `route::DnsError` per look-up.
//!
//! With `validate`, signatures are checked here, from the trust anchors down; an answer counts as secure when every
//! record in it was, and one that should be signed and is not is a failure ([`DnsError::Bogus`]).
//!
//! Names are always asked for as they are: a search list would let `example.com` mean `example.com.corp.example`.
//! Deliberately not here: our own time limits and caching (see `mx_cache`).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{HostsFile, NameServer, QueryOptions, ResolverOptions, ServerAddress, ServerOrdering, ServerProtocol};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig as Servers, ResolverOpts, ServerOrderingStrategy,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError as LibraryDnsError, NetError, NoRecords};
use hickory_resolver::proto::dnssec::{Proof, TrustAnchors};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use hickory_resolver::proto::serialize::txt::ParseError;
use hickory_resolver::system_conf::parse_resolv_conf;
use route::{
    BoxFuture, DnsError, HostTrust, IpAnswer, IpStrategy, MxAnswer, MxRecord, Resolver, TlsaAnswer, TlsaRecord,
    TxtAnswer,
};

use super::families::{in_turn, together};
use super::setup_error::DnsSetupError;

/// TXT records looked at of one name.
const TXT_RECORDS_MAX: usize = 1024;
/// PTR records looked at of one name.
const PTR_RECORDS_MAX: usize = 64;
/// TLSA records looked at of one name.
const TLSA_RECORDS_MAX: usize = 64;
/// Addresses kept of one host.
pub const HOST_ADDRESSES_MAX: usize = 64;

/// A DNS client with the library's answer cache.
pub struct HickoryResolver {
    client: TokioResolver,
    /// Signatures are checked, so that an answer may count as secure.
    validates: bool,
}

impl HickoryResolver {
    /// Asks the servers of the system's resolv.conf.
    pub fn from_system() -> Result<Self, DnsSetupError> {
        Self::from_resolv_conf(Path::new(SYSTEM_RESOLV_CONF))
    }

    /// Asks the servers of a file in the format of resolv.conf(5).
    pub fn from_resolv_conf(path: &Path) -> Result<Self, DnsSetupError> {
        let (servers, options) = read_resolv_conf(path)?;
        Self::build(servers, options, None)
    }

    /// Asks these servers, everything else by default.
    pub fn asking(servers: &[SocketAddr]) -> Result<Self, DnsSetupError> {
        Self::from_options(&ResolverOptions::asking(servers))
    }

    /// Asks as a policy wants it: its servers, or the system's when it names none.
    pub fn from_options(options: &ResolverOptions) -> Result<Self, DnsSetupError> {
        if options.options.timeout.get().is_zero() {
            return Err(DnsSetupError::NoTimeout);
        }
        let servers = match options.name_servers.is_empty() {
            true => read_resolv_conf(Path::new(SYSTEM_RESOLV_CONF))?.0,
            false => {
                let servers = options.name_servers.iter().map(|server| library_server(&server.0)).collect();
                Servers::from_parts(None, Vec::new(), servers)
            }
        };
        Self::build(servers, library_options(&options.options), trust_anchors(&options.options)?)
    }

    fn build(
        servers: Servers,
        mut options: ResolverOpts,
        anchors: Option<TrustAnchors>,
    ) -> Result<Self, DnsSetupError> {
        options.max_active_requests = ACTIVE_REQUESTS_MAX;
        let validates = options.validate;
        let mut builder = TokioResolver::builder_with_config(servers, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        if let Some(anchors) = anchors {
            builder = builder.with_trust_anchor(Arc::new(anchors));
        }
        let client = builder.build().map_err(|error| DnsSetupError::Library { reason: error.to_string() })?;
        Ok(Self { client, validates })
    }

    async fn look_up_mx(&self, name: &str) -> Result<MxAnswer, DnsError> {
        let name = full_name(name)?;
        let lookup = self.client.mx_lookup(name.clone()).await.map_err(|error| self.failure(error))?;
        let record = |data: &RData| match data {
            RData::MX(mx) => Some(MxRecord { preference: mx.preference, host: mx.exchange.to_lowercase().to_ascii() }),
            _ => None,
        };
        let (records, ttl_secs) = pick(&name, &lookup, record, usize::MAX);
        let is_secure = self.is_secure(&name, &lookup);
        if records.is_empty() { Err(DnsError::NoData) } else { Ok(MxAnswer { records, ttl_secs, is_secure }) }
    }

    async fn look_up_txt(&self, name: &str) -> Result<TxtAnswer, DnsError> {
        let name = full_name(name)?;
        let lookup = self.client.txt_lookup(name.clone()).await.map_err(|error| self.failure(error))?;
        let text = |data: &RData| match data {
            RData::TXT(txt) => Some(txt.txt_data.concat()),
            _ => None,
        };
        let (texts, ttl_secs) = pick(&name, &lookup, text, TXT_RECORDS_MAX);
        if texts.is_empty() { Err(DnsError::NoData) } else { Ok(TxtAnswer { texts, ttl_secs }) }
    }

    async fn look_up_ptr(&self, name: &str) -> Result<Vec<String>, DnsError> {
        let name = full_name(name)?;
        let lookup = self.client.lookup(name.clone(), RecordType::PTR).await.map_err(|error| self.failure(error))?;
        let (hosts, _) = pick(&name, &lookup, host_of_ptr, PTR_RECORDS_MAX);
        if hosts.is_empty() { Err(DnsError::NoData) } else { Ok(hosts) }
    }

    async fn look_up_tlsa(&self, name: &str) -> Result<TlsaAnswer, DnsError> {
        let name = full_name(name)?;
        let lookup = self.client.tlsa_lookup(name.clone()).await.map_err(|error| self.failure(error))?;
        let (records, _) = pick(&name, &lookup, tlsa_record, TLSA_RECORDS_MAX);
        let is_secure = self.is_secure(&name, &lookup);
        if records.is_empty() { Err(DnsError::NoData) } else { Ok(TlsaAnswer { records, is_secure }) }
    }

    async fn look_up_ip(&self, host: &str, strategy: IpStrategy) -> Result<IpAnswer, DnsError> {
        let name = full_name(host)?;
        match strategy {
            IpStrategy::Ipv4Only => self.v4(name).await,
            IpStrategy::Ipv6Only => self.v6(name).await,
            IpStrategy::Ipv4AndIpv6 => together(self.v4(name.clone()), self.v6(name)).await,
            IpStrategy::Ipv4ThenIpv6 => in_turn(self.v4(name.clone()), self.v6(name)).await,
            IpStrategy::Ipv6ThenIpv4 => in_turn(self.v6(name.clone()), self.v4(name)).await,
        }
    }

    async fn v4(&self, name: Name) -> Result<IpAnswer, DnsError> {
        self.addresses(&name, &self.client.ipv4_lookup(name.clone()).await.map_err(|error| self.failure(error))?)
    }

    async fn v6(&self, name: Name) -> Result<IpAnswer, DnsError> {
        self.addresses(&name, &self.client.ipv6_lookup(name.clone()).await.map_err(|error| self.failure(error))?)
    }

    fn addresses(&self, name: &Name, lookup: &Lookup) -> Result<IpAnswer, DnsError> {
        let address = |data: &RData| match data {
            RData::A(a) => Some(IpAddr::V4(a.0)),
            RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.0)),
            _ => None,
        };
        let (addresses, ttl_secs) = pick(name, lookup, address, HOST_ADDRESSES_MAX);
        if addresses.is_empty() {
            Err(DnsError::NoData)
        } else {
            Ok(IpAnswer { addresses, ttl_secs, trust: self.trust(name, lookup) })
        }
    }

    fn trust(&self, name: &Name, lookup: &Lookup) -> HostTrust {
        let end = end_of_aliases(name, lookup);
        let canonical = (end != name).then(|| end.to_lowercase().to_ascii());
        let mut aliases = lookup.answers().iter().filter(|r| r.name == *name && matches!(r.data, RData::CNAME(_)));
        HostTrust {
            is_secure: self.is_secure(name, lookup),
            canonical,
            is_alias_secure: self.validates && aliases.next().is_some_and(|alias| alias.proof.is_secure()),
        }
    }

    /// Every record that says something was validated, those of aliases too. What else stands in the answer, which anybody on the
    /// way can put there, says nothing.
    fn is_secure(&self, name: &Name, lookup: &Lookup) -> bool {
        let names = aliases(name, lookup);
        let is_about = |record: &&Record| record.record_type() != RecordType::RRSIG && names.contains(&&record.name);
        let mut records = lookup.answers().iter().filter(is_about).peekable();
        self.validates && records.peek().is_some() && records.all(|record| record.proof.is_secure())
    }

    /// Why there is no answer.
    fn failure(&self, error: NetError) -> DnsError {
        match &error {
            NetError::Dns(LibraryDnsError::NoRecordsFound(none)) if self.validates && !is_of_its_zone(none) => {
                DnsError::Bogus
            }
            _ => classify(error),
        }
    }
}

impl Resolver for HickoryResolver {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        Box::pin(self.look_up_mx(name))
    }

    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        Box::pin(self.look_up_ip(host, strategy))
    }

    fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        Box::pin(self.look_up_txt(name))
    }

    fn ptr<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        Box::pin(self.look_up_ptr(name))
    }

    fn tlsa<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TlsaAnswer, DnsError>> {
        Box::pin(self.look_up_tlsa(name))
    }

    fn validates(&self) -> bool {
        self.validates
    }

    fn clear_cache(&self) {
        self.client.clear_cache();
    }
}

fn read_resolv_conf(path: &Path) -> Result<(Servers, ResolverOpts), DnsSetupError> {
    let unreadable = |source: io::Error| DnsSetupError::Unreadable { path: path.into(), source };
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let (servers, mut options) = parse_resolv_conf(bytes)
        .map_err(|error| DnsSetupError::Unusable { path: path.into(), reason: error.to_string() })?;
    // `options timeout:0` would let no answer be in time
    options.timeout = options.timeout.max(RESOLV_CONF_TIMEOUT_MIN);
    Ok((servers, options))
}

/// What a file in the format of resolv.conf(5) says, as a policy would write it (`kumo.dns.load_resolv_conf`).
///
/// # Errors
/// The file does not read, or names no server that can be asked.
pub fn resolv_conf_options(path: &Path) -> Result<ResolverOptions, DnsSetupError> {
    let (servers, options) = read_resolv_conf(path)?;
    let address = |server: &NameServerConfig| {
        let port = server.connections.first().map_or(config::DNS_PORT, |connection| connection.port);
        SocketAddr::new(server.ip, port)
    };
    let addresses: Vec<SocketAddr> = servers.name_servers().iter().map(address).collect();
    let text = |name: &Name| name.to_ascii().trim_end_matches('.').to_owned();
    let query = QueryOptions {
        attempts: options.attempts,
        timeout: options.timeout.into(),
        ndots: options.ndots,
        edns0: options.edns0,
        ..QueryOptions::default()
    };
    Ok(ResolverOptions {
        domain: servers.domain().map(text),
        search: servers.search().iter().map(text).collect(),
        options: query,
        ..ResolverOptions::asking(&addresses)
    })
}

fn library_server(server: &NameServer) -> NameServerConfig {
    let address = server.socket_addr.0;
    let mut connections = match server.protocol {
        ServerProtocol::Udp => vec![ConnectionConfig::udp()],
        ServerProtocol::Tcp => vec![ConnectionConfig::tcp()],
        ServerProtocol::UdpThenTcp => vec![ConnectionConfig::udp(), ConnectionConfig::tcp()],
    };
    for connection in &mut connections {
        connection.port = address.port();
        connection.bind_addr = server.bind_addr.map(own_address);
    }
    NameServerConfig::new(address.ip(), server.trust_negative_responses, connections)
}

/// Our address for questions; a port is chosen anew for each unless one was given.
fn own_address(given: ServerAddress) -> SocketAddr {
    match given.0.port() {
        config::DNS_PORT => SocketAddr::new(given.0.ip(), 0),
        _ => given.0,
    }
}

fn trust_anchors(options: &QueryOptions) -> Result<Option<TrustAnchors>, DnsSetupError> {
    let Some(file) = options.trust_anchor_file.as_ref().map(|file| file.0.managed.clone()).filter(|_| options.validate)
    else {
        return Ok(None);
    };
    let refuse = |cause: String| DnsSetupError::TrustAnchors { file: file.clone(), cause };
    let text = std::fs::read_to_string(&file).map_err(|e| refuse(e.to_string()))?;
    let anchors: TrustAnchors = text.parse().map_err(|e: ParseError| refuse(e.to_string()))?;
    Ok(Some(anchors))
}

pub(super) fn host_of_ptr(data: &RData) -> Option<String> {
    match data {
        RData::PTR(ptr) => Some(ptr.0.to_lowercase().to_ascii()),
        _ => None,
    }
}

pub(super) fn tlsa_record(data: &RData) -> Option<TlsaRecord> {
    let RData::TLSA(tlsa) = data else { return None };
    Some(TlsaRecord {
        usage: tlsa.cert_usage.into(),
        selector: tlsa.selector.into(),
        matching: tlsa.matching.into(),
        data: tlsa.cert_data.clone(),
    })
}

fn library_options(chosen: &QueryOptions) -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.timeout = chosen.timeout.get();
    options.attempts = chosen.attempts;
    options.num_concurrent_reqs = chosen.num_concurrent_reqs;
    options.cache_size = chosen.cache_size;
    options.edns0 = chosen.edns0 || chosen.validate;
    options.validate = chosen.validate;
    options.use_hosts_file = match chosen.use_hosts_file {
        HostsFile::Always => ResolveHosts::Always,
        HostsFile::Auto => ResolveHosts::Auto,
        HostsFile::Never => ResolveHosts::Never,
    };
    options.server_ordering_strategy = match chosen.server_ordering_strategy {
        ServerOrdering::QueryStatistics => ServerOrderingStrategy::QueryStatistics,
        ServerOrdering::RoundRobin => ServerOrderingStrategy::RoundRobin,
        ServerOrdering::UserProvidedOrder => ServerOrderingStrategy::UserProvidedOrder,
    };
    options.recursion_desired = chosen.recursion_desired;
    options.try_tcp_on_error = chosen.try_tcp_on_error;
    options.case_randomization = chosen.case_randomization;
    options.positive_min_ttl = chosen.positive_min_ttl.map(config::Duration::get);
    options.positive_max_ttl = chosen.positive_max_ttl.map(config::Duration::get);
    options.negative_min_ttl = chosen.negative_min_ttl.map(config::Duration::get);
    options.negative_max_ttl = chosen.negative_max_ttl.map(config::Duration::get);
    options
}

pub(super) fn full_name(text: &str) -> Result<Name, DnsError> {
    let malformed = |error: &dyn std::fmt::Display| DnsError::Malformed(format!("`{text}` is no DNS name: {error}"));
    let mut name = match Name::from_ascii(text) {
        Ok(name) => name,
        // Not a host's name; SPF asks for such ones, made of local parts (RFC 7208 section 7).
        Err(_) if text.bytes().all(|octet| octet.is_ascii_graphic() && !matches!(octet, b'\\' | b'"')) => {
            let labels = text.strip_suffix('.').unwrap_or(text).split('.').map(str::as_bytes);
            Name::from_labels(labels).map_err(|error| malformed(&error))?
        }
        Err(error) => return Err(malformed(&error)),
    };
    name.set_fqdn(true);
    Ok(name)
}

/// The records of interest, at most `max`, and the smallest time to live of the answer, CNAMEs included. Only those count
/// whose name is the one asked for, or its aliases' end: whoever can put records of another zone into an answer, validly
/// signed even, must not gain anything.
fn pick<T>(name: &Name, lookup: &Lookup, choose: impl Fn(&RData) -> Option<T>, max: usize) -> (Vec<T>, u32) {
    let end = end_of_aliases(name, lookup);
    let chosen = lookup.answers().iter().filter(|r| r.name == *end).filter_map(|record| choose(&record.data));
    let ttl_secs = lookup.answers().iter().map(|record| record.ttl).min();
    (chosen.take(max).collect(), ttl_secs.unwrap_or_default())
}

/// The name that `name` leads to by the CNAMEs of the answer.
fn end_of_aliases<'a>(name: &'a Name, lookup: &'a Lookup) -> &'a Name {
    aliases(name, lookup).last().copied().unwrap_or(name)
}

/// All names on that way, both ends too.
fn aliases<'a>(name: &'a Name, lookup: &'a Lookup) -> Vec<&'a Name> {
    let next = |at: &Name| {
        lookup.answers().iter().find_map(|record| match &record.data {
            RData::CNAME(target) if record.name == *at => Some(&target.0),
            _ => None,
        })
    };
    let mut names = vec![name];
    // A loop has no end; the library refuses it, and this bound holds anyway.
    for _ in 0..lookup.answers().len() {
        let Some(target) = names.last().and_then(|end| next(end)) else { break };
        names.push(target);
    }
    names
}

/// False for an answer without records that the zone of the name has not given. The library takes one for proved whose authority
/// section is of unsigned zones, whichever these are. The zone is asked for where an answer would change what is demanded of
/// a host: its TLSA records are only looked for in signed zones, which say whose the answer is.
fn is_of_its_zone(none: &NoRecords) -> bool {
    let zone = none.soa.as_ref().map(|soa| &soa.name);
    let must_say = none.query.query_type() == RecordType::TLSA;
    zone.map_or(!must_say, |zone| zone.zone_of(none.query.name()))
}

/// What two families say together. One that has addresses wins; else a failure that may pass is the truer answer,
/// because the other family may merely have none.
pub(super) fn both(one: Result<IpAnswer, DnsError>, other: Result<IpAnswer, DnsError>) -> Result<IpAnswer, DnsError> {
    match (one, other) {
        (Ok(mut one), Ok(other)) => {
            one.addresses.extend(other.addresses);
            one.addresses.truncate(HOST_ADDRESSES_MAX);
            one.ttl_secs = one.ttl_secs.min(other.ttl_secs);
            one.trust.is_secure &= other.trust.is_secure;
            one.trust.is_alias_secure &= other.trust.is_alias_secure;
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
        // What can be shown to be unsigned is as true as any unsigned answer.
        NetError::Dns(LibraryDnsError::Nsec { response, proof: Proof::Insecure | Proof::Secure, .. }) => {
            by_code(response.response_code)
        }
        NetError::Dns(LibraryDnsError::Nsec { .. } | LibraryDnsError::DnssecBogus) => DnsError::Bogus,
        NetError::Proto(error) => DnsError::Malformed(error.to_string()),
        NetError::Truncated => DnsError::Malformed(NetError::Truncated.to_string()),
        error => DnsError::Other(error.to_string()),
    }
}

pub(super) const SYSTEM_RESOLV_CONF: &str = "/etc/resolv.conf";
const RESOLV_CONF_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Questions in flight on one TCP connection to a server. Above what [`super::MxCache`] lets through, because beyond it
/// the library answers "busy".
const ACTIVE_REQUESTS_MAX: usize = 1024;

#[cfg(test)]
#[path = "hickory_tests.rs"]
mod tests;
