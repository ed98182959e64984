//! Resolver: the seam to DNS, and the answers that cross it.
//!
//! The trait lives with its consumer. `net::dns` implements it over a real DNS client; tests implement it over a table.
//! Answers are plain values with their time to live in seconds, so that deciding on them needs no network and no clock.
//!
//! Deliberately not here: caching, time limits, what TXT and TLSA records mean.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;

use thiserror::Error;

/// A boxed future, so that a resolver can be used as `dyn Resolver`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks DNS. Names are fully qualified; an implementation never applies a search list.
pub trait Resolver: Send + Sync {
    /// The MX records of `name` (following CNAMEs).
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>>;

    /// The addresses of `host` (following CNAMEs), of the families that `strategy` asks for.
    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>>;

    /// The TXT records of `name` (following CNAMEs). A resolver that knows of none says so.
    fn txt<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        Box::pin(std::future::ready(Err(DnsError::NoData)))
    }

    /// The names that PTR records of `name` (in `in-addr.arpa` or `ip6.arpa`) give, each with its final dot. A resolver that
    /// knows of none says so.
    fn ptr<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        Box::pin(std::future::ready(Err(DnsError::NoData)))
    }

    /// The TLSA records of `name` (following CNAMEs). A resolver that knows of none says so.
    fn tlsa<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, Result<TlsaAnswer, DnsError>> {
        Box::pin(std::future::ready(Err(DnsError::NoData)))
    }

    /// Whether it looks for itself if DNSSEC vouches for its answers, so that "there is none" of it is proved.
    fn validates(&self) -> bool {
        false
    }

    /// Forgets every answer it keeps, also that there is none.
    fn clear_cache(&self) {}
}

/// The MX records of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MxAnswer {
    /// Records in the order the server gave them.
    pub records: Vec<MxRecord>,
    /// The smallest time to live of the answer, in seconds.
    pub ttl_secs: u32,
    /// DNSSEC vouches for all of it.
    pub is_secure: bool,
}

/// One MX record (RFC 1035 section 3.3.9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MxRecord {
    /// Lower is tried first.
    pub preference: u16,
    /// Host name in any case, with or without its final dot; `.` means that the domain takes no mail (RFC 7505).
    pub host: String,
}

/// The addresses of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IpAnswer {
    /// Addresses in the order the server gave them; never empty in an `Ok` answer.
    pub addresses: Vec<IpAddr>,
    /// The smallest time to live of the answer, in seconds.
    pub ttl_secs: u32,
    /// What DNSSEC says of it.
    pub trust: HostTrust,
}

/// What DNSSEC says of a host's addresses; the default is nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostTrust {
    /// It vouches for the addresses and all aliases on the way.
    pub is_secure: bool,
    /// The name at the end of the aliases, when it is another than the one asked for. Lower case with its final dot.
    pub canonical: Option<String>,
    /// It vouches for the first alias, whatever of the rest.
    pub is_alias_secure: bool,
}

/// The TXT records of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TxtAnswer {
    /// Each record's strings joined.
    pub texts: Vec<Vec<u8>>,
    /// The smallest time to live of the answer, in seconds.
    pub ttl_secs: u32,
}

/// The TLSA records of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsaAnswer {
    /// Records in the order the server gave them.
    pub records: Vec<TlsaRecord>,
    /// DNSSEC vouches for all of it.
    pub is_secure: bool,
}

/// One TLSA record (RFC 6698 section 2.1), its numbers as they stand.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TlsaRecord {
    /// Certificate usage: 2 is DANE-TA, 3 is DANE-EE.
    pub usage: u8,
    /// 0 is the whole certificate, 1 its public key.
    pub selector: u8,
    /// 0 is the content itself, 1 its SHA-256, 2 its SHA-512.
    pub matching: u8,
    /// What has to match.
    pub data: Vec<u8>,
}

/// Which address families are looked up for an MX host: the egress path's `ip_lookup_strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IpStrategy {
    /// Both, mixed.
    #[default]
    Ipv4AndIpv6,
    /// A only.
    Ipv4Only,
    /// AAAA only.
    Ipv6Only,
    /// AAAA; A only if there is no AAAA.
    Ipv6ThenIpv4,
    /// A; AAAA only if there is no A.
    Ipv4ThenIpv6,
}

/// Why DNS gave no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DnsError {
    /// The name does not exist.
    #[error("the name does not exist (NXDOMAIN)")]
    NxDomain,
    /// The name exists but has no record of the type asked for.
    #[error("the name has no such record (NODATA)")]
    NoData,
    /// No answer in time.
    #[error("no answer from DNS in time")]
    Timeout,
    /// The server could not find out.
    #[error("the DNS server failed (SERVFAIL)")]
    ServFail,
    /// DNSSEC says that the answer is forged, or broken.
    #[error("the DNS answer fails DNSSEC validation")]
    Bogus,
    /// An answer that cannot be used.
    #[error("unusable DNS answer: {0}")]
    Malformed(String),
    /// Anything else: refused, no server reachable, an I/O error.
    #[error("DNS look-up failed: {0}")]
    Other(String),
}

impl DnsError {
    /// True when asking again soon will not help: the answer itself is that there is nothing.
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::NxDomain | Self::NoData)
    }
}
