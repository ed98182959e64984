//! Rates of a cluster: admissions that were granted ahead by whoever counts for all nodes, and who waits for one.
//!
//! A pot belongs to a set of rates that one event needs together, so that all of them are charged or none: nobody holds a
//! grant of one while he waits for another. A grant counted when it was asked for and is good for [`GRANT_LIFE`]: what is
//! not spent by then is lost, so no hoard is ever spent at once. While nobody counts, this node admits its share by
//! itself. Pure: a question leaves as an effect, its answer comes back through `QueueCore::granted`.

use crate::core::{ConnKey, QueueKey, ReadyKey};
use crate::throttle::Rate;
use clock::{Duration, Instant};
use config::ThrottleSpec;
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;
use std::sync::Arc;

/// Rates of the cluster that one event needs together, by name. Clones are the same set.
#[derive(Clone, Debug)]
pub struct ClusterRates(Arc<RateSet>);

#[derive(Debug)]
struct RateSet {
    pot: PotKey,
    rates: Vec<(Arc<str>, ThrottleSpec)>,
}

impl ClusterRates {
    /// Name and rate of each.
    pub fn rates(&self) -> &[(Arc<str>, ThrottleSpec)] {
        &self.0.rates
    }

    pub(crate) fn pot(&self) -> PotKey {
        self.0.pot
    }
}

/// A pot's number; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PotKey(u32);

/// Who waits for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Waiter {
    /// A scheduled queue, for its own rate.
    Promote(QueueKey),
    /// A scheduled queue, for a word on whether the source it chose may be chosen: a refusal will do.
    Pick(QueueKey),
    /// Those who wait before a ready queue, for its source.
    Select(ReadyKey),
    /// A ready queue, to open a connection.
    Open(ReadyKey),
    /// A connection, for a message.
    Take(ConnKey),
}

/// What comes of wanting grants.
#[derive(Debug)]
pub(crate) enum Asking {
    /// Ask for so many.
    Now(ClusterRates, u64),
    /// Not before this moment.
    At(Instant),
    /// It is being done, or will be.
    UnderWay,
}

/// All pots.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// The part of each rate and limit that is this node's while nobody counts for all; `None` without a cluster.
    share: Option<f64>,
    is_away: bool,
    /// Alone, this node opens connections from then on: others must have noticed and kept to their shares by then.
    alone_from: Instant,
    by_names: HashMap<Vec<(Arc<str>, ThrottleSpec)>, PotKey>,
    pots: HashMap<PotKey, Pot>,
    last: u32,
}

#[derive(Debug)]
struct Pot {
    of: ClusterRates,
    /// Admissions in hand, and until when they are good.
    in_hand: u64,
    good_until: Instant,
    asked_at: Option<Instant>,
    /// The answer said that nothing is to be had before this moment.
    next: Instant,
    /// A timer is set for this moment; none when it is past.
    looks_at: Instant,
    /// How many are asked for at a time, at most.
    batch: u64,
    line: VecDeque<Waiter>,
    in_line: HashSet<Waiter>,
}

impl Pot {
    fn in_hand(&self, now: Instant) -> u64 {
        if now < self.good_until { self.in_hand } else { 0 }
    }
}

impl Grants {
    /// From now on there is a cluster.
    pub fn set_share(&mut self, share: f64) {
        self.share = Some(share);
    }

    /// True when what is not `local:` is counted for all nodes.
    pub fn is_on(&self) -> bool {
        self.share.is_some()
    }

    /// True while this node goes by its share.
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Nobody counts for all any more, or somebody does again. True when that is new.
    pub fn set_away(&mut self, now: Instant, is_away: bool) -> bool {
        let is_new = self.is_on() && std::mem::replace(&mut self.is_away, is_away) != is_away;
        if is_new {
            self.alone_from = if is_away { now + ALONE_AFTER } else { Instant::ZERO };
            for pot in self.pots.values_mut() {
                (pot.in_hand, pot.next, pot.asked_at) = (0, Instant::ZERO, None);
            }
        }
        is_new
    }

    /// No connection that the cluster would count is opened before this moment.
    pub fn alone_from(&self) -> Instant {
        self.alone_from
    }

    /// What a limit of the cluster is for this node now.
    pub fn limit(&self, limit: u64) -> u64 {
        match self.share.filter(|_| self.is_away) {
            Some(share) => ((limit as f64 * share) as u64).clamp(1, limit.max(1)),
            None => limit,
        }
    }

    /// What a rate is for this node while nobody counts.
    pub fn share_of(&self, spec: &ThrottleSpec) -> Rate {
        Rate::share(spec, self.share.unwrap_or(1.0))
    }

