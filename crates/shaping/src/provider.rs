//! A provider: destinations that share limits, whatever their domains are.
//!
//! Owns [`Provider`]: which domains and hosts are its, the limits shared among them for each source, and a block. In: the
//! tables of `provider`. Out: whether a destination is its, and options written over others. Fails, while it is read, with
//! place, value and expectation.

use crate::block::{self, Block};
use crate::error::ShapingError;
use crate::merge;
use crate::place::{Place, WHAT};
use crate::site;
use config::{LimitSpec, ThrottleSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A block of `provider`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Provider {
    matches: Vec<Match>,
    /// As written, in the order of [`SHARED`].
    shared: [Option<Value>; 3],
    /// The rest.
    pub block: Block,
}

impl Provider {
    /// Reads a provider's table, without `replace_base`.
    pub fn read(place: &Place<'_>, mut table: Map<String, Value>) -> Result<Provider, ShapingError> {
        let mut matches: Vec<Match> = block::take(place, &mut table, MATCH)?.unwrap_or_default();
        for (index, rule) in matches.iter_mut().enumerate() {
            let name = rule.name_mut();
            *name = site::folded(name).into_owned();
            if name.is_empty() {
                return Err(place.key(MATCH).index(index).unlike("", "a name of a host or domain, or its end"));
            }
        }
        let mut shared = [None, None, None];
        for (slot, (key, ..)) in shared.iter_mut().zip(SHARED) {
            *slot = table.shift_remove(key);
            let Some(value) = slot.clone() else { continue };
            let judged = match key {
                CONNECTION_LIMIT => config::parse::<LimitSpec>(WHAT, value).map(drop),
                _ => config::parse::<ThrottleSpec>(WHAT, value).map(drop),
            };
            judged.map_err(|error| place.key(key).refused(error))?;
        }
        Ok(Provider { matches, shared, block: Block::read(place, table, OWN_KEYS)? })
    }

    /// Puts a later block of the same name over this one; what matches is added.
    pub fn put_over(&mut self, later: Provider) {
        for rule in later.matches {
            if !self.matches.contains(&rule) {
                self.matches.push(rule);
            }
        }
        for (slot, value) in self.shared.iter_mut().zip(later.shared) {
            *slot = value.or(slot.take());
        }
        self.block.put_over(later.block);
    }

    /// True when mail for `domain`, whose site has `hosts`, goes to it. Names are folded.
    pub fn is_of(&self, domain: &str, hosts: &[String]) -> bool {
        let by_domain = self.matches.iter().any(|rule| rule.is_domain(domain));
        // a site without hosts has none that could be somebody else's, and is nobody's
        by_domain || (!hosts.is_empty() && hosts.iter().all(|host| self.matches.iter().any(|rule| rule.is_host(host))))
    }

    /// True when nothing is of it.
    pub fn matches_nothing(&self) -> bool {
        self.matches.is_empty()
    }

    /// Puts name, options and shared limits over `options`.
    pub fn write_options(&self, options: &mut Map<String, Value>, name: &str, source: &str) {
        options.insert(PROVIDER_NAME.to_owned(), Value::String(name.to_owned()));
        self.block.write_options(options);
        for ((_, map, end), value) in SHARED.into_iter().zip(&self.shared) {
            if let Some(value) = value {
                merge::put_named(options, map, format!("shaping-provider-{name}-{source}-{end}"), value.clone());
            }
        }
    }

    /// All that is in it.
    pub fn to_json(&self) -> Value {
        json!({"match": self.matches, "shared": self.shared, "block": self.block.to_json()})
    }
}

/// Which destinations are a provider's; names are folded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Match {
    #[serde(rename = "MXSuffix")]
    MxSuffix(String),
    DomainSuffix(String),
    HostName(String),
}

impl Match {
    fn is_domain(&self, domain: &str) -> bool {
        matches!(self, Match::DomainSuffix(end) if domain.ends_with(end.as_str()))
    }

    fn is_host(&self, host: &str) -> bool {
        match self {
            Match::MxSuffix(end) => host.ends_with(end.as_str()),
            Match::HostName(name) => host == name,
            Match::DomainSuffix(_) => false,
        }
    }

    fn name_mut(&mut self) -> &mut String {
        match self {
            Match::MxSuffix(name) | Match::DomainSuffix(name) | Match::HostName(name) => name,
        }
    }
}

