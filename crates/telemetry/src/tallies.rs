//! What became of recipients, and how many connections were opened: a tally a ready queue, one a protocol that is the sum of its ready queues, and one for what went to
//! a provider from a source of a pool.
//!
//! A tally is some numbers that deliveries add to without a lock; whoever holds one keeps it. In: names and outcomes. Out:
//! the families `total_messages_delivered`, `total_messages_transfail` and `total_messages_fail`, those `_by_provider`,
//! `total_connection_count` and `dispatcher_watchdog_aborted_total` (KumoMTA's names and labels). One tally a ready queue until that is forgotten; [`SERIES_MAX`] have series of
//! their own. Those of providers stay, as counters have to; at most [`PROVIDERS_MAX`] of either kind. The rest counts for [`OTHER`]. Nothing can fail.
//!
//! No counter falls, and those of ready queues add up to their protocols': a ready queue that has a series keeps it until it is forgotten,
//! and [`OTHER`] is what protocols counted without what is shown, those included that are gone. A place that comes free goes to the largest
//! of those without; its series begins at 0 then, since what it counted before is told under [`OTHER`]. A scrape looks at no others.

use crate::exposition::{Exposition, Kind};
use crate::largest::{Floor, Kept, OTHER, SERIES_MAX, cut};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Outcomes of one ready queue, or of one protocol.
#[derive(Debug, Default)]
pub struct Tally {
    /// Recipients delivered to.
    pub delivered: AtomicU64,
    /// Transient failures.
    pub transfail: AtomicU64,
    /// Permanent failures.
    pub fail: AtomicU64,
    /// Connections opened; of providers they are not counted.
    pub connections: AtomicU64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Tallies {
    /// Connections of clients, ever.
    pub inbound: AtomicU64,
    all: Mutex<All>,
    /// What was told under [`OTHER`].
    other: [Floor; 4],
    /// What was told of connections that were ended because nothing went on.
    stuck: Kept,
}

#[derive(Debug, Default)]
struct All {
    protocols: BTreeMap<&'static str, Arc<Tally>>,
    /// Ready queues with series of their own, each with what it had counted before it had one.
    shown: HashMap<Arc<str>, Shown>,
    /// Those for which there was no room.
    hidden: HashMap<Arc<str>, Arc<Tally>>,
    /// Where among them the next look begins that is for the largest.
    looked: usize,
    /// Connections ended because nothing went on, by protocol, and of those ready queues that there are.
    stuck: BTreeMap<&'static str, u64>,
    stuck_queues: HashMap<Arc<str>, u64>,
    providers: BTreeMap<Way, Arc<Tally>>,
    /// How many of them are for sites, and for providers that have a name: the first must not take the room of the others.
    ways: [usize; 2],
}

/// Connections, and each of [`OUTCOMES`].
type Numbers = [u64; 4];

/// A tally, and what of it is told elsewhere.
type Shown = (Arc<Tally>, Numbers);

/// Provider, source and pool.
pub type Way = [Arc<str>; 3];

/// The numbers of one moment.
struct Moment {
    protocols: Vec<(&'static str, Numbers)>,
    queues: Vec<(Arc<str>, Numbers)>,
    other: Option<Numbers>,
    providers: BTreeMap<Way, Arc<Tally>>,
}

impl Tallies {
    /// The tally of a protocol.
    pub fn of_protocol(&self, protocol: &'static str) -> Arc<Tally> {
        self.all().protocols.entry(protocol).or_default().clone()
    }

    /// The tally of a ready queue. Whoever counts adds to it before to its protocol's.
    pub fn of_queue(&self, ready_name: &Arc<str>) -> Arc<Tally> {
        let mut all = self.all();
        if let Some(tally) = all.of_queue(ready_name) {
            return tally.clone();
        }
        let tally = Arc::<Tally>::default();
        // Who waits for a place goes first.
        if all.hidden.is_empty() && all.shown.len() < SERIES_MAX {
            all.shown.insert(ready_name.clone(), (tally.clone(), [0; 4]));
        } else {
            all.hidden.insert(ready_name.clone(), tally.clone());
        }
        tally
    }

