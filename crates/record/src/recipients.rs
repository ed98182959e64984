//! The recipients a record speaks of.
//!
//! Owns [`Recipients`]. KumoMTA behaviour: one address is a string, several are an array, none (a rejection before RCPT)
//! is the empty string. In and out: that JSON. Fails on anything else.

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Recipient addresses, usually one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipients(pub Vec<String>);

impl From<String> for Recipients {
    fn from(address: String) -> Self {
        Recipients(vec![address])
    }
}

impl From<&str> for Recipients {
    fn from(address: &str) -> Self {
        Recipients(vec![address.to_owned()])
    }
}

impl From<Vec<String>> for Recipients {
    fn from(addresses: Vec<String>) -> Self {
        Recipients(addresses)
    }
}

impl Serialize for Recipients {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [] => serializer.serialize_str(""),
            [one] => serializer.serialize_str(one),
            several => several.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Recipients {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrSeveral)
    }
}

struct OneOrSeveral;

impl<'de> de::Visitor<'de> for OneOrSeveral {
    type Value = Recipients;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address or a list of addresses")
    }

    fn visit_str<E: de::Error>(self, address: &str) -> Result<Recipients, E> {
        match address.is_empty() {
            true => Ok(Recipients::default()),
            false => Ok(Recipients::from(address)),
        }
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Recipients, A::Error> {
        let mut addresses = Vec::new();
        while let Some(address) = list.next_element()? {
            addresses.push(address);
        }
        Ok(Recipients(addresses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn none_one_several() {
        for (addresses, want) in
            [(vec![], json!("")), (vec!["a@b"], json!("a@b")), (vec!["a@b", "c@d"], json!(["a@b", "c@d"]))]
        {
            let recipients = Recipients(addresses.into_iter().map(str::to_owned).collect());
            assert_eq!(serde_json::to_value(&recipients).unwrap(), want);
            assert_eq!(serde_json::from_value::<Recipients>(want).unwrap(), recipients);
        }
        let error = serde_json::from_value::<Recipients>(json!(7)).unwrap_err().to_string();
        assert!(error.contains("expected an address or a list of addresses"), "{error}");
    }
}
