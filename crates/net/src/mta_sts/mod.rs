//! MTA-STS policies (RFC 8461): found, remembered, kept fresh.
//!
//! In:  a domain and what its `_mta-sts` TXT records say. Out: the policy to follow, if any, and for how long that may be
//! believed. Fails never: what cannot be had is the policy known before, while it lives, and else none (section 5.1).
//!
//! - A policy lives for its `max_age`. A new id in DNS has it fetched anew before it is used; an old one past half of its
//!   life, or a day, is fetched again beside the mail, and goes on to be used meanwhile and when that fails.
//! - A failed fetch is not repeated for five minutes.
//! - At most [`POLICIES_MAX`] policies and [`FETCHES_MAX`] fetches at a time. Tasks that refresh end with their owner.
//!
//! The caller asks about one domain once at a time (`dns::MxCache` does). Deliberately not here: what a policy means.

mod fetch;

pub use fetch::{FetchError, HttpsFetch, PolicyFetch, TestPolicies};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use route::{DnsError, StsFault, StsPolicy, StsRecord, TxtAnswer};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::two_generations::TwoGenerations;

/// Policies remembered (KumoMTA: mta_sts_policy 65536).
pub const POLICIES_MAX: usize = 65_536;
/// Policies fetched at a time.
pub const FETCHES_MAX: usize = 64;

/// The memory of policies.
pub struct StsPolicies {
    shared: Arc<Shared>,
    refreshing: Mutex<JoinSet<()>>,
}

struct Shared {
    fetcher: Box<dyn PolicyFetch>,
    known: Mutex<TwoGenerations<String, Known>>,
    permits: Arc<Semaphore>,
}

/// What is known of one domain.
#[derive(Clone)]
struct Known {
    /// With the id it was fetched under, since when, and until when it may be used.
    policy: Option<(Arc<StsPolicy>, String, Instant, Instant)>,
    /// No fetch before this.
    rests_until: Option<Instant>,
    /// Why the last one came to nothing.
    fault: Option<StsFault>,
}

/// What to do about a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StsAnswer {
    /// Its policy.
    pub policy: Option<Arc<StsPolicy>>,
    /// When to ask again.
    pub good_for: Duration,
    /// Why there is none although one is, or may be, announced.
    pub fault: Option<StsFault>,
}

impl StsPolicies {
    /// Nothing known yet.
    pub fn new(fetcher: Box<dyn PolicyFetch>) -> StsPolicies {
        let known = Mutex::new(TwoGenerations::new(POLICIES_MAX));
        let shared = Shared { fetcher, known, permits: Arc::new(Semaphore::new(FETCHES_MAX)) };
        StsPolicies { shared: Arc::new(shared), refreshing: Mutex::default() }
    }

    /// True when policies do not depend on DNS, so that there is no TXT record to ask for.
    pub fn is_fixed(&self) -> bool {
        self.shared.fetcher.fixed("").is_some()
    }

    /// The policy of `domain`, whose TXT records are `records`.
    pub async fn of(&self, domain: &str, records: Result<TxtAnswer, DnsError>) -> StsAnswer {
        let domain = domain.strip_suffix('.').unwrap_or(domain).to_ascii_lowercase();
        if let Some(policy) = self.shared.fetcher.fixed(&domain) {
            return StsAnswer { policy, good_for: RECORD_TTL_MAX, fault: None };
        }
        let now = Instant::now();
        let known = self.shared.known().get(&domain).cloned();
        let live = known.as_ref().and_then(|known| known.live(now));
        let ttl_secs = records.as_ref().map_or(0, |answer| answer.ttl_secs);
        let record_ttl = Duration::from_secs(ttl_secs.into()).clamp(RECORD_TTL_MIN, RECORD_TTL_MAX);
        let announced = match records {
            Ok(answer) => StsRecord::find(&answer.texts),
            Err(error) if error.is_permanent() => None,
            // Asked again before long: to drop one answer is not to be enough to switch a policy off.
            Err(_) => {
                let live = live.map(|live| (live.policy, live.left));
                return answer(live, REST).without(Some(StsFault::Unknown));
            }
        };
        match (announced, live) {
            (None, live) => answer(live.map(|live| (live.policy, live.left)), RECORD_TTL_MAX),
            (Some(record), Some(live)) if live.id == record.id => {
                if live.age >= REFRESH_AGE_MAX.min(live.life / 2) {
                    self.refresh(domain, record.id);
                }
                answer(Some((live.policy, live.left)), record_ttl)
            }
            (Some(record), live) => {
                let live = live.map(|live| (live.policy, live.left));
                if let Some(known) = known.filter(|known| known.rests_until.is_some_and(|until| now < until)) {
                    return answer(live, record_ttl.min(REST)).without(known.fault);
                }
                match self.shared.fetch(&domain, record.id).await {
                    Ok(fetched) => {
                        let left = Duration::from_secs(fetched.max_age_secs);
                        answer(Some((fetched, left)), record_ttl)
                    }
                    Err(fault) => {
                        let rest = if fault == StsFault::Unknown { SOON } else { REST };
                        answer(live, record_ttl.min(rest)).without(Some(fault))
                    }
                }
            }
        }
    }

