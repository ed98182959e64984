//! The largest of many series, and the rest as one: a page of metrics has an end, whatever there are queues.
//!
//! In: labels and numbers. Out: as many of them as a family may have, and the sum of the others, for a series called [`OTHER`]. Pure,
//! but for [`Floor`], which remembers what it told.

use std::sync::atomic::{AtomicU64, Ordering};

/// Series of a family, without that of the rest.
pub const SERIES_MAX: usize = 10_000;

/// What the rest is called, in each label.
pub const OTHER: &str = "other";

/// Leaves the `most` largest, in no particular order when there are more; the sum of the others.
pub fn cut<L: Ord>(all: &mut Vec<(L, u64)>, most: usize) -> u64 {
    if all.len() <= most {
        return 0;
    }
    // Of equal ones those whose labels come first, so that they are the same the next time.
    all.select_nth_unstable_by(most, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.drain(most..).map(|(_, number)| number).sum()
}

/// The rest of counters, as told: counters never fall, but their rest does when one of it is among the largest from now on, or ends.
#[derive(Debug, Default)]
pub struct Floor(AtomicU64);

impl Floor {
    /// This number, or the largest told before.
    pub fn at_least(&self, rest: u64) -> u64 {
        self.0.fetch_max(rest, Ordering::Relaxed).max(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stay_and_the_others_are_summed() {
        let mut all = vec![("a", 1), ("b", 9), ("c", 5), ("d", 5)];
        assert_eq!(cut(&mut all, 4), 0);
        assert_eq!(all, [("a", 1), ("b", 9), ("c", 5), ("d", 5)], "nothing is moved in vain");
        assert_eq!(cut(&mut all, 2), 6);
        all.sort_unstable();
        assert_eq!(all, [("b", 9), ("c", 5)]);
    }

    #[test]
    fn a_rest_of_counters_never_falls() {
        let floor = Floor::default();
        assert_eq!([3, 1, 4, 0].map(|rest| floor.at_least(rest)), [3, 3, 4, 4]);
    }
}
