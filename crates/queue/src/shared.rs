//! Limits that ready queues share by name: rates, and leases for connections.
//!
//! Owns the memory of every rate, those named by paths (`additional_message_rate_throttles`, `additional_source_selection_rates`) and
//! those of queues, which queues of one name share and find again when they come back; and the
//! count of every named lease (`additional_connection_limits`). Whoever needs several takes all of them or none, so
//! nobody holds one while he waits for another. Who waits for a lease stands in line for it and is called when
//! one comes back. Knows names and numbers, nothing of messages.

use crate::core::ReadyKey;
use crate::grants::{ClusterRates, Grants, PotKey};
use crate::throttle::Rate;
use clock::{Duration, Instant};
use config::{EgressPath, ThrottleSpec};
use hashbrown::HashMap;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The memory of all rates.
#[derive(Debug, Default)]
pub(crate) struct SharedRates {
    arrivals: HashMap<Arc<str>, Instant>,
    /// What the cluster granted of those it counts.
    pub grants: Grants,
}

impl SharedRates {
    fn arrival(&self, name: &str) -> Instant {
        self.arrivals.get(name).copied().unwrap_or(Instant::ZERO)
    }

    /// Forgets what is as if it had never been.
    pub fn sweep(&mut self, now: Instant) {
        self.arrivals.retain(|_, arrival| *arrival > now);
        self.grants.sweep();
    }

    /// Names with a memory, and sets of rates of the cluster.
    pub fn len(&self) -> usize {
        self.arrivals.len() + self.grants.len()
    }

    /// Whether the cluster admits one event now; else how long it does not for sure.
    fn check(&self, of: &ClusterRates, now: Instant) -> Result<(), Duration> {
        let key = of.pot();
        if !self.grants.is_away() {
            return if self.grants.in_hand(key, now) > 0 { Ok(()) } else { Err(self.grants.known_wait(key, now)) };
        }
        let shares = of.rates().iter().map(|(name, spec)| self.grants.share_of(spec).check(self.arrival(name), now));
        shares.filter_map(Result::err).max().map_or(Ok(()), Err)
    }

    /// How long the cluster does not admit an event for sure.
    pub fn wait_of(&self, pot: PotKey, now: Instant) -> Option<Duration> {
        Some(self.check(self.grants.set(pot)?, now).err().unwrap_or_default())
    }

    /// How many events the cluster admits at once now.
    pub fn admits_by(&self, pot: PotKey, now: Instant) -> u64 {
        let Some(of) = self.grants.set(pot) else { return 0 };
        if !self.grants.is_away() {
            return self.grants.in_hand(pot, now);
        }
        let left = of.rates().iter().map(|(name, spec)| self.grants.share_of(spec).remaining(self.arrival(name), now));
        left.min().unwrap_or(0)
    }

    /// Counts one event. What this node took is remembered as used up of its share, but no debt grows.
    fn charge(&mut self, of: &ClusterRates, now: Instant) {
        self.grants.spend(of.pot(), now);
        for (name, spec) in of.rates() {
            let rate = self.grants.share_of(spec);
            let arrival = self.arrivals.entry(name.clone()).or_insert(Instant::ZERO);
            let all_used = now + rate.tolerance() + rate.interval();
            *arrival = rate.charge(*arrival, now).min(all_used);
        }
    }
}

/// The rates of one purpose: one's own, and shared ones by name. Most queues have none, and then they take no room.
#[derive(Debug, Default)]
pub(crate) struct Rates(Option<Box<Defined>>);

impl Rates {
    /// Takes a definition: the rate of one's own, by the name of whom it is (queues of one name share it), and those that paths name.
    pub fn redefine(
        &mut self,
        own: (Option<&ThrottleSpec>, impl Fn() -> String),
        named: &BTreeMap<String, ThrottleSpec>,
        shared: &mut SharedRates,
    ) {
        match own.0.is_none() && named.is_empty() {
            true => self.0 = None,
            false => self.0.get_or_insert_default().redefine(own, named, shared),
        }
    }

    /// The cluster's rates of which there is no grant, when nothing else is in the way.
    pub fn lacks(&self, shared: &SharedRates, now: Instant) -> Option<PotKey> {
        self.0.as_ref()?.lacks(shared, now)
    }

    /// The same, when it is not even known whether one is to be had.
    pub fn is_unsure_of(&self, shared: &SharedRates, now: Instant) -> Option<PotKey> {
        self.lacks(shared, now).filter(|pot| !shared.grants.is_away() && shared.grants.known_wait(*pot, now).is_zero())
    }

