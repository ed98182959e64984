//! `host:port`, the place of a listener or a proxy.
//!
//! Owns [`HostPort`]. In: text. Out: host and port, and the socket address when the host is an address. Fails with
//! [`BadText`]. Names are resolved by the driver that binds or connects, not here.

use crate::text::{BadText, text_form};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::str::FromStr;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// An address or a name, without brackets.
    pub host: String,
    /// The TCP port; 0 lets the kernel choose when listening.
    pub port: u16,
}

impl HostPort {
    /// The address if no look-up is needed; the host `0` is every IPv4 interface, as the C resolver has it.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        if self.host == "0" {
            return Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), self.port));
        }
        self.host.parse().ok().map(|ip| SocketAddr::new(ip, self.port))
    }
}

impl FromStr for HostPort {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = || BadText::new("address", text, "\"host:port\", \"ip:port\" or \"[ipv6]:port\"");
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(bad)?;
        let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            Some(inner) if inner.parse::<IpAddr>().is_ok() => inner,
            None if is_host_name(host) => host,
            _ => return Err(bad()),
        };
        Ok(HostPort { host: host.to_owned(), port: port_number(port).ok_or_else(bad)? })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

text_form!(HostPort, "an address such as \"127.0.0.1:25\"");

/// A name or IPv4 address by its characters alone: letters, digits, `-`, `_`, `.` and anything beyond ASCII.
pub(crate) fn is_host_name(text: &str) -> bool {
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') || (!c.is_ascii() && !c.is_whitespace());
    !text.is_empty()
        && text.len() <= HOST_BYTES_MAX
        && text != "."
        && !text.starts_with('.')
        && text.chars().all(allowed)
}

/// A decimal port without sign.
pub(crate) fn port_number(text: &str) -> Option<u16> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Longest host name (bytes), RFC 1035 section 2.3.4.
const HOST_BYTES_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_accepted_forms() {
        for (text, addr) in [
            ("127.0.0.1:2025", Some("127.0.0.1:2025")),
            ("0.0.0.0:25", Some("0.0.0.0:25")),
            ("0:25", Some("0.0.0.0:25")),
            ("[::]:25", Some("[::]:25")),
            ("localhost:0", None),
        ] {
            let place: HostPort = text.parse().unwrap();
            assert_eq!(place.socket_addr(), addr.map(|a| a.parse().unwrap()), "{text}");
            assert_eq!(place.to_string(), text);
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in
            ["", "25", "localhost", "host:", "host:+1", "host:65536", ":25", "::1:25", "[x]:25", "a b:25", "[::1]"]
        {
            let error = text.parse::<HostPort>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid address {text:?}: expected")), "{error}");
        }
    }
}
