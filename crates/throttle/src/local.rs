//! The memory of throttles in this process: a moment a name, and a bound on names.
//!
//! What is as if it had never been is forgotten first. When that leaves no room, the throttle that would be idle soonest
//! is: it has least to say. Never refuses a hit for want of memory.

use crate::Verdict;
use clock::Instant;
use hashbrown::HashMap;
use queue::throttle::Rate;
use std::sync::{Mutex, PoisonError};

/// Theoretical arrival times by key.
#[derive(Debug, Default)]
pub struct Local(Mutex<HashMap<String, Instant>>);

impl Local {
    /// Takes one hit, or says how long to wait.
    pub fn hit(&self, key: &str, rate: &Rate, now: Instant) -> Verdict {
        let mut arrivals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = arrivals.get(key).copied().unwrap_or(Instant::ZERO);
        let refused = rate.check(arrival, now).err();
        let arrival = if refused.is_some() { arrival } else { rate.charge(arrival, now) };
        if refused.is_none() {
            set(&mut arrivals, key, arrival, now);
        }
        Verdict {
            throttled: refused.is_some(),
            limit: rate.burst(),
            remaining: rate.remaining(arrival, now),
            reset_after: arrival.saturating_since(now),
            retry_after: refused,
        }
    }

    /// Notes a hit that somebody else admitted: what is used up stays so for whoever is asked here next, but no debt grows.
    pub fn note(&self, key: &str, rate: &Rate, now: Instant) {
        let mut arrivals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = arrivals.get(key).copied().unwrap_or(Instant::ZERO);
        let all_used = now + rate.tolerance() + rate.interval();
        set(&mut arrivals, key, rate.charge(arrival, now).min(all_used), now);
    }

    /// How many names have a memory.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True when nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn set(arrivals: &mut HashMap<String, Instant>, key: &str, arrival: Instant, now: Instant) {
    if let Some(known) = arrivals.get_mut(key) {
        *known = arrival;
        return;
    }
    if arrivals.len() >= NAMES_MAX {
        make_room(arrivals, now);
    }
    arrivals.insert(key.to_owned(), arrival);
}

/// Forgets who is idle, and more of those who soon will be until a sixteenth is free: so that this walk over all names
/// comes once in many new ones.
fn make_room(arrivals: &mut HashMap<String, Instant>, now: Instant) {
    arrivals.retain(|_, arrival| *arrival > now);
    let surplus = arrivals.len().saturating_sub(NAMES_MAX - NAMES_MAX / 16);
    if surplus > 0 {
        let mut all: Vec<Instant> = arrivals.values().copied().collect();
        let (_, last, _) = all.select_nth_unstable(surplus - 1);
        let last = *last;
        arrivals.retain(|_, arrival| *arrival > last);
    }
}

/// Names of throttles that are remembered at the same time.
pub const NAMES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Duration;

    #[test]
    fn hits_of_one_name_share_its_rate() {
        let (local, now) = (Local::default(), Instant::from_micros(1));
        let rate = Rate::new(10, Duration::from_secs(1), 2);
        let admitted = |remaining, reset_ms| Verdict {
            throttled: false,
            limit: 2,
            remaining,
            reset_after: Duration::from_millis(reset_ms),
            retry_after: None,
        };
        assert_eq!(local.hit("a", &rate, now), admitted(1, 100));
        assert_eq!(local.hit("a", &rate, now), admitted(0, 200));
        let wait = Duration::from_millis(100);
        let refused = Verdict { throttled: true, retry_after: Some(wait), ..admitted(0, 200) };
        assert_eq!((local.hit("a", &rate, now), local.hit("a", &rate, now)), (refused, refused), "counts for nothing");
        assert_eq!(local.hit("b", &rate, now), admitted(1, 100));
        assert_eq!(local.hit("a", &rate, now + wait), admitted(0, 200));
    }

    #[test]
    fn names_are_bounded_and_the_busiest_stay() {
        let (local, now) = (Local::default(), Instant::from_micros(1));
        let (slow, fast) = (Rate::new(1, Duration::from_secs(3600), 1), Rate::new(1, Duration::from_secs(1), 1));
        assert!(!local.hit("busy", &slow, now).throttled);
        (0..NAMES_MAX - 1).for_each(|n| assert!(!local.hit(&n.to_string(), &fast, now).throttled));
        assert_eq!(local.len(), NAMES_MAX);
        assert!(!local.hit("one more", &slow, now).throttled);
        assert!(local.len() <= NAMES_MAX, "{} names", local.len());
        assert!(local.hit("busy", &slow, now).throttled && local.hit("one more", &slow, now).throttled);
    }

    #[test]
    fn what_others_admitted_is_used_up_and_makes_no_debt() {
        let (local, now) = (Local::default(), Instant::from_micros(1));
        let rate = Rate::new(10, Duration::from_secs(1), 3);
        local.note("a", &rate, now);
        assert_eq!(local.hit("a", &rate, now).remaining, 1);
        (0..50).for_each(|_| local.note("a", &rate, now));
        assert_eq!(local.hit("a", &rate, now).retry_after, Some(Duration::from_millis(100)));
    }

    #[test]
    fn names_that_are_idle_go_first() {
        let (local, now) = (Local::default(), Instant::from_micros(1));
        let (slow, fast) = (Rate::new(1, Duration::from_secs(3600), 1), Rate::new(1, Duration::from_secs(1), 1));
        (0..NAMES_MAX - 1).for_each(|n| assert!(!local.hit(&n.to_string(), &fast, now).throttled));
        assert!(!local.hit("busy", &slow, now).throttled);
        let later = now + Duration::from_secs(2);
        assert!(!local.hit("one more", &fast, later).throttled);
        assert_eq!(local.len(), 2);
        assert!(local.hit("busy", &slow, later).throttled);
    }
}