    /// Those that the cluster counts.
    pub fn of_cluster(&self) -> Option<&ClusterRates> {
        self.0.as_ref()?.cluster.as_ref()
    }

    /// The number of that set.
    pub fn pot(&self) -> Option<PotKey> {
        self.of_cluster().map(ClusterRates::pot)
    }

    /// Whether all admit one event now; else the longest wait. It is zero when the cluster has to be asked first.
    pub fn check(&self, shared: &SharedRates, now: Instant) -> Result<(), Duration> {
        self.0.as_ref().map_or(Ok(()), |defined| defined.check(shared, now))
    }

    /// The one that does not admit an event for the longest time; none when all admit one now.
    pub fn binds(&self, shared: &SharedRates, now: Instant) -> Option<Binds> {
        self.0.as_ref()?.binds(shared, now)
    }

    /// Takes one event's worth of all, or of none.
    pub fn admit(&mut self, shared: &mut SharedRates, now: Instant) -> Result<(), Duration> {
        self.0.as_mut().map_or(Ok(()), |defined| defined.admit(shared, now))
    }

    /// The same when the cluster has counted the event.
    pub fn take(&mut self, shared: &mut SharedRates, now: Instant) -> Result<(), Duration> {
        self.0.as_mut().map_or(Ok(()), |defined| defined.take(shared, now))
    }
}

/// Which of several rates holds longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binds {
    /// One's own.
    Own,
    /// The one of that name.
    Named(Arc<str>),
    /// One that the cluster counts.
    Cluster,
}

/// What there is of them.
#[derive(Debug, Default)]
struct Defined {
    /// Those that this node counts.
    here: Vec<Counted>,
    /// Those that the cluster counts, whosever they are.
    cluster: Option<ClusterRates>,
}

/// A rate that this node counts.
#[derive(Debug)]
struct Counted {
    /// None for one's own.
    name: Option<Arc<str>>,
    rate: Rate,
    /// What it is remembered by.
    key: Arc<str>,
}

impl Counted {
    fn check(&self, shared: &SharedRates, now: Instant) -> Result<(), Duration> {
        self.rate.check(shared.arrival(&self.key), now)
    }

    fn binds(&self) -> Binds {
        self.name.clone().map_or(Binds::Own, Binds::Named)
    }
}

impl Defined {
    fn redefine(
        &mut self,
        (own, own_name): (Option<&ThrottleSpec>, impl Fn() -> String),
        named: &BTreeMap<String, ThrottleSpec>,
        shared: &mut SharedRates,
    ) {
        let is_on = shared.grants.is_on();
        let own = own.map(|spec| (None, own_name(), spec));
        let named = named.iter().map(|(name, spec)| (Some(name.as_str().into()), name.clone(), spec));
        let all = own.into_iter().chain(named);
        let (of_cluster, here): (Vec<_>, Vec<_>) = all.partition(|(_, _, spec)| is_on && !spec.local);
        let counted = |(name, of, spec): (Option<Arc<str>>, String, &ThrottleSpec)| {
            let rate = Rate::from(spec);
            Counted { name, key: rate_key(&of, rate), rate }
        };
        self.here = here.into_iter().map(counted).collect();
        let of_cluster = of_cluster.into_iter().map(|(_, of, spec)| (spec_key(&of, spec), *spec));
        self.cluster = shared.grants.set_of(of_cluster.collect());
    }

    fn lacks(&self, shared: &SharedRates, now: Instant) -> Option<PotKey> {
        let of = self.cluster.as_ref()?;
        (self.check_here(shared, now).is_ok() && shared.check(of, now).is_err()).then(|| of.pot())
    }

    fn check(&self, shared: &SharedRates, now: Instant) -> Result<(), Duration> {
        let here = self.check_here(shared, now).err();
        let there = self.cluster.as_ref().and_then(|of| shared.check(of, now).err());
        here.max(there).map_or(Ok(()), Err)
    }

    fn binds(&self, shared: &SharedRates, now: Instant) -> Option<Binds> {
        let here = self.here.iter().filter_map(|one| Some((one.check(shared, now).err()?, one.binds())));
        let cluster = self.cluster.iter().filter_map(|of| Some((shared.check(of, now).err()?, Binds::Cluster)));
        here.chain(cluster).max_by_key(|(wait, _)| *wait).map(|(_, binds)| binds)
    }

