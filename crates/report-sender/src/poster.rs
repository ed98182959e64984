//! Reports over HTTPS: whom a URL that a stranger wrote may have us speak to, and what his server says.
//!
//! In: a URL, a report. Out: what became of it. Whoever publishes a record for TLS reports chooses the URL, so the addresses of its
//! host are looked up here, judged, and used as they were judged: a name that has another address a moment later changes nothing,
//! and no redirection is followed. Where a proxy is configured (`HTTPS_PROXY`) it looks up the name again, and has to judge itself.

use crate::courier::{Fate, PRIVATE, REFUSED, SENT};
use config::HttpClientOptions;
use net::tls::Connectors;
use reports::{ReportUri, TLS_MEDIA_TYPE};
use route::{IpStrategy, Resolver};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use web::{Client, Content, Method, Request, WebError};

/// Posts reports.
pub(crate) struct Poster {
    connectors: Connectors,
    options: HttpClientOptions,
    /// The operator allows private addresses.
    is_allowed: bool,
}

impl Poster {
    /// Asks nobody yet.
    pub(crate) fn new(connectors: &Connectors, is_allowed: bool) -> Poster {
        let options = HttpClientOptions {
            user_agent: Some("postrider".to_owned()),
            timeout: config::Duration::from_secs(POST_MAX.as_secs()),
            ..HttpClientOptions::default()
        };
        Poster { connectors: connectors.clone(), options, is_allowed }
    }

    /// Posts a TLS report, compressed (RFC 8460 section 5.4).
    pub(crate) async fn post(&self, resolver: &dyn Resolver, uri: &ReportUri, gzip: Vec<u8>) -> Fate {
        let request = Request::new(Method::POST, &uri.target).and_then(|mut request| {
            request.add_header("content-type", TLS_MEDIA_TYPE.as_bytes())?;
            request.content = Content::Octets(gzip);
            Ok(request)
        });
        let Ok(request) = request else { return Fate::Done(REFUSED) };
        let client = match self.client(resolver, request.url.host_str().unwrap_or_default()).await {
            Ok(client) => client,
            Err(fate) => return fate,
        };
        let status = match client.send(request).await {
            Ok(answer) => answer.status,
            Err(error) => return Fate::Later(error.to_string()),
        };
        match status.as_u16() {
            200..=299 => Fate::Done(SENT),
            // Who sends too many, or is too early, may try again; what else is said of our request stays true.
            300..=407 | 409..=424 | 426..=428 | 430..=499 => Fate::Done(REFUSED),
            _ => Fate::Later(format!("it answered {status}")),
        }
    }

    /// Who asks that host, and no other one.
    async fn client(&self, resolver: &dyn Resolver, host: &str) -> Result<Client, Fate> {
        let later = |error: WebError| Fate::Later(error.to_string());
        if self.is_allowed {
            return Client::without_redirections(&self.options, &self.connectors).map_err(later);
        }
        let addresses = match literal(host) {
            Some(ip) => vec![ip],
            None => match resolver.ip(host, IpStrategy::default()).await {
                Ok(answer) => answer.addresses,
                Err(error) => return Err(Fate::Later(format!("{host}: {error}"))),
            },
        };
        let public: Vec<IpAddr> = addresses.into_iter().filter(|ip| is_public(*ip)).collect();
        if public.is_empty() {
            tracing::info!("no TLS report is posted to {host}: it has no address in the internet");
            return Err(Fate::Done(PRIVATE));
        }
        Client::pinned(&self.options, &self.connectors, host, &public).map_err(later)
    }
}

/// The address that a host of a URL is, where it is no name.
fn literal(host: &str) -> Option<IpAddr> {
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
}

/// An address that is some host's in the internet. What leads to another one by translation counts as that.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [first, second, third, _] = ip.octets();
    let is_shared = first == 100 && (64..128).contains(&second);
    let is_of_protocols = (first, second, third) == (192, 0, 0);
    let is_for_tests = first == 198 && (18..20).contains(&second) || ip.is_documentation();
    let is_special = ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared;
    // 0.0.0.0/8 is this host; from 224 on there are groups, and what nobody has.
    !(is_special || is_of_protocols || is_for_tests || first == 0 || first >= 224)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let words = ip.segments();
    let v4_of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match words {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056) lead to an address of the other kind.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => is_public_v4(v4_of(high, low)),
        // 2000::/3 is all that is given to anybody; Teredo (2001::/32) hides whom it leads to.
        _ => words[0] & 0xe000 == 0x2000 && !matches!(words, [0x2001, 0 | 0xdb8, ..] | [0x3fff, 0..0x1000, ..]),
    }
}

/// How long an answer to a POST is waited for.
pub(crate) const POST_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::courier::tests::World;
    use std::sync::PoisonError;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::net::TcpListener;

    #[test]
    fn what_is_not_in_the_internet_is_told_from_what_is() {
        for ip in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "fc00::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(ip.parse().expect("an address")), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "99.255.255.255",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "198.20.0.1",
            "223.255.255.255",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::",
            "2001:4860::8888",
            "2606:4700::1111",
        ] {
            assert!(is_public(ip.parse().expect("an address")), "{ip}");
        }
    }

    /// However an address of this machine is written, nobody connects to it; with leave it is done.
    #[tokio::test]
    async fn strangers_cannot_have_us_speak_to_this_machine() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let connections = AtomicUsize::new(0);
        let world = World::default();
        let hosts = [("inside.test", "127.0.0.1"), ("linked.test", "169.254.1.1"), ("six.test", "::1")];
        for (name, ip) in hosts {
            let mut hosts = world.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            hosts.insert(name.to_owned(), vec![ip.parse().expect("an address")]);
        }
        let connectors = Connectors::new(None).expect("TLS");
        let post = async |is_allowed: bool, host: &str| {
            let uri = ReportUri::parse(&format!("https://{host}:{port}/x")).expect("a URL");
            let poster = Poster::new(&connectors, is_allowed);
            let posting = poster.post(&world, &uri, Vec::new());
            tokio::select! {
                fate = posting => Some(fate),
                accepted = listener.accept() => {
                    connections.fetch_add(1, Ordering::Relaxed);
                    drop(accepted);
                    None
                }
            }
        };
        for host in ["127.0.0.1", "2130706433", "0x7f.1", "0", "[::1]", "[::ffff:127.0.0.1]"] {
            assert_eq!(post(false, host).await, Some(Fate::Done(PRIVATE)), "{host}");
        }
        for (host, _) in hosts {
            assert_eq!(post(false, host).await, Some(Fate::Done(PRIVATE)), "{host}");
        }
        assert!(matches!(post(false, "unknown.test").await, Some(Fate::Later(_))), "DNS may know it tomorrow");
        assert_eq!(connections.load(Ordering::Relaxed), 0);
        assert_eq!(post(true, "127.0.0.1").await, None);
        assert_eq!(connections.load(Ordering::Relaxed), 1, "the operator said so");
    }
}
