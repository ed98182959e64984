//! How names are looked up: the argument of `kumo.dns.configure_resolver` and its sisters.
//!
//! Owns [`ResolverForm`] and its parts. In: a table, either flat (`name_servers`, `options`) or in one of KumoMTA's
//! structured forms. Out: the typed form. Fails on unknown keys, addresses that are none, an empty list. Zone text and
//! key files are read by the driver that asks.

use crate::choices::{HostIpStrategy, HostsFile, ServerOrdering};
use crate::duration::Duration;
use crate::options::options;
use crate::parse::{ConfigError, parse};
use crate::short::{FromText, Short};
use crate::text::BadText;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

/// A way to look names up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ResolverForm {
    /// The servers named.
    Hickory(ResolverOptions),
    /// The servers of the system's resolv.conf.
    HickorySystemConfig,
    /// KumoMTA's other library; here the same client.
    Unbound(ResolverOptions),
    /// Zones of the policy; nobody is asked.
    Test(Zones),
    /// Each in its turn, until one answers.
    Aggregate(Vec<ResolverForm>),
}

options! {
    /// `kumo.dns.configure_resolver`
    pub struct ResolverOptions {
        /// Servers to ask; the system's when empty.
        name_servers: Vec<Short<NameServer>> = Vec::new();
        /// The local domain. Mail names are absolute, so nothing follows from it.
        domain: Option<String> = None;
        /// Domains to complete names with. Mail names are absolute, so nothing follows from it.
        search: Vec<String> = Vec::new();
        /// How to ask.
        options: QueryOptions = QueryOptions::default();
    }
}

options! {
    /// `kumo.dns.configure_resolver.options`
    pub struct QueryOptions {
        /// Questions after the first before giving up.
        attempts: usize = 2;
        /// Wait for one answer.
        timeout: Duration = Duration::from_secs(5);
        /// Answers kept.
        cache_size: u64 = 8192;
        /// Dots a name needs to be tried as it stands; mail names always are.
        ndots: usize = 1;
        /// Ask for answers longer than 512 octets over UDP.
        edns0: bool = true;
        /// Validate DNSSEC signatures ourselves.
        validate: bool = false;
        /// The DNSKEY records to trust, in a file; the root's when absent.
        trust_anchor_file: Option<Short<TrustAnchorFile>> = None;
        /// Look into the hosts file before asking.
        use_hosts_file: HostsFile = HostsFile::Auto;
        /// Families asked for where the caller does not say; mail paths do.
        ip_strategy: HostIpStrategy = HostIpStrategy::Ipv6AndIpv4;
        /// Shortest time an answer is kept.
        positive_min_ttl: Option<Duration> = None;
        /// Longest time an answer is kept.
        positive_max_ttl: Option<Duration> = None;
        /// Shortest time a "there is nothing" is kept.
        negative_min_ttl: Option<Duration> = None;
        /// Longest time a "there is nothing" is kept.
        negative_max_ttl: Option<Duration> = None;
        /// Servers asked at the same time.
        num_concurrent_reqs: usize = 2, min 1;
        /// Keep CNAMEs in answers; they always are.
        preserve_intermediates: bool = true;
        /// Ask the server to do the recursion.
        recursion_desired: bool = true;
        /// Which server is asked first.
        server_ordering_strategy: ServerOrdering = ServerOrdering::QueryStatistics;
        /// Try TCP when UDP failed.
        try_tcp_on_error: bool = false;
        /// Mix the case of letters in questions, against forged answers.
        case_randomization: bool = false;
    }
}

options! {
    /// The table form of an element of `name_servers`
    pub struct NameServer {
        /// Where it answers.
        socket_addr: ServerAddress;
        /// How it is asked.
        protocol: ServerProtocol = ServerProtocol::UdpThenTcp;
        /// Believe it when it says that there is nothing.
        trust_negative_responses: bool = true;
        /// Our own address for questions to it.
        bind_addr: Option<ServerAddress> = None;
    }
}

/// `ip:port`, or `ip` for port 53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerAddress(pub SocketAddr);

/// How a name server is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerProtocol {
    /// Over UDP alone.
    Udp,
    /// Over TCP alone.
    Tcp,
    /// Over UDP, and over TCP when the answer is too long for it.
    #[default]
    UdpThenTcp,
}

options! {
    /// The table form of `trust_anchor_file`
    pub struct TrustAnchorFile {
        /// The file. KumoMTA keeps it up to date (RFC 5011); here it is only read.
        managed: String;
    }
}

/// Zones of the policy: a list, or a table with more to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Zones(pub TestZones);

options! {
    /// Zones for `kumo.dns.configure_test_resolver`
    pub struct TestZones {
        /// Zone files as text.
        zones: Vec<Short<TestZone>> = Vec::new();
        /// Names whose look-up fails with SERVFAIL.
        servfail: Vec<String> = Vec::new();
    }
}

options! {
    /// The table form of an element of `zones`
    pub struct TestZone {
        /// The zone file's text.
        zone: String;
        /// Answers count as validated by DNSSEC.
        secure: bool = false;
    }
}

impl ResolverForm {
    /// Reads the argument of `constructor`: flat options, or a structured form.
    pub fn read(constructor: &'static str, value: Value) -> Result<ResolverForm, ConfigError> {
        let is_structured = match &value {
            Value::Object(members) => members.keys().next().is_some_and(|key| FORMS.contains(&key.as_str())),
            _ => false,
        };
        match is_structured || value.is_string() {
            true => parse(constructor, value),
            false => parse(constructor, value).map(ResolverForm::Hickory),
        }
    }
}

