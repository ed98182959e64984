//! Whether a rate was kept: a leaky bucket of the oracle's own, apart from the queue's throttles.

use crate::plan::SECOND;
use config::ThrottleSpec;
use std::collections::BTreeMap;

/// What went through, by name of the rate.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<String, (f64, u64)>);

/// What an event is to its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// There is room for more.
    Within,
    /// The last that may happen now.
    Last,
    /// One too many.
    TooMany,
}

impl Rates {
    /// Notes one event at `now`.
    pub fn note(&mut self, name: String, spec: &ThrottleSpec, now: u64) -> Noted {
        let (level, last) = self.0.entry(name).or_insert((0.0, now));
        let leaked = (now - *last) as f64 / SECOND as f64 * spec.limit as f64 / spec.period_s as f64;
        *level = (*level - leaked).max(0.0) + 1.0;
        *last = now;
        let burst = spec.burst() as f64 + TOLERANCE;
        match *level {
            level if level > burst => Noted::TooMany,
            level if level + 1.0 > burst => Noted::Last,
            _ => Noted::Within,
        }
    }
}

/// Rounding of microseconds, in events.
const TOLERANCE: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_too_many_is_noticed() {
        let spec = ThrottleSpec { local: false, limit: 2, period_s: 1, max_burst: None };
        let mut rates = Rates::default();
        let mut note = |now| rates.note("a".to_owned(), &spec, now);
        assert_eq!([note(0), note(0)], [Noted::Within, Noted::Last]);
        assert_eq!(note(100_000), Noted::TooMany, "the burst is used up");
        assert_ne!(note(1_100_000), Noted::TooMany);
    }
}
