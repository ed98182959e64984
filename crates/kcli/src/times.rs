//! Moments and lengths of time as people say them.
//!
//! In: RFC 3339 and lengths as servers write them, and now. Out: `in 5m 3s`, `2h ago`. What does not read is given back as it
//! is: it is for people.

use config::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// A length without what is below a second, unless that is all there is.
pub(crate) fn rounded(length: &str) -> String {
    match length.parse::<Duration>() {
        Ok(length) if length.as_secs() > 0 => Duration::from_secs(length.as_secs()).to_string(),
        _ => length.to_owned(),
    }
}

/// A moment and how far it is from `now`: `2026-11-24T22:00:00Z (in 5m 3s)`; `never` for the end of the calendar.
pub(crate) fn moment(at: &str, now: OffsetDateTime) -> String {
    let Some(at) = parsed(at) else { return at.to_owned() };
    if at.year() >= LAST_YEAR {
        return "never".to_owned();
    }
    let text = at.replace_nanosecond(0).ok().and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_default();
    format!("{text} ({})", distance(at, now))
}

/// How far a moment is from `now`.
pub(crate) fn distance(at: OffsetDateTime, now: OffsetDateTime) -> String {
    let seconds = (at - now).whole_seconds();
    let length = Duration::from_secs(seconds.unsigned_abs());
    match seconds {
        0 => "now".to_owned(),
        1.. => format!("in {length}"),
        _ => format!("{length} ago"),
    }
}

/// The moment of RFC 3339.
pub(crate) fn parsed(text: &str) -> Option<OffsetDateTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok()
}

/// Where servers put what has no end.
const LAST_YEAR: i32 = 9999;

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn moments_are_told_with_their_distance() {
        let now = datetime!(2026-11-24 22:00:00 UTC);
        assert_eq!(moment("2026-11-24T22:05:03.9Z", now), "2026-11-24T22:05:03Z (in 5m 3s)");
        assert_eq!(moment("2026-11-24T20:00:00Z", now), "2026-11-24T20:00:00Z (2h ago)");
        assert_eq!(moment("2026-11-24T22:00:00Z", now), "2026-11-24T22:00:00Z (now)");
        assert_eq!(moment("9999-12-31T23:59:59Z", now), "never");
        assert_eq!(moment("soon", now), "soon");
    }

    #[test]
    fn lengths_lose_what_is_below_a_second() {
        assert_eq!([rounded("1m 2s 345ms"), rounded("12ms"), rounded("x")], ["1m 2s", "12ms", "x"]);
    }
}
