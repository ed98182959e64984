//! How long a stream waits before it tries a receiver again.
//!
//! Owns [`Backoff`], pure. In: how often it failed in a row, and what the receiver asked for (`Retry-After`). Out: a wait. It
//! doubles from [`WAIT_MIN`] to [`WAIT_MAX`]; what a receiver asks for counts instead, up to [`ASKED_MAX`].

use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// Failures in a row.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// One more failure: how long to wait now.
    pub fn failed(&mut self, asked: Option<Duration>) -> Duration {
        let doubled = WAIT_MIN.saturating_mul(1 << self.failures.min(DOUBLINGS_MAX));
        self.failures = self.failures.saturating_add(1);
        match asked {
            Some(asked) => asked.clamp(WAIT_MIN, ASKED_MAX),
            None => doubled.min(WAIT_MAX),
        }
    }

    /// It was no failure: whether there was one before.
    pub fn succeeded(&mut self) -> bool {
        std::mem::take(&mut self.failures) > 0
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

/// What a `Retry-After` field says (RFC 9110 section 10.2.3): seconds, or a date.
pub fn retry_after(text: &str, now: OffsetDateTime) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = OffsetDateTime::parse(text, &Rfc2822).ok()?;
    Some(Duration::try_from(date - now).unwrap_or_default())
}

/// The first wait, and the shortest.
pub const WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest wait by itself.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
/// The longest that a receiver may ask for.
pub const ASKED_MAX: Duration = Duration::from_secs(300);
/// More would be beyond [`WAIT_MAX`].
const DOUBLINGS_MAX: u32 = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    #[test]
    fn waits_double_up_to_the_bound_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..9).map(|_| backoff.failed(None).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(backoff.succeeded() && !backoff.succeeded());
        assert_eq!(backoff.failed(None), WAIT_MIN);
    }

    #[test]
    fn what_the_receiver_asks_for_counts_within_its_bounds() {
        let mut backoff = Backoff::default();
        for (asked, waited) in [(0, 1), (1, 1), (7, 7), (300, 300), (301, 300), (u64::MAX, 300)] {
            assert_eq!(backoff.failed(Some(Duration::from_secs(asked))).as_secs(), waited, "{asked}");
        }
        assert_eq!(backoff.failed(None), WAIT_MAX, "they were failures all the same");
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = datetime!(2026-11-25 03:00:00 UTC);
        for (text, seconds) in [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Wed, 25 Nov 2026 03:00:30 GMT", Some(30)),
            ("Wed, 25 Nov 2026 02:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text:?}");
        }
    }
}
