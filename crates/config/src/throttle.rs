//! A rate: how many, in how long, with what burst.
//!
//! Owns [`ThrottleSpec`], the grammar `[local:]QTY/[N]PERIOD[,max_burst=B]`. In: text. Out: the numbers and canonical
//! text (`100/m`, `20/1800s`). Fails with [`BadText`]. The counting (GCRA) is done elsewhere.

use crate::text::{BadText, text_form};
use core::{fmt, str::FromStr, time};

/// A rate limit such as `100/min`. KumoMTA behaviour: QTY and B may hold `,` and `_` as separators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThrottleSpec {
    /// True when a shared (cluster) counter must not be used.
    pub local: bool,
    /// How many per period; at least 1.
    pub limit: u64,
    /// The period in seconds; at least 1.
    pub period_s: u64,
    /// How many may go at once; `limit` when not given.
    pub max_burst: Option<u64>,
}

impl ThrottleSpec {
    /// The period as a length of time.
    pub const fn period(&self) -> time::Duration {
        time::Duration::from_secs(self.period_s)
    }

    /// How many may go at once.
    pub fn burst(&self) -> u64 {
        self.max_burst.unwrap_or(self.limit)
    }
}

impl FromStr for ThrottleSpec {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = |why: &str| BadText::new("throttle", text, format!("{EXPECTED}{why}"));
        let trimmed = text.trim();
        let (local, rest) = match trimmed.strip_prefix("local:") {
            Some(rest) => (true, rest),
            None => (false, trimmed),
        };
        let (quantity, rest) = rest.split_once('/').ok_or_else(|| bad(""))?;
        let (period, burst) = match rest.split_once(',') {
            Some((period, burst)) => (period, Some(burst)),
            None => (rest, None),
        };
        let limit = count(quantity).ok_or_else(|| bad("; QTY must be an integer >= 1"))?;
        let period_s = seconds(period.trim()).ok_or_else(|| bad("; PERIOD must be [N]s, [N]m, [N]h or [N]d"))?;
        let max_burst = match burst {
            None => None,
            Some(burst) => {
                let number = burst.trim().strip_prefix("max_burst=").and_then(count);
                Some(number.ok_or_else(|| bad("; only max_burst=B may follow, B an integer >= 1"))?)
            }
        };
        Ok(ThrottleSpec { local, limit, period_s, max_burst })
    }
}

impl fmt::Display for ThrottleSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = if self.local { "local:" } else { "" };
        write!(f, "{local}{}/", self.limit)?;
        match self.period_s {
            1 => f.write_str("s")?,
            60 => f.write_str("m")?,
            3_600 => f.write_str("h")?,
            86_400 => f.write_str("d")?,
            other => write!(f, "{other}s")?,
        }
        match self.max_burst {
            Some(burst) => write!(f, ",max_burst={burst}"),
            None => Ok(()),
        }
    }
}

text_form!(ThrottleSpec, "a throttle such as \"100/min\", \"local:20/30s\" or \"1,000/h,max_burst=50\"");

/// An integer >= 1 that may hold `,` and `_`.
pub(crate) fn count(text: &str) -> Option<u64> {
    let digits: String = text.trim().chars().filter(|c| !matches!(c, ',' | '_')).collect();
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok().filter(|n| *n >= 1) } else { None }
}

fn seconds(period: &str) -> Option<u64> {
    let split = period.bytes().position(|b| !b.is_ascii_digit())?;
    let (digits, unit) = period.split_at(split);
    let times: u64 = if digits.is_empty() { 1 } else { digits.parse().ok()? };
    // The plurals are in KumoMTA's manual though its parser lacks them.
    let each: u64 = match unit.trim() {
        "s" | "sec" | "secs" | "second" | "seconds" => 1,
        "m" | "min" | "mins" | "minute" | "minutes" => 60,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600,
        "d" | "day" | "days" => 86_400,
        _ => return None,
    };
    times.checked_mul(each).filter(|s| *s >= 1)
}

const EXPECTED: &str = "\"[local:]QTY/[N]PERIOD[,max_burst=B]\" such as \"100/min\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_canonical_text() {
        for (text, canonical) in [
            ("100/min", "100/m"),
            ("1,000/hour", "1000/h"),
            ("1_000/d", "1000/d"),
            ("20/30min", "20/1800s"),
            ("local:5/s", "local:5/s"),
            ("100/s,max_burst=1,000", "100/s,max_burst=1000"),
            ("7/60s", "7/m"),
            ("7/2 seconds", "7/2s"),
        ] {
            let spec: ThrottleSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(spec));
        }
        let spec: ThrottleSpec = "100/30min".parse().unwrap();
        assert_eq!((spec.burst(), spec.period().as_secs(), spec.local), (100, 1800, false));
    }

    #[test]
    fn refuses_with_the_reason() {
        for (text, why) in [
            ("", "QTY/[N]PERIOD"),
            ("100", "QTY/[N]PERIOD"),
            ("0/s", "QTY must be"),
            ("-1/s", "QTY must be"),
            ("1.5/s", "QTY must be"),
            ("1/0s", "PERIOD must be"),
            ("1/week", "PERIOD must be"),
            ("1/", "PERIOD must be"),
            ("1/30", "PERIOD must be"),
            ("1/18446744073709551615d", "PERIOD must be"),
            ("1/s,burst=4", "only max_burst=B"),
            ("1/s,max_burst=0", "only max_burst=B"),
        ] {
            let error = text.parse::<ThrottleSpec>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(&format!("{text:?}")), "{text}: {error}");
        }
    }
}
