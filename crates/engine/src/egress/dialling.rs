//! From a source's options to a way out, and from a connection to what is logged of it.
//!
//! In: the egress source; a connection made. Out: the [`Way`] for `net::dial`, and the record's `source_address`. Fails
//! with a text that names the option; it becomes a reason among "failed to connect to any candidate hosts". Connecting
//! itself is `net`'s. A password file is read anew for each connection, so that a changed one counts at once.

use config::{EgressSource, KeySource};
use net::dial::{Cause, DialError, Dialled, Way};
use net::proxy::{Protocol, Proxy};
use net::socks5::{Credentials, Fault};
use queue::SourceFault;
use record::{ProxyProtocol, SourceAddress};
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

/// How connections of `source` are made. A password may stand in a file, which must be read `within` the given time.
pub(crate) async fn way(source: &Arc<EgressSource>, within: Duration) -> Result<Way, String> {
    if !matches!(source.socks5_proxy_password, Some(KeySource::File(_))) {
        return way_now(source);
    }
    let source = Arc::clone(source);
    let reading = tokio::task::spawn_blocking(move || way_now(&source));
    match tokio::time::timeout(within, reading).await {
        Ok(read) => read.unwrap_or_else(|e| Err(format!("socks5_proxy_password: {e}"))),
        Err(_) => Err(format!("socks5_proxy_password: not read within {within:?}")),
    }
}

fn way_now(source: &EgressSource) -> Result<Way, String> {
    let ha_proxy = source.ha_proxy_server.as_ref().zip(source.ha_proxy_source_address);
    let proxy = match (ha_proxy, &source.socks5_proxy_server) {
        (Some((server, address)), _) => {
            Some(Proxy { server: server.clone(), protocol: Protocol::HaProxy { source: address } })
        }
        (None, Some(server)) => {
            let protocol =
                Protocol::Socks5 { source: source.socks5_proxy_source_address, credentials: credentials(source)? };
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

fn source_fault(error: &DialError, way: &Way) -> Option<SourceFault> {
    match (&error.cause, &way.proxy) {
        (Cause::Io(e), _) if way.from.is_some() && e.kind() == io::ErrorKind::AddrNotAvailable => {
            Some(SourceFault::Unplumbed)
        }
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

fn credentials(source: &EgressSource) -> Result<Option<Credentials>, String> {
    // The options refuse one without the other.
    let Some((user, password)) = source.socks5_proxy_username.as_ref().zip(source.socks5_proxy_password.as_ref())
    else {
        return Ok(None);
    };
    let password = match password {
        KeySource::Data(bytes) => bytes.clone(),
        KeySource::File(file) => {
            let mut read = Vec::new();
            let reading = File::open(file).and_then(|file| file.take(PASSWORD_FILE_OCTETS_MAX).read_to_end(&mut read));
            reading.map_err(|e| format!("socks5_proxy_password: cannot read `{file}`: {e}"))?;
            // Editors end a file with a line end; it is no part of the password.
            read.trim_ascii_end().to_vec()
        }
        other => return Err(format!("socks5_proxy_password: {other:?} is not supported yet")),
    };
    let made = Credentials::new(user.clone(), password);
    made.map(Some).map_err(|e| format!("socks5_proxy_username, socks5_proxy_password: {e}"))
}

/// More than any password (RFC 1929: 255 octets) with its line end.
const PASSWORD_FILE_OCTETS_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn socks5(password: KeySource) -> EgressSource {
        EgressSource {
            socks5_proxy_server: Some("127.0.0.1:1080".parse().unwrap()),
            socks5_proxy_username: Some("scott".to_owned()),
            socks5_proxy_password: Some(password),
            ..EgressSource::unspecified()
        }
    }

    #[test]
    fn no_text_shows_a_password() {
        let way = way_now(&socks5(KeySource::Data(b"tiger".to_vec()))).unwrap();
        let shown = format!("{way:?}");
        assert!(shown.contains("scott") && !shown.contains("tiger"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"tiger")), "as octets: {shown}");
        let too_long = socks5(KeySource::Data(b"tiger".repeat(60)));
        let refused = super::way_now(&too_long).unwrap_err();
        let expected =
            "socks5_proxy_username, socks5_proxy_password: password has 300 octets; expected 1 to 255 (RFC 1929)";
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_password_file_may_end_in_a_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "tiger\n").unwrap();
        let way = |source: KeySource| format!("{:?}", credentials(&socks5(source)).unwrap());
        let from_file = credentials(&socks5(KeySource::File(file.display().to_string()))).unwrap();
        assert_eq!(from_file, credentials(&socks5(KeySource::Data(b"tiger".to_vec()))).unwrap());
        assert_eq!(way(KeySource::File(file.display().to_string())), "Some(Credentials { user: \"scott\", .. })");
        std::fs::remove_file(&file).unwrap();
        let refused = credentials(&socks5(KeySource::File(file.display().to_string()))).unwrap_err();
        assert!(refused.starts_with("socks5_proxy_password: cannot read `"), "{refused}");
    }

    #[test]
    fn without_a_proxy_the_way_is_direct() {
        let source = EgressSource { source_address: Some([127, 0, 0, 9].into()), ..EgressSource::unspecified() };
        let way = way_now(&source).unwrap();
        assert!(way.proxy.is_none() && way.from == source.source_address);
    }
}
