//! Message metadata: named JSON values that policy sets and logs show (KumoMTA behaviour).

use serde_json::{Map, Value};

/// Name to JSON value. `queue`, `tenant`, `campaign` and `routing_domain` steer the queue name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta(Map<String, Value>);

impl Meta {
    /// No metadata.
    pub fn new() -> Meta {
        Meta::default()
    }

    /// The value, `None` when absent or null.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = match self.0.len() {
            // Looked through sooner than hashed.
            0..=FEW => self.0.iter().find_map(|(known, value)| (known == name).then_some(value)),
            _ => self.0.get(name),
        };
        found.filter(|v| !v.is_null())
    }

    /// The value when it is a string. A value of another type is `Err` with that value.
    pub fn string(&self, name: &str) -> Result<Option<&str>, &Value> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(other) => Err(other),
        }
    }

    /// Sets or replaces; null is stored as null (KumoMTA has no unset).
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    /// Name and value of everything that is set, nulls included, in order of first setting.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.iter()
    }

    /// Copies every entry of `other` over this one's.
    pub fn extend_from(&mut self, other: &Meta) {
        self.0.extend(other.0.iter().map(|(k, v)| (k.clone(), v.clone())));
    }

    /// As a JSON object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// True when nothing was ever set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Entries that are compared one by one.
const FEW: usize = 16;

impl From<Map<String, Value>> for Meta {
    fn from(map: Map<String, Value>) -> Meta {
        Meta(map)
    }
}
