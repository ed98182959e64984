//! Sources that rest because something of their own does not work: their address is not plumbed, their proxy is down.
//!
//! Counts failures by source and says until when a source is not to be used (`suspend_when_unplumbed`,
//! `suspend_when_proxy_unhealthy`). By itself it forgets what is over. What becomes of the messages is `core`'s affair.

use clock::{Duration, Instant};
use config::{EgressSource, SourceSuspension, Trigger};
use hashbrown::HashMap;

/// What is wrong with a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceFault {
    /// Its address is none of this host's (EADDRNOTAVAIL).
    Unplumbed,
    /// Its proxy cannot be reached, or does not do what it is asked to.
    ProxyUnhealthy,
}

/// The sources that have failed.
#[derive(Debug, Default)]
pub(crate) struct Sources(HashMap<String, [Option<Health>; 2]>);

#[derive(Clone, Copy, Debug)]
struct Health {
    /// When that count is over.
    counts_until: Instant,
    failures: u64,
    suspended_until: Instant,
}

impl Sources {
    /// A source has failed. True when it rests from now on: a way that fails while its source rests says nothing new.
    pub fn failed(&mut self, now: Instant, source: &EgressSource, fault: SourceFault) -> bool {
        let suspension = match fault {
            SourceFault::Unplumbed => &source.suspend_when_unplumbed,
            SourceFault::ProxyUnhealthy => &source.suspend_when_proxy_unhealthy,
        };
        let Some(SourceSuspension { trigger, duration }) = suspension else { return false };
        let (limit, period) = match trigger {
            Trigger::Immediate => (1, Duration::ZERO),
            Trigger::Threshold(spec) => (spec.limit, spec.period()),
        };
        let fresh = Health { counts_until: now + period, failures: 0, suspended_until: Instant::ZERO };
        let healths = self.0.entry_ref(source.name.as_str()).or_default();
        let health = healths[fault as usize].get_or_insert(fresh);
        if health.suspended_until > now {
            return true;
        }
        if now > health.counts_until {
            *health = fresh;
        }
        health.failures += 1;
        if health.failures < limit {
            return false;
        }
        *health = Health { suspended_until: now + Duration::from(*duration), ..fresh };
        true
    }

    /// How long a source is not to be used yet; `None` when it may be.
    pub fn rests(&self, now: Instant, source: &str) -> Option<Duration> {
        let until = self.0.get(source)?.iter().flatten().map(|health| health.suspended_until).max()?;
        (until > now).then(|| until.saturating_since(now))
    }

    /// Forgets what is over.
    pub fn sweep(&mut self, now: Instant) {
        let matters = |health: &Health| health.suspended_until > now || health.counts_until > now;
        self.0.retain(|_, healths| healths.iter().flatten().any(matters));
    }

    /// Sources that are remembered.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(json: serde_json::Value) -> EgressSource {
        config::parse("kumo.make_egress_source", json).expect("sound")
    }

    #[test]
    fn the_first_failure_or_so_many_in_a_period() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let at_once = source(serde_json::json!({
            "name": "a", "suspend_when_unplumbed": {"trigger": "Immediate", "duration": "1m"}
        }));
        let mut sources = Sources::default();
        assert!(!sources.failed(at(1), &at_once, SourceFault::ProxyUnhealthy), "nobody asked for that");
        assert!(sources.failed(at(1), &at_once, SourceFault::Unplumbed));
        assert_eq!(sources.rests(at(31), "a"), Some(Duration::from_secs(30)));
        assert_eq!((sources.rests(at(31), "b"), sources.rests(at(61), "a")), (None, None));

        let third = source(serde_json::json!({
            "name": "a", "suspend_when_proxy_unhealthy": {"trigger": {"Threshold": "3/min"}, "duration": "10m"}
        }));
        let mut sources = Sources::default();
        let failed = |sources: &mut Sources, secs| sources.failed(at(secs), &third, SourceFault::ProxyUnhealthy);
        assert!(!failed(&mut sources, 1) && !failed(&mut sources, 30), "two in a minute");
        assert!(!failed(&mut sources, 62), "a new minute");
        assert!(!failed(&mut sources, 63) && failed(&mut sources, 64));
        assert!(sources.rests(at(663), "a").is_some() && sources.rests(at(664), "a").is_none());
        assert_eq!(sources.len(), 1);
        sources.sweep(at(664));
        assert_eq!(sources.len(), 0);
    }
}
