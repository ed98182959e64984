//! MxCache: a domain's mail exchangers, asked for once and kept.
//!
//! In:  routing domains and sets of exchangers; any `route::Resolver`.
//! Out: `Arc<MailExchangers>` from the cache or from DNS; the addresses of each exchanger.
//!
//! - One question per domain at a time: whoever comes second waits for the first one's answer. If the first one goes away
//!   (its session is closed), the next in line asks; nobody is left hanging and no task is left behind.
//! - At most `lookups_max` questions at a time, each with a time limit, so that slow domains do not hold up the others for
//!   longer than that.
//! - Failures are kept too, for `negative_ttl`, or until an operator wants his mail tried now.
//!
//! Fails with: `route::RouteError` for a domain, `route::DnsError` per host.
//! Deliberately not here: choosing among the hosts (`route::ConnectionPlan`), refreshing before expiry.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use route::{
    BoxFuture, DnsError, Exchanger, HostTrust, IpAnswer, IpStrategy, MailExchangers, MxAnswer, ResolvedHost, Resolver,
    RouteError, RoutingDomain, TlsaAnswer, TxtAnswer,
};
use tokio::sync::{OnceCell, Semaphore};

use super::join::join_all;
use crate::mta_sts::StsPolicies;
use crate::two_generations::TwoGenerations;

/// A cache in front of a resolver. Shared by reference; cheap to ask.
pub struct MxCache {
    resolver: Arc<dyn Resolver>,
    limits: MxCacheLimits,
    /// Policies to judge hosts by; `None` when MTA-STS is off.
    sts: Option<StsPolicies>,
    slots: Mutex<TwoGenerations<RoutingDomain, Arc<Slot>>>,
    mx_permits: Semaphore,
    address_permits: Semaphore,
    counts: Counts,
}

/// What a cache has done so far, and does now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MxCounts {
    /// Domains whose hosts were known, or are being asked for by somebody else.
    pub hits: u64,
    /// Domains that had to be asked for.
    pub misses: u64,
    /// Questions that brought hosts, or that there are none to send to.
    pub found: u64,
    /// Questions that failed.
    pub failed: u64,
    /// Questions that are under way.
    pub in_progress: u64,
}

#[derive(Default)]
struct Counts {
    asked: AtomicU64,
    begun: AtomicU64,
    hits_told: AtomicU64,
    found: AtomicU64,
    failed: AtomicU64,
    in_progress: AtomicU64,
}

/// A question under way; whoever asks may go away.
struct UnderWay<'a>(&'a AtomicU64);

impl UnderWay<'_> {
    fn new(count: &AtomicU64) -> UnderWay<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        UnderWay(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bounds of an [`MxCache`]; the defaults are KumoMTA's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MxCacheLimits {
    /// Domains kept, in number (a domain with another port counts again).
    pub entries_max: usize,
    /// MX questions at a time, in number.
    pub lookups_max: usize,
    /// Time limit of one question.
    pub lookup_timeout: Duration,
    /// How long a failure is believed.
    pub negative_ttl: Duration,
}

impl Default for MxCacheLimits {
    fn default() -> Self {
        Self {
            entries_max: 65_536,
            lookups_max: 128,
            lookup_timeout: Duration::from_secs(5),
            negative_ttl: Duration::from_secs(300),
        }
    }
}

/// Who asks as a resolver waits for his turn as others do.
impl Resolver for MxCache {
    fn mx<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<MxAnswer, DnsError>> {
        Box::pin(self.mx_records(name))
    }

    fn ip<'a>(&'a self, host: &'a str, strategy: IpStrategy) -> BoxFuture<'a, Result<IpAnswer, DnsError>> {
        Box::pin(self.ask_addresses(host, strategy))
    }

    fn txt<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TxtAnswer, DnsError>> {
        Box::pin(MxCache::txt(self, name))
    }

