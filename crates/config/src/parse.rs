//! The one way in: a table from the policy file becomes a typed value.
//!
//! Owns [`parse`], [`FromTable`] and [`ConfigError`]. In: the constructor's name and a JSON value. Out: any option struct or value
//! type of this crate. Fails with an error that names constructor, path, value and expectation, and shows the
//! (bounded, secrets masked) table. It does not read files and does not resolve key sources.

use crate::fault::Fault;
use crate::shown_url::{shown_url, without_login};
use crate::table::Node;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A table the policy gave was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {}deserialize error: {fault}, while processing {json}", prefix(path))]
pub struct ConfigError {
    /// The constructor or function that was called, e.g. `kumo.make_egress_path`.
    pub what: &'static str,
    /// Where in its table, e.g. `protocol.smtp.mx_list[0]`; empty for the table itself.
    pub path: String,
    /// The cause.
    pub fault: Fault,
    /// The table given, as JSON, shortened, key material masked.
    pub json: String,
}

/// Reads `value` as the argument of `what`.
///
/// Errors: [`ConfigError`] on an unknown key, a missing required one, or any value its option refuses.
pub fn parse<T: DeserializeOwned>(what: &'static str, value: Value) -> Result<T, ConfigError> {
    T::deserialize(Node::root(&value)).map_err(|misfit| ConfigError {
        what,
        path: misfit.path(),
        fault: misfit.fault.without(&secrets(&value)),
        json: shown(&value),
    })
}

/// What a table may become, read where its type is declared: whoever parses a generic type has the compiler make its reader, which
/// is long, once more.
pub trait FromTable: Sized {
    /// Reads `value` as the argument of `what`.
    ///
    /// # Errors
    /// As [`parse`].
    fn from_table(what: &'static str, value: Value) -> Result<Self, ConfigError>;
}

/// Says of types that can be deserialised that tables may become them.
macro_rules! from_table {
    ($name:ty) => {
        impl $crate::FromTable for $name {
            fn from_table(what: &'static str, value: serde_json::Value) -> Result<Self, $crate::ConfigError> {
                $crate::parse(what, value)
            }
        }
    };
}

pub(crate) use from_table;

fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// A value as people may see it.
pub(crate) fn shown(value: &Value) -> String {
    let mut text = masked(value, 0).to_string();
    if text.len() > JSON_SHOWN_BYTES_MAX {
        let end = (0..=JSON_SHOWN_BYTES_MAX).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Errors end in log files; private keys and passwords must not.
fn masked(value: &Value, depth: usize) -> Value {
    if depth > crate::table::DEPTH_MAX {
        return Value::String("…".to_owned());
    }
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, inner)| {
                    let inner = match (key.as_str(), inner) {
                        (key, _) if SECRET_KEYS.contains(&key) => Value::String("***".to_owned()),
                        // One whose scheme was forgotten too.
                        (key, Value::String(url)) if URL_KEYS.contains(&key) => Value::String(shown_url(url)),
                        (FIELDS_KEY, Value::Object(fields)) => without_values(fields),
                        // Given as text by mistake; a list is one of names, of DKIM's.
                        (FIELDS_KEY, Value::String(_)) => Value::String("***".to_owned()),
                        _ => masked(inner, depth + 1),
                    };
                    (key.clone(), inner)
                })
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(|inner| masked(inner, depth + 1)).collect()),
        Value::String(text) if text.contains("://") => Value::String(shown_url(text)),
        Value::String(text) => Value::String(without_login(text)),
        scalar => scalar.clone(),
    }
}

/// Header fields, of which one may say who asks.
fn without_values(fields: &Map<String, Value>) -> Value {
    Value::Object(fields.keys().map(|name| (name.clone(), Value::String("***".to_owned()))).collect())
}

/// The texts that are or may be secret, wherever they stand in `value`: a fault may quote one that stands where none is expected.
fn secrets(value: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut waiting = vec![(value, false)];
    while let Some((value, secret)) = waiting.pop() {
        match value {
            Value::Object(map) => {
                let is_secret =
                    |key: &str, inner: &Value| SECRET_KEYS.contains(&key) || key == FIELDS_KEY && inner.is_string();
                waiting.extend(map.iter().map(|(key, inner)| (inner, secret || is_secret(key, inner))));
            }
            Value::Array(list) => waiting.extend(list.iter().map(|inner| (inner, secret))),
            Value::String(text) if secret && !text.is_empty() => found.push(text.as_str()),
            _ => {}
        }
    }
    found
}

/// Members that hold a secret itself, or may.
const SECRET_KEYS: [&str; 4] = ["key_data", "vault_token", "password", "token"];
/// Members that are URLs.
const URL_KEYS: [&str; 3] = ["endpoint", "url", "target"];
/// The member that holds the header fields of requests.
const FIELDS_KEY: &str = "headers";
/// How much of the offending table an error shows (bytes).
const JSON_SHOWN_BYTES_MAX: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_masked_and_text_is_bounded() {
        let value = json!({"smtp_auth_plain_password": {"key_data": "hunter2"}, "list": ["x".repeat(4000)]});
        let text = shown(&value);
        assert!(!text.contains("hunter2"), "{text}");
        let servers = ["nats://me:hunter2@a.test:4222", "redis://a.test/", "me:hunter2@b.test", "mailto:c@d.test"];
        let value = json!({"password": "hunter2", "servers": servers});
        let want = r#"["nats://***@a.test:4222","redis://a.test/","***@b.test","mailto:c@d.test"]"#;
        assert_eq!(shown(&value), format!(r#"{{"password":"***","servers":{want}}}"#));
        let value = json!({"endpoint": "a.test/v1?token=hunter2", "at": "https://b.test/v1?token=hunter2",
            "headers": {"Authorization": "Bearer hunter2"}, "pattern": "a?b"});
        let want = r#"{"endpoint":"a.test/v1?***","at":"https://b.test/v1?***","headers":{"Authorization":"***"},"pattern":"a?b"}"#;
        assert_eq!(shown(&value), want);
        let given = [json!({"headers": "Bearer hunter2"}), json!({"headers": ["From", "To"]})];
        assert_eq!(given.map(|one| shown(&one)), [r#"{"headers":"***"}"#, r#"{"headers":["From","To"]}"#]);
        assert!(text.contains("***"));
        assert!(text.len() <= JSON_SHOWN_BYTES_MAX + '…'.len_utf8());
    }

    #[test]
    fn a_refused_password_is_not_in_the_error() {
        for (path, table) in [
            ("max_ready", json!({"smtp_auth_plain_password": {"key_data": "hunter2"}, "max_ready": 0})),
            // Where no key is expected either.
            ("refresh_strategy", json!({"refresh_strategy": [{"key_data": "hunter2"}]})),
            // Where the name is one of the user's own.
            ("additional_connection_limits.key_data", json!({"additional_connection_limits": {"key_data": "hunter2"}})),
        ] {
            let error = parse::<crate::EgressPath>("kumo.make_egress_path", table).unwrap_err();
            assert_eq!(error.path, path);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