    /// The tally of what goes to a provider from a source of a pool; `is_named` if the operator calls it so.
    pub fn of_way(&self, way: &Way, is_named: bool) -> Arc<Tally> {
        let mut all = self.all();
        if let Some(tally) = all.providers.get(way) {
            return tally.clone();
        }
        let count = &mut all.ways[usize::from(is_named)];
        let has_room = *count < PROVIDERS_MAX;
        *count += usize::from(has_room);
        let way = if has_room { way.clone() } else { [OTHER; 3].map(Into::into) };
        all.providers.entry(way).or_default().clone()
    }

    /// A connection of a ready queue was ended because nothing went on.
    pub fn count_stuck(&self, protocol: &'static str, ready_name: &str) {
        let mut all = self.all();
        *all.stuck.entry(protocol).or_default() += 1;
        // One that is gone has no series any more.
        if all.of_queue(ready_name).is_some() {
            *all.stuck_queues.entry(ready_name.into()).or_default() += 1;
        }
    }

    /// What was counted for a ready queue so far: delivered, transient failures, permanent ones. None for one that is not known.
    pub fn so_far(&self, ready_name: &str) -> Option<[u64; 3]> {
        self.all().of_queue(ready_name).map(outcomes)
    }

    /// The same of all protocols together: of everything.
    pub fn total(&self) -> [u64; 3] {
        let all = self.all();
        let add = |sums: [u64; 3], tally: &Arc<Tally>| {
            let of = outcomes(tally);
            [0, 1, 2].map(|outcome| sums[outcome] + of[outcome])
        };
        all.protocols.values().fold([0; 3], add)
    }

    /// A ready queue is gone: its series end (KumoMTA behaviour). The protocol's go on, and what it counted is told under [`OTHER`].
    pub fn forget(&self, ready_name: &str) {
        let mut all = self.all();
        all.stuck_queues.remove(ready_name);
        if all.shown.remove(ready_name).is_none() {
            all.hidden.remove(ready_name);
        }
    }

    /// Adds the families; `service` makes the label of a ready queue from its name.
    pub fn expose(&self, text: &mut Exposition, service: impl Fn(&str) -> String) {
        self.expose_stuck(text, &service);
        let Moment { protocols, queues, other, providers } = self.moment();
        let protocols = protocols.into_iter().map(|(name, numbers)| (name.to_owned(), numbers));
        let queues = queues.into_iter().map(|(name, numbers)| (service(&name), numbers));
        let other = other.map(|numbers| (OTHER.to_owned(), numbers));
        let series: Vec<(String, Numbers)> = protocols.chain(queues).chain(other).collect();
        let of = |at: usize| series.iter().map(move |(service, numbers)| ([&**service], numbers[at]));
        let of_clients = (["esmtp_listener"], self.inbound.load(Ordering::Relaxed));
        let opened = std::iter::once(of_clients).chain(of(0));
        text.family(("total_connection_count", "connections ever opened", Kind::Counter), ["service"], opened);
        for (at, (name, help, counted)) in OUTCOMES.into_iter().enumerate() {
            text.family((name, help, Kind::Counter), ["service"], of(at + 1));
            let number = |tally: &Tally| counted(tally).load(Ordering::Relaxed);
            let mut by_provider: BTreeMap<&str, u64> = BTreeMap::new();
            providers.iter().for_each(|([to, ..], tally)| *by_provider.entry(to).or_default() += number(tally));
            let family = format!("{name}_by_provider");
            let all = by_provider.into_iter().map(|(provider, sum)| ([provider], sum));
            text.family((&family, help, Kind::Counter), ["provider"], all);
            let all = providers.iter().map(|(way, tally)| (way.each_ref().map(|part| &**part), number(tally)));
            text.family((&format!("{family}_and_source"), help, Kind::Counter), ["provider", "source", "pool"], all);
        }
    }

