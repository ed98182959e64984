//! A shared rate limit: which task may send its next message when (the generic cell rate algorithm).
//!
//! In: a rate and `now`. Out: when a message is due. One atomic number is the whole state. Each task takes the next free
//! slot and sleeps until it comes, so that the load is smooth and the tasks are served in turn. Slots that nobody could
//! take in time lapse, so that a server that was slow is not flooded; on a timetable none does, so that how late each
//! message was can be told (an open loop).

use std::sync::atomic::{AtomicU64, Ordering};

use super::parse::Rate;

/// The limit of one run.
pub(super) struct Throttle {
    interval_ns: u64,
    tolerance_ns: u64,
    /// When the next slot is due, in nanoseconds since the start of the run.
    next_due_ns: AtomicU64,
}

impl Throttle {
    /// A limit that begins now.
    pub(super) fn new(rate: Rate) -> Self {
        let period_ns = u64::try_from(rate.period.as_nanos()).unwrap_or(u64::MAX);
        let interval_ns = (period_ns / rate.messages.max(1)).max(1);
        let burst = rate.burst.unwrap_or(SMOOTHING_NS / interval_ns).max(1);
        Self { interval_ns, tolerance_ns: interval_ns.saturating_mul(burst - 1), next_due_ns: AtomicU64::new(0) }
    }

    /// Slots at this rate, from now on, of which none lapses.
    pub(super) fn timetable(rate: Rate) -> Self {
        Self { tolerance_ns: u64::MAX, ..Self::new(rate) }
    }

    /// Takes the next slot and returns when it is due: it may be past.
    pub(super) fn reserve(&self, now_ns: u64) -> u64 {
        self.take(now_ns, None).unwrap_or(now_ns)
    }

    /// Takes the next slot only if it is due, and returns when it was.
    pub(super) fn reserve_if_due(&self, now_ns: u64) -> Option<u64> {
        self.take(now_ns, Some(now_ns))
    }

    /// Moves the due time on by one slot; returns when the slot taken is due, or nothing if that is after `latest`.
    fn take(&self, now_ns: u64, latest: Option<u64>) -> Option<u64> {
        let oldest = now_ns.saturating_sub(self.tolerance_ns);
        let step = |due: u64| {
            let due = due.max(oldest);
            let in_time = latest.is_none_or(|latest| due <= latest);
            in_time.then_some(due.saturating_add(self.interval_ns))
        };
        self.next_due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok().map(|before| before.max(oldest))
    }
}

/// Without `max_burst`, what fits into this time may go at once: timers are no finer than a millisecond.
const SMOOTHING_NS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND_NS: u64 = 1_000_000_000;

    fn throttle(messages: u64, burst: Option<u64>) -> Throttle {
        Throttle::new(Rate { messages, period: Duration::from_secs(1), burst })
    }

    #[test]
    fn slots_are_one_interval_apart() {
        let throttle = throttle(10, Some(1));
        let now = 5 * SECOND_NS;
        let waits: Vec<u64> = (0..4).map(|_| (throttle.reserve(now) - now) / 1_000_000).collect();
        assert_eq!(waits, [0, 100, 200, 300]);
        assert_eq!(throttle.reserve_if_due(now + 399_000_000), None);
        assert_eq!(throttle.reserve_if_due(now + 400_000_000), Some(now + 400_000_000));
        assert_eq!(throttle.reserve_if_due(now + 400_000_000), None);
    }

    #[test]
    fn a_burst_is_as_large_as_asked_for() {
        let throttle = throttle(10, Some(5));
        let now = 9 * SECOND_NS;
        assert_eq!((0..50).filter(|_| throttle.reserve_if_due(now).is_some()).count(), 5);
        let later = now + 100 * SECOND_NS;
        assert_eq!((0..50).filter(|_| throttle.reserve_if_due(later).is_some()).count(), 5);
    }

    #[test]
    fn no_slot_of_a_timetable_lapses() {
        let rate = Rate { messages: 10, period: Duration::from_secs(1), burst: None };
        let timetable = Throttle::timetable(rate);
        let hour = 3600 * SECOND_NS;
        let dues: Vec<u64> = (0..3).map(|_| timetable.reserve(hour)).collect();
        assert_eq!(dues, [0, SECOND_NS / 10, SECOND_NS / 5]);
        assert_eq!(timetable.reserve_if_due(hour), Some(3 * SECOND_NS / 10));
    }

    #[test]
    fn over_a_long_time_the_rate_is_exact() {
        let throttle = throttle(1_000, None);
        let mut taken = 0;
        for millisecond in 1..=10_000_u64 {
            while throttle.reserve_if_due(SECOND_NS + millisecond * 1_000_000).is_some() {
                taken += 1;
            }
        }
        assert!((10_000..=10_010).contains(&taken), "{taken}");
    }
}