    fn check_here(&self, shared: &SharedRates, now: Instant) -> Result<(), Duration> {
        self.here.iter().filter_map(|one| one.check(shared, now).err()).max().map_or(Ok(()), Err)
    }

    fn admit(&self, shared: &mut SharedRates, now: Instant) -> Result<(), Duration> {
        self.check(shared, now)?;
        self.charge(shared, now);
        Ok(())
    }

    fn take(&self, shared: &mut SharedRates, now: Instant) -> Result<(), Duration> {
        self.check_here(shared, now)?;
        self.charge(shared, now);
        Ok(())
    }

    /// Behind a check.
    fn charge(&self, shared: &mut SharedRates, now: Instant) {
        for Counted { key, rate, .. } in &self.here {
            let arrival = shared.arrivals.entry(key.clone()).or_insert(Instant::ZERO);
            *arrival = rate.charge(*arrival, now);
        }
        if let Some(of) = &self.cluster {
            shared.charge(of, now);
        }
    }
}

/// What a rate is remembered by here: one that changed is another, the same in other words is the same.
fn rate_key(name: &str, rate: Rate) -> Arc<str> {
    format!("{name}:{}:{}", rate.interval().as_micros(), rate.tolerance().as_micros()).into()
}

/// What a rate is remembered by in the cluster: one that changed is another (KumoMTA behaviour).
fn spec_key(name: &str, spec: &ThrottleSpec) -> Arc<str> {
    format!("{name}:{}:{}:{}", spec.limit, spec.burst(), spec.period_s).into()
}

/// Named leases that a connection needs, each with its limit.
pub type LeaseSet = Arc<[(Arc<str>, u64)]>;

/// The leases that a connection of a path needs: all, as this node counts them, and those of the cluster. `connection_limit`
/// is among them only when the cluster counts it, or ready queues of one name share it (`limit_of_all`, the largest of theirs): else
/// it is a number of the ready queue.
pub(crate) fn lease_sets(
    path: &EgressPath,
    ready_name: &str,
    limit_of_all: Option<u64>,
    grants: &Grants,
) -> (LeaseSet, LeaseSet) {
    let limits = &path.additional_connection_limits;
    let of_cluster = |spec: &config::LimitSpec| grants.is_on() && !spec.local;
    let is_of_cluster = of_cluster(&path.connection_limit);
    let limit = path.connection_limit.limit.max(limit_of_all.filter(|_| !is_of_cluster).unwrap_or_default());
    let own_limit = config::LimitSpec { limit, ..path.connection_limit };
    let is_counted = limit_of_all.is_some() || is_of_cluster;
    let own = is_counted.then(|| format!("{CONNECTION_LIMIT}{ready_name}"));
    let own = own.as_deref().map(|name| (name, &own_limit));
    let named = limits.iter().map(|(name, spec)| (name.as_str(), spec));
    let all: Vec<(Arc<str>, _)> = named.chain(own).map(|(name, spec)| (name.into(), spec)).collect();
    let here = |spec: &config::LimitSpec| if of_cluster(spec) { grants.limit(spec.limit) } else { spec.limit };
    let counted_there = all.iter().filter(|(_, spec)| of_cluster(spec));
    (
        all.iter().map(|(name, spec)| (name.clone(), here(spec))).collect(),
        counted_there.map(|(name, spec)| (name.clone(), spec.limit)).collect(),
    )
}

/// Before the name of a ready queue: its `connection_limit` (KumoMTA's name).
pub(crate) const CONNECTION_LIMIT: &str = "kumomta.connection_limit.";

/// All leases out, and who waits for one.
#[derive(Debug, Default)]
pub(crate) struct Leases(HashMap<Arc<str>, Lease>);

#[derive(Debug, Default)]
struct Lease {
    taken: u64,
    /// Of those, by connections that go so that others may have theirs.
    leaving: u64,
    /// The highest limit of who waits, or higher.
    highest: u64,
    /// Who waits and has no connection at all, in turn; they go first.
    without: VecDeque<ReadyKey>,
    /// Who would have one more, in turn.
    for_more: VecDeque<ReadyKey>,
    /// All who wait.
    waits: HashMap<ReadyKey, Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Stands in `without`.
    is_without: bool,
    /// Of whoever waits: paths may name different ones, and change them.
    limit: u64,
}

