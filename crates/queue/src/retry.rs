//! When a message is tried again, and when it has been tried long enough (KumoMTA behaviour).
//!
//! Pure arithmetic over the queue's configuration: no clock, and randomness comes in as a
//! number. The rows of the test table are the specification.

use clock::Duration;
use config::QueueConfig;

/// What becomes of a message after an attempt that did not settle it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPlan {
    /// Try again after this long.
    After(Duration),
    /// Its age at that moment would exceed `max_age`.
    Expire,
}

/// The plain backoff: `retry_interval * 2^attempts_before`, capped by `max_retry_interval`, saturating. (In whole seconds
/// an interval of less than one would be none.)
pub fn backoff(config: &QueueConfig, attempts_before: u16) -> Duration {
    let base = Duration::from(config.retry_interval).as_micros();
    let factor = 1u128.checked_shl(u32::from(attempts_before)).unwrap_or(u128::MAX);
    let forever = Duration::from_secs(FOREVER_SECS);
    let plain = u64::try_from(base.saturating_mul(factor)).map_or(forever, Duration::from_micros);
    plain.min(forever).min(config.max_retry_interval.map_or(Duration::MAX, Duration::from))
}

/// The plan after a counted attempt: backoff with jitter, or expiry when the age at the next
/// attempt would exceed `max_age`. `random` is any number; equal numbers give equal plans.
pub fn after_attempt(config: &QueueConfig, attempts_before: u16, age: Duration, random: u64) -> RetryPlan {
    if age.saturating_add(backoff(config, attempts_before)) > Duration::from(config.max_age) {
        return RetryPlan::Expire;
    }
    RetryPlan::After(delay_after_attempt(config, attempts_before, random))
}

/// The delay of that plan, whatever the age.
pub fn delay_after_attempt(config: &QueueConfig, attempts_before: u16, random: u64) -> Duration {
    jittered(backoff(config, attempts_before), jitter_secs_max(config), random)
}

/// The plan for a message that goes back without having been tried: up to a minute.
pub fn without_attempt(random: u64) -> Duration {
    Duration::from_secs(random % (UNCOUNTED_DELAY_SECS_MAX + 1))
}

/// Half the width of the jitter band in whole seconds: `min(retry_interval/20, 60 s) / 2`.
fn jitter_secs_max(config: &QueueConfig) -> u64 {
    (Duration::from(config.retry_interval).as_secs() / 20).min(60) / 2
}

fn jittered(delay: Duration, spread_secs: u64, random: u64) -> Duration {
    let offset = random % (2 * spread_secs + 1);
    (delay + Duration::from_secs(offset)).saturating_sub(Duration::from_secs(spread_secs))
}

/// KumoMTA spreads uncounted requeues over a minute.
const UNCOUNTED_DELAY_SECS_MAX: u64 = 60;
/// A delay nobody lives to see; keeps sums far from overflow.
const FOREVER_SECS: u64 = 100 * 365 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: serde_json::Value) -> QueueConfig {
        config::parse("kumo.make_queue_config", json).expect("sound")
    }

    #[test]
    fn backoff_doubles_from_the_first_attempt() {
        let minutes = |attempts| backoff(&QueueConfig::default(), attempts).as_secs() / 60;
        assert_eq!([0, 1, 2, 3, 9].map(minutes), [20, 40, 80, 160, 10_240]);
        let capped = config(serde_json::json!({"retry_interval": "1m", "max_retry_interval": "5m"}));
        assert_eq!([0, 1, 2, 3, 4, 60_000].map(|n| backoff(&capped, n).as_secs()), [60, 120, 240, 300, 300, 300]);
        assert_eq!(backoff(&QueueConfig::default(), 65_535).as_secs(), FOREVER_SECS);
        let short = config(serde_json::json!({"retry_interval": "250ms", "max_retry_interval": "1500ms"}));
        assert_eq!([0, 1, 2, 3, 9].map(|n| backoff(&short, n).as_millis()), [250, 500, 1000, 1500, 1500]);
    }

    #[test]
    fn a_message_expires_when_the_next_attempt_would_be_too_late() {
        let config = config(serde_json::json!({"retry_interval": "10s", "max_age": "1 minute"}));
        let plan = |attempts, age| after_attempt(&config, attempts, Duration::from_secs(age), 0);
        assert_eq!(plan(0, 50), RetryPlan::After(Duration::from_secs(10)), "exactly max_age is not too late");
        assert_eq!(plan(0, 51), RetryPlan::Expire);
        assert_eq!(plan(3, 0), RetryPlan::Expire, "the delay alone is longer");
    }

    #[test]
    fn jitter_stays_in_its_band() {
        let config = QueueConfig::default();
        let mut seen = std::collections::BTreeSet::new();
        for random in 0..200 {
            let RetryPlan::After(delay) = after_attempt(&config, 0, Duration::ZERO, random) else {
                panic!("a fresh message expired")
            };
            seen.insert(delay.as_secs());
        }
        assert_eq!((seen.first(), seen.last()), (Some(&1170), Some(&1230)), "20 minutes, 30 s either way");
        assert!((0..200).map(without_attempt).all(|d| d.as_secs() <= 60));
    }
}
