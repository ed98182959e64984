//! How often something happened in the time that lies behind: in 64 portions, so that a count takes the same room however
//! often it is.

use record::Timestamp;
use std::collections::VecDeque;

/// Events of the last `window_micros`, each counted in the portion it fell into.
#[derive(Debug)]
pub(crate) struct Window {
    window_micros: i64,
    /// When each portion began, oldest first, and what fell into it.
    portions: VecDeque<(i64, u64)>,
}

impl Window {
    pub fn new(window_micros: i64) -> Window {
        Window { window_micros: window_micros.max(1), portions: VecDeque::new() }
    }

    /// One more, at `at`, which is not after `now`; how many there are now. One that comes late counts with the latest. What was
    /// counted by a clock that was ahead is forgotten.
    pub fn count(&mut self, at: Timestamp, now: Timestamp) -> u64 {
        while self.portions.back().is_some_and(|(begun, _)| *begun > now.unix_micros()) {
            self.portions.pop_back();
        }
        let width = (self.window_micros / PORTIONS).max(1);
        let begun = at.unix_micros().div_euclid(width).saturating_mul(width);
        match self.portions.back_mut() {
            Some((last, count)) if *last >= begun => *count += 1,
            _ => self.portions.push_back((begun, 1)),
        }
        let now = at.unix_micros();
        while self.portions.front().is_some_and(|(begun, _)| begun.saturating_add(self.window_micros) <= now) {
            self.portions.pop_front();
        }
        self.portions.iter().map(|(_, count)| count).sum()
    }

    /// True when all of it is longer ago than counts.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.portions.back().is_none_or(|(begun, _)| begun.saturating_add(self.window_micros) <= now.unix_micros())
    }
}

/// What a window is divided into.
const PORTIONS: i64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_unix_seconds(seconds)
    }

    #[test]
    fn what_is_longer_ago_than_the_window_does_not_count() {
        let mut window = Window::new(64_000_000);
        assert_eq!([0, 1, 1, 62].map(|s| window.count(at(s), at(s))), [1, 2, 3, 4]);
        assert_eq!(window.count(at(64), at(64)), 4, "the first is gone");
        assert_eq!(window.count(at(64), at(64)), 5);
        assert_eq!(window.count(at(3), at(64)), 6, "one that comes late");
        assert!(!window.is_over(at(127)) && window.is_over(at(128)));
        assert_eq!(window.count(at(500), at(500)), 1);
    }

    #[test]
    fn what_a_clock_counted_that_was_ahead_does_not_stay() {
        let mut window = Window::new(64_000_000);
        assert_eq!([5, 100_000, 100_000].map(|s| window.count(at(s), at(s))), [1, 1, 2]);
        assert_eq!([6, 70].map(|s| window.count(at(s), at(s))), [1, 1], "the clock was set back");
    }

    #[test]
    fn it_takes_no_more_room_for_more_events() {
        let mut window = Window::new(3_600_000_000);
        let counts = (0..100_000).map(|n| {
            let at = Timestamp::from_unix_micros(n * 36_000);
            window.count(at, at)
        });
        assert_eq!(counts.last(), Some(100_000));
        assert!(window.portions.len() <= 65, "{}", window.portions.len());
    }
}