    /// Fetches beside the mail, unless as many fetches as there may be are under way.
    fn refresh(&self, domain: String, id: String) {
        let shared = Arc::clone(&self.shared);
        let rests = shared.known().get(&domain).is_some_and(|k| k.rests_until.is_some_and(|t| Instant::now() < t));
        if rests || shared.permits.available_permits() == 0 {
            return;
        }
        // Marked before it begins, so that it is begun once.
        shared.rest(&domain, None);
        let mut refreshing = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        while refreshing.try_join_next().is_some() {}
        refreshing.spawn(async move { _ = shared.fetch(&domain, id).await });
    }
}

impl Shared {
    /// Fetches and remembers, what comes of it and that nothing does.
    async fn fetch(&self, domain: &str, id: String) -> Result<Arc<StsPolicy>, StsFault> {
        // Servers of others that say nothing must not be what says that this one has no policy.
        let Ok(_permit) = tokio::time::timeout(LINE_MAX, self.permits.acquire()).await else {
            tracing::warn!(
                "MTA-STS policy of {domain} (id {id}): {FETCHES_MAX} others are being fetched: tried again soon"
            );
            return Err(StsFault::Unknown);
        };
        let fetching = self.fetcher.fetch(domain);
        match tokio::time::timeout(FETCH_TIMEOUT, fetching).await.unwrap_or(Err(FetchError::TimedOut(FETCH_TIMEOUT))) {
            Ok(policy) => {
                let (policy, now) = (Arc::new(policy), Instant::now());
                let until = now + Duration::from_secs(policy.max_age_secs);
                let entry =
                    Known { policy: Some((Arc::clone(&policy), id, now, until)), rests_until: None, fault: None };
                self.known().insert(domain.to_owned(), entry);
                Ok(policy)
            }
            Err(error) => {
                tracing::warn!("MTA-STS policy of {domain} (id {id}) cannot be had: {error}");
                let fault = error.fault();
                self.rest(domain, Some(fault));
                Err(fault)
            }
        }
    }

    fn rest(&self, domain: &str, fault: Option<StsFault>) {
        let mut known = self.known();
        let policy = known.get(&domain.to_owned()).and_then(|known| known.policy.clone());
        known.insert(domain.to_owned(), Known { policy, rests_until: Some(Instant::now() + REST), fault });
    }

    fn known(&self) -> MutexGuard<'_, TwoGenerations<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A policy that may be used.
struct Live {
    policy: Arc<StsPolicy>,
    id: String,
    age: Duration,
    life: Duration,
    left: Duration,
}

impl Known {
    fn live(&self, now: Instant) -> Option<Live> {
        let (policy, id, since, until) = self.policy.as_ref().filter(|(.., until)| now < *until)?;
        Some(Live {
            policy: Arc::clone(policy),
            id: id.clone(),
            age: now - *since,
            life: *until - *since,
            left: *until - now,
        })
    }
}

impl StsAnswer {
    /// The same, with why there is no policy; not when there is one.
    fn without(self, fault: Option<StsFault>) -> StsAnswer {
        StsAnswer { fault: fault.filter(|_| self.policy.is_none()), ..self }
    }
}

fn answer(policy: Option<(Arc<StsPolicy>, Duration)>, ask_again: Duration) -> StsAnswer {
    let left = policy.as_ref().map_or(Duration::MAX, |(_, left)| *left);
    StsAnswer { policy: policy.map(|(policy, _)| policy), good_for: ask_again.min(left), fault: None }
}

/// How long a fetch may take, once it has its turn.
const FETCH_TIMEOUT: Duration = Duration::from_secs(30);
/// After a fetch that failed (KumoMTA: 5 min).
const REST: Duration = Duration::from_secs(300);
/// How long a fetch waits for its turn.
const LINE_MAX: Duration = Duration::from_secs(60);
/// How long an answer counts that says nothing, as there was no turn.
const SOON: Duration = Duration::from_secs(10);
/// A policy this old is fetched again.
const REFRESH_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// The TXT record is looked at again after this, whatever its time to live says.
const RECORD_TTL_MAX: Duration = Duration::from_secs(60 * 60);
/// And not before this.
const RECORD_TTL_MIN: Duration = Duration::from_secs(60);

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
