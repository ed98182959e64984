//! A moment, as logs write it.
//!
//! Owns [`Timestamp`]: microseconds since 1970 in UTC, its RFC 3339 text and back. In: microseconds, or text with any
//! offset. Out: whole seconds, or text on the stack without allocating. Text that is no date is refused with `None`.
//! It asks no clock and knows no zones or leap seconds.

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// That many microseconds after (or before) 1970.
    pub const fn from_unix_micros(micros: i64) -> Self {
        Timestamp(micros)
    }

    /// That many seconds; saturates far outside of the years RFC 3339 can write.
    pub const fn from_unix_seconds(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(MICROS_PER_S))
    }

    /// Microseconds since 1970.
    pub const fn unix_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    pub const fn unix_seconds(self) -> i64 {
        self.0.div_euclid(MICROS_PER_S)
    }

    /// `2026-08-04T12:34:56.789012Z`: the fraction has 6 digits, 3 when those suffice, or is left out when zero.
    ///
    /// Moments before year 0 or after year 9999 are written as the nearest moment within.
    pub fn rfc3339(self) -> Rfc3339 {
        let micros = self.0.clamp(YEAR_0_MICROS, YEAR_9999_END_MICROS);
        let seconds = micros.div_euclid(MICROS_PER_S);
        let fraction = micros.rem_euclid(MICROS_PER_S) as u32;
        let (year, month, day) = civil_from_days(seconds.div_euclid(S_PER_DAY));
        let of_day = seconds.rem_euclid(S_PER_DAY) as u32;
        let mut text = Rfc3339 { bytes: *b"0000-00-00T00:00:00.000000Z", len: RFC3339_BYTES_MAX };
        put(&mut text.bytes[0..4], year as u32);
        put(&mut text.bytes[5..7], month);
        put(&mut text.bytes[8..10], day);
        put(&mut text.bytes[11..13], of_day / 3600);
        put(&mut text.bytes[14..16], of_day / 60 % 60);
        put(&mut text.bytes[17..19], of_day % 60);
        put(&mut text.bytes[20..26], fraction);
        text.len = match fraction {
            0 => 20,
            ms if ms % 1000 == 0 => 24,
            _ => RFC3339_BYTES_MAX,
        };
        text.bytes[text.len - 1] = b'Z';
        text
    }

    /// Reads RFC 3339 text; a fraction finer than microseconds is cut.
    pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
        let bytes = text.as_bytes();
        let is_shaped = bytes.len() >= 20
            && bytes[4] == b'-'
            && bytes[7] == b'-'
            && matches!(bytes[10], b'T' | b't' | b' ')
            && bytes[13] == b':'
            && bytes[16] == b':';
        if !is_shaped {
            return None;
        }
        let (year, month, day) = (number(&bytes[0..4])?, number(&bytes[5..7])?, number(&bytes[8..10])?);
        let (hour, minute, second) = (number(&bytes[11..13])?, number(&bytes[14..16])?, number(&bytes[17..19])?);
        // A leap second is taken as the first of the next minute.
        let is_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
        if !is_date || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let (fraction, zone) = split_fraction(&bytes[19..])?;
        let days = days_from_civil(year, month as u32, day as u32);
        let seconds = days * S_PER_DAY + hour * 3600 + minute * 60 + second - offset_seconds(zone)?;
        Some(Timestamp(seconds * MICROS_PER_S + fraction))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rfc3339().as_str())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.rfc3339().as_str())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse_rfc3339(&text)
            .ok_or_else(|| de::Error::custom(format_args!("invalid time {text:?}: expected RFC 3339 text")))
    }
}

/// RFC 3339 text held in place.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339 {
    bytes: [u8; RFC3339_BYTES_MAX],
    len: usize,
}

