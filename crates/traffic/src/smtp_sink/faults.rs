//! Which messages are refused or dropped: a fixed share of them, spread evenly and the same in every run.
//!
//! In: a percentage. Out: yes or no for the next message. Counting instead of chance makes a failing test repeatable.

use std::sync::atomic::{AtomicU64, Ordering};

/// Says yes to a fixed share of the calls.
pub(super) struct EveryKth {
    share_ppm: u64,
    calls: AtomicU64,
}

impl EveryKth {
    /// `percent` from 0 (never) to 100 (always), kept to a ten-thousandth of a percent.
    pub(super) fn new(percent: f64) -> Self {
        Self { share_ppm: (percent.clamp(0.0, 100.0) * 10_000.0).round() as u64, calls: AtomicU64::new(0) }
    }

    /// Whether the next one is hit.
    pub(super) fn hits(&self) -> bool {
        if self.share_ppm == 0 {
            return false;
        }
        let before = u128::from(self.calls.fetch_add(1, Ordering::Relaxed));
        let share = u128::from(self.share_ppm);
        (before + 1) * share / MILLION > before * share / MILLION
    }
}

const MILLION: u128 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_share_and_evenly_spread() {
        for (percent, of, hits) in
            [(0.0, 1_000, 0), (100.0, 1_000, 1_000), (10.0, 1_000, 100), (33.0, 100, 33), (0.5, 1_000, 5)]
        {
            let share = EveryKth::new(percent);
            assert_eq!((0..of).filter(|_| share.hits()).count(), hits, "{percent}");
        }
        let tenth = EveryKth::new(10.0);
        let places: Vec<usize> = (1..=30).filter(|_| tenth.hits()).collect();
        assert_eq!(places, [10, 20, 30]);
    }
}