    /// The set of these rates; `None` for none.
    pub fn set_of(&mut self, rates: Vec<(Arc<str>, ThrottleSpec)>) -> Option<ClusterRates> {
        if rates.is_empty() {
            return None;
        }
        if let Some(pot) = self.by_names.get(&rates).and_then(|key| self.pots.get(key)) {
            return Some(pot.of.clone());
        }
        self.last += 1;
        let key = PotKey(self.last);
        let of = ClusterRates(Arc::new(RateSet { pot: key, rates: rates.clone() }));
        let pot = Pot {
            of: of.clone(),
            in_hand: 0,
            good_until: Instant::ZERO,
            asked_at: None,
            next: Instant::ZERO,
            looks_at: Instant::ZERO,
            batch: BATCH_MIN,
            line: VecDeque::new(),
            in_line: HashSet::new(),
        };
        self.by_names.insert(rates, key);
        self.pots.insert(key, pot);
        Some(of)
    }

    /// The set of that number.
    pub fn set(&self, key: PotKey) -> Option<&ClusterRates> {
        self.pots.get(&key).map(|pot| &pot.of)
    }

    /// How many events may happen now by what was granted.
    pub fn in_hand(&self, key: PotKey, now: Instant) -> u64 {
        self.pots.get(&key).map_or(0, |pot| pot.in_hand(now))
    }

    /// Spends one grant.
    pub fn spend(&mut self, key: PotKey, now: Instant) {
        if let Some(pot) = self.pots.get_mut(&key) {
            pot.in_hand = pot.in_hand(now).saturating_sub(1);
        }
    }

    /// How long no grant is to be had for sure; zero when it is not known.
    pub fn known_wait(&self, key: PotKey, now: Instant) -> Duration {
        self.pots.get(&key).map_or(Duration::ZERO, |pot| pot.next.saturating_since(now))
    }

    /// Puts somebody in line, once.
    pub fn join(&mut self, key: PotKey, who: Waiter) {
        if let Some(pot) = self.pots.get_mut(&key)
            && pot.in_line.insert(who)
        {
            pot.line.push_back(who);
        }
    }

    /// The first in line leaves it.
    pub fn call(&mut self, key: PotKey) -> Option<Waiter> {
        let pot = self.pots.get_mut(&key)?;
        let who = pot.line.pop_front()?;
        pot.in_line.remove(&who);
        Some(who)
    }

    /// All for whom a refusal is an answer leave the line.
    pub fn call_pickers(&mut self, key: PotKey) -> Vec<Waiter> {
        let Some(pot) = self.pots.get_mut(&key) else { return Vec::new() };
        let (called, line): (Vec<Waiter>, Vec<Waiter>) =
            pot.line.drain(..).partition(|who| matches!(who, Waiter::Pick(_)));
        pot.line = line.into();
        called.iter().for_each(|who| _ = pot.in_line.remove(who));
        called
    }

    /// How many are in line.
    pub fn in_line(&self, key: PotKey) -> usize {
        self.pots.get(&key).map_or(0, |pot| pot.line.len())
    }

    /// True while somebody is in line who will come again when he is refused.
    pub fn waits(&self, key: PotKey) -> bool {
        self.pots.get(&key).is_some_and(|pot| pot.line.iter().any(|who| !matches!(who, Waiter::Pick(_))))
    }

    /// True while `who` is in line.
    pub fn awaits(&self, key: PotKey, who: Waiter) -> bool {
        self.pots.get(&key).is_some_and(|pot| pot.in_line.contains(&who))
    }

    /// Those at the head of the line who want nothing any more leave it; how much the others want, up to a batch.
    pub fn demand(&mut self, key: PotKey, wants: impl Fn(Waiter) -> u64) -> u64 {
        let Some(pot) = self.pots.get_mut(&key) else { return 0 };
        let mut demand = 0_u64;
        let mut line = std::mem::take(&mut pot.line);
        let in_line = &mut pot.in_line;
        line.retain(|who| {
            if demand >= BATCH_MAX {
                return true;
            }
            let wanted = wants(*who);
            demand = demand.saturating_add(wanted);
            wanted > 0 || !in_line.remove(who)
        });
        pot.line = line;
        demand
    }

    /// True when it makes sense to find out how many are wanted.
    pub fn may_ask(&self, key: PotKey, now: Instant) -> bool {
        self.pots.get(&key).is_some_and(|pot| {
            !pot.line.is_empty() && pot.asked_at.is_none() && pot.in_hand(now) == 0 && pot.looks_at <= now
        })
    }

