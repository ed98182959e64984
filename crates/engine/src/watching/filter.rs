//! Which sessions a watcher wants to see.
//!
//! A criterion with values excludes a session that has the property and another value; one that does not have it yet is shown
//! (KumoMTA behaviour). Pure.

use ipnet::IpNet;
use serde_json::{Map, Value};
use std::net::{IpAddr, SocketAddr};

/// What a watcher asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// The property of a session and the values that are wanted of it; none means any.
    pub values: Vec<(&'static str, Vec<String>)>,
    /// The property with an address, and the blocks it is to be in.
    pub blocks: Vec<(&'static str, Vec<IpNet>)>,
    /// The bulk of messages is left out.
    pub terse: bool,
}

impl Watch {
    /// Whether a session of these properties is to be seen.
    pub fn wants(&self, meta: &Map<String, Value>) -> bool {
        let said = |name: &str| meta.get(name).and_then(Value::as_str);
        let is_wanted = |(name, wanted): &(&str, Vec<String>)| {
            // Several recipients are one text.
            let is_one =
                |value: &str| value.split(", ").any(|part| wanted.iter().any(|one| one.eq_ignore_ascii_case(part)));
            wanted.is_empty() || said(name).is_none_or(is_one)
        };
        let is_within = |(name, blocks): &(&str, Vec<IpNet>)| {
            blocks.is_empty()
                || said(name).and_then(address).is_none_or(|at| blocks.iter().any(|block| block.contains(&at)))
        };
        self.values.iter().all(is_wanted) && self.blocks.iter().all(is_within)
    }
}

/// An address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    text.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| text.parse()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_known_excludes_nothing() {
        let watch = Watch {
            values: vec![("domain", vec!["A.test".to_owned()]), ("tenant", Vec::new())],
            blocks: vec![("received_from", vec!["192.0.2.0/24".parse().expect("a block")])],
            terse: false,
        };
        for (meta, expected) in [
            (json!({}), true),
            (json!({"domain": "a.test", "tenant": "x"}), true),
            (json!({"domain": "b.test"}), false),
            (json!({"domain": "b.test, a.test"}), true),
            (json!({"received_from": "192.0.2.7:4000"}), true),
            (json!({"received_from": "192.0.2.7"}), true),
            (json!({"received_from": "198.51.100.1:25", "domain": "a.test"}), false),
        ] {
            assert_eq!(watch.wants(meta.as_object().expect("an object")), expected, "{meta}");
        }
    }
}