    fn ptr<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Vec<String>, DnsError>> {
        Box::pin(MxCache::ptr(self, name))
    }

    fn tlsa<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<TlsaAnswer, DnsError>> {
        Box::pin(MxCache::tlsa(self, name))
    }

    fn validates(&self) -> bool {
        self.resolver.validates()
    }

    fn clear_cache(&self) {
        self.clear();
        self.resolver.clear_cache();
    }
}

/// A domain's place in the cache: empty while the first one asks.
type Slot = OnceCell<Outcome>;

/// Small: there is one for each destination, and errors are rare.
type Found = Result<Arc<MailExchangers>, Box<RouteError>>;

struct Outcome {
    result: Found,
    /// The same without a look at MTA-STS policies.
    without_policy: Found,
    good_until: Instant,
}

impl MxCache {
    /// An empty cache.
    pub fn new(resolver: Arc<dyn Resolver>, limits: MxCacheLimits) -> Self {
        Self {
            resolver,
            slots: Mutex::new(TwoGenerations::new(limits.entries_max)),
            mx_permits: Semaphore::new(limits.lookups_max.clamp(1, Semaphore::MAX_PERMITS)),
            address_permits: Semaphore::new(ADDRESS_LOOKUPS_MAX),
            limits,
            sts: None,
            counts: Counts::default(),
        }
    }

    /// The same with MTA-STS: a policy that is enforced leaves hosts out.
    #[must_use]
    pub fn with_mta_sts(self, policies: StsPolicies) -> Self {
        Self { sts: Some(policies), ..self }
    }

    /// The exchangers of `domain`. An address literal is answered without asking anybody.
    pub async fn resolve_site(&self, domain: &RoutingDomain) -> Result<Arc<MailExchangers>, RouteError> {
        self.resolve(domain, |outcome| outcome.result.clone()).await
    }

    /// The exchangers of `domain` whatever its MTA-STS policy says, for mail with `TLS-Required: No` (RFC 8689).
    pub async fn resolve_without_policy(&self, domain: &RoutingDomain) -> Result<Arc<MailExchangers>, RouteError> {
        self.resolve(domain, |outcome| outcome.without_policy.clone()).await
    }

    async fn resolve(
        &self,
        domain: &RoutingDomain,
        pick: impl FnOnce(&Outcome) -> Found,
    ) -> Result<Arc<MailExchangers>, RouteError> {
        let Some(name) = domain.fqdn() else {
            return MailExchangers::from_answer(domain, Err(DnsError::NoData)).map(Arc::new);
        };
        let slot = self.slot(domain, Instant::now());
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
        pick(slot.get_or_init(|| self.look_up(domain, &name)).await).map_err(|error| *error)
    }