    /// Somebody wants `demand` grants.
    pub fn ask(&mut self, key: PotKey, now: Instant, demand: u64) -> Asking {
        let Some(pot) = self.pots.get_mut(&key).filter(|pot| pot.asked_at.is_none()) else { return Asking::UnderWay };
        if pot.next > now {
            pot.looks_at = pot.next;
            return Asking::At(pot.next);
        }
        // What was lost was too much; what was spent to the last was too little.
        pot.batch = match pot.in_hand {
            0 => (pot.batch * 2).min(BATCH_MAX),
            lost => pot.batch.saturating_sub(lost).max(BATCH_MIN),
        };
        (pot.in_hand, pot.asked_at) = (0, Some(now));
        Asking::Now(pot.of.clone(), demand.min(pot.batch).max(1))
    }

    /// Nobody is to be asked before this moment.
    pub fn look_at(&mut self, key: PotKey, at: Instant) {
        if let Some(pot) = self.pots.get_mut(&key) {
            pot.looks_at = at;
        }
    }

    /// The answer: so many, and when to ask for more. One that nobody waits for is void: it was asked for before the
    /// cluster went away.
    pub fn answered(&mut self, key: PotKey, now: Instant, asked_at: Instant, (count, wait): (u64, Duration)) -> bool {
        let Some(pot) = self.pots.get_mut(&key).filter(|pot| pot.asked_at == Some(asked_at)) else { return false };
        pot.asked_at = None;
        pot.in_hand = count;
        pot.good_until = (asked_at + GRANT_LIFE).max(now + SPENDING);
        // A refusal lasts for a moment at least: whoever is called by it must see it.
        let least = if count == 0 { REFUSED_MIN } else { Duration::ZERO };
        pot.next = now + wait.max(least);
        true
    }

    /// Whoever counts was asked without a grant and said that none is to be had for so long.
    pub fn refused(&mut self, key: PotKey, now: Instant, wait: Duration) {
        if let Some(pot) = self.pots.get_mut(&key) {
            pot.next = now + wait;
        }
    }

    /// Pots in which somebody waits.
    pub fn awaited(&self) -> Vec<PotKey> {
        let mut keys: Vec<PotKey> = self.pots.iter().filter(|(_, pot)| !pot.line.is_empty()).map(|(k, _)| *k).collect();
        // In order of age: equal runs must do equal things.
        keys.sort_unstable();
        keys
    }

    /// Forgets sets that no path and no queue has any more.
    pub fn sweep(&mut self) {
        self.pots.retain(|_, pot| Arc::strong_count(&pot.of.0) > 1);
        let pots = &self.pots;
        self.by_names.retain(|_, key| pots.contains_key(key));
    }

    /// How many sets there are.
    pub fn len(&self) -> usize {
        self.pots.len()
    }
}