impl Lease {
    fn join(&mut self, who: ReadyKey, limit: u64, has_some: bool) {
        let before = self.waits.get(&who).map(|wait| wait.is_without);
        match before {
            None if has_some => self.for_more.push_back(who),
            None => self.without.push_back(who),
            Some(false) if !has_some => {
                self.for_more.retain(|other| *other != who);
                self.without.push_back(who);
            }
            // Whoever is in line for the first keeps its place.
            Some(_) => {}
        }
        self.highest = self.highest.max(limit);
        self.waits.insert(who, Wait { is_without: before == Some(true) || !has_some, limit });
    }

    /// The first in line who may have one.
    fn call(&mut self) -> Option<ReadyKey> {
        // Nobody of thousands, as a rule: each of them had to be looked at.
        if self.taken >= self.highest {
            return None;
        }
        let (taken, waits) = (self.taken, &self.waits);
        let may = |who: &ReadyKey| waits.get(who).is_some_and(|wait| taken < wait.limit);
        let who = match self.without.iter().position(may) {
            Some(at) => self.without.remove(at),
            None => self.for_more.iter().position(may).and_then(|at| self.for_more.remove(at)),
        }?;
        self.waits.remove(&who);
        if self.waits.is_empty() {
            self.highest = 0;
        }
        Some(who)
    }
}

impl Leases {
    /// Takes one of each, or none: then `who` is in line for the first that is not to be had, once. Whoever `has_some`
    /// connections stands behind all who have none.
    pub fn take(&mut self, set: &LeaseSet, who: ReadyKey, has_some: bool) -> bool {
        let is_out = |(name, limit): &&(Arc<str>, u64)| self.0.get(name).is_some_and(|lease| lease.taken >= *limit);
        if let Some((name, limit)) = set.iter().find(is_out) {
            self.0.entry(name.clone()).or_default().join(who, *limit, has_some);
            return false;
        }
        self.count(set);
        true
    }

    /// Takes one of each, whatever the limits are: they are in use already.
    pub fn count(&mut self, set: &LeaseSet) {
        set.iter().for_each(|(name, _)| self.0.entry(name.clone()).or_default().taken += 1);
    }

    /// Whoever has these goes, so that one of those who wait may have each.
    pub fn note_leaving(&mut self, set: &LeaseSet) {
        set.iter().for_each(|(name, _)| self.0.entry(name.clone()).or_default().leaving += 1);
    }

    /// True when more are out than these limits allow: they were less than they are.
    pub fn are_exceeded(&self, set: &LeaseSet) -> bool {
        set.iter().any(|(name, limit)| self.0.get(name).is_some_and(|lease| lease.taken > *limit))
    }

    /// Gives one of each back; whoever had them was leaving, if that was noted.
    pub fn give_back(&mut self, set: &LeaseSet, was_leaving: bool) {
        for (name, _) in set.iter() {
            if let Some(lease) = self.0.get_mut(name) {
                lease.taken = lease.taken.saturating_sub(1);
                lease.leaving = lease.leaving.saturating_sub(u64::from(was_leaving));
            }
        }
    }

    /// The next in line for one of these that is to be had; he leaves the line.
    pub fn call_next(&mut self, set: &LeaseSet) -> Option<ReadyKey> {
        set.iter().find_map(|(name, _)| self.0.get_mut(name)?.call())
    }

    /// How many are in line for one of these.
    pub fn in_line(&self, set: &LeaseSet) -> usize {
        set.iter().filter_map(|(name, _)| self.0.get(name)).map(|lease| lease.waits.len()).sum()
    }

    /// True while more of those who have no connection wait for one of these than connections leave one.
    pub fn are_missed(&self, set: &LeaseSet) -> bool {
        let is_missed = |lease: &Lease| lease.without.len() as u64 > lease.leaving;
        set.iter().any(|(name, _)| self.0.get(name).is_some_and(is_missed))
    }

    /// True while `who` is in line for one of these that is not to be had.
    pub fn awaits(&self, set: &LeaseSet, who: ReadyKey) -> bool {
        self.missing(set, who).is_some()
    }

