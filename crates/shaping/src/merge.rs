//! Options over options: which ones win.
//!
//! In: two tables of path options. Out: one. Three options are maps of named limits and rates; they are merged by name
//! (KumoMTA behaviour), so that a provider's shared limit and a domain's own both hold. Everything else overwrites.

use serde_json::{Map, Value};

/// Puts `later` over `base`.
pub(crate) fn over(base: &mut Map<String, Value>, later: &Map<String, Value>) {
    for (key, value) in later {
        match (is_named(key), base.get_mut(key), value) {
            (true, Some(Value::Object(names)), Value::Object(more)) => {
                names.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            // an empty list is an empty table
            (true, Some(Value::Object(_)), _) => {}
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Puts one named limit or rate into the option `map`, over another of its name.
pub(crate) fn put_named(base: &mut Map<String, Value>, map: &str, name: String, value: Value) {
    let named = Value::Object(Map::from_iter([(name, value)]));
    over(base, &Map::from_iter([(map.to_owned(), named)]));
}

fn is_named(key: &str) -> bool {
    [CONNECTION_LIMITS, MESSAGE_RATES, SELECTION_RATES].contains(&key)
}

/// Further connection limits by name.
pub(crate) const CONNECTION_LIMITS: &str = "additional_connection_limits";
/// Further message rates by name.
pub(crate) const MESSAGE_RATES: &str = "additional_message_rate_throttles";
/// Further selection rates by name.
pub(crate) const SELECTION_RATES: &str = "additional_source_selection_rates";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn merged(base: Value, later: Value) -> Value {
        match (base, later) {
            (Value::Object(mut base), Value::Object(later)) => {
                over(&mut base, &later);
                Value::Object(base)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn scalars_and_lists_overwrite() {
        for (base, later, want) in [
            (json!({"max_ready": 1}), json!({}), json!({"max_ready": 1})),
            (json!({}), json!({"max_ready": 2}), json!({"max_ready": 2})),
            (
                json!({"max_ready": 1, "smtp_port": 25}),
                json!({"max_ready": 2}),
                json!({"max_ready": 2, "smtp_port": 25}),
            ),
            (json!({"skip_hosts": ["10.0.0.1"]}), json!({"skip_hosts": []}), json!({"skip_hosts": []})),
            (
                json!({"tls_private_key": {"key_data": "a"}}),
                json!({"tls_private_key": {"vault_mount": "b"}}),
                json!({"tls_private_key": {"vault_mount": "b"}}),
            ),
        ] {
            assert_eq!(merged(base, later), want);
        }
    }

    #[test]
    fn the_three_maps_merge_by_name() {
        for map in [CONNECTION_LIMITS, MESSAGE_RATES, SELECTION_RATES] {
            let base = json!({map: {"a": "1", "b": "2"}});
            let later = json!({map: {"b": "3", "c": "4"}});
            assert_eq!(merged(base.clone(), later), json!({map: {"a": "1", "b": "3", "c": "4"}}), "{map}");
            assert_eq!(merged(base.clone(), json!({map: {}})), base);
            assert_eq!(merged(base.clone(), json!({map: []})), base);
            assert_eq!(merged(json!({map: []}), base.clone()), base);
            assert_eq!(merged(json!({}), base.clone()), base);
            assert!(config::option_names("make_egress_path").contains(&map), "{map}");
        }
    }
}
