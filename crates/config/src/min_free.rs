//! How much of a disk must stay free.
//!
//! Owns [`MinFree`]: `"N%"`, or an amount as number or numeric text. In: a number or a string. Out: the typed form and
//! the judgement [`MinFree::is_met`]. Fails with [`BadText`]. It does not ask the disk.

use crate::text::BadText;
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A floor for free space (bytes) or free inodes (count).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinFree {
    /// Percent of the whole, 0-100.
    Percent(u8),
    /// An absolute amount.
    Amount(u64),
}

impl MinFree {
    /// Whether `available` of `total` satisfies the floor. A file system that counts none (`total` 0) always does.
    pub fn is_met(self, available: u64, total: u64) -> bool {
        match self {
            _ if total == 0 => true,
            MinFree::Percent(percent) => u128::from(available) * 100 >= u128::from(total) * u128::from(percent),
            MinFree::Amount(amount) => available >= amount,
        }
    }
}

impl Default for MinFree {
    /// KumoMTA's 10 %.
    fn default() -> Self {
        MinFree::Percent(10)
    }
}

impl FromStr for MinFree {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = || BadText::new("minimum", text, EXPECTED);
        let trimmed = text.trim();
        let (digits, is_percent) = match trimmed.strip_suffix('%') {
            Some(digits) => (digits.trim_end(), true),
            None => (trimmed, false),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let number: u64 = digits.parse().map_err(|_| bad())?;
        match (is_percent, u8::try_from(number)) {
            (false, _) => Ok(MinFree::Amount(number)),
            (true, Ok(percent)) if percent <= 100 => Ok(MinFree::Percent(percent)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for MinFree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MinFree::Percent(percent) => write!(f, "{percent}%"),
            MinFree::Amount(amount) => write!(f, "{amount}"),
        }
    }
}

impl Serialize for MinFree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            MinFree::Percent(_) => serializer.collect_str(self),
            MinFree::Amount(amount) => serializer.serialize_u64(*amount),
        }
    }
}

impl<'de> Deserialize<'de> for MinFree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountOrPercent)
    }
}

struct AmountOrPercent;

impl de::Visitor<'_> for AmountOrPercent {
    type Value = MinFree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_u64<E: de::Error>(self, amount: u64) -> Result<MinFree, E> {
        Ok(MinFree::Amount(amount))
    }

    fn visit_i64<E: de::Error>(self, amount: i64) -> Result<MinFree, E> {
        self.visit_str(&amount.to_string())
    }

    fn visit_f64<E: de::Error>(self, amount: f64) -> Result<MinFree, E> {
        self.visit_str(&amount.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<MinFree, E> {
        text.parse().map_err(E::custom)
    }
}

const EXPECTED: &str = "\"N%\" with N from 0 to 100, or an integer";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_writes_and_judges() {
        for (text, want) in
            [("10%", MinFree::Percent(10)), ("100 %", MinFree::Percent(100)), ("4096", MinFree::Amount(4096))]
        {
            assert_eq!(text.parse(), Ok(want));
        }
        assert!(MinFree::Percent(10).is_met(10, 100) && !MinFree::Percent(10).is_met(9, 100));
        assert!(MinFree::Amount(5).is_met(5, 9) && !MinFree::Amount(5).is_met(4, 9));
        assert!(MinFree::Percent(10).is_met(0, 0));
        assert!(MinFree::Percent(100).is_met(u64::MAX, u64::MAX));
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "%", "101%", "-1", "1.5", "10GB", "300%"] {
            let error = text.parse::<MinFree>().unwrap_err().to_string();
            assert_eq!(error, format!("invalid minimum {text:?}: expected \"N%\" with N from 0 to 100, or an integer"));
        }
    }
}