impl ResolverOptions {
    /// The defaults with these servers.
    pub fn asking(servers: &[SocketAddr]) -> ResolverOptions {
        let server =
            |address: &SocketAddr| NameServer { socket_addr: ServerAddress(*address), ..NameServer::default() };
        ResolverOptions { name_servers: servers.iter().map(server).map(Short).collect(), ..ResolverOptions::default() }
    }
}

impl FromText for NameServer {
    const EXPECTED: &'static str = "\"ip:port\" or {socket_addr=..., protocol=...}";

    fn from_text(text: &str) -> Result<Self, BadText> {
        Ok(NameServer { socket_addr: text.parse()?, ..NameServer::default() })
    }
}

impl FromText for TrustAnchorFile {
    const EXPECTED: &'static str = "the name of a file or {managed=...}";

    fn from_text(text: &str) -> Result<Self, BadText> {
        Ok(TrustAnchorFile { managed: text.to_owned() })
    }
}

impl FromText for TestZone {
    const EXPECTED: &'static str = "the text of a zone file or {zone=..., secure=...}";

    fn from_text(text: &str) -> Result<Self, BadText> {
        Ok(TestZone { zone: text.to_owned(), ..TestZone::default() })
    }
}

crate::parse::from_table!(Zones);

impl<'de> Deserialize<'de> for Zones {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListOrTable;
        impl<'de> de::Visitor<'de> for ListOrTable {
            type Value = Zones;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of zones or {zones=..., servfail=...}")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Zones, A::Error> {
                let zones = Deserialize::deserialize(de::value::SeqAccessDeserializer::new(list))?;
                Ok(Zones(TestZones { zones, ..TestZones::default() }))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Zones, A::Error> {
                Deserialize::deserialize(de::value::MapAccessDeserializer::new(map)).map(Zones)
            }
        }
        deserializer.deserialize_any(ListOrTable)
    }
}

impl Default for ServerAddress {
    /// No server: stands in option structs whose address is required.
    fn default() -> Self {
        ServerAddress(SocketAddr::from(([0, 0, 0, 0], 0)))
    }
}

impl core::str::FromStr for ServerAddress {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
            (Ok(address), _) => Ok(ServerAddress(address)),
            (_, Ok(ip)) => Ok(ServerAddress(SocketAddr::new(ip, DNS_PORT))),
            _ => Err(BadText::new("address", text, "\"ip:port\"")),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

crate::text::text_form!(ServerAddress, "an address such as \"10.0.0.1:53\"");

/// Keys by which a structured form is told from a flat one.
const FORMS: [&str; 4] = ["Hickory", "Unbound", "Test", "Aggregate"];
/// RFC 1035 section 4.2.
pub const DNS_PORT: u16 = 53;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: Value) -> Result<ResolverForm, String> {
        ResolverForm::read("kumo.dns.configure_resolver", value).map_err(|e| e.to_string())
    }

    #[test]
    fn flat_and_structured_forms_say_the_same() {
        let flat =
            json!({"name_servers": ["10.0.0.1:5353", "10.0.0.2"], "options": {"timeout": "2s", "validate": true}});
        let ResolverForm::Hickory(options) = read(flat.clone()).unwrap() else { panic!("flat is Hickory") };
        let servers: Vec<String> = options.name_servers.iter().map(|s| s.0.socket_addr.to_string()).collect();
        assert_eq!(servers, ["10.0.0.1:5353", "10.0.0.2:53"]);
        assert_eq!((options.options.timeout, options.options.attempts), (Duration::from_secs(2), 2));
        assert!(options.options.validate);
        assert_eq!(read(json!({"Hickory": flat.clone()})), Ok(ResolverForm::Hickory(options)));
        assert_eq!(read(json!("HickorySystemConfig")), Ok(ResolverForm::HickorySystemConfig));
        let both = read(json!({"Aggregate": ["HickorySystemConfig", {"Test": ["$ORIGIN a.test."]}]})).unwrap();
        let ResolverForm::Aggregate(both) = both else { panic!("{both:?}") };
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn servers_and_zones_may_be_text_or_tables() {
        let flat = json!({"name_servers": [{"socket_addr": "[::1]:53", "protocol": "tcp", "bind_addr": "127.0.0.1"}]});
        let ResolverForm::Hickory(options) = read(flat).unwrap() else { panic!() };
        assert_eq!(options.name_servers[0].0.protocol, ServerProtocol::Tcp);
        let zones = |value: Value| match read(json!({ "Test": value })) {
            Ok(ResolverForm::Test(Zones(zones))) => zones,
            other => panic!("{other:?}"),
        };
        assert!(zones(json!(["a", {"zone": "b", "secure": true}])).zones[1].0.secure);
        assert_eq!(zones(json!({"zones": ["a"], "servfail": ["b.test"]})).servfail, ["b.test"]);
        let anchored = |value: Value| match read(json!({"options": {"trust_anchor_file": value}})) {
            Ok(ResolverForm::Hickory(options)) => options.options.trust_anchor_file.map(|file| file.0.managed),
            other => panic!("{other:?}"),
        };
        assert_eq!(anchored(json!("/k")), anchored(json!({"managed": "/k"})));
    }

    #[test]
    fn mistakes_are_named() {
        for (value, part) in [
            (json!({"name_server": []}), "name_servers"),
            (json!({"name_servers": ["mx.example.com"]}), "expected \"ip:port\""),
            (json!({"options": {"validat": true}}), "validate"),
            (json!({"name_servers": [{"protocol": "tcp"}]}), "socket_addr"),
            (json!({"options": {"num_concurrent_reqs": 0}}), ">= 1"),
            (json!({"Test": 5}), "a list of zones"),
            (json!("System"), "HickorySystemConfig"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert!(error.contains(part), "{value}: {error}");
        }
    }
}
