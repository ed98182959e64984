//! A feedback (ARF, RFC 5965) report inside a record.
//!
//! Owns [`FeedbackReport`] in its log form. In: what the mime crate read from the report. Out: JSON with KumoMTA's
//! names; absent parts are null. Fails only when reading JSON of another shape. Parsing mail is not done here.

use crate::timestamp::Timestamp;
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a feedback report says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FeedbackReport {
    /// `abuse`, `fraud`, ...
    pub feedback_type: ByteString,
    /// The program that made the report.
    pub user_agent: ByteString,
    /// Version of the format; text, although usually `1`.
    pub version: ByteString,
    /// When the message reported on arrived there.
    pub arrival_date: Option<Timestamp>,
    /// How many incidents this stands for.
    pub incidents: Option<u32>,
    /// ENVID of the message.
    pub original_envelope_id: Option<ByteString>,
    /// Its reverse path.
    pub original_mail_from: Option<ByteString>,
    /// Who reports.
    pub reporting_mta: Option<RemoteMta>,
    /// The address it came from.
    pub source_ip: Option<ByteString>,
    /// Results of authentication there.
    pub authentication_results: Vec<ByteString>,
    /// Its recipients (KumoMTA's spelling).
    pub original_rcpto_to: Vec<ByteString>,
    /// Domains reported.
    pub reported_domain: Vec<ByteString>,
    /// URIs reported.
    pub reported_uri: Vec<ByteString>,
    /// Every other field, by name.
    pub extensions: BTreeMap<String, Vec<ByteString>>,
    /// The message or its header, as enclosed.
    pub original_message: Option<ByteString>,
    /// The decoded supplemental trace header of that message.
    pub supplemental_trace: Option<Value>,
}

/// An MTA as reports name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteMta {
    /// Usually `dns`.
    pub mta_type: String,
    /// Its name.
    pub name: String,
}

/// Bytes that are nearly always text: a JSON string when UTF-8, else a list of byte values.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteString(pub Vec<u8>);

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        ByteString(text.as_bytes().to_vec())
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        ByteString(text.into_bytes())
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        ByteString(bytes)
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match core::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBytes)
    }
}

struct TextOrBytes;

impl<'de> de::Visitor<'de> for TextOrBytes {
    type Value = ByteString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of byte values")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(ByteString::from(text))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<ByteString, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(ByteString(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bytes_that_are_no_text_are_listed() {
        for (bytes, want) in [(&b"abc"[..], json!("abc")), (&[0xff, 0x41][..], json!([255, 65]))] {
            let value = ByteString(bytes.to_vec());
            assert_eq!(serde_json::to_value(&value).unwrap(), want);
            assert_eq!(serde_json::from_value::<ByteString>(want).unwrap(), value);
        }
    }
}
