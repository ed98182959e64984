//! MxListEntry: one line of a queue's `protocol.smtp.mx_list`, the operator's own list of smart hosts.
//!
//! In:  `"relay.example"`, `"relay.example:2025"`, `"[10.0.0.1]:25"`, or a table `{name, addr}`.
//! Out: an entry with its label (part of the site name), its host and perhaps its port.
//! Fails with: [`MxListError`], naming the entry.
//!
//! Such hosts are looked up for addresses only, never for MX, and are tried in the order of the list.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use crate::domain::{DomainError, RouteHost, RoutingDomain};

/// The longest `mx_list` that is taken, in entries.
pub const MX_LIST_ENTRIES_MAX: usize = 1024;

/// One smart host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MxListEntry {
    pub(crate) label: String,
    pub(crate) name: String,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: Option<u16>,
}

/// Why an `mx_list` cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MxListError {
    /// The text of an entry is neither a host nor a literal.
    #[error("mx_list: {0}")]
    BadHost(#[from] DomainError),
    /// The `addr` of a table entry is no address.
    #[error("mx_list: `addr` of `{name}` is `{addr}`; expected an IP address or IP:port")]
    BadAddress {
        /// The entry's `name`.
        name: String,
        /// The entry's `addr`.
        addr: String,
    },
    /// No entries: there would be nowhere to go.
    #[error("mx_list is empty; expected at least one host")]
    Empty,
    /// More entries than [`MX_LIST_ENTRIES_MAX`].
    #[error("mx_list has {entries} entries; expected at most {MX_LIST_ENTRIES_MAX}")]
    TooLong {
        /// Entries found.
        entries: usize,
    },
}

impl MxListEntry {
    /// The string form: a host name (looked up as A/AAAA) or `[ip]`, each with an optional `:port`.
    pub fn parse(text: &str) -> Result<Self, MxListError> {
        let host = RoutingDomain::parse(text)?;
        let (name, ip) = match host.host() {
            RouteHost::Name(name) => (format!("{name}."), None),
            RouteHost::Literal(ip) => (ip.to_string(), Some(*ip)),
        };
        Ok(Self { label: text.to_string(), name, ip, port: host.port() })
    }

    /// The table form `{name, addr}`, `addr` being `ip` or `ip:port` (IPv6 with a port in brackets).
    ///
    /// The label carries the address too: two policies may use one name for two hosts, and their mail must not meet in
    /// one ready queue.
    pub fn with_address(name: &str, addr: &str) -> Result<Self, MxListError> {
        let (ip, port) = match (addr.parse::<IpAddr>(), addr.parse::<SocketAddr>()) {
            (Ok(ip), _) => (ip, None),
            (_, Ok(socket)) if socket.port() > 0 => (socket.ip(), Some(socket.port())),
            _ => {
                return Err(MxListError::BadAddress { name: name.to_string(), addr: addr.to_string() });
            }
        };
        Ok(Self { label: format!("{name}/{addr}"), name: name.to_string(), ip: Some(ip), port })
    }

    /// The entry's part of the site name `mx_list:LABEL,LABEL...`.
    pub fn label(&self) -> &str {
        &self.label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_and_table_forms() {
        let name = MxListEntry::parse("Relay.Example:2025").unwrap();
        assert_eq!((name.label(), name.name.as_str()), ("Relay.Example:2025", "relay.example."));
        assert_eq!((name.ip, name.port), (None, Some(2025)));
        let literal = MxListEntry::parse("[10.0.0.1]:25").unwrap();
        assert_eq!((literal.ip, literal.port), (Some("10.0.0.1".parse().unwrap()), Some(25)));
        for (addr, port) in
            [("127.0.0.1", None), ("127.0.0.1:2525", Some(2525)), ("[::1]:2525", Some(2525)), ("::1", None)]
        {
            let table = MxListEntry::with_address("sink.test", addr).unwrap();
            assert_eq!((table.name.as_str(), table.port), ("sink.test", port), "{addr}");
            assert_eq!(table.label(), format!("sink.test/{addr}"));
        }
    }

    #[test]
    fn bad_entries_name_the_value() {
        let error = MxListEntry::with_address("sink.test", "nonsense").unwrap_err().to_string();
        assert!(error.contains("sink.test") && error.contains("nonsense"), "{error}");
        assert!(MxListEntry::with_address("sink.test", "10.0.0.1:0").is_err());
        assert!(MxListEntry::parse("a b").unwrap_err().to_string().contains("`a b`"));
    }
}
