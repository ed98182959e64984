//! The largest of many series, and the rest as one: a page of metrics has an end, whatever there are queues.
//!
//! In: labels and numbers. Out: as many of them as a family may have, and the sum of the others, for a series called [`OTHER`]. Gauges are
//! cut anew each time ([`cut`], pure). Counters must not: one that leaves the largest would end, and the rest would fall by what one has
//! that joins them. [`Kept`] remembers who has a series, and whatever has none is the total without what is shown. Nothing can fail.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

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

/// Counters of which at most so many have a series each. Whoever has one keeps it until it is gone; the largest of the others take what
/// comes free, and count from 0 there, since what they counted before is told under [`OTHER`]. So nothing falls, and all add up.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Memory>);

/// What was told.
#[derive(Debug, Default)]
struct Memory {
    /// Each that has a series: its number as read, and as told.
    shown: HashMap<Arc<str>, [u64; 2]>,
    /// There were some without.
    is_over: bool,
    total: u64,
    other: u64,
}

/// Names and numbers, and the number of the rest if there is one.
pub type Told = (Vec<(Arc<str>, u64)>, Option<u64>);

impl Kept {
    /// What to tell of counters that are these now: of all, also of those that are gone, and of each that there is; no name twice.
    pub fn tell(&self, total: u64, each: Vec<(Arc<str>, u64)>, most: usize) -> Told {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What was read before the last that told is no news.
        if total >= memory.total {
            memory.read(total, each, most);
        }
        let series = memory.shown.iter().map(|(name, [_, told])| (name.clone(), *told)).collect();
        (series, (memory.is_over || memory.other > 0).then_some(memory.other))
    }
}

impl Memory {
    fn read(&mut self, total: u64, each: Vec<(Arc<str>, u64)>, most: usize) {
        let mut before = std::mem::take(&mut self.shown);
        let mut others = Vec::new();
        for (name, number) in each {
            match before.remove(&name) {
                // One that is smaller was gone in between.
                Some([read, told]) => _ = self.shown.insert(name, [number, told + number.saturating_sub(read)]),
                None => others.push((name, number)),
            }
        }
        let free = most.saturating_sub(self.shown.len());
        let was_over = std::mem::replace(&mut self.is_over, others.len() > free);
        cut(&mut others, free);
        let joined = others.into_iter().map(|(name, number)| (name, [number, if was_over { 0 } else { number }]));
        self.shown.extend(joined);
        let shown: u64 = self.shown.values().map(|[_, told]| told).sum();
        (self.total, self.other) = (total, self.other.max(total.saturating_sub(shown)));
    }
}

/// A counter that others reckon: it never falls, though they may be a moment behind.
#[derive(Debug, Default)]
pub(crate) struct Floor(AtomicU64);

impl Floor {
    /// This number, or the largest told before.
    pub(crate) fn at_least(&self, number: u64) -> u64 {
        self.0.fetch_max(number, Ordering::Relaxed).max(number)
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
    fn a_floor_never_falls() {
        let floor = Floor::default();
        assert_eq!([3, 1, 4, 0].map(|number| floor.at_least(number)), [3, 3, 4, 4]);
    }

    /// `a 5, b 3 | other 4`, with room for two.
    fn told(kept: &Kept, total: u64, each: &[(&str, u64)]) -> String {
        let each = each.iter().map(|(name, number)| ((*name).into(), *number)).collect();
        let (mut series, other) = kept.tell(total, each, 2);
        series.sort_unstable();
        let series: Vec<String> = series.into_iter().map(|(name, number)| format!("{name} {number}")).collect();
        series.join(", ") + &other.map_or_else(String::new, |other| format!(" | other {other}"))
    }

    #[test]
    fn who_has_a_series_keeps_it_and_what_is_gone_is_in_the_rest() {
        let kept = Kept::default();
        assert_eq!(told(&kept, 8, &[("a", 5), ("b", 3)]), "a 5, b 3");
        // A third that is larger waits until there is room.
        assert_eq!(told(&kept, 17, &[("a", 5), ("b", 3), ("c", 9)]), "a 5, b 3 | other 9");
        assert_eq!(told(&kept, 22, &[("a", 6), ("b", 3), ("c", 11), ("d", 2)]), "a 6, b 3 | other 13");
        // It goes on from 0: what it counted before is told already, and would be missed there.
        assert_eq!(told(&kept, 23, &[("a", 7), ("c", 11), ("d", 2)]), "a 7, c 0 | other 16");
        assert_eq!(told(&kept, 25, &[("a", 7), ("c", 13), ("d", 2)]), "a 7, c 2 | other 16");
        // Read before that, told after.
        assert_eq!(told(&kept, 24, &[("a", 7), ("c", 12), ("d", 2)]), "a 7, c 2 | other 16");
        assert_eq!(told(&kept, 26, &[("c", 14)]), "c 3 | other 23");
        // There is room again: new ones count from the beginning.
        assert_eq!(told(&kept, 27, &[("c", 14), ("e", 1)]), "c 3, e 1 | other 23");
        // One that was gone and came back.
        assert_eq!(told(&kept, 31, &[("c", 4), ("e", 1)]), "c 3, e 1 | other 27");
        assert_eq!(told(&kept, 32, &[("c", 5), ("e", 1)]), "c 4, e 1 | other 27");
    }
}