/// How long after the question a grant is good. Whoever counts lowers the burst of a rate by what comes in this time.
pub const GRANT_LIFE: Duration = Duration::from_millis(250);
/// How long after the answer it is good in any case: a slow answer must not be void.
const SPENDING: Duration = Duration::from_millis(50);
/// Shortest time a refusal is believed.
const REFUSED_MIN: Duration = Duration::from_millis(1);
/// How long a node waits for others to keep to their shares before it opens connections by its own: they look every two
/// seconds, and their question has a time limit of a second by default.
const ALONE_AFTER: Duration = Duration::from_secs(4);
/// Fewest that are asked for at a time, where so many are wanted.
const BATCH_MIN: u64 = 2;
/// Most.
pub const BATCH_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(text: &str) -> ThrottleSpec {
        text.parse().expect("a throttle")
    }

    fn one() -> (Grants, PotKey, ClusterRates) {
        let mut grants = Grants::default();
        grants.set_share(0.5);
        let of = grants.set_of(vec![("a".into(), spec("10/s"))]).expect("one rate");
        (grants, of.pot(), of)
    }

    fn who(number: u32) -> Waiter {
        Waiter::Promote(QueueKey::of(number))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn grants_are_spent_lost_and_asked_for_by_what_is_wanted() {
        let (mut grants, key, _of) = one();
        grants.join(key, who(1));
        grants.join(key, who(1));
        assert_eq!((grants.in_line(key), grants.may_ask(key, at(1))), (1, true));
        assert!(matches!(grants.ask(key, at(1), 9), Asking::Now(_, 4)), "twice the smallest batch");
        assert!(matches!(grants.ask(key, at(2), 9), Asking::UnderWay));
        assert!(grants.answered(key, at(3), at(1), (4, Duration::from_millis(80))));
        assert!(!grants.answered(key, at(3), at(1), (4, Duration::ZERO)), "nobody asked");
        grants.spend(key, at(4));
        assert_eq!(grants.in_hand(key, at(250)), 3);
        assert_eq!(grants.in_hand(key, at(251)), 0, "lost");
        assert!(matches!(grants.ask(key, at(251), 9), Asking::Now(_, 2)), "less, since some were lost");
        grants.answered(key, at(900), at(251), (1, Duration::ZERO));
        assert_eq!(grants.in_hand(key, at(949)), 1, "a late answer is good for a moment");
        assert_eq!(grants.in_hand(key, at(950)), 0);
    }

    #[test]
    fn a_refusal_says_when_to_ask_again_and_is_seen_by_who_is_called() {
        let (mut grants, key, _of) = one();
        assert!(matches!(grants.ask(key, at(0), 1), Asking::Now(_, 1)));
        grants.answered(key, at(1), at(0), (0, Duration::ZERO));
        assert!(grants.known_wait(key, at(1)) > Duration::ZERO);
        assert!(matches!(grants.ask(key, at(2), 1), Asking::Now(..)));
        grants.answered(key, at(3), at(2), (0, Duration::from_millis(70)));
        assert!(matches!(grants.ask(key, at(4), 1), Asking::At(when) if when == at(73)));
        assert!(!grants.may_ask(key, at(72)) || grants.in_line(key) == 0);
    }

    #[test]
    fn whoever_wants_nothing_leaves_and_sets_are_forgotten_with_their_paths() {
        let (mut grants, key, of) = one();
        grants.join(key, who(1));
        grants.join(key, who(2));
        grants.join(key, Waiter::Pick(QueueKey::of(3)));
        assert_eq!(grants.demand(key, |w| if w == who(1) { 0 } else { 3 }), 6);
        assert!(!grants.awaits(key, who(1)) && grants.awaits(key, who(2)));
        assert!(grants.waits(key));
        assert_eq!(grants.call_pickers(key), [Waiter::Pick(QueueKey::of(3))]);
        assert_eq!((grants.call(key), grants.call(key)), (Some(who(2)), None));
        grants.join(key, Waiter::Pick(QueueKey::of(3)));
        assert!(!grants.waits(key), "refused, it goes another way");
        grants.sweep();
        assert_eq!(grants.len(), 1);
        let same = grants.set_of(vec![("a".into(), spec("10/s"))]).expect("one rate");
        assert_eq!(same.pot(), key);
        drop((of, same));
        grants.sweep();
        assert_eq!(grants.len(), 0);
    }

    #[test]
    fn a_share_of_a_limit_is_rounded_down_and_one_at_least() {
        let (mut grants, ..) = one();
        assert_eq!(grants.limit(5), 5);
        assert!(grants.set_away(at(5), true) && !grants.set_away(at(6), true));
        assert_eq!(grants.alone_from(), at(5) + ALONE_AFTER);
        assert_eq!((grants.limit(5), grants.limit(1)), (2, 1));
        assert!(grants.set_away(at(7), false));
        assert_eq!(grants.alone_from(), Instant::ZERO);
        assert_eq!(grants.limit(5), 5);
        assert!(!Grants::default().set_away(at(1), true), "without a cluster there is nothing to be away");
    }

    proptest! {
        /// Whatever is asked, answered late or twice, spent and lost: what is spent was granted, and not long before.
        #[test]
        fn what_is_spent_was_granted_and_lately(steps in proptest::collection::vec((0_u8..4, 0_u64..120, 0_u64..9), 1..200)) {
            let (mut grants, key, _of) = one();
            let (mut now, mut asked_at, mut granted, mut spent) = (Instant::ZERO, None, 0_u64, 0_u64);
            let mut good_until = Instant::ZERO;
            grants.join(key, who(1));
            for (step, pause_ms, count) in steps {
                now = now + Duration::from_millis(pause_ms);
                match step {
                    0 => if let Asking::Now(_, asked) = grants.ask(key, now, count) {
                        prop_assert!((1..=BATCH_MAX).contains(&asked) && asked <= count.max(1));
                        (asked_at, granted, spent) = (Some(now), 0, 0);
                    },
                    1 => {
                        let was_asked = asked_at.take();
                        let question = was_asked.unwrap_or(now);
                        prop_assert_eq!(grants.answered(key, now, question, (count, Duration::ZERO)), was_asked.is_some());
                        if let Some(asked) = was_asked {
                            granted = count;
                            good_until = (asked + GRANT_LIFE).max(now + SPENDING);
                        }
                    }
                    _ => if grants.in_hand(key, now) > 0 {
                        grants.spend(key, now);
                        spent += 1;
                        prop_assert!(now < good_until, "spent too late");
                    },
                }
                prop_assert!(spent <= granted, "{} spent of {}", spent, granted);
            }
        }
    }
}
