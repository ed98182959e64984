//! Where every message is and how much there is of everything: for the simulator's oracle and
//! for operators who list a queue.
//!
//! Reads only, and walks everything: O(messages). What connections hold and what effects carry
//! is with whoever took them and not seen here.

use crate::core::{Counts, QueueCore, QueueKey, ReadyKey};
use crate::grants::Waiter;
use crate::ready::{Leg, ReadyQueue};
use crate::sources::SourceFault;
use clock::{Duration, Instant, Now};
use config::QueueConfig;
use message::MessageId;
use std::sync::Arc;

/// Where in the queue manager a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In a scheduled queue, for its due time.
    Waiting,
    /// In a scheduled queue, its time has come and its way is not free.
    Due,
    /// In a ready queue.
    Ready,
    /// Waiting to be settled without a connection.
    Ending,
    /// Set aside by an order.
    Held,
    /// Waiting to be spooled.
    Unspooled,
}

/// Sizes of everything that could grow without bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Scheduled queues, and names that lead to them.
    pub scheduled_queues: usize,
    /// Ready queues, and names that lead to them.
    pub ready_queues: usize,
    /// Places in lines before full ready queues.
    pub waiters: usize,
    /// Connections noted as idle.
    pub idle: usize,
    /// Connections, opening ones included.
    pub connections: usize,
    /// Timers that have not fired.
    pub timers: usize,
    /// Of these, those of messages that an order took away.
    pub stale_timers: usize,
    /// Effects not drained.
    pub effects: usize,
    /// Names of shared rates and leases, and sources that failed, that are remembered.
    pub shared: usize,
    /// Orders in force.
    pub orders: usize,
    /// Messages that queues expect back.
    pub out: usize,
    /// Waits that no event ended but the periodic look at everything: lost wake-ups, ever.
    pub caught: usize,
}

/// What of a scheduled queue is counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Its name; a name comes once for each demand about TLS.
    pub name: Arc<str>,
    /// Messages that wait or are due.
    pub messages: usize,
    /// Messages that it expects back.
    pub out: usize,
    /// Its configuration, when that names a provider.
    pub provider: Option<Arc<QueueConfig>>,
}

/// What a count of [`QueueCore::full_counts`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullOf {
    /// All ready queues of a protocol, those that are gone too.
    Protocol,
    /// One ready queue.
    Queue,
}

impl QueueCore {
    /// What is counted of these, as far as they are still there.
    pub fn counted(&self, keys: &[QueueKey]) -> Vec<Counted> {
        let queues = keys.iter().filter_map(|key| self.scheduled.get(key));
        let counted = queues.map(|queue| Counted {
            name: queue.name.clone(),
            messages: queue.len(),
            out: queue.out,
            provider: queue.config.clone().filter(|config| config.provider_name.is_some()),
        });
        counted.collect()
    }

    /// Messages in scheduled queues, in ready queues, and queues of either kind.
    pub fn counts(&self) -> Counts {
        Counts {
            scheduled: self.scheduled.values().map(|queue| queue.len()).sum(),
            ready: self.ready.values().map(|r| r.messages.len()).sum(),
            out: self.scheduled.values().map(|q| q.out).sum(),
            scheduled_queues: self.scheduled.len(),
            connections: self.ready.values().map(|r| r.connections.len()).sum(),
        }
    }

