//! A time zone, and the stretches of equal length a calendar in it is divided into.
//!
//! Owns [`Zone`]. In: the name of a zone of the IANA database. Out: the zone, and when the stretch of time that holds a
//! moment ends. Fails with [`BadText`] on a name that does not exist. Zones are those the program was built with, so an
//! answer is the same on every host. It reads no clock.

use crate::text::{BadText, text_form};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// A time zone of the IANA database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(pub(crate) TimeZone);

impl Zone {
    /// Universal time.
    pub const fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// When the stretch that holds `at` ends, in microseconds since 1970. The zone's calendar is divided into stretches of
    /// `length` from the first midnight of 1970 on: hours begin at full hours, days at midnight. Always after `at`.
    ///
    /// A stretch in which the clocks change is as much longer or shorter.
    pub fn stretch_end_unix_micros(&self, at_unix_micros: i64, length: Duration) -> i64 {
        let length = i64::try_from(length.as_micros()).unwrap_or(i64::MAX).max(1);
        let plain = |since: i64| at_unix_micros.saturating_add(length - since.rem_euclid(length));
        let Ok(at) = Timestamp::from_microsecond(at_unix_micros) else { return plain(at_unix_micros) };
        let offset = i64::from(self.0.to_offset(at).seconds()) * MICROS_IN_SECOND;
        let local = at_unix_micros + offset;
        let end = local.saturating_add(length - local.rem_euclid(length));
        let civil = EPOCH.checked_add(Span::new().microseconds(end.min(SPAN_MICROS_MAX)));
        let there = civil.ok().and_then(|civil| self.0.to_timestamp(civil).ok());
        match there.map(Timestamp::as_microsecond) {
            Some(end) if end > at_unix_micros => end,
            // The same time of day comes twice when clocks are put back, and this is the second.
            _ => plain(local),
        }
    }
}

impl FromStr for Zone {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Zone, BadText> {
        let bad = |_| BadText::new("time zone", text, "a name of the IANA database such as `America/Phoenix`");
        TimeZone::get(text).map(Zone).map_err(bad)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.iana_name().unwrap_or("UTC"))
    }
}

text_form!(Zone, "the name of a time zone");

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const MICROS_IN_SECOND: i64 = 1_000_000;
/// What a span of microseconds may hold at most: some 10 000 years.
const SPAN_MICROS_MAX: i64 = 300_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn end(zone: &str, at: &str, length_s: u64) -> String {
        let zone: Zone = zone.parse().expect("a zone");
        let at: Timestamp = at.parse().expect("a time");
        let end = zone.stretch_end_unix_micros(at.as_microsecond(), Duration::from_secs(length_s));
        Timestamp::from_microsecond(end).expect("in the calendar").to_string()
    }

    #[test]
    fn stretches_begin_at_the_zones_midnight() {
        for (zone, at, length_s, want) in [
            ("UTC", "2026-08-04T12:34:56Z", 3600, "2026-08-04T13:00:00Z"),
            ("UTC", "2026-08-04T13:00:00Z", 3600, "2026-08-04T14:00:00Z"),
            ("UTC", "2026-08-04T12:59:59.999999Z", 3600, "2026-08-04T13:00:00Z"),
            ("Asia/Kolkata", "2026-08-04T12:34:56Z", 3600, "2026-08-04T13:30:00Z"),
            ("America/Phoenix", "2026-08-04T12:34:56Z", 86_400, "2026-08-05T07:00:00Z"),
            // The day clocks are put forward has 23 hours, the one they are put back 25.
            ("Europe/Berlin", "2026-03-28T23:30:00Z", 86_400, "2026-03-29T22:00:00Z"),
            ("Europe/Berlin", "2026-10-24T22:30:00Z", 86_400, "2026-10-25T23:00:00Z"),
            // Half past two comes twice.
            ("Europe/Berlin", "2026-10-25T00:40:00Z", 900, "2026-10-25T00:45:00Z"),
            ("Europe/Berlin", "2026-10-25T01:40:00Z", 900, "2026-10-25T01:45:00Z"),
        ] {
            assert_eq!(end(zone, at, length_s), want, "{zone} {at} {length_s}");
        }
    }

    #[test]
    fn no_length_and_no_time_is_too_great() {
        for at in [i64::MIN, -1, 0, i64::MAX - 1] {
            for length in [Duration::ZERO, Duration::from_secs(1), Duration::MAX] {
                assert!(Zone::utc().stretch_end_unix_micros(at, length) > at, "{at} {length:?}");
            }
        }
    }
}
