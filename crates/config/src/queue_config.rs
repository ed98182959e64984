//! The options of a scheduled queue.
//!
//! Owns [`QueueConfig`], the argument of `kumo.make_queue_config`, and the arithmetic that belongs to single options.
//! The retry plan itself is in the queue crate.

use crate::choices::{MemoryReductionPolicy, QueueStrategy, RefreshStrategy};
use crate::duration::Duration;
use crate::options::options;
use crate::protocol::QueueProtocol;
use crate::throttle::ThrottleSpec;
use core::time;

options! {
    /// `kumo.make_queue_config`
    pub struct QueueConfig {
        /// The pool whose sources send this queue's messages; `unspecified` (one source, kernel-chosen address) when
        /// absent.
        egress_pool: Option<String> = None;
        /// Delay before the first retry; doubled at each further attempt.
        retry_interval: Duration = Duration::from_minutes(20);
        /// Longest delay between attempts; without it the doubling has no cap.
        max_retry_interval: Option<Duration> = None;
        /// Age at which a message expires, unless it has an expiry time of its own.
        max_age: Duration = Duration::from_days(7);
        /// Rate at which messages may go from this queue to the ready queue; the excess is put back with a delay.
        max_message_rate: Option<ThrottleSpec> = None;
        /// How messages leave: SMTP, Maildir, Lua or transfer.
        protocol: QueueProtocol = QueueProtocol::default();
        /// Idle time after which the empty queue object is dropped.
        reap_interval: Duration = Duration::from_minutes(10);
        /// How long this configuration holds before `get_queue_config` is asked again (refresh_strategy Ttl).
        refresh_interval: Duration = Duration::from_minutes(1);
        /// Ask again after a time, or only when configuration files change.
        refresh_strategy: RefreshStrategy = RefreshStrategy::Ttl;
        /// The data structure asked for; a hint, accepted and not followed.
        strategy: QueueStrategy = QueueStrategy::SingletonTimerWheel;
        /// Resolution of the queue's own timer wheel; 1/20 of retry_interval within 1 s to 1 min when absent.
        timerwheel_tick_interval: Option<Duration> = None;
        /// What to let go of a waiting message in memory, by time until due: the last entry whose interval is reached.
        shrink_policy: Vec<ShrinkPolicyEntry> = Vec::new();
        /// The name under which metrics of several queues are summed.
        provider_name: Option<String> = None;
        /// What the sender is told about his message by mail; nothing when absent. Ours, not KumoMTA's.
        delivery_reports: Option<DeliveryReports> = None;
    }
}

options! {
    /// `delivery_reports` (RFC 3464); the sender's NOTIFY (RFC 3461) is honoured
    pub struct DeliveryReports {
        /// That it was not delivered: refused, or expired. What is bounced by an order, an operator's or a rule's, is not reported.
        failure: bool = false;
        /// That it is still being tried: once, when the next attempt comes at this age or later.
        delay: Option<Duration> = None;
        /// That it was delivered (LMTP), if the sender asked for it.
        success: bool = false;
        /// That it was handed to a server without DSN, if the sender asked for news of success.
        relayed: bool = false;
        /// The name of this server in reports; the machine's name when absent.
        reporting_mta: Option<String> = None;
    }
}

options! {
    /// An element of `shrink_policy`
    pub struct ShrinkPolicyEntry {
        /// Applies to messages due no sooner than this.
        interval: Duration;
        /// What to let go.
        policy: MemoryReductionPolicy;
    }
}

impl QueueConfig {
    /// The pool's name, `unspecified` when none was given.
    pub fn egress_pool(&self) -> &str {
        self.egress_pool.as_deref().unwrap_or(UNSPECIFIED)
    }

    /// Resolution of the queue's timer wheel. KumoMTA behaviour: retry_interval / 20 within 1 s to 1 min.
    pub fn tick_interval(&self) -> time::Duration {
        match self.timerwheel_tick_interval {
            Some(tick) => tick.get(),
            None => (self.retry_interval.get() / TICKS_PER_RETRY).clamp(TICK_MIN, TICK_MAX),
        }
    }

    /// What to let go of a message that is due in `until_due`.
    pub fn shrink_policy_for(&self, until_due: time::Duration) -> MemoryReductionPolicy {
        let reached = self.shrink_policy.iter().rev().find(|entry| entry.interval.get() <= until_due);
        reached.map_or(MemoryReductionPolicy::ShrinkDataAndMeta, |entry| entry.policy)
    }
}

/// The name of the pool and of its only source when a policy names none.
pub const UNSPECIFIED: &str = "unspecified";
const TICKS_PER_RETRY: u32 = 20;
const TICK_MIN: time::Duration = time::Duration::from_secs(1);
const TICK_MAX: time::Duration = time::Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_is_a_twentieth_within_bounds() {
        for (retry_s, tick_s) in [(1, 1), (20, 1), (100, 5), (1200, 60), (86_400, 60)] {
            let config = QueueConfig { retry_interval: Duration::from_secs(retry_s), ..Default::default() };
            assert_eq!(config.tick_interval().as_secs(), tick_s, "{retry_s}");
        }
    }

    #[test]
    fn the_last_reached_shrink_entry_counts() {
        let entry = |seconds, policy| ShrinkPolicyEntry { interval: Duration::from_secs(seconds), policy };
        let config = QueueConfig {
            shrink_policy: vec![
                entry(0, MemoryReductionPolicy::NoShrink),
                entry(60, MemoryReductionPolicy::ShrinkData),
            ],
            ..Default::default()
        };
        let at = |seconds| config.shrink_policy_for(time::Duration::from_secs(seconds));
        assert_eq!(at(59), MemoryReductionPolicy::NoShrink);
        assert_eq!(at(60), MemoryReductionPolicy::ShrinkData);
        assert_eq!(QueueConfig::default().shrink_policy_for(TICK_MAX), MemoryReductionPolicy::ShrinkDataAndMeta);
    }
}