    /// The addresses of every host of `exchangers`, in their order. Hosts are asked for side by side, so one that does not
    /// answer costs the time limit once. A null MX has none to ask for.
    pub async fn resolve_addresses(&self, exchangers: &MailExchangers, strategy: IpStrategy) -> Vec<ResolvedHost> {
        if exchangers.is_null_mx() {
            return Vec::new();
        }
        let mut resolved = Vec::with_capacity(exchangers.hosts().len());
        for hosts in exchangers.hosts().chunks(HOSTS_AT_ONCE) {
            let questions =
                hosts.iter().map(|host| -> BoxFuture<'_, ResolvedHost> { Box::pin(self.resolve_host(host, strategy)) });
            resolved.extend(join_all(questions.collect()).await);
        }
        resolved
    }

    /// The addresses of one host, in the order of the answer.
    pub async fn addresses(&self, name: &str, strategy: IpStrategy) -> Result<Vec<IpAddr>, DnsError> {
        self.ask_addresses(name, strategy).await.map(|answer| answer.addresses)
    }

    /// The TLSA records of `name`.
    pub async fn tlsa(&self, name: &str) -> Result<TlsaAnswer, DnsError> {
        let _permit = self.address_permits.acquire().await;
        let question = self.resolver.tlsa(name);
        tokio::time::timeout(self.limits.lookup_timeout, question).await.unwrap_or(Err(DnsError::Timeout))
    }

    /// The TXT records of `name`.
    pub async fn txt(&self, name: &str) -> Result<TxtAnswer, DnsError> {
        let _permit = self.address_permits.acquire().await;
        tokio::time::timeout(self.limits.lookup_timeout, self.resolver.txt(name))
            .await
            .unwrap_or(Err(DnsError::Timeout))
    }

    /// The names that PTR records of `name` give.
    pub async fn ptr(&self, name: &str) -> Result<Vec<String>, DnsError> {
        let _permit = self.address_permits.acquire().await;
        tokio::time::timeout(self.limits.lookup_timeout, self.resolver.ptr(name))
            .await
            .unwrap_or(Err(DnsError::Timeout))
    }

    async fn ask_addresses(&self, name: &str, strategy: IpStrategy) -> Result<IpAnswer, DnsError> {
        let _permit = self.address_permits.acquire().await;
        let question = self.resolver.ip(name, strategy);
        tokio::time::timeout(self.limits.lookup_timeout, question).await.unwrap_or(Err(DnsError::Timeout))
    }

    /// The MX records of `name` as the resolver has them, past the cache.
    async fn mx_records(&self, name: &str) -> Result<MxAnswer, DnsError> {
        let _permit = self.mx_permits.acquire().await;
        tokio::time::timeout(self.limits.lookup_timeout, self.resolver.mx(name)).await.unwrap_or(Err(DnsError::Timeout))
    }

    /// What it has done so far.
    pub fn counts(&self) -> MxCounts {
        let [asked, misses, found, failed, in_progress] = {
            let Counts { asked, begun, found, failed, in_progress, .. } = &self.counts;
            [asked, begun, found, failed, in_progress].map(|count| count.load(Ordering::Relaxed))
        };
        // Who waits for another is a hit, until that one goes away: what was told does not fall.
        let hits = asked.saturating_sub(misses);
        let hits = self.counts.hits_told.fetch_max(hits, Ordering::Relaxed).max(hits);
        MxCounts { hits, misses, found, failed, in_progress }
    }

    /// Domains in the cache, expired ones included.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True when nothing is in the cache.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything, for instance when memory is short. Questions under way still answer those who wait for them.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Forgets all failures, and questions under way, which may yet fail: whoever asks next asks anew, also the server, since
    /// nothing stays of what the resolver behind it keeps.
    pub fn forget_failures(&self) {
        self.resolver.clear_cache();
        self.lock().retain(|slot| slot.get().is_some_and(|outcome| outcome.result.is_ok()));
    }

    /// What is known of a domain's hosts now, however old; asks nobody.
    pub fn known_site(&self, domain: &RoutingDomain) -> Option<Arc<MailExchangers>> {
        let slot = self.lock().get(domain).cloned()?;
        slot.get().and_then(|outcome| outcome.result.as_ref().ok().cloned())
    }

    /// The slot to wait on: the one in the cache, or a new one if there is none or its content has expired.
    fn slot(&self, domain: &RoutingDomain, now: Instant) -> Arc<Slot> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(domain) {
            let is_good = slot.get().is_none_or(|outcome| now < outcome.good_until);
            if is_good {
                return Arc::clone(slot);
            }
        }
        let slot = Arc::new(Slot::new());
        slots.insert(domain.clone(), Arc::clone(&slot));
        slot
    }

    async fn look_up(&self, domain: &RoutingDomain, name: &str) -> Outcome {
        self.counts.begun.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay::new(&self.counts.in_progress);
        let outcome = self.ask_about(domain, name).await;
        let count = if outcome.result.is_ok() { &self.counts.found } else { &self.counts.failed };
        count.fetch_add(1, Ordering::Relaxed);
        outcome
    }

