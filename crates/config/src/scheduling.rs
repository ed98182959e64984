//! When a message may be tried: `msg:set_scheduling` and the scheduling header.
//!
//! Owns [`Scheduling`]: not before a first moment, only on some days between two times of day in a time zone, and not
//! after an end. In: KumoMTA's table. Out: the next moment at which an attempt is allowed. Fails on a day, a time or a
//! zone that does not exist, and on a window that lacks a part. Time zones are those the program was built with, so a
//! decision is the same on every host.

use crate::text::{BadText, text_form};
use crate::zone::Zone;
use core::fmt;
use core::str::FromStr;
use jiff::civil::{Date, Time, Weekday};
use jiff::{Span, Timestamp};
use serde::{Deserialize, Serialize};

/// Constraints on attempts (KumoMTA behaviour). None at all is no constraint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, try_from = "Parts", into = "Parts")]
pub struct Scheduling {
    /// No attempt before this moment.
    pub first_attempt: Option<Moment>,
    /// No attempt from this moment on: the message expires, whatever its queue's `max_age` says.
    pub expires: Option<Moment>,
    /// It is to be delivered by this moment: it goes before others of its queue, and ends when that was missed. Ours.
    pub deliver_by: Option<Moment>,
    /// Attempts on these days between these times only.
    pub window: Option<Window>,
}

crate::parse::from_table!(Scheduling);

/// A moment, as RFC 3339 text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Timestamp);

/// Days of the week and times of day in one time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    days: Days,
    zone: Zone,
    start: TimeOfDay,
    /// Not in it. Before `start`: on the next day.
    end: TimeOfDay,
}

/// The table as it is written.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Parts {
    #[serde(skip_serializing_if = "Option::is_none")]
    first_attempt: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_by: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dow: Option<Days>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tz: Option<Zone>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<TimeOfDay>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<TimeOfDay>,
}

/// Days of the week: one bit a day from Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Days(u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeOfDay(Time);

impl Scheduling {
    /// The first moment from `at_unix_micros` on at which an attempt is allowed, in microseconds since 1970. `expires` has
    /// no say in it.
    pub fn next_attempt(&self, at_unix_micros: i64) -> i64 {
        let first = self.first_attempt.map_or(i64::MIN, Moment::unix_micros);
        let at = at_unix_micros.max(first);
        self.window.as_ref().and_then(|window| window.next(at)).unwrap_or(at)
    }

    /// True when there is no constraint.
    pub fn is_empty(&self) -> bool {
        *self == Scheduling::default()
    }
}

impl Moment {
    /// The moment so many microseconds after the beginning of 1970; `None` out of the calendar.
    pub fn from_unix_micros(micros: i64) -> Option<Moment> {
        Timestamp::from_microsecond(micros).ok().map(Moment)
    }

    /// Microseconds since 1970.
    pub fn unix_micros(self) -> i64 {
        self.0.as_microsecond()
    }
}

impl Window {
    /// The first moment from `at` on that is in the window. None within eight days, or out of the calendar.
    fn next(&self, at_unix_micros: i64) -> Option<i64> {
        let at = Timestamp::from_microsecond(at_unix_micros).ok()?;
        let today = self.zone.0.to_datetime(at).date();
        // Yesterday's window may reach over midnight.
        let days = (-1..=DAYS_AHEAD).filter_map(|n| today.checked_add(Span::new().days(n)).ok());
        let open = days.filter(|day| self.days.has(day.weekday()));
        let windows = open.filter_map(|day| Some((self.opens(day)?, self.closes(day)?)));
        windows.filter(|(_, closes)| at < *closes).map(|(opens, _)| opens.max(at).as_microsecond()).next()
    }

    fn opens(&self, day: Date) -> Option<Timestamp> {
        self.moment(day, self.start.0)
    }

    fn closes(&self, day: Date) -> Option<Timestamp> {
        let day = if self.end.0 <= self.start.0 { day.tomorrow().ok()? } else { day };
        self.moment(day, self.end.0)
    }

    /// A time that a change of clocks leaves out is as much later.
    fn moment(&self, day: Date, time: Time) -> Option<Timestamp> {
        self.zone.0.to_ambiguous_timestamp(day.to_datetime(time)).compatible().ok()
    }
}

impl TryFrom<Parts> for Scheduling {
    type Error = String;

