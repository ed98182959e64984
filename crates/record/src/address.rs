//! The two ends of the connection a record tells of.
//!
//! Owns [`PeerAddress`] and [`SourceAddress`]. In: names and addresses. Out: their JSON, in which absent parts are left
//! out. Nothing is resolved or checked here.

use crate::json_object::JsonObject;
use serde::{Deserialize, Serialize};

/// The other side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerAddress {
    /// Its host name; the EHLO name when it connected to us.
    pub name: String,
    /// Its IP address.
    pub addr: String,
    /// Whether DNSSEC vouched for the name; written only when true.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub is_secure: bool,
}

/// Our side of an outbound connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceAddress {
    /// `ip:port`, as the peer sees it.
    pub address: String,
    /// The proxy it went through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How that proxy is spoken to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<ProxyProtocol>,
}

/// The protocol of an outbound proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProxyProtocol {
    /// HAProxy's PROXY protocol.
    HaProxy,
    /// SOCKS version 5.
    Socks5,
}

impl PeerAddress {
    /// As it is serialized.
    pub(crate) fn write_members(&self, object: &mut JsonObject) -> serde_json::Result<()> {
        object.text("name", &self.name)?;
        object.text("addr", &self.addr)?;
        if self.is_secure { object.value("is_secure", &true) } else { Ok(()) }
    }
}

impl SourceAddress {
    /// As it is serialized.
    pub(crate) fn write_members(&self, object: &mut JsonObject) -> serde_json::Result<()> {
        object.text("address", &self.address)?;
        object.text_if_any("server", self.server.as_deref())?;
        self.protocol.map_or(Ok(()), |protocol| object.value("protocol", &protocol))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_parts_are_left_out() {
        let peer = PeerAddress { name: "mx.example.".into(), addr: "192.0.2.1".into(), is_secure: false };
        assert_eq!(serde_json::to_value(&peer).unwrap(), json!({"name": "mx.example.", "addr": "192.0.2.1"}));
        let secure = PeerAddress { is_secure: true, ..peer };
        assert_eq!(serde_json::to_value(&secure).unwrap()["is_secure"], json!(true));
        let source = SourceAddress { address: "192.0.2.9:4000".into(), ..Default::default() };
        assert_eq!(serde_json::to_value(&source).unwrap(), json!({"address": "192.0.2.9:4000"}));
        for (protocol, name) in [(ProxyProtocol::HaProxy, "haproxy"), (ProxyProtocol::Socks5, "socks5")] {
            assert_eq!(serde_json::to_value(protocol).unwrap(), json!(name));
        }
    }
}
