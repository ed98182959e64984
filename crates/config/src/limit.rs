//! A number that must not be exceeded.
//!
//! Owns [`LimitSpec`]: an integer >= 1, or text `[local:]N` where N may hold `,` and `_`. In: a number or a string.
//! Out: the limit. Fails with [`BadText`]. Counting against it (leases) is done elsewhere.

use crate::text::BadText;
use crate::throttle::count;
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A concurrency limit; `local:` keeps it out of a shared (cluster) counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitSpec {
    /// The limit; at least 1.
    pub limit: u64,
    /// True when a shared counter must not be used.
    pub local: bool,
}

impl LimitSpec {
    /// A limit that may be shared.
    pub const fn new(limit: u64) -> Self {
        LimitSpec { limit, local: false }
    }
}

impl FromStr for LimitSpec {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let trimmed = text.trim();
        let (local, number) = match trimmed.strip_prefix("local:") {
            Some(number) => (true, number),
            None => (false, trimmed),
        };
        let limit = count(number).ok_or_else(|| BadText::new("limit", text, EXPECTED))?;
        Ok(LimitSpec { limit, local })
    }
}

impl fmt::Display for LimitSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = if self.local { "local:" } else { "" };
        write!(f, "{local}{}", self.limit)
    }
}

impl Serialize for LimitSpec {
    /// A shared limit as a number, so that scripts may compute with it; a local one as text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.local { serializer.collect_str(self) } else { serializer.serialize_u64(self.limit) }
    }
}

impl<'de> Deserialize<'de> for LimitSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrText)
    }
}

struct NumberOrText;

impl de::Visitor<'_> for NumberOrText {
    type Value = LimitSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_u64<E: de::Error>(self, limit: u64) -> Result<LimitSpec, E> {
        self.visit_str(&limit.to_string())
    }

    fn visit_i64<E: de::Error>(self, limit: i64) -> Result<LimitSpec, E> {
        self.visit_str(&limit.to_string())
    }

    fn visit_f64<E: de::Error>(self, limit: f64) -> Result<LimitSpec, E> {
        self.visit_str(&limit.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<LimitSpec, E> {
        text.parse().map_err(E::custom)
    }
}

const EXPECTED: &str = "an integer >= 1 or \"[local:]N\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms() {
        for (text, want) in [
            ("32", LimitSpec::new(32)),
            ("1,000", LimitSpec::new(1000)),
            ("local:2_0", LimitSpec { limit: 20, local: true }),
        ] {
            assert_eq!(text.parse(), Ok(want));
        }
    }

    #[test]
    fn refuses_zero_signs_and_words() {
        for text in ["0", "-1", "1.5", "", "local:", "many", "local:0", "99999999999999999999"] {
            let error = text.parse::<LimitSpec>().unwrap_err().to_string();
            assert_eq!(error, format!("invalid limit {text:?}: expected an integer >= 1 or \"[local:]N\""));
        }
    }
}
