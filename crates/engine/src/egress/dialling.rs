//! From a source's options to a way out, and from a connection to what is logged of it.
//!
//! In: the egress source; a connection made. Out: the [`Way`] for `net::dial`, and the record's `source_address`. Fails
//! with a text that names the option; it becomes a reason among "failed to connect to any candidate hosts". Connecting
//! itself is `net`'s.

use crate::egress::password;
use config::EgressSource;
use net::dial::{Cause, DialError, Dialled, Way};
use net::proxy::{Protocol, Proxy};
use net::socks5::{Credentials, Fault};
use queue::SourceFault;
use record::{ProxyProtocol, SourceAddress};
use std::io;
use std::time::Duration;

/// How connections of `source` are made. A password may stand in a file, which must be read `within` the given time.
pub(crate) async fn way(source: &EgressSource, within: Duration) -> Result<Way, String> {
    let password = match &source.socks5_proxy_password {
        Some(password) => Some(password::read("socks5_proxy_password", password, within).await?),
        None => None,
    };
    way_with(source, password)
}

fn way_with(source: &EgressSource, password: Option<Vec<u8>>) -> Result<Way, String> {
    let ha_proxy = source.ha_proxy_server.as_ref().zip(source.ha_proxy_source_address);
    let proxy = match (ha_proxy, &source.socks5_proxy_server) {
        (Some((server, address)), _) => {
            Some(Proxy { server: server.clone(), protocol: Protocol::HaProxy { source: address } })
        }
        (None, Some(server)) => {
            let credentials = credentials(source, password)?;
            let protocol = Protocol::Socks5 { source: source.socks5_proxy_source_address, credentials };
            Some(Proxy { server: server.clone(), protocol })
        }
        (None, None) => None,
    };
    Ok(Way { from: source.source_address, proxy })
}

/// What is wrong with the source, when it is that, and not the host it should reach, and the source is to rest then.
pub(crate) fn fault(error: &DialError, way: &Way, source: &EgressSource) -> Option<SourceFault> {
    let fault = source_fault(error, way)?;
    let rests = match fault {
        SourceFault::Unplumbed => &source.suspend_when_unplumbed,
        SourceFault::ProxyUnhealthy => &source.suspend_when_proxy_unhealthy,
    };
    rests.as_ref().map(|_| fault)
}

/// What is wrong with the source, when it is that, and not the host it should reach.
pub(crate) fn source_fault(error: &DialError, way: &Way) -> Option<SourceFault> {
    blamed(&error.cause, error.is_at_proxy(), way)
}

/// `is_at_proxy`: it failed before the proxy was asked to connect to the host.
fn blamed(cause: &Cause, is_at_proxy: bool, way: &Way) -> Option<SourceFault> {
    match (cause, &way.proxy) {
        (Cause::Io(e), _) if way.from.is_some() && e.kind() == io::ErrorKind::AddrNotAvailable => {
            Some(SourceFault::Unplumbed)
        }
        // One that was asked may be waiting for the host.
        (Cause::TimedOut(_), Some(_)) if is_at_proxy => Some(SourceFault::ProxyUnhealthy),
        (_, None) | (Cause::TimedOut(_) | Cause::MixedFamilies { .. }, _) => None,
        // Network or host unreachable, connection refused, TTL expired (RFC 1928 section 6): said of the host.
        (Cause::Socks(Fault::Refused { code: 3..=6 }), _) => None,
        (Cause::Io(_) | Cause::Dns(_) | Cause::Socks(_) | Cause::NoAddress { .. }, Some(_)) => {
            Some(SourceFault::ProxyUnhealthy)
        }
    }
}

/// What the log says of our end.
pub(crate) fn source_address(dialled: &Dialled, way: &Way) -> SourceAddress {
    let protocol = way.proxy.as_ref().map(|proxy| match proxy.protocol {
        Protocol::HaProxy { .. } => ProxyProtocol::HaProxy,
        Protocol::Socks5 { .. } => ProxyProtocol::Socks5,
    });
    let server = way.proxy.as_ref().map(|proxy| proxy.server.to_string());
    SourceAddress { address: dialled.address.to_string(), server, protocol }
}

fn credentials(source: &EgressSource, password: Option<Vec<u8>>) -> Result<Option<Credentials>, String> {
    // The options refuse one without the other.
    let Some((user, password)) = source.socks5_proxy_username.as_ref().zip(password) else { return Ok(None) };
    let made = Credentials::new(user.clone(), password);
    made.map(Some).map_err(|e| format!("socks5_proxy_username, socks5_proxy_password: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socks5() -> EgressSource {
        EgressSource {
            socks5_proxy_server: Some("127.0.0.1:1080".parse().unwrap()),
            socks5_proxy_username: Some("scott".to_owned()),
            ..EgressSource::unspecified()
        }
    }

    #[test]
    fn no_text_shows_a_password() {
        let way = way_with(&socks5(), Some(b"tiger".to_vec())).unwrap();
        let shown = format!("{way:?}");
        assert!(shown.contains("scott") && !shown.contains("tiger"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"tiger")), "as octets: {shown}");
        let refused = way_with(&socks5(), Some(b"tiger".repeat(60))).unwrap_err();
        let expected =
            "socks5_proxy_username, socks5_proxy_password: password has 300 octets; expected 1 to 255 (RFC 1929)";
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_proxy_that_does_not_answer_is_to_blame_until_it_is_asked_for_the_host() {
        let (behind, direct) = (way_with(&socks5(), Some(b"tiger".to_vec())).unwrap(), Way::default());
        let late = Cause::TimedOut(Duration::from_secs(1));
        assert_eq!(blamed(&late, true, &behind), Some(SourceFault::ProxyUnhealthy));
        assert_eq!(blamed(&late, false, &behind), None);
        assert_eq!(blamed(&late, false, &direct), None);
        let refused = Cause::Io(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(blamed(&refused, true, &behind), Some(SourceFault::ProxyUnhealthy));
        assert_eq!(blamed(&refused, false, &direct), None);
    }

    #[test]
    fn without_a_proxy_the_way_is_direct() {
        let source = EgressSource { source_address: Some([127, 0, 0, 9].into()), ..EgressSource::unspecified() };
        let way = way_with(&source, None).unwrap();
        assert!(way.proxy.is_none() && way.from == source.source_address);
    }
}