impl Rfc3339 {
    /// The text.
    pub fn as_str(&self) -> &str {
        // Only digits and the ASCII of the template are ever written.
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

/// Writes `value` right-aligned with leading zeros.
fn put(digits: &mut [u8], mut value: u32) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
}

/// Splits `.123456Z` into microseconds and the zone behind them.
fn split_fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = rest.strip_prefix(b".") else {
        return Some((0, rest));
    };
    let len = digits.iter().position(|b| !b.is_ascii_digit())?;
    if len == 0 {
        return None;
    }
    let mut micros = [b'0'; 6];
    let kept = len.min(micros.len());
    micros[..kept].copy_from_slice(&digits[..kept]);
    Some((number(&micros)?, &digits[len..]))
}

fn offset_seconds(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let seconds = hours * 3600 + minutes * 60;
            match (hours <= 23 && minutes <= 59, sign) {
                (false, _) => None,
                (true, b'-') => Some(-seconds),
                (true, _) => Some(seconds),
            }
        }
        _ => None,
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a Gregorian date: years are counted from March so that the leap day comes last.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_1970
}

/// The inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + DAYS_TO_1970;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    // Take out the leap days passed, so that every year of the era has 365 days.
    let even = day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096;
    let year_of_era = even / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

const MICROS_PER_S: i64 = 1_000_000;
const S_PER_DAY: i64 = 86_400;
/// Days in the 400 years after which the Gregorian calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;
/// 0000-01-01T00:00:00Z.
const YEAR_0_MICROS: i64 = -62_167_219_200 * MICROS_PER_S;
/// 9999-12-31T23:59:59.999999Z.
const YEAR_9999_END_MICROS: i64 = 253_402_300_800 * MICROS_PER_S - 1;
/// Length of the longest text made (bytes).
const RFC3339_BYTES_MAX: usize = 27;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (951_868_799_500_000, "2000-02-29T23:59:59.500Z"),
            (1_709_164_800_000_000, "2024-02-29T00:00:00Z"),
            (1_785_846_896_789_012, "2026-08-04T12:34:56.789012Z"),
            (4_107_542_399_000_001, "2100-02-28T23:59:59.000001Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00Z"),
            (YEAR_0_MICROS, "0000-01-01T00:00:00Z"),
            (YEAR_9999_END_MICROS, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Timestamp(micros).to_string(), text);
            assert_eq!(Timestamp::parse_rfc3339(text), Some(Timestamp(micros)), "{text}");
        }
        assert_eq!(Timestamp(-1).unix_seconds(), -1);
        assert_eq!(Timestamp(i64::MAX).to_string(), "9999-12-31T23:59:59.999999Z");
        assert_eq!(Timestamp(i64::MIN).to_string(), "0000-01-01T00:00:00Z");
    }

    #[test]
    fn other_spellings_are_read() {
        for text in [
            "2024-01-01t00:00:00z",
            "2024-01-01 00:00:00+00:00",
            "2024-01-01T05:30:00+05:30",
            "2023-12-31T16:00:00.0000009-08:00",
            "2023-12-31T23:59:60Z",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), Some(Timestamp(1_704_067_200_000_000)), "{text}");
        }
    }

    #[test]
    fn non_dates_are_refused() {
        for text in [
            "",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z",
            "2024-01-01T00:00:61Z",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00.5",
            "2024-01-01T00:00:00+0530",
            "2024-01-01T00:00:00+24:00",
            "+024-01-01T00:00:00Z",
            "2024-01-01T00:00:00Zjunk",
        ] {
            assert_eq!(Timestamp::parse_rfc3339(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn text_round_trips(micros in YEAR_0_MICROS..=YEAR_9999_END_MICROS) {
            let text = Timestamp(micros).to_string();
            prop_assert_eq!(Timestamp::parse_rfc3339(&text), Some(Timestamp(micros)));
        }

        #[test]
        fn text_sorts_as_time(a in 0..=YEAR_9999_END_MICROS / 1_000_000, b in 0..=YEAR_9999_END_MICROS / 1_000_000) {
            let (first, second) = (Timestamp::from_unix_seconds(a), Timestamp::from_unix_seconds(b));
            prop_assert_eq!(first.cmp(&second), first.to_string().cmp(&second.to_string()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,32}") {
            let _ = Timestamp::parse_rfc3339(&text);
        }
    }
}