/// Keys of a provider that are no options of a path.
const OWN_KEYS: &[&str] = &[
    MATCH,
    CONNECTION_LIMIT,
    "provider_max_message_rate",
    "provider_source_selection_rate",
    block::SOURCES,
    "replace_base",
    block::AUTOMATION,
];
const MATCH: &str = "match";
const CONNECTION_LIMIT: &str = "provider_connection_limit";
const PROVIDER_NAME: &str = "provider_name";
/// Keys of limits that all destinations of a provider share: each becomes a named one, whose name ends so.
const SHARED: [(&str, &str, &str); 3] = [
    (CONNECTION_LIMIT, merge::CONNECTION_LIMITS, "limit"),
    ("provider_max_message_rate", merge::MESSAGE_RATES, "rate"),
    ("provider_source_selection_rate", merge::SELECTION_RATES, "selection-rate"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(value: Value) -> Provider {
        let place = Place::top("a.json");
        place.table(value).and_then(|table| Provider::read(&place, table)).expect("sound")
    }

    #[test]
    fn destinations_are_told_by_domain_or_by_every_host() {
        let suffix = json!([{"MXSuffix": ".In.Example."}]);
        let several = json!([{"MXSuffix": ".in.example"}, {"HostName": "MX.other.test."}]);
        let domains = json!([{"DomainSuffix": ".Example.com."}]);
        let both = json!([{"DomainSuffix": ".example.com"}, {"HostName": "mx.other.test"}]);
        for (matches, domain, hosts, want) in [
            (&suffix, "a.test", &["a.in.example"][..], true),
            (&suffix, "a.test", &["a.in.example", "b.in.example"], true),
            (&suffix, "a.test", &["a.in.example", "b.elsewhere"], false),
            (&suffix, "a.test", &["in.example"], false),
            (&suffix, "a.test", &[], false),
            (&suffix, "a.in.example", &[], false),
            (&several, "a.test", &["mx.other.test"], true),
            (&several, "a.test", &["mx.other.test", "a.in.example"], true),
            (&several, "a.test", &["x.mx.other.test"], false),
            (&domains, "a.example.com", &[], true),
            (&domains, "a.example.com", &["mx.elsewhere"], true),
            (&domains, "example.com", &[], false),
            (&domains, "a.test", &["a.example.com"], false),
            (&both, "a.example.com", &["mx.elsewhere"], true),
            (&both, "a.test", &["mx.other.test"], true),
            (&both, "a.test", &["mx.other.test", "a.example.com"], false),
            (&json!([]), "a.test", &["mx.other.test"], false),
        ] {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let provider = provider(json!({"match": matches}));
            assert_eq!(provider.is_of(domain, &hosts), want, "{matches} {domain} {hosts:?}");
        }
    }

    #[test]
    fn shared_limits_get_a_name_for_each_source() {
        let provider = provider(json!({
            "provider_connection_limit": "local:10", "provider_max_message_rate": "5/s",
            "provider_source_selection_rate": "7/h", "max_ready": 3, "additional_connection_limits": {"own": 1},
        }));
        let mut options = Map::new();
        provider.write_options(&mut options, "big one", "ip-1");
        let want = json!({
            "provider_name": "big one",
            "max_ready": 3,
            "additional_connection_limits": {"own": 1, "shaping-provider-big one-ip-1-limit": "local:10"},
            "additional_message_rate_throttles": {"shaping-provider-big one-ip-1-rate": "5/s"},
            "additional_source_selection_rates": {"shaping-provider-big one-ip-1-selection-rate": "7/h"},
        });
        assert_eq!(Value::Object(options), want);
    }

    #[test]
    fn later_blocks_go_over_earlier_ones() {
        let mut base = provider(json!({
            "match": [{"HostName": "a"}, {"HostName": "b"}], "provider_connection_limit": 1,
            "provider_max_message_rate": "1/s", "max_ready": 1,
        }));
        base.put_over(provider(json!({
            "match": [{"HostName": "B."}, {"MXSuffix": "b"}], "provider_connection_limit": 2,
            "provider_source_selection_rate": "2/s", "max_ready": 2,
        })));
        let want = provider(json!({
            "match": [{"HostName": "a"}, {"HostName": "b"}, {"MXSuffix": "b"}], "provider_connection_limit": 2,
            "provider_max_message_rate": "1/s", "provider_source_selection_rate": "2/s", "max_ready": 2,
        }));
        assert_eq!(base, want);
    }

    #[test]
    fn every_own_key_is_read() {
        let options = config::option_names("make_egress_path");
        for key in OWN_KEYS.iter().filter(|key| **key != "replace_base") {
            assert!(!options.contains(key), "{key}");
            let error = Provider::read(&Place::top("f"), Map::from_iter([((*key).to_owned(), json!(false))]));
            assert!(matches!(error, Err(ShapingError::Refused { place, .. }) if place == *key), "{key}");
        }
    }
}
