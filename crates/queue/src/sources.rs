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

impl SourceFault {
    /// All of them, each at its place in arrays by fault.
    pub const ALL: [SourceFault; 2] = [SourceFault::Unplumbed, SourceFault::ProxyUnhealthy];

    /// KumoMTA's word.
    pub fn name(self) -> &'static str {
        match self {
            SourceFault::Unplumbed => "Unplumbed",
            SourceFault::ProxyUnhealthy => "ProxyUnhealthy",
        }
    }
}

/// What a failure means to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// It may be used again.
    Goes,
    /// It rests already: a way that fails then says nothing new.
    Rests,
    /// It rests from now on.
    BeginsToRest,
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
    /// A source has failed.
    pub fn failed(&mut self, now: Instant, source: &EgressSource, fault: SourceFault) -> Consequence {
        let suspension = match fault {
            SourceFault::Unplumbed => &source.suspend_when_unplumbed,
            SourceFault::ProxyUnhealthy => &source.suspend_when_proxy_unhealthy,
        };
        let Some(SourceSuspension { trigger, duration }) = suspension else { return Consequence::Goes };
        let (limit, period) = match trigger {
            Trigger::Immediate => (1, Duration::ZERO),
            Trigger::Threshold(spec) => (spec.limit, spec.period()),
        };
        let fresh = Health { counts_until: now + period, failures: 0, suspended_until: Instant::ZERO };
        let healths = self.0.entry_ref(source.name.as_str()).or_default();
        let health = healths[fault as usize].get_or_insert(fresh);
        if health.suspended_until > now {
            return Consequence::Rests;
        }
        if now > health.counts_until {
            *health = fresh;
        }
        health.failures += 1;
        if health.failures < limit {
            return Consequence::Goes;
        }
        *health = Health { suspended_until: now + Duration::from(*duration), ..fresh };
        Consequence::BeginsToRest
    }

    /// How long a source is not to be used yet; `None` when it may be.
    pub fn rests(&self, now: Instant, source: &str) -> Option<Duration> {
        let until = self.0.get(source)?.iter().flatten().map(|health| health.suspended_until).max()?;
        (until > now).then(|| until.saturating_since(now))
    }

    /// Each source that has failed of late, in what way, and whether it rests for that.
    pub fn healths(&self, now: Instant) -> impl Iterator<Item = (&str, SourceFault, bool)> {
        self.0.iter().flat_map(move |(source, healths)| {
            let known =
                SourceFault::ALL.into_iter().zip(healths).filter_map(|(fault, health)| Some((fault, (*health)?)));
            known.map(move |(fault, health)| (source.as_str(), fault, health.suspended_until > now))
        })
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
        let unasked = sources.failed(at(1), &at_once, SourceFault::ProxyUnhealthy);
        assert_eq!(unasked, Consequence::Goes, "nobody asked for that");
        assert_eq!(sources.failed(at(1), &at_once, SourceFault::Unplumbed), Consequence::BeginsToRest);
        assert_eq!(sources.failed(at(2), &at_once, SourceFault::Unplumbed), Consequence::Rests);
        for (now, rests) in [(31, true), (61, false)] {
            let told: Vec<_> = sources.healths(at(now)).collect();
            assert_eq!(told, [("a", SourceFault::Unplumbed, rests)], "after {now} s");
        }
        assert_eq!(sources.rests(at(31), "a"), Some(Duration::from_secs(30)));
        assert_eq!((sources.rests(at(31), "b"), sources.rests(at(61), "a")), (None, None));

        let third = source(serde_json::json!({
            "name": "a", "suspend_when_proxy_unhealthy": {"trigger": {"Threshold": "3/min"}, "duration": "10m"}
        }));
        let mut sources = Sources::default();
        let mut failed = |secs| sources.failed(at(secs), &third, SourceFault::ProxyUnhealthy);
        assert_eq!([1, 30].map(&mut failed), [Consequence::Goes; 2], "two in a minute");
        assert_eq!(failed(62), Consequence::Goes, "a new minute");
        assert_eq!([63, 64].map(failed), [Consequence::Goes, Consequence::BeginsToRest]);
        assert!(sources.rests(at(663), "a").is_some() && sources.rests(at(664), "a").is_none());
        assert_eq!(sources.len(), 1);
        sources.sweep(at(664));
        assert_eq!(sources.len(), 0);
    }
}
