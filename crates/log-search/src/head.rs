//! What is looked at of a record.

use serde::Deserialize;
use std::borrow::Cow;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Of a line that is a record's JSON.
#[derive(Debug, Deserialize)]
pub(crate) struct Head<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow, default)]
    pub sender: Cow<'a, str>,
    #[serde(borrow)]
    pub recipient: OneOrMany<'a>,
    #[serde(borrow, default)]
    pub queue: Cow<'a, str>,
    #[serde(default)]
    pub size: u64,
    #[serde(borrow, default)]
    event_time: Cow<'a, str>,
    #[serde(default)]
    timestamp: i64,
}

/// Recipients as records have them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany<'a> {
    /// One, or the empty string for none.
    One(#[serde(borrow)] Cow<'a, str>),
    /// Several.
    Many(#[serde(borrow)] Vec<Cow<'a, str>>),
}

impl Head<'_> {
    /// Of a line; none when it is no record.
    pub fn read(line: &[u8]) -> Option<Head<'_>> {
        serde_json::from_slice(line).ok()
    }

    /// When it happened.
    pub fn at(&self) -> OffsetDateTime {
        let seconds = || OffsetDateTime::from_unix_timestamp(self.timestamp).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        OffsetDateTime::parse(&self.event_time, &Rfc3339).unwrap_or_else(|_| seconds())
    }

    /// Whether it speaks of a recipient; case does not count.
    pub fn is_for(&self, address: &str) -> bool {
        self.recipients().any(|recipient| recipient.eq_ignore_ascii_case(address))
    }

    /// The recipients it speaks of.
    pub fn recipients(&self) -> impl Iterator<Item = &str> {
        let all = match &self.recipient {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        };
        all.iter().map(|recipient| &**recipient).filter(|recipient| !recipient.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_and_other_lines_are_not() {
        let line = br#"{"type":"Reception","id":"ab","sender":"s@x","recipient":["A@x","b@x"],"queue":"x","timestamp":7,"event_time":"1970-01-01T00:00:08.5Z"}"#;
        let head = Head::read(line).expect("a record");
        assert!(head.is_for("a@X") && head.is_for("b@x") && !head.is_for("s@x"));
        assert_eq!(head.at().unix_timestamp_nanos(), 8_500_000_000);
        let line = br#"{"type":"Rejection","id":"","recipient":"","timestamp":7}"#;
        let head = Head::read(line).expect("a record");
        assert_eq!((head.recipients().count(), head.at().unix_timestamp()), (0, 7));
        for line in ["", "text", "[]", r#"{"type":"Reception"}"#, r#"{"type":7,"id":"a","recipient":""}"#] {
            assert!(Head::read(line.as_bytes()).is_none(), "{line}");
        }
    }
}
