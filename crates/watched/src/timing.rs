//! How often something happened and how long it took: a histogram without a lock, for who knows no registry of metrics.
//!
//! Owns [`Timing`]. In: times that somebody took. Out: [`Times`], what was counted so far, for whoever writes metrics. The bounds are
//! KumoMTA's default buckets. It costs two additions to memory that is shared, and nothing can fail.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};

/// The histogram of one thing.
#[derive(Debug, Default)]
pub struct Timing {
    buckets: [AtomicU64; Times::BOUNDS.len() + 1],
    nanos: AtomicU64,
}

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many took at most [`Times::BOUNDS`], and longer than the bound before; the last are those that took longer than all.
    pub buckets: [u64; Times::BOUNDS.len() + 1],
    /// All of them together, in nanoseconds.
    pub nanos: u64,
}

impl Timing {
    /// Nothing happened so far.
    pub const fn new() -> Timing {
        Timing { buckets: [const { AtomicU64::new(0) }; Times::BOUNDS.len() + 1], nanos: AtomicU64::new(0) }
    }

    /// It happened once more and took so long.
    pub fn took(&self, time: Duration) {
        let bucket = Times::BOUNDS.iter().take_while(|bound| **bound < time).count();
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What was counted. Numbers are read one after the other: what happens meanwhile may be in some of them.
    pub fn so_far(&self) -> Times {
        let buckets = self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed));
        Times { buckets, nanos: self.nanos.load(Ordering::Relaxed) }
    }
}

impl Times {
    /// Upper bounds of the buckets but the last.
    pub const BOUNDS: [Duration; 11] = [
        Duration::from_millis(5),
        Duration::from_millis(10),
        Duration::from_millis(25),
        Duration::from_millis(50),
        Duration::from_millis(100),
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_millis(1000),
        Duration::from_millis(2500),
        Duration::from_millis(5000),
        Duration::from_millis(10_000),
    ];

    /// These and others together.
    #[must_use]
    pub fn with(mut self, others: &Times) -> Times {
        self.buckets.iter_mut().zip(others.buckets).for_each(|(sum, more)| *sum += more);
        self.nanos += others.nanos;
        self
    }

    /// How often it happened.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_has_room_for_it() {
        let timing = Timing::new();
        let millis = Duration::from_millis;
        let past = |bound: Duration| bound + Duration::from_nanos(1);
        for time in [Duration::ZERO, millis(5), past(millis(5)), millis(10), millis(10_000), past(millis(10_000))] {
            timing.took(time);
        }
        let so_far = timing.so_far();
        assert_eq!(so_far.buckets, [2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!((so_far.count(), so_far.nanos), (6, 20_020_000_002));
        assert_eq!(Timing::default().so_far(), Times::default());
        let twice = so_far.with(&so_far);
        assert_eq!((twice.count(), twice.nanos, twice.buckets[1]), (12, 40_040_000_004, 4));
    }
}