    fn try_from(parts: Parts) -> Result<Scheduling, String> {
        let Parts { first_attempt, expires, deliver_by, dow, tz, start, end } = parts;
        if let (Some(by), Some(end)) = (deliver_by, expires)
            && by > end
        {
            return Err(format!("`deliver_by` {by} is behind `expires` {end}: expected a deadline before the end"));
        }
        let window = match (dow, tz, start, end) {
            (None, None, None, None) => None,
            (Some(days), Some(zone), Some(start), Some(end)) if start != end => Some(Window { days, zone, start, end }),
            (Some(_), Some(_), Some(start), Some(_)) => {
                return Err(format!("`start` and `end` are both {start}: expected a window of some length"));
            }
            (dow, tz, start, end) => {
                let given =
                    [("dow", dow.is_some()), ("tz", tz.is_some()), ("start", start.is_some()), ("end", end.is_some())];
                let missing: Vec<&str> = given.iter().filter(|(_, is)| !is).map(|(name, _)| *name).collect();
                return Err(format!(
                    "`{}` missing: expected `dow`, `tz`, `start` and `end`, or none of them",
                    missing.join("`, `")
                ));
            }
        };
        Ok(Scheduling { first_attempt, expires, deliver_by, window })
    }
}

impl From<Scheduling> for Parts {
    fn from(scheduling: Scheduling) -> Parts {
        let Scheduling { first_attempt, expires, deliver_by, window } = scheduling;
        let Some(Window { days, zone, start, end }) = window else {
            return Parts { first_attempt, expires, deliver_by, ..Parts::default() };
        };
        Parts {
            first_attempt,
            expires,
            deliver_by,
            dow: Some(days),
            tz: Some(zone),
            start: Some(start),
            end: Some(end),
        }
    }
}

impl Days {
    fn has(self, day: Weekday) -> bool {
        self.0 & bit(day) != 0
    }
}

impl FromStr for Days {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Days, BadText> {
        let bad = || BadText::new("days of the week", text, "names such as `Mon,Wed` or `Saturday`");
        let day = |name: &str| {
            let name = name.trim();
            let is_it =
                |(long, _): &&(&str, Weekday)| name.eq_ignore_ascii_case(long) || name.eq_ignore_ascii_case(&long[..3]);
            WEEK.iter().find(is_it).map(|(_, day)| bit(*day)).ok_or_else(bad)
        };
        text.split(',').map(day).try_fold(Days(0), |days, bit| Ok(Days(days.0 | bit?)))
    }
}

impl fmt::Display for Days {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = WEEK.iter().filter(|(_, day)| self.has(*day)).map(|(name, _)| &name[..3]).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for TimeOfDay {
    type Err = BadText;

    fn from_str(text: &str) -> Result<TimeOfDay, BadText> {
        Time::strptime("%H:%M:%S", text).map(TimeOfDay).map_err(|_| BadText::new("time of day", text, "HH:MM:SS"))
    }
}

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.strftime("%H:%M:%S").fmt(f)
    }
}

impl FromStr for Moment {
    type Err = BadText;