    /// Whether there is a scheduled queue of that name.
    pub fn has_queue(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Messages that wait or are due in a scheduled queue; 0 when there is none of that name.
    pub fn scheduled_in(&self, name: &str) -> usize {
        self.namesakes(name).filter_map(|key| self.scheduled.get(&key)).map(|queue| queue.len()).sum()
    }

    /// The queues of one name.
    pub(crate) fn namesakes(&self, name: &str) -> impl Iterator<Item = QueueKey> {
        self.by_name.get(name).copied().unwrap_or_default().into_iter().flatten()
    }

    /// Ready queues of that name: destinations that must not be mixed share one.
    pub(crate) fn ready_named(&self, name: &str) -> impl Iterator<Item = ReadyKey> {
        let first: (Arc<str>, Arc<str>) = (name.into(), "".into());
        let name = first.0.clone();
        self.ready_by_name.range(first..).take_while(move |((of, _), _)| *of == name).map(|(_, key)| *key)
    }

    /// Name and number of messages of every scheduled queue; a name comes once for each demand about TLS.
    pub fn scheduled_counts(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.scheduled.values().map(|q| (&q.name, q.len()))
    }

    /// Name, messages and connections of every ready queue.
    pub fn ready_counts(&self) -> impl Iterator<Item = (&Arc<str>, usize, usize)> {
        self.legs().map(|(name, _, messages, connections)| (name, messages, connections))
    }

    /// The same, with its way out.
    pub fn legs(&self) -> impl Iterator<Item = (&Arc<str>, &Leg, usize, usize)> {
        self.ready.values().map(|r| (&r.name, &r.leg, r.messages.len(), r.connections.len()))
    }

    /// How often what was due in scheduled queues found no room in ready queues, each minute once until all of it had: in all of a protocol so far,
    /// then in each that there is.
    pub fn full_counts(&self) -> impl Iterator<Item = (&Arc<str>, FullOf, u64)> {
        let protocols = self.full.iter().map(|(protocol, times)| (protocol, FullOf::Protocol, *times));
        let queues = self.ready.values().filter(|ready| ready.full > 0);
        protocols.chain(queues.map(|ready| (&ready.name, FullOf::Queue, ready.full)))
    }

    /// Messages that had to wait for `max_message_rate` or a named rate when it was their turn, however often that was asked for.
    pub fn delayed_by_rate(&self) -> u64 {
        self.delayed_by_rate
    }

    /// Each source that has failed of late, in what way, and whether it rests for that.
    pub fn source_healths(&self, now: Now) -> impl Iterator<Item = (&str, SourceFault, bool)> {
        self.sources.healths(now.mono)
    }

    /// Messages in queues whose content and metadata are in memory; what is in hand is not in it.
    pub fn resident_messages(&self) -> usize {
        self.messages.resident().messages
    }

    /// Every message the manager holds, in no particular order.
    pub fn census(&self) -> impl Iterator<Item = (MessageId, Place)> {
        let waiting = self.messages.waiting().map(|m| (m.id, Place::Waiting));
        let due = self.scheduled.values().map(|q| (&q.due, Place::Due));
        let ready = self.ready.values().flat_map(|r| r.messages.iter(&self.messages)).map(|m| (m.id, Place::Ready));
        let failed = self.endings.failed.iter().map(|(_, list)| (list, Place::Ending));
        let ending = failed.chain([(&self.endings.expired, Place::Ending)]);
        let ordered = self.orders.lists().map(|(list, place, _)| (list, place));
        let lists = due.chain(ending).chain(ordered).chain([(&self.unspooled.list, Place::Unspooled)]);
        waiting.chain(ready).chain(lists.flat_map(|(list, place)| self.messages.iter(list).map(move |m| (m.id, place))))
    }

    /// How much there is of everything.
    pub fn footprint(&self) -> Footprint {
        Footprint {
            scheduled_queues: self.scheduled.len().max(self.by_name.len()).max(self.domains.len()),
            ready_queues: self.ready.len().max(self.ready_by_name.len()),
            waiters: self.ready.values().map(|r| r.waiters.len() + r.small_waiters.len()).sum(),
            idle: self.ready.values().map(|r| r.idle.len()).sum(),
            connections: self.ready.values().map(|r| r.connections.len()).sum(),
            timers: self.wheel.len() + self.due_wheel.len() + self.fired.len(),
            stale_timers: self.stale_timers,
            effects: self.effects.len(),
            shared: self.rates.len() + self.leases.len() + self.sources.len(),
            orders: self.orders.len(),
            out: self.scheduled.values().map(|q| q.out).sum(),
            caught: self.caught,
        }
    }

    /// True when a scheduled queue has due messages that no answer, timer or leaving message
    /// will move: a lost wake-up.
    pub(crate) fn waits_in_vain(&self, key: QueueKey, now: Now) -> bool {
        let Some(queue) = self.scheduled.get(&key).filter(|q| !q.due.is_empty()) else { return false };
        let answer_comes = queue.configuring || queue.routing || queue.unfinished || queue.is_in_line;
        let is_held = queue.suspended_by(now.wall).is_some();
        let now = now.mono;
        let timer_comes = queue.promotes_after + TIMER_LATE_MAX >= now;
        let comes = |r: &ReadyQueue| !r.messages.is_empty() || r.selects_at + TIMER_LATE_MAX >= now;
        let is_called = |leg: &ReadyKey| self.ready.get(leg).is_some_and(|ready| comes(ready));
        let who = [Waiter::Promote(key), Waiter::Pick(key)];
        let picked = queue.picked.and_then(|leg| self.ready.get(&leg)).and_then(|ready| ready.selection_rates.pot());
        let pots = queue.message_rate.pot().into_iter().chain(picked);
        let is_granted = pots.into_iter().any(|pot| who.iter().any(|who| self.rates.grants.awaits(pot, *who)));
        !answer_comes && !is_granted && !is_held && !timer_comes && !queue.waits_at.iter().any(is_called)
    }

    /// True when a ready queue has messages and nobody who will come for them: likewise.
    pub(crate) fn is_unserved(&self, key: ReadyKey, now: Instant) -> bool {
        let Some(ready) = self.ready.get(&key).filter(|r| !r.messages.is_empty()) else { return false };
        // A connection that is not idle asks again by itself.
        let all_idle = ready.idle.len() == ready.connections.len();
        let pot = ready.connection_rates.pot();
        let is_granted = pot.is_some_and(|pot| self.rates.grants.awaits(pot, Waiter::Open(key)));
        let asks_again = ready.leases_after + TIMER_LATE_MAX >= now && ready.leases_after > Instant::ZERO;
        let is_called =
            self.leases.awaits(&ready.leases, key) || ready.closed_until() > now || is_granted || asks_again;
        all_idle && !is_called && ready.opens_after + TIMER_LATE_MAX < now
    }
}

/// A timer is at most one tick late; two, to be sure.
const TIMER_LATE_MAX: Duration = Duration::from_millis(128);
