//! A length of time as policies write it.
//!
//! Owns [`Duration`]: a number of seconds, or text such as `5m`, `1 hour 30min`, `500ms`. In: a number or a string.
//! Out: a `core::time::Duration`, and canonical text (`1h 30m`). Fails with [`BadText`] on a missing or unknown
//! unit, a sign, or a length past 2^64 seconds. It reads no clock.

use crate::text::BadText;
use core::{fmt, str::FromStr, time};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A non-negative length of time, at nanosecond resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(time::Duration);

impl Duration {
    /// So many whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Duration(time::Duration::from_secs(seconds))
    }

    /// So many minutes.
    pub const fn from_minutes(minutes: u64) -> Self {
        Self::from_secs(minutes * MINUTE_S)
    }

    /// So many hours.
    pub const fn from_hours(hours: u64) -> Self {
        Self::from_secs(hours * HOUR_S)
    }

    /// So many days.
    pub const fn from_days(days: u64) -> Self {
        Self::from_secs(days * DAY_S)
    }

    /// The plain value.
    pub const fn get(self) -> time::Duration {
        self.0
    }

    /// Whole seconds, fraction dropped.
    pub const fn as_secs(self) -> u64 {
        self.0.as_secs()
    }

    /// Reads a number of seconds; the error says what is wrong with it.
    pub fn from_secs_f64(seconds: f64) -> Result<Self, BadText> {
        time::Duration::try_from_secs_f64(seconds)
            .map(Duration)
            .map_err(|_| BadText::new(WHAT, &seconds.to_string(), EXPECTED))
    }
}

crate::parse::from_table!(Duration);

impl From<time::Duration> for Duration {
    fn from(plain: time::Duration) -> Self {
        Duration(plain)
    }
}

impl From<Duration> for time::Duration {
    fn from(ours: Duration) -> Self {
        ours.0
    }
}

impl FromStr for Duration {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Self, BadText> {
        let bad = |why: &str| BadText::new(WHAT, text, format!("{EXPECTED}{why}"));
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Duration::default());
        }
        if rest.is_empty() {
            return Err(bad(""));
        }
        let mut total = time::Duration::ZERO;
        while !rest.is_empty() {
            let (digits, behind) = split_while(rest, |b| b.is_ascii_digit());
            if digits.is_empty() {
                return Err(bad("; a number must come first"));
            }
            let count: u64 = digits.parse().map_err(|_| bad("; the number is too large"))?;
            let (unit, behind) = split_while(behind.trim_start(), |b| b.is_ascii_alphabetic() || !b.is_ascii());
            if unit.is_empty() {
                return Err(bad("; the unit is missing"));
            }
            let part = in_unit(count, unit).ok_or_else(|| bad(&format!("; unit {unit:?} is unknown or overflows")))?;
            total = total.checked_add(part).ok_or_else(|| bad("; it is too long"))?;
            rest = behind.trim_start();
        }
        Ok(Duration(total))
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), u64::from(self.0.subsec_nanos()));
        if self.0.is_zero() {
            return f.write_str("0s");
        }
        let in_year = seconds % YEAR_S;
        let in_month = in_year % MONTH_S;
        let in_day = in_month % DAY_S;
        let parts = [
            (seconds / YEAR_S, "year", true),
            (in_year / MONTH_S, "month", true),
            (in_month / DAY_S, "day", true),
            (in_day / HOUR_S, "h", false),
            (in_day % HOUR_S / MINUTE_S, "m", false),
            (in_day % MINUTE_S, "s", false),
            (nanos / 1_000_000, "ms", false),
            (nanos / 1_000 % 1_000, "us", false),
            (nanos % 1_000, "ns", false),
        ];
        let mut gap = "";
        for (count, unit, has_plural) in parts.into_iter().filter(|(count, ..)| *count > 0) {
            let plural = if has_plural && count > 1 { "s" } else { "" };
            write!(f, "{gap}{count}{unit}{plural}")?;
            gap = " ";
        }
        Ok(())
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SecondsOrText)
    }
}

struct SecondsOrText;