    fn from_str(text: &str) -> Result<Moment, BadText> {
        let bad = |_| BadText::new("date", text, "RFC 3339 with an offset, such as 2026-08-04T12:00:00Z");
        text.parse().map(Moment).map_err(bad)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

text_form!(Days, "days of the week such as `Mon,Wed`");
text_form!(TimeOfDay, "a time of day, HH:MM:SS");
text_form!(Moment, "a date, RFC 3339 with an offset");

fn bit(day: Weekday) -> u8 {
    1 << day.to_monday_zero_offset()
}

const WEEK: [(&str, Weekday); 7] = [
    ("Monday", Weekday::Monday),
    ("Tuesday", Weekday::Tuesday),
    ("Wednesday", Weekday::Wednesday),
    ("Thursday", Weekday::Thursday),
    ("Friday", Weekday::Friday),
    ("Saturday", Weekday::Saturday),
    ("Sunday", Weekday::Sunday),
];
/// Days that are looked at for the next window (KumoMTA: eight).
const DAYS_AHEAD: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(value: Value) -> Result<Scheduling, String> {
        crate::parse("msg:set_scheduling", value).map_err(|error| error.to_string())
    }

    fn micros(text: &str) -> i64 {
        text.parse::<Moment>().expect("a date").unix_micros()
    }

    /// The next attempt after `at`, as a date in UTC.
    fn next(scheduling: &Scheduling, at: &str) -> String {
        Timestamp::from_microsecond(scheduling.next_attempt(micros(at))).expect("in range").to_string()
    }

    #[test]
    fn attempts_fall_into_the_window() {
        let office =
            parse(json!({"dow": "Mon,Wednesday,fri", "tz": "America/Phoenix", "start": "09:00:00", "end": "17:00:00"}));
        let office = office.expect("sound");
        // Phoenix is 7 hours behind UTC all year; 2026-08-03 is a Monday.
        let rows = [
            ("2026-08-03T15:59:59Z", "2026-08-03T16:00:00Z"),
            ("2026-08-03T16:00:00Z", "2026-08-03T16:00:00Z"),
            ("2026-08-03T23:59:59Z", "2026-08-03T23:59:59Z"),
            ("2026-08-04T00:00:00Z", "2026-08-05T16:00:00Z"),
            ("2026-08-08T12:00:00Z", "2026-08-10T16:00:00Z"),
        ];
        for (at, expected) in rows {
            assert_eq!(next(&office, at), expected, "{at}");
        }
    }

    #[test]
    fn a_window_reaches_over_midnight_and_follows_the_clocks() {
        let night =
            parse(json!({"dow": "Sat", "tz": "Europe/Berlin", "start": "22:00:00", "end": "04:00:00"})).expect("sound");
        // Clocks go forward in the night to Sunday, 2026-03-29: 04:00 there is 02:00 UTC.
        assert_eq!(next(&night, "2026-03-29T01:59:00Z"), "2026-03-29T01:59:00Z");
        assert_eq!(next(&night, "2026-03-29T02:00:00Z"), "2026-04-04T20:00:00Z");
        let gap =
            parse(json!({"dow": "Sun", "tz": "Europe/Berlin", "start": "02:30:00", "end": "05:00:00"})).expect("sound");
        assert_eq!(next(&gap, "2026-03-28T23:30:00Z"), "2026-03-29T01:30:00Z", "02:30 is not there: 03:30 is");
    }

    #[test]
    fn the_first_attempt_comes_before_the_window() {
        let value = json!({
            "first_attempt": "2026-08-04T12:00:00+02:00", "expires": "2026-08-09T00:00:00Z",
            "deliver_by": "2026-08-09T00:00:00Z",
            "dow": "Tue", "tz": "UTC", "start": "11:00:00", "end": "12:00:00",
        });
        let scheduling = parse(value.clone()).expect("sound");
        assert_eq!(next(&scheduling, "2026-07-01T00:00:00Z"), "2026-08-04T11:00:00Z");
        assert_eq!(
            next(&Scheduling { window: None, ..scheduling.clone() }, "2026-07-01T00:00:00Z"),
            "2026-08-04T10:00:00Z"
        );
        let written = serde_json::to_value(&scheduling).expect("plain");
        assert_eq!(parse(written.clone()).as_ref(), Ok(&scheduling), "{written}");
        assert_eq!((&written["dow"], &written["tz"], &written["end"]), (&value["dow"], &value["tz"], &value["end"]));
        assert!(parse(json!({})).expect("nothing").is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let rows = [
            (json!({"dow": "Mon"}), "`tz`, `start`, `end` missing"),
            (json!({"dow": "Noday", "tz": "UTC", "start": "01:00:00", "end": "02:00:00"}), "Noday"),
            (json!({"dow": "Mon", "tz": "Mars/Base", "start": "01:00:00", "end": "02:00:00"}), "Mars/Base"),
            (json!({"dow": "Mon", "tz": "UTC", "start": "25:00:00", "end": "02:00:00"}), "25:00:00"),
            (json!({"dow": "Mon", "tz": "UTC", "start": "02:00:00", "end": "02:00:00"}), "some length"),
            (json!({"first_attempt": "tomorrow"}), "tomorrow"),
            (json!({"deliver_by": "soon"}), "RFC 3339"),
            (json!({"deliver_by": "2026-08-04T12:00:01Z", "expires": "2026-08-04T12:00:00Z"}), "behind"),
            (json!({"frist_attempt": "2026-08-04T12:00:00Z"}), "frist_attempt"),
        ];
        for (value, says) in rows {
            let error = parse(value.clone()).expect_err("wrong");
            assert!(error.contains(says), "{value}: {error}");
        }
    }
}
