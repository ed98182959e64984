//! What a line is, and which lines a consumer wants.
//!
//! Owns [`Wanted`] and [`Head`], pure. In: the line of a record. Out: its type and time. Fails on what is not JSON: such a line has
//! no place in an array of records. What is JSON and has no type is wanted by who wants all.

use config::RecordKey;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// Which types a consumer wants; all when empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted(Vec<&'static str>);

/// What is looked at of a record; the rest is only read.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Head<'a> {
    /// Its type.
    #[serde(rename = "type", borrow, default)]
    pub kind: Option<Cow<'a, str>>,
    /// When it happened, in seconds since 1970.
    #[serde(default)]
    pub timestamp: Option<i64>,
}

impl Wanted {
    /// These types; all when there are none, or with `Any`.
    pub fn of(types: &[RecordKey]) -> Wanted {
        match types.contains(&RecordKey::Any) {
            true => Wanted::default(),
            false => Wanted(types.iter().map(|kind| kind.as_str()).collect()),
        }
    }

    /// Whether it wants a record of this type.
    pub(crate) fn has(&self, head: &Head<'_>) -> bool {
        self.0.is_empty() || head.kind.as_deref().is_some_and(|kind| self.0.contains(&kind))
    }

    /// The types, sorted.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = self.0.clone();
        names.sort_unstable();
        names.dedup();
        names
    }
}

impl Head<'_> {
    /// What a line says.
    pub fn read(line: &[u8]) -> Result<Head<'_>, serde_json::Error> {
        match line.trim_ascii_start().first() {
            Some(b'{') => match serde_json::from_slice(line) {
                // A record of a template may have a field of that name with another meaning.
                Err(error) if error.is_data() => Head::other(line),
                read => read,
            },
            _ => Head::other(line),
        }
    }

    fn other(line: &[u8]) -> Result<Head<'_>, serde_json::Error> {
        serde_json::from_slice::<IgnoredAny>(line).map(|_| Head::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_say_what_they_are_and_all_else_must_be_json() {
        let head = |kind: Option<&'static str>, timestamp| Head { kind: kind.map(Cow::from), timestamp };
        for (line, expected) in [
            (r#"{"id":"a","type":"Delivery","timestamp":7,"x":[{}]}"#, head(Some("Delivery"), Some(7))),
            (r#"{"type":"Deliver\u0079"}"#, head(Some("Delivery"), None)),
            (r#"{"type":7,"timestamp":"x"}"#, head(None, None)),
            (r#"{"id":1}"#, head(None, None)),
            (r#"["Delivery",7]"#, head(None, None)),
            (r#""text""#, head(None, None)),
        ] {
            assert_eq!(Head::read(line.as_bytes()).expect("JSON"), expected, "{line}");
        }
        for line in ["plain text", r#"{"type":"Delivery""#, r#"{"a":1} x"#, ""] {
            assert!(Head::read(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn types_are_wanted_by_name() {
        let head = |kind: &'static str| Head { kind: Some(kind.into()), timestamp: None };
        let two = Wanted::of(&[RecordKey::Delivery, RecordKey::Bounce]);
        assert!(two.has(&head("Bounce")) && !two.has(&head("Reception")) && !two.has(&Head::default()));
        assert_eq!(two.names(), ["Bounce", "Delivery"]);
        for all in [Wanted::of(&[]), Wanted::of(&[RecordKey::Bounce, RecordKey::Any])] {
            assert!(all.has(&head("Reception")) && all.has(&Head::default()) && all.names().is_empty());
        }
    }
}
