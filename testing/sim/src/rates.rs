//! Whether a rate was kept: a leaky bucket of the oracle's own, apart from the queue's throttles.

use crate::plan::SECOND;
use config::ThrottleSpec;
use std::collections::BTreeMap;

/// What went through, by name of the rate.
#[derive(Debug, Default)]
pub(crate) struct Rates(BTreeMap<String, (f64, u64)>);

impl Rates {
    /// Notes one event at `now`; false when it is one too many.
    pub fn note(&mut self, name: String, spec: &ThrottleSpec, now: u64) -> bool {
        let (level, last) = self.0.entry(name).or_insert((0.0, now));
        let leaked = (now - *last) as f64 / SECOND as f64 * spec.limit as f64 / spec.period_s as f64;
        *level = (*level - leaked).max(0.0) + 1.0;
        *last = now;
        *level <= spec.burst() as f64 + TOLERANCE
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
        assert!(note(0) && note(0));
        assert!(!note(100_000), "the burst is used up");
        assert!(note(1_100_000));
    }
}
