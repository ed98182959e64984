//! Where a key, certificate or password comes from.
//!
//! Owns [`KeySource`]. In: a string (always a file path), or a table with key_data, a vault place, or an event. Out: the
//! typed form. Fails when the table is none of these, or several. It loads nothing: drivers do, when the key is
//! used. Its `Debug` hides what is secret.

use crate::options::options;
use core::fmt;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// A lazily loaded secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum KeySource {
    /// The content of a file.
    File(String),
    /// The bytes themselves.
    Data(Vec<u8>),
    /// A HashiCorp Vault KV v2 entry.
    Vault {
        /// Address of the server; environment variable VAULT_ADDR when absent.
        address: Option<String>,
        /// Token to log in with; environment variable VAULT_TOKEN when absent.
        token: Option<String>,
        /// The secrets engine's mount.
        mount: String,
        /// The path of the secret.
        path: String,
        /// The member of the secret that is the key.
        key: String,
    },
    /// What a handler of the policy returns.
    Event {
        /// The event to trigger.
        name: String,
        /// Its arguments.
        args: Vec<Value>,
    },
}

crate::parse::from_table!(KeySource);

impl Default for KeySource {
    /// An empty path, which no policy can give: stands in option structs whose key is required.
    fn default() -> Self {
        KeySource::File(String::new())
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeySource::File(path) => f.debug_tuple("File").field(path).finish(),
            KeySource::Data(bytes) => write!(f, "Data({} bytes)", bytes.len()),
            KeySource::Vault { address, mount, path, key, token } => f
                .debug_struct("Vault")
                .field("address", address)
                .field("mount", mount)
                .field("path", path)
                .field("key", key)
                .field("has_token", &token.is_some())
                .finish(),
            KeySource::Event { name, args } => f.debug_struct("Event").field("name", name).field("args", args).finish(),
        }
    }
}

impl Serialize for KeySource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = match self {
            KeySource::File(path) => return serializer.serialize_str(path),
            _ => serializer.serialize_map(None)?,
        };
        match self {
            KeySource::File(_) => {}
            KeySource::Data(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => map.serialize_entry("key_data", text)?,
                Err(_) => map.serialize_entry("key_data", bytes)?,
            },
            KeySource::Vault { address, token, mount, path, key } => {
                map.serialize_entry("vault_address", address)?;
                map.serialize_entry("vault_token", token)?;
                map.serialize_entry("vault_mount", mount)?;
                map.serialize_entry("vault_path", path)?;
                map.serialize_entry("vault_key", key)?;
            }
            KeySource::Event { name, args } => {
                map.serialize_entry("event_name", name)?;
                map.serialize_entry("event_args", args)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for KeySource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PathOrTable)
    }
}

struct PathOrTable;

impl<'de> de::Visitor<'de> for PathOrTable {
    type Value = KeySource;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: de::Error>(self, path: &str) -> Result<KeySource, E> {
        if path.is_empty() {
            return Err(E::custom(format!("invalid key source \"\": expected {EXPECTED}")));
        }
        Ok(KeySource::File(path.to_owned()))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<KeySource, A::Error> {
        let table = KeySourceTable::deserialize(de::value::MapAccessDeserializer::new(map))?;
        table.sort_out().map_err(de::Error::custom)
    }
}

options! {
    /// The table forms of a key source, not yet told apart.
    struct KeySourceTable {
        /// The key itself.
        key_data: Option<Bytes> = None;
        /// Vault server.
        vault_address: Option<String> = None;
        /// Vault token.
        vault_token: Option<String> = None;
        /// Vault mount.
        vault_mount: Option<String> = None;
        /// Vault path.
        vault_path: Option<String> = None;
        /// Member of the vault secret.
        vault_key: Option<String> = None;
        /// Event to trigger.
        event_name: Option<String> = None;
        /// Its arguments.
        event_args: Option<Vec<Value>> = None;
    }
}

impl KeySourceTable {
    fn sort_out(self) -> Result<KeySource, String> {
        let is_vault = self.vault_address.is_some()
            || self.vault_token.is_some()
            || self.vault_mount.is_some()
            || self.vault_path.is_some()
            || self.vault_key.is_some();
        let is_event = self.event_name.is_some() || self.event_args.is_some();
        match (self.key_data, is_vault, is_event) {
            (Some(Bytes(data)), false, false) => Ok(KeySource::Data(data)),
            (None, true, false) => Ok(KeySource::Vault {
                address: self.vault_address,
                token: self.vault_token,
                mount: self.vault_mount.ok_or("missing field `vault_mount`")?,
                path: self.vault_path.ok_or("missing field `vault_path`")?,
                key: self.vault_key.unwrap_or_else(|| VAULT_KEY_DEFAULT.to_owned()),
            }),
            (None, false, true) => Ok(KeySource::Event {
                name: self.event_name.ok_or("missing field `event_name`")?,
                args: self.event_args.unwrap_or_default(),
            }),
            _ => Err(format!("invalid key source: expected {EXPECTED}")),
        }
    }
}

/// Lua strings are bytes: text when they are UTF-8, else a list of byte values.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBytes)
    }
}

struct TextOrBytes;

impl<'de> de::Visitor<'de> for TextOrBytes {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string of bytes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes(text.as_bytes().to_vec()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Bytes, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(Bytes(bytes))
    }
}

const EXPECTED: &str = "a file path, {key_data}, {vault_mount, vault_path} or {event_name, event_args}";
/// KumoMTA's name of the member that holds the key.
const VAULT_KEY_DEFAULT: &str = "key";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use serde_json::json;

    #[test]
    fn reads_and_writes_every_form() {
        for value in [
            json!("/path/key.pem"),
            json!({"key_data": "secret"}),
            json!({"key_data": [255, 0]}),
            json!({"vault_address": null, "vault_token": "t", "vault_mount": "m", "vault_path": "p", "vault_key": "k"}),
            json!({"event_name": "get_key", "event_args": ["a", 1]}),
        ] {
            let source: KeySource = parse("kumo.secrets.load", value.clone()).unwrap();
            assert_eq!(serde_json::to_value(&source).unwrap(), value);
        }
        let vault: KeySource = parse("x", json!({"vault_mount": "m", "vault_path": "p"})).unwrap();
        assert!(matches!(vault, KeySource::Vault { key, address: None, token: None, .. } if key == "key"));
        assert_eq!(
            parse("x", json!({"event_name": "e", "event_args": {}})),
            Ok(KeySource::Event { name: "e".into(), args: vec![] })
        );
    }

    #[test]
    fn refuses_none_and_several() {
        for value in [json!({}), json!({"key_data": "x", "event_name": "y"}), json!("")] {
            let error = parse::<KeySource>("x", value).unwrap_err().to_string();
            assert!(error.contains("expected a file path, {key_data}"), "{error}");
        }
        let error = parse::<KeySource>("x", json!({"vault_path": "p"})).unwrap_err().to_string();
        assert!(error.contains("missing field `vault_mount`"), "{error}");
    }

    #[test]
    fn debug_hides_the_secret() {
        assert_eq!(format!("{:?}", KeySource::Data(b"hunter2".to_vec())), "Data(7 bytes)");
    }
}
