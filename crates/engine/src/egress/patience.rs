//! How long mail waits for the configuration of its queue.
//!
//! A policy that asks DNS may take its time for each of thousands of names. Whoever sends mail waits for a second, so that he hears
//! what is wrong with the policy; behind one who waited in vain hardly at all, for a while. The mail is accepted then, and its queue
//! waits. Owns how many such questions may be under way. Nothing can fail.

use ::clock::{Duration, Instant};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;

/// Who waits for the configurations of queues.
#[derive(Debug)]
pub(crate) struct Patience {
    /// Questions that may be under way beside the mail that is accepted: each holds a Lua state while it waits.
    pub turns: Semaphore,
    /// Microseconds of the moment until which those who send mail hardly wait.
    slow_until: AtomicU64,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { turns: Semaphore::new(TURNS_MAX), slow_until: AtomicU64::new(0) }
    }
}

impl Patience {
    /// How long mail waits for one before it is accepted without.
    pub fn for_one(&self, now: Instant) -> Duration {
        if now.as_micros() < self.slow_until.load(Ordering::Relaxed) { HARDLY } else { SOON }
    }

    /// Somebody waited in vain.
    pub fn note_slow(&self, now: Instant) {
        self.slow_until.store((now + SLOW_FOR).as_micros(), Ordering::Relaxed);
    }
}

/// More than name servers are asked at once.
const TURNS_MAX: usize = 1024;
/// How long whoever sends mail waits.
const SOON: Duration = Duration::from_secs(1);
/// The same while some policy is slow: a message for a thousand names is not to wait for each. One that asks nobody has answered by then.
const HARDLY: Duration = Duration::from_millis(10);
/// How long that is so behind one who waited in vain.
const SLOW_FOR: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_one_who_waited_in_vain_hardly_anybody_waits_for_a_while() {
        let (patience, now) = (Patience::default(), Instant::from_micros(5));
        assert_eq!(patience.for_one(now), SOON);
        patience.note_slow(now);
        assert_eq!(patience.for_one(now + SLOW_FOR / 2), HARDLY);
        assert_eq!(patience.for_one(now + SLOW_FOR), SOON);
    }
}