impl de::Visitor<'_> for SecondsOrText {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
        Ok(Duration::from_secs(seconds))
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
        u64::try_from(seconds)
            .map(Duration::from_secs)
            .map_err(|_| E::custom(BadText::new(WHAT, &seconds.to_string(), EXPECTED)))
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Duration, E> {
        Duration::from_secs_f64(seconds).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        text.parse().map_err(E::custom)
    }
}

fn split_while(text: &str, keep: impl Fn(u8) -> bool) -> (&str, &str) {
    // Non-ASCII bytes are kept or dropped whole, so the cut is always at a character boundary.
    let end = text.bytes().position(|b| !keep(b)).unwrap_or(text.len());
    text.split_at(end)
}

fn in_unit(count: u64, unit: &str) -> Option<time::Duration> {
    let seconds = |each: u64| count.checked_mul(each).map(time::Duration::from_secs);
    // `M` is a month and `m` a minute: case counts.
    match unit {
        "ns" | "nsec" => Some(time::Duration::from_nanos(count)),
        "us" | "usec" | "µs" => Some(time::Duration::from_micros(count)),
        "ms" | "msec" => Some(time::Duration::from_millis(count)),
        "s" | "sec" | "secs" | "second" | "seconds" => seconds(1),
        "m" | "min" | "mins" | "minute" | "minutes" => seconds(MINUTE_S),
        "h" | "hr" | "hrs" | "hour" | "hours" => seconds(HOUR_S),
        "d" | "day" | "days" => seconds(DAY_S),
        "w" | "wk" | "wks" | "week" | "weeks" => seconds(WEEK_S),
        "M" | "month" | "months" => seconds(MONTH_S),
        "y" | "yr" | "yrs" | "year" | "years" => seconds(YEAR_S),
        _ => None,
    }
}

const WHAT: &str = "duration";
const EXPECTED: &str = "a number of seconds >= 0 or text such as \"5m\", \"1h 30min\", \"500ms\", \"2 days\"";
const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 3600;
const DAY_S: u64 = 86_400;
const WEEK_S: u64 = 7 * DAY_S;
/// 30.44 days, as KumoMTA counts a month.
const MONTH_S: u64 = 2_630_016;
/// 365.25 days.
const YEAR_S: u64 = 31_557_600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_unit() {
        for (text, want_ms) in [
            ("0", 0),
            ("0s", 0),
            ("500ms", 500),
            ("1s", 1_000),
            ("5m", 300_000),
            ("5 mins", 300_000),
            ("1 hour 30min", 5_400_000),
            ("1h30m", 5_400_000),
            (" 2 days ", 172_800_000),
            ("1week", 604_800_000),
            ("1M", 2_630_016_000),
            ("2 years", 63_115_200_000),
            ("1s 1ms 1000us", 1_002),
        ] {
            assert_eq!(text.parse::<Duration>().unwrap().get().as_millis(), want_ms, "{text}");
        }
    }

    #[test]
    fn refuses_with_the_reason() {
        for (text, why) in [
            ("", "a number of seconds"),
            ("5", "the unit is missing"),
            ("-5s", "a number must come first"),
            ("m5", "a number must come first"),
            ("1.5h", "the unit is missing"),
            ("5 fortnights", "unit \"fortnights\" is unknown"),
            ("5é", "unit \"é\" is unknown"),
            ("99999999999999999999s", "the number is too large"),
            ("18446744073709551615y", "overflows"),
            ("18446744073709551615s 1s", "it is too long"),
        ] {
            let error = text.parse::<Duration>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("invalid duration {text:?}: expected ")), "{error}");
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn writes_canonical_text() {
        for (seconds, want) in [
            (0, "0s"),
            (60, "1m"),
            (5_400, "1h 30m"),
            (604_800, "7days"),
            (86_400, "1day"),
            (31_557_600 + 2_630_016 + 1, "1year 1month 1s"),
        ] {
            assert_eq!(Duration::from_secs(seconds).to_string(), want);
        }
        assert_eq!(Duration(time::Duration::new(1, 2_003_004)).to_string(), "1s 2ms 3us 4ns");
    }
}
