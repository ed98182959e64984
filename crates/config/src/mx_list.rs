//! Smart hosts: an element of a queue's `mx_list`.
//!
//! Owns [`MxListEntry`]. In: `"host"`, `"host:port"`, `"[ip]"`, `"[ip]:port"`, or `{name, addr}` where addr is `ip` or
//! `ip:port`. Out: the typed form and the label that goes into a site name. Fails naming the text. Host names are
//! resolved when delivering.

use crate::host_port::{is_host_name, port_number};
use crate::options::options;
use crate::text::BadText;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One host of an `mx_list`, tried in list order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MxListEntry {
    /// A name, resolved to A and AAAA; never to MX.
    Host {
        /// The name, as written.
        host: String,
        /// Port; the path's `smtp_port` when absent.
        port: Option<u16>,
    },
    /// An address literal.
    Literal {
        /// The address.
        ip: IpAddr,
        /// Port; the path's `smtp_port` when absent.
        port: Option<u16>,
    },
    /// A name to show and check certificates against, with a fixed address.
    Named {
        /// The name.
        name: String,
        /// The address to connect to.
        ip: IpAddr,
        /// Port; the path's `smtp_port` when absent.
        port: Option<u16>,
    },
}

impl MxListEntry {
    /// What stands for this host in the site name `mx_list:...`.
    pub fn label(&self) -> String {
        match self {
            MxListEntry::Named { name, .. } => name.clone(),
            other => other.to_string(),
        }
    }

    /// The host name, or the address as text.
    pub fn name(&self) -> String {
        match self {
            MxListEntry::Host { host, .. } => host.clone(),
            MxListEntry::Literal { ip, .. } => ip.to_string(),
            MxListEntry::Named { name, .. } => name.clone(),
        }
    }

    /// The address if no look-up is needed.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            MxListEntry::Host { .. } => None,
            MxListEntry::Literal { ip, .. } | MxListEntry::Named { ip, .. } => Some(*ip),
        }
    }

    /// The port if one was given.
    pub fn port(&self) -> Option<u16> {
        match self {
            MxListEntry::Host { port, .. } | MxListEntry::Literal { port, .. } | MxListEntry::Named { port, .. } => {
                *port
            }
        }
    }
}

impl FromStr for MxListEntry {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = || BadText::new("mx_list entry", text, "\"host\", \"host:port\", \"[ip]\" or \"[ip]:port\"");
        let trimmed = text.trim();
        if let Ok(ip) = trimmed.parse() {
            return Ok(MxListEntry::Literal { ip, port: None });
        }
        if let Some(inner) = trimmed.strip_prefix('[') {
            let (ip, behind) = inner.split_once(']').ok_or_else(bad)?;
            let port = match behind.strip_prefix(':') {
                Some(port) => Some(target_port(port).ok_or_else(bad)?),
                None if behind.is_empty() => None,
                None => return Err(bad()),
            };
            let ip = ip.strip_prefix("IPv6:").unwrap_or(ip).parse().map_err(|_| bad())?;
            return Ok(MxListEntry::Literal { ip, port });
        }
        let (host, port) = match trimmed.rsplit_once(':') {
            Some((host, port)) => (host, Some(target_port(port).ok_or_else(bad)?)),
            None => (trimmed, None),
        };
        if !is_host_name(host) {
            return Err(bad());
        }
        Ok(match host.parse() {
            Ok(ip) => MxListEntry::Literal { ip, port },
            Err(_) => MxListEntry::Host { host: host.to_owned(), port },
        })
    }
}

impl fmt::Display for MxListEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MxListEntry::Host { host, .. } => f.write_str(host)?,
            MxListEntry::Literal { ip, .. } => write!(f, "[{ip}]")?,
            MxListEntry::Named { name, .. } => f.write_str(name)?,
        }
        match self.port() {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl Serialize for MxListEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let MxListEntry::Named { name, ip, port } = self else {
            return serializer.collect_str(self);
        };
        let addr = match port {
            Some(port) => SocketAddr::new(*ip, *port).to_string(),
            None => ip.to_string(),
        };
        let mut table = serializer.serialize_struct("MxListEntry", 2)?;
        table.serialize_field("name", name)?;
        table.serialize_field("addr", &addr)?;
        table.end()
    }
}

impl<'de> Deserialize<'de> for MxListEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrTable)
    }
}

struct TextOrTable;

impl<'de> de::Visitor<'de> for TextOrTable {
    type Value = MxListEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a host such as \"mx.example.com:25\" or {name=..., addr=...}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MxListEntry, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<MxListEntry, A::Error> {
        let NamedHost { name, addr } = Deserialize::deserialize(de::value::MapAccessDeserializer::new(map))?;
        let bad = || de::Error::custom(BadText::new("addr", &addr, "\"ip\", \"ip:port\" or \"[ipv6]:port\""));
        let (ip, port) = match (addr.parse::<IpAddr>(), addr.parse::<SocketAddr>()) {
            (Ok(ip), _) => (ip, None),
            (_, Ok(socket)) if socket.port() > 0 => (socket.ip(), Some(socket.port())),
            _ => return Err(bad()),
        };
        Ok(MxListEntry::Named { name, ip, port })
    }
}

options! {
    /// The table form of an `mx_list` element.
    struct NamedHost {
        /// The host name.
        name: String;
        /// `ip` or `ip:port`.
        addr: String;
    }
}

fn target_port(text: &str) -> Option<u16> {
    port_number(text).filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_text_forms() {
        for (text, shown, ip, port) in [
            ("mx.example.com", "mx.example.com", None, None),
            ("mx.example.com:2525", "mx.example.com:2525", None, Some(2525)),
            ("[10.0.0.1]", "[10.0.0.1]", Some("10.0.0.1"), None),
            ("[::1]:26", "[::1]:26", Some("::1"), Some(26)),
            ("[IPv6:::1]", "[::1]", Some("::1"), None),
            ("10.0.0.1:26", "[10.0.0.1]:26", Some("10.0.0.1"), Some(26)),
            ("10.0.0.1", "[10.0.0.1]", Some("10.0.0.1"), None),
        ] {
            let entry: MxListEntry = text.parse().unwrap();
            assert_eq!(entry.label(), shown);
            assert_eq!((entry.ip(), entry.port()), (ip.map(|i| i.parse().unwrap()), port), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in
            ["", "host:", "host:0", "host:70000", "[10.0.0.1", "[nope]", "[::1]26", "a b", "user@host", "x:y:25"]
        {
            let error = text.parse::<MxListEntry>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid mx_list entry {text:?}: expected")), "{error}");
        }
    }
}