    async fn ask_about(&self, domain: &RoutingDomain, name: &str) -> Outcome {
        let (answer, records) = self.ask_mx(name).await;
        let without_policy = MailExchangers::from_answer(domain, answer).map(Arc::new).map_err(Box::new);
        let (result, sts_good_for) = match (&without_policy, &self.sts) {
            (Ok(exchangers), Some(policies)) if !exchangers.is_null_mx() => {
                let found = policies.of(name, records).await;
                let judged = match &found.policy {
                    Some(policy) => {
                        MailExchangers::clone(exchangers).under_policy(policy).map(Arc::new).map_err(Box::new)
                    }
                    None => Ok(Arc::clone(exchangers)),
                };
                let judged = match found.policy.is_some() || found.fault.is_some() {
                    true => {
                        judged.map(|hosts| Arc::new(Arc::unwrap_or_clone(hosts).reported(found.policy, found.fault)))
                    }
                    false => judged,
                };
                (judged, found.good_for)
            }
            (result, _) => (result.clone(), POSITIVE_TTL_MAX),
        };
        let ttl = match &result {
            Ok(exchangers) => {
                let ttl = Duration::from_secs(exchangers.ttl_secs().into());
                ttl.min(sts_good_for).clamp(POSITIVE_TTL_MIN, POSITIVE_TTL_MAX)
            }
            Err(error) => {
                tracing::debug!(%domain, %error, "no mail exchangers");
                self.limits.negative_ttl
            }
        };
        Outcome { result, without_policy, good_until: Instant::now() + ttl }
    }

    /// The MX records of a name, and side by side with them what announces a policy.
    async fn ask_mx(&self, name: &str) -> (Result<MxAnswer, DnsError>, Result<TxtAnswer, DnsError>) {
        // the semaphore is never closed; a permit or an error, the question is asked
        let _permit = self.mx_permits.acquire().await;
        let limit = self.limits.lookup_timeout;
        let mx = tokio::time::timeout(limit, self.resolver.mx(name));
        let record_name = format!("_mta-sts.{name}");
        let txt = async {
            match self.sts.as_ref().is_some_and(|policies| !policies.is_fixed()) {
                true => {
                    tokio::time::timeout(limit, self.resolver.txt(&record_name)).await.unwrap_or(Err(DnsError::Timeout))
                }
                false => Err(DnsError::NoData),
            }
        };
        let (mx, txt) = tokio::join!(mx, txt);
        (mx.unwrap_or(Err(DnsError::Timeout)), txt)
    }

    async fn resolve_host(&self, host: &Exchanger, strategy: IpStrategy) -> ResolvedHost {
        let answer = match host.ip {
            // An address that the policy names needs nobody to vouch for it.
            Some(ip) => Ok((vec![ip], HostTrust { is_secure: true, ..HostTrust::default() })),
            None => self.ask_addresses(&host.name, strategy).await.map(|answer| (answer.addresses, answer.trust)),
        };
        let (addresses, trust) = match answer {
            Ok((addresses, trust)) => (Ok(addresses), trust),
            Err(error) => (Err(error), HostTrust::default()),
        };
        ResolvedHost { exchanger: host.clone(), addresses, trust }
    }

    fn lock(&self) -> MutexGuard<'_, TwoGenerations<RoutingDomain, Arc<Slot>>> {
        // a panic elsewhere leaves a map that is whole all the same: every step in it is one call
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shortest life of a found set: a zone with a TTL of 0 must not cost a question per message.
const POSITIVE_TTL_MIN: Duration = Duration::from_secs(5);
/// Longest life of a found set.
const POSITIVE_TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Hosts of one domain asked for side by side.
const HOSTS_AT_ONCE: usize = 32;
/// Address questions at a time over all domains.
const ADDRESS_LOOKUPS_MAX: usize = 256;

#[cfg(test)]
#[path = "mx_cache_tests.rs"]
mod tests;
