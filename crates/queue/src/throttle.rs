//! One rate limit as GCRA (generic cell rate algorithm), in memory.
//!
//! What is kept of it elsewhere is one moment, the theoretical arrival time; it admits when the cell is not more than the
//! burst ahead of it. Exact to the microsecond, no window edges, constant memory. Whole
//! microseconds throughout, rounded against the sender: a wait that was sat out is always enough.

use clock::{Duration, Instant};
use config::ThrottleSpec;

/// How often, without a memory of what happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Time that one event uses up.
    interval: Duration,
    /// How far ahead of `now` the theoretical arrival time may run.
    tolerance: Duration,
}

impl Rate {
    /// `limit` events per `period`, `burst` of them at once; a burst of zero counts as one: a limit that admits
    /// nothing would wedge its queue.
    pub fn new(limit: u64, period: Duration, burst: u64) -> Rate {
        // The clock has no finer grain: a rest below it would be waited for in vain, for ever.
        let interval_us = period.as_micros().div_ceil(u128::from(limit.max(1)));
        let interval = Duration::from_micros(u64::try_from(interval_us).unwrap_or(u64::MAX));
        let tolerance = interval.saturating_mul(u32::try_from(burst.max(1) - 1).unwrap_or(u32::MAX));
        Rate { interval, tolerance }
    }

    /// The part of a shared rate that one node takes by itself. The burst is rounded up; the rate is stretched, not
    /// rounded to whole events.
    pub fn share(spec: &ThrottleSpec, share: f64) -> Rate {
        let burst = ((spec.burst() as f64 * share).ceil() as u64).max(1);
        let period = Duration::try_from_secs_f64(spec.period().as_secs_f64() / share).unwrap_or(Duration::MAX);
        Rate::new(spec.limit, period, burst)
    }

    /// Whether an event may happen now, given the theoretical arrival time; else how long to wait before asking again.
    pub fn check(&self, arrival: Instant, now: Instant) -> Result<(), Duration> {
        match arrival.saturating_since(now).checked_sub(self.tolerance) {
            Some(wait) if wait > Duration::ZERO => Err(wait),
            _ => Ok(()),
        }
    }

    /// How many more events would be admitted at once now.
    pub fn remaining(&self, arrival: Instant, now: Instant) -> u64 {
        let used = arrival.saturating_since(now);
        let left = (self.tolerance.saturating_add(self.interval)).saturating_sub(used);
        u64::try_from(left.as_micros() / self.interval.as_micros().max(1)).unwrap_or(u64::MAX)
    }

    /// Time that one event uses up.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// How many events are admitted at once after a long rest.
    pub fn burst(&self) -> u64 {
        self.remaining(Instant::ZERO, Instant::ZERO)
    }

    /// How far ahead of now the theoretical arrival time may run.
    pub fn tolerance(&self) -> Duration {
        self.tolerance
    }

    /// The theoretical arrival time after one more event.
    pub fn charge(&self, arrival: Instant, now: Instant) -> Instant {
        arrival.max(now) + self.interval
    }
}

impl From<&ThrottleSpec> for Rate {
    fn from(spec: &ThrottleSpec) -> Rate {
        Rate::new(spec.limit, spec.period(), spec.burst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one event's worth, if it is to be had.
    fn admits(rate: &Rate, arrival: &mut Instant, now: Instant) -> bool {
        let may = rate.check(*arrival, now).is_ok();
        if may {
            *arrival = rate.charge(*arrival, now);
        }
        may
    }

    #[test]
    fn admits_the_burst_then_the_rate() {
        let (rate, now) = (Rate::new(10, Duration::from_secs(1), 3), Instant::from_micros(77));
        let mut arrival = Instant::ZERO;
        assert!((0..3).all(|_| admits(&rate, &mut arrival, now)));
        let wait = rate.check(arrival, now).expect_err("the burst is used up");
        assert_eq!(wait, Duration::from_millis(100));
        assert!(!admits(&rate, &mut arrival, now + Duration::from_millis(99)));
        assert!(admits(&rate, &mut arrival, now + wait));
    }

    #[test]
    fn tells_how_many_more_would_be_admitted() {
        let (rate, now) = (Rate::new(10, Duration::from_secs(1), 3), Instant::from_micros(77));
        let mut arrival = Instant::ZERO;
        for left in [3, 2, 1] {
            assert_eq!((rate.remaining(arrival, now), rate.check(arrival, now)), (left, Ok(())));
            arrival = rate.charge(arrival, now);
        }
        assert_eq!(rate.remaining(arrival, now), 0);
        assert_eq!(rate.remaining(arrival, now + Duration::from_millis(199)), 1);
        assert_eq!(rate.remaining(arrival, now + Duration::from_millis(200)), 2);
    }

    #[test]
    fn a_part_of_a_rate_may_be_as_small_as_it_likes() {
        let spec: ThrottleSpec = "1/200000000000000d".parse().expect("a throttle");
        for share in [0.5, 1e-300] {
            assert!(Rate::share(&spec, share).interval() > Duration::from_secs(1 << 40));
        }
    }

    #[test]
    fn holds_its_rate_over_time() {
        let (rate, mut arrival) = (Rate::new(1000, Duration::from_secs(60), 1), Instant::ZERO);
        let times = (0..600_000u64).map(|ms| Instant::from_micros(ms * 1000));
        let admitted = times.filter(|now| admits(&rate, &mut arrival, *now)).count();
        assert!((9_900..=10_001).contains(&admitted), "{admitted} in ten minutes");
    }
}
