//! The questions of the checks, one function a record type, all of them through policy's `route::Resolver`.
//!
//! In: a resolver and a name. Out: what is there, nothing being an empty list, as much of it as is looked at. Can fail:
//! [`DnsError`], and then the answer is not known: no answer, SERVFAIL, an answer that DNSSEC refuses.

use crate::text::{has_name_shape, is_host_like};
use route::{DnsError, IpStrategy, Resolver};
use std::net::IpAddr;

/// The TXT records of a name.
pub(crate) async fn texts(resolver: &dyn Resolver, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
    let mut texts = known(name, resolver.txt(name).await.map(|answer| answer.texts))?;
    texts.truncate(TEXTS_MAX);
    Ok(texts)
}

/// DNS knows the name; it may have no record at all (RFC 8020).
pub(crate) async fn is_in_dns(resolver: &dyn Resolver, name: &str) -> Result<bool, DnsError> {
    match resolver.txt(name).await {
        Ok(_) | Err(DnsError::NoData) => Ok(true),
        Err(error) => known::<()>(name, Err(error)).map(|_| false),
    }
}

/// The addresses of a host.
pub(crate) async fn addresses(
    resolver: &dyn Resolver,
    host: &str,
    strategy: IpStrategy,
) -> Result<Vec<IpAddr>, DnsError> {
    known(host, resolver.ip(host, strategy).await.map(|answer| answer.addresses))
}

/// The addresses of a host in the family of `ip`.
pub(crate) async fn addresses_like(resolver: &dyn Resolver, host: &str, ip: IpAddr) -> Result<Vec<IpAddr>, DnsError> {
    let strategy = if ip.is_ipv4() { IpStrategy::Ipv4Only } else { IpStrategy::Ipv6Only };
    addresses(resolver, host, strategy).await
}

/// The hosts of MX records, by preference.
pub(crate) async fn exchangers(resolver: &dyn Resolver, name: &str) -> Result<Vec<String>, DnsError> {
    let mut records = known(name, resolver.mx(name).await.map(|answer| answer.records))?;
    records.sort_by_key(|record| record.preference);
    Ok(records.into_iter().map(|record| record.host).collect())
}

/// The names that PTR records give an address; none is an answer.
///
/// # Errors
/// DNS did not answer.
pub async fn names_of(resolver: &dyn Resolver, ip: IpAddr) -> Result<Vec<String>, DnsError> {
    let name = reverse_name(ip);
    known(&name, resolver.ptr(&name).await)
}

/// Where the PTR records of an address are (RFC 1035 section 3.5, RFC 3596 section 2.5).
fn reverse_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
        }
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().rev().flat_map(|octet| [octet & 15, octet >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa."
        }
    }
}

/// What an answer says: that there is nothing is an answer. A name that a resolver cannot put into a question is nobody's: were that no
/// answer, whoever invents a name for the key of his signature could have DMARC wait for one that never comes.
fn known<T>(name: &str, answer: Result<Vec<T>, DnsError>) -> Result<Vec<T>, DnsError> {
    match answer {
        Err(error) if error.is_permanent() => Ok(Vec::new()),
        Err(DnsError::Malformed(_)) if !(is_host_like(name) && has_name_shape(name)) => Ok(Vec::new()),
        other => other,
    }
}

/// Most TXT records of a name looked at.
const TEXTS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that is too long for any question, as the selector of an invented signature makes it, has no answer to wait for.
    #[test]
    fn what_cannot_be_asked_is_not_there() {
        let asked = |name: &str| known::<()>(name, Err(DnsError::Malformed(String::new())));
        let selector = vec!["s".repeat(60); 4].join(".");
        assert_eq!(asked(&format!("{selector}._domainkey.bank.example")), Ok(Vec::new()));
        assert_eq!(asked(&format!("{}.bank.example", "s".repeat(64))), Ok(Vec::new()));
        assert_eq!(asked("a+b.example"), Ok(Vec::new()));
        assert!(asked("s._domainkey.bank.example").is_err(), "an answer that was damaged");
    }

    #[test]
    fn reverse_names() {
        assert_eq!(reverse_name(IpAddr::from([192, 0, 2, 1])), "1.2.0.192.in-addr.arpa.");
        let v6: IpAddr = "2001:db8::cb01".parse().expect("an address");
        assert_eq!(reverse_name(v6), format!("1.0.b.c.{}8.b.d.0.1.0.0.2.ip6.arpa.", "0.".repeat(20)));
    }
}
