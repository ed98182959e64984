//! Sites whose TLS broke, and until when that is remembered.
//!
//! Owns [`BrokenTls`], one for the whole process, and [`memory`], for how long a path has such news kept. In: a site's
//! name and `now`. Out: whether its TLS is known to be broken. Entries end by time alone; at most
//! [`SITES_MAX`] are held, and the one that would end first makes room. Nothing can fail. What follows from an
//! entry is the session's decision: opportunistic modes do without TLS, required ones say so when they fail.

use clock::Instant;
use config::EgressPath;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The memory.
#[derive(Debug, Default)]
pub(crate) struct BrokenTls {
    until: HashMap<Arc<str>, Instant>,
    /// The same, the first to end first.
    ends: BTreeSet<(Instant, Arc<str>)>,
}

impl BrokenTls {
    /// TLS with `site` broke: true of it for `duration` from now on.
    pub fn note(&mut self, now: Instant, site: &str, duration: Duration) {
        self.forget_ended(now);
        let site: Arc<str> = site.into();
        if let Some(before) = self.until.insert(site.clone(), now + duration) {
            self.ends.remove(&(before, site.clone()));
        }
        self.ends.insert((now + duration, site));
        if self.until.len() > SITES_MAX {
            self.forget_first();
        }
    }

    /// True while TLS with `site` is remembered to be broken.
    pub fn is_known(&self, now: Instant, site: &str) -> bool {
        self.until.get(site).is_some_and(|until| now < *until)
    }

    fn forget_ended(&mut self, now: Instant) {
        while self.ends.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, site)) = self.ends.pop_first() {
            self.until.remove(&site);
        }
    }
}

/// How long `path` has broken TLS remembered; `None`: not at all. KumoMTA behaviour: reconnecting in clear alone
/// remembers for a quarter of an hour.
pub(crate) fn memory(path: &EgressPath) -> Option<Duration> {
    let implied = path.opportunistic_tls_reconnect_on_failed_handshake.then_some(RECONNECT_MEMORY);
    path.remember_broken_tls.map(config::Duration::get).or(implied)
}

/// Sites remembered at once (KumoMTA: smtp_dispatcher_broken_tls 65536).
const SITES_MAX: usize = 65_536;
/// Without `remember_broken_tls`, after a reconnection in clear.
const RECONNECT_MEMORY: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(seconds * 1_000_000)
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_entry_ends_by_time_and_lives_anew_when_noted_again() {
        let mut broken = BrokenTls::default();
        assert!(!broken.is_known(at(0), "a.test"));
        broken.note(at(0), "a.test", MINUTE);
        assert!(broken.is_known(at(59), "a.test"));
        assert!(!broken.is_known(at(59), "b.test"));
        assert!(!broken.is_known(at(60), "a.test"));
        broken.note(at(50), "a.test", MINUTE);
        assert!(broken.is_known(at(109), "a.test"));
        assert!(!broken.is_known(at(110), "a.test"));
        // A shorter memory given later counts: it is what the operator wants now.
        broken.note(at(51), "a.test", Duration::from_secs(1));
        assert!(!broken.is_known(at(52), "a.test"));
    }

    #[test]
    fn what_ended_leaves() {
        let mut broken = BrokenTls::default();
        for site in ["a.test", "b.test", "a.test"] {
            broken.note(at(0), site, MINUTE);
        }
        assert_eq!((broken.until.len(), broken.ends.len()), (2, 2));
        broken.note(at(60), "c.test", MINUTE);
        assert_eq!((broken.until.len(), broken.ends.len()), (1, 1));
    }

    #[test]
    fn the_number_is_bounded_and_the_first_to_end_goes() {
        let mut broken = BrokenTls::default();
        broken.note(at(1), "soonest.test", MINUTE);
        broken.note(at(0), "later.test", 2 * MINUTE);
        for number in 2..SITES_MAX {
            broken.note(at(2), &format!("{number}.test"), MINUTE);
        }
        assert_eq!((broken.until.len(), broken.ends.len()), (SITES_MAX, SITES_MAX));
        assert!(broken.is_known(at(2), "soonest.test"), "at the bound");
        broken.note(at(2), "more.test", MINUTE);
        assert_eq!((broken.until.len(), broken.ends.len()), (SITES_MAX, SITES_MAX));
        assert!(!broken.is_known(at(2), "soonest.test"), "one more");
        assert!(broken.is_known(at(2), "later.test") && broken.is_known(at(2), "more.test"));
    }

    #[test]
    fn how_long_is_the_operators_decision() {
        let path = |remember: Option<u64>, reconnect| EgressPath {
            remember_broken_tls: remember.map(config::Duration::from_secs),
            opportunistic_tls_reconnect_on_failed_handshake: reconnect,
            ..EgressPath::default()
        };
        for (remember, reconnect, expected) in
            [(None, false, None), (None, true, Some(900)), (Some(5), false, Some(5)), (Some(5), true, Some(5))]
        {
            assert_eq!(memory(&path(remember, reconnect)), expected.map(Duration::from_secs));
        }
    }

    /// An endless duration must not overflow.
    #[test]
    fn forever_is_a_long_time() {
        let mut broken = BrokenTls::default();
        broken.note(at(1), "a.test", Duration::MAX);
        assert!(broken.is_known(at(1_000_000_000), "a.test"));
    }
}