    /// Connections that were ended because nothing went on: series of those that had any, which are few.
    fn expose_stuck(&self, text: &mut Exposition, service: impl Fn(&str) -> String) {
        let (protocols, queues) = {
            let all = self.all();
            let queues: Vec<_> = all.stuck_queues.iter().map(|(name, stuck)| (name.clone(), *stuck)).collect();
            (all.stuck.clone(), queues)
        };
        let (mut queues, other) = self.stuck.tell(protocols.values().sum(), queues, SERIES_MAX);
        queues.sort_unstable();
        let protocols = protocols.into_iter().map(|(name, stuck)| (name.to_owned(), stuck));
        let queues = queues.into_iter().map(|(name, stuck)| (service(&name), stuck));
        let all = protocols.chain(queues).chain(other.map(|stuck| (OTHER.to_owned(), stuck)));
        let family =
            ("dispatcher_watchdog_aborted_total", "outbound connections ended for want of progress", Kind::Counter);
        text.family(family, ["service"], all.map(|(service, stuck)| ([service], stuck)));
    }

    /// What is told now. Protocols are read before their queues, in which is counted first: so the rest is never more than it is in truth,
    /// and need not fall when the truth comes out.
    fn moment(&self) -> Moment {
        let mut all = self.all();
        let protocols: Vec<_> = all.protocols.iter().map(|(name, tally)| (*name, numbers(tally))).collect();
        all.fill();
        let shown: Vec<(Arc<str>, Shown)> =
            all.shown.iter().map(|(name, shown)| (name.clone(), shown.clone())).collect();
        let (is_over, providers) = (!all.hidden.is_empty(), all.providers.clone());
        drop(all);
        let mut other = [0; 4];
        protocols.iter().for_each(|(_, of)| other.iter_mut().zip(of).for_each(|(sum, number)| *sum += number));
        let mut queues = Vec::with_capacity(shown.len());
        for (name, (tally, before)) in shown {
            let mut of = numbers(&tally);
            of.iter_mut().zip(before).for_each(|(number, before)| *number = number.saturating_sub(before));
            other.iter_mut().zip(of).for_each(|(rest, number)| *rest = rest.saturating_sub(number));
            queues.push((name, of));
        }
        other.iter_mut().zip(&self.other).for_each(|(rest, floor)| *rest = floor.at_least(*rest));
        let has_rest = is_over || other.iter().any(|number| *number > 0);
        Moment { protocols, queues, other: has_rest.then_some(other), providers }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn of_queue(&self, ready_name: &str) -> Option<&Arc<Tally>> {
        self.shown.get(ready_name).map(|(tally, _)| tally).or_else(|| self.hidden.get(ready_name))
    }

    /// Gives places that came free to the largest of those without.
    fn fill(&mut self) {
        let free = SERIES_MAX.saturating_sub(self.shown.len());
        if free == 0 || self.hidden.is_empty() {
            return;
        }
        // They may be a million, and deliveries wait for this lock: some of them each time.
        let from = if self.looked < self.hidden.len() { self.looked } else { 0 };
        self.looked = from + LOOK_MAX;
        let some = self.hidden.iter().skip(from).take(LOOK_MAX);
        let mut some: Vec<_> = some.map(|(name, tally)| (name.clone(), numbers(tally).iter().sum::<u64>())).collect();
        cut(&mut some, free);
        for (name, _) in some {
            if let Some(tally) = self.hidden.remove(&name) {
                let before = numbers(&tally);
                self.shown.insert(name, (tally, before));
            }
        }
    }
}

fn numbers(tally: &Arc<Tally>) -> Numbers {
    let [delivered, transfail, fail] = outcomes(tally);
    [tally.connections.load(Ordering::Relaxed), delivered, transfail, fail]
}

fn outcomes(tally: &Arc<Tally>) -> [u64; 3] {
    OUTCOMES.map(|(.., of)| of(tally).load(Ordering::Relaxed))
}

/// Family, what it tells, and where it is counted.
type Outcome = (&'static str, &'static str, fn(&Tally) -> &AtomicU64);
/// All of them.
const OUTCOMES: [Outcome; 3] = [
    ("total_messages_delivered", "recipients delivered", |tally| &tally.delivered),
    ("total_messages_transfail", "transient failures", |tally| &tally.transfail),
    ("total_messages_fail", "permanent failures", |tally| &tally.fail),
];
/// Ready queues without series that a scrape looks at: more than there may be series, so that each place is taken.
const LOOK_MAX: usize = 2 * SERIES_MAX;
/// Ways that have tallies of their own.
const PROVIDERS_MAX: usize = 20_000;

#[cfg(test)]
#[path = "tallies_tests.rs"]
mod tests;