    /// The first of these that is not to be had and that `who` is in line for.
    pub fn missing<'a>(&self, set: &'a LeaseSet, who: ReadyKey) -> Option<&'a (Arc<str>, u64)> {
        let misses = |lease: &Lease, limit| lease.taken >= limit && lease.waits.contains_key(&who);
        set.iter().find(|(name, limit)| self.0.get(name).is_some_and(|lease| misses(lease, *limit)))
    }

    /// How many are out of that name.
    pub fn taken(&self, name: &str) -> u64 {
        self.0.get(name).map_or(0, |lease| lease.taken)
    }

    /// Forgets what nobody has and nobody wants.
    pub fn sweep(&mut self) {
        self.0.retain(|_, lease| lease.taken > 0 || !lease.waits.is_empty());
    }

    /// Names with a lease out, or somebody in line.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[(&str, u64)]) -> LeaseSet {
        names.iter().map(|(name, limit)| ((*name).into(), *limit)).collect()
    }

    #[test]
    fn all_leases_are_taken_or_none() {
        let (mut leases, one, other) = (Leases::default(), ReadyKey::of_test(1), ReadyKey::of_test(2));
        let (both, second) = (set(&[("a", 5), ("b", 1)]), set(&[("b", 1)]));
        assert!(leases.take(&second, one, false));
        assert!(!leases.take(&both, other, false) && !leases.take(&both, other, false), "b is out");
        leases.sweep();
        assert_eq!((leases.in_line(&both), leases.len()), (1, 1), "in line once, and a is not held");
        assert!(leases.awaits(&both, other) && !leases.awaits(&both, one));
        assert_eq!(leases.call_next(&second), None, "nothing to be had");
        leases.give_back(&second, false);
        assert_eq!(leases.call_next(&second), Some(other));
        assert!(leases.take(&both, other, false));
        leases.give_back(&both, false);
        leases.sweep();
        assert_eq!(leases.len(), 0, "nothing is remembered of what is back");
    }

    #[test]
    fn who_has_none_goes_first_and_then_who_waited_longest() {
        let (mut leases, only) = (Leases::default(), set(&[("a", 1)]));
        let who: Vec<ReadyKey> = (0..5).map(ReadyKey::of_test).collect();
        assert!(leases.take(&only, who[0], false));
        assert!(!leases.take(&only, who[0], true) && !leases.are_missed(&only), "one more is not missed");
        assert!(!leases.take(&only, who[2], false) && !leases.take(&only, who[1], false) && leases.are_missed(&only));
        assert!(!leases.take(&only, who[3], true) && !leases.take(&only, who[3], false), "it has lost what it had");
        leases.give_back(&only, false);
        let called: Vec<ReadyKey> = std::iter::from_fn(|| leases.call_next(&only)).collect();
        assert_eq!(called, [who[2], who[1], who[3], who[0]]);
    }

    #[test]
    fn as_many_go_as_others_wait() {
        let (mut leases, few) = (Leases::default(), set(&[("a", 2)]));
        let who: Vec<ReadyKey> = (0..3).map(ReadyKey::of_test).collect();
        assert!(leases.take(&few, who[0], false) && leases.take(&few, who[0], true));
        assert!(!leases.take(&few, who[1], false) && leases.are_missed(&few));
        leases.note_leaving(&few);
        assert!(!leases.are_missed(&few), "one goes, for one who waits");
        assert!(!leases.take(&few, who[2], false) && leases.are_missed(&few), "and for another one more");
        leases.give_back(&few, true);
        assert!(leases.call_next(&few) == Some(who[1]) && leases.take(&few, who[1], false));
        assert!(leases.are_missed(&few), "the one that went counts for nobody else");
    }

    #[test]
    fn everybody_is_called_by_his_own_limit() {
        let mut leases = Leases::default();
        let (narrow, wide) = (set(&[("a", 1)]), set(&[("a", 3)]));
        let who: Vec<ReadyKey> = (0..4).map(ReadyKey::of_test).collect();
        assert!((0..3).all(|_| leases.take(&wide, who[0], true)));
        assert!(!leases.take(&narrow, who[1], false) && !leases.take(&wide, who[2], false));
        leases.give_back(&narrow, false);
        assert_eq!(leases.call_next(&narrow), Some(who[2]), "two are out: for one of the two that is enough");
        assert_eq!(leases.call_next(&narrow), None);
        (0..2).for_each(|_| leases.give_back(&wide, false));
        assert_eq!(leases.call_next(&wide), Some(who[1]));
    }

    #[test]
    fn a_rate_of_ones_own_is_that_of_all_of_the_name_and_another_has_its_own() {
        let spec = |text: &str| -> ThrottleSpec { text.parse().expect("a throttle") };
        let (mut shared, now, none) = (SharedRates::default(), Instant::from_micros(1), BTreeMap::new());
        let (hourly, quick) = (spec("100/h"), spec("1000/s"));
        let name = || "kumomta.queue_message_rate.x.test".to_owned();
        let used_up = |rates: &mut Rates, shared: &mut SharedRates, at: Instant| {
            std::iter::from_fn(|| rates.admit(shared, at).ok()).count()
        };
        let mut first = Rates::default();
        first.redefine((Some(&hourly), name), &none, &mut shared);
        assert_eq!(used_up(&mut first, &mut shared, now), 100);
        drop(first);
        let later = now + Duration::from_secs(720);
        shared.sweep(later);
        let mut next = Rates::default();
        next.redefine((Some(&hourly), name), &none, &mut shared);
        assert_eq!(used_up(&mut next, &mut shared, later), 20, "a fifth of an hour has passed");
        // A namesake, of mail with another demand for instance, has it in common with the one whose it was.
        let mut namesake = Rates::default();
        namesake.redefine((Some(&hourly), name), &none, &mut shared);
        assert_eq!(namesake.check(&shared, later), Err(Duration::from_secs(36)));
        assert_eq!(namesake.binds(&shared, later), Some(Binds::Own));
        // The same in other words is the same.
        let (words, others) = (spec("3600/h,max_burst=1"), spec("60/min,max_burst=1"));
        let mut same = Rates::default();
        same.redefine((Some(&words), String::new), &none, &mut shared);
        assert_eq!(used_up(&mut same, &mut shared, later), 1);
        same.redefine((Some(&others), String::new), &none, &mut shared);
        assert_eq!(same.check(&shared, later), Err(Duration::from_secs(1)));
        // One that changes is another, and finds what it left when it comes back.
        next.redefine((Some(&quick), name), &none, &mut shared);
        assert_eq!(next.check(&shared, later), Ok(()));
        next.redefine((None, name), &none, &mut shared);
        next.redefine((Some(&hourly), name), &none, &mut shared);
        assert_eq!(next.check(&shared, later), Err(Duration::from_secs(36)));
    }

    #[test]
    fn names_are_one_account_as_long_as_the_rate_is_the_same() {
        let spec = |text: &str| -> ThrottleSpec { text.parse().expect("a throttle") };
        let named = |text| BTreeMap::from([("all".to_owned(), spec(text))]);
        let (mut shared, now) = (SharedRates::default(), Instant::from_micros(1));
        let (mut slow, mut fast) = (Rates::default(), Rates::default());
        slow.redefine((None, String::new), &named("1/day"), &mut shared);
        fast.redefine((None, String::new), &named("1000/s"), &mut shared);
        assert_eq!(slow.admit(&mut shared, now), Ok(()));
        assert_eq!(fast.check(&shared, now), Ok(()), "a day's wait is not another rate's");
        slow.redefine((None, String::new), &named("100/day"), &mut shared);
        assert_eq!(slow.check(&shared, now), Ok(()));
        slow.redefine((None, String::new), &named("1/day"), &mut shared);
        assert_eq!(slow.check(&shared, now), Err(Duration::from_secs(86_400)));
    }

    #[test]
    fn a_shared_rate_counts_for_all_who_name_it() {
        let spec = |text: &str| -> ThrottleSpec { text.parse().expect("a throttle") };
        let named = |text| BTreeMap::from([("all".to_owned(), spec(text))]);
        let (mut shared, now) = (SharedRates::default(), Instant::from_micros(1));
        let (mut fast, mut slow) = (Rates::default(), Rates::default());
        fast.redefine((Some(&spec("100/s,max_burst=1")), String::new), &named("10/s,max_burst=2"), &mut shared);
        slow.redefine((None, String::new), &named("10/s,max_burst=2"), &mut shared);
        assert_eq!(fast.admit(&mut shared, now), Ok(()));
        assert_eq!(slow.admit(&mut shared, now), Ok(()));
        assert_eq!(slow.admit(&mut shared, now), Err(Duration::from_millis(100)), "the burst went to both");
        assert_eq!(fast.admit(&mut shared, now), Err(Duration::from_millis(100)), "the longest wait counts");
        let later = now + Duration::from_millis(100);
        assert_eq!(fast.check(&shared, later), Ok(()), "a refusal took nothing");
        shared.sweep(later);
        assert_eq!(shared.len(), 1);
        shared.sweep(later + Duration::from_secs(1));
        assert_eq!(shared.len(), 0);
    }
}
