//! Queues for operators who ask: what one is, what limits it, who feeds it. Reads only.
//!
//! What of ready queues is told here is what `serve` found when it last wanted to open a connection, and that it still holds. Walks over
//! scheduled queues go in steps, so that nobody waits long for the lock.

use crate::core::{ConnKey, QueueCore, QueueKey, ReadyKey};
use crate::grants::Waiter;
use crate::order::Order;
use crate::ready::{Leg, ReadyQueue};
use crate::scheduled::ScheduledQueue;
use crate::shared::CONNECTION_LIMIT;
use clock::{Now, WallTime};
use config::QueueConfig;
use std::sync::Arc;

/// A scheduled queue as an operator sees it; queues of one name that differ in what their senders demand of TLS are one.
#[derive(Clone, Debug)]
pub struct ScheduledView {
    /// Messages that wait or are due in it.
    pub messages: usize,
    /// What policy said of it; not known before it has.
    pub config: Option<Arc<QueueConfig>>,
    /// When a message came or left last.
    pub changed: WallTime,
}

/// A ready queue as an operator sees it.
#[derive(Clone, Debug)]
pub struct ReadyView {
    /// Which one.
    pub key: ReadyKey,
    /// Source, pool, path and destination.
    pub leg: Leg,
    /// Messages in it.
    pub messages: usize,
    /// Its connections, those that are being opened included.
    pub connections: Vec<ConnKey>,
    /// Why it has no more connections.
    pub limits: Limits,
    /// The order that suspends it.
    pub suspended: Option<Arc<Order>>,
}

/// What keeps a ready queue from opening a connection it wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `additional_connection_limits`.
    pub connections: Option<Limited>,
    /// `max_connection_rate`.
    pub connection_rate: Option<Limited>,
}

/// One limit that is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// Which, in words.
    pub context: String,
    /// Since when.
    pub since: WallTime,
}

impl QueueCore {
    /// The scheduled queue of that name.
    pub fn scheduled_view(&self, now: Now, name: &str) -> Option<ScheduledView> {
        let namesakes: Vec<&ScheduledQueue> =
            self.namesakes(name).filter_map(|key| self.scheduled.get(&key)).map(|queue| &**queue).collect();
        let changed = namesakes.iter().map(|queue| queue.last_used).max()?;
        Some(ScheduledView {
            messages: namesakes.iter().map(|queue| queue.len()).sum(),
            config: namesakes.iter().find_map(|queue| queue.config.clone()),
            changed: now.wall_at(changed),
        })
    }

    /// The ready queue of that name. Of several (destinations that must not be mixed share a name) the one with the most
    /// messages and connections.
    pub fn ready_view(&self, now: Now, name: &str) -> Option<ReadyView> {
        let namesakes = self.ready_named(name).filter_map(|key| Some((key, &**self.ready.get(&key)?)));
        let busiest = |(key, ready): &(ReadyKey, &ReadyQueue)| {
            (ready.messages.len() + ready.connections.len(), std::cmp::Reverse(*key))
        };
        let (key, ready) = namesakes.max_by_key(busiest)?;
        Some(ReadyView {
            key,
            leg: ready.leg.clone(),
            messages: ready.messages.len(),
            connections: self.connections_of(key, ready).collect(),
            limits: self.limits(now, key, ready),
            suspended: self.ready_suspension(now.wall, name).cloned(),
        })
    }

    /// Connections of all ready queues of that name; `None` when there is no such queue.
    pub fn connections_named(&self, name: &str) -> Option<Vec<ConnKey>> {
        let mut namesakes = self.ready_named(name).filter_map(|key| Some((key, self.ready.get(&key)?))).peekable();
        namesakes.peek()?;
        Some(namesakes.flat_map(|(key, ready)| self.connections_of(key, ready)).collect())
    }

    /// Name and limits of every ready queue that wants a connection and may not open it, by name.
    pub fn limited(&self, now: Now) -> Vec<(Arc<str>, Limits)> {
        let all = self.ready.iter().map(|(key, ready)| (ready.name.clone(), self.limits(now, *key, ready)));
        let mut limited: Vec<_> = all.filter(|(_, limits)| *limits != Limits::default()).collect();
        limited.sort_by(|(a, _), (b, _)| a.cmp(b));
        limited
    }

    /// Names of scheduled queues that send through a ready queue, looking at some thousand queues from step `from` on; and
    /// the step to go on with.
    pub fn feeders(&self, ready: ReadyKey, from: u32) -> (Vec<Arc<str>>, Option<u32>) {
        let end = from.saturating_add(QUEUES_LOOKED_AT);
        let looked_at = (from..end).filter_map(|number| self.scheduled.get(&QueueKey::of(number)));
        let feeds = looked_at.filter(|queue| queue.route.as_ref().is_some_and(|way| way.legs.contains(&ready)));
        (feeds.map(|queue| queue.name.clone()).collect(), (end <= self.last_key()).then_some(end))
    }

    fn connections_of(&self, key: ReadyKey, ready: &ReadyQueue) -> impl Iterator<Item = ConnKey> {
        ready.connections.iter().map(move |(slot, _)| ConnKey { ready: key, slot })
    }

    fn limits(&self, now: Now, key: ReadyKey, ready: &ReadyQueue) -> Limits {
        if ready.messages.is_empty() {
            return Limits::default();
        }
        // The cluster does not say which one was missing: the smallest, most likely.
        let refused = || ready.cluster_leases.iter().min_by_key(|(_, limit)| *limit);
        let missing =
            self.leases.missing(&ready.leases, key).or_else(|| refused().filter(|_| now.mono < ready.leases_after));
        let connections = ready.lease_awaited_since.zip(missing).map(|(since, (name, limit))| Limited {
            context: match name.starts_with(CONNECTION_LIMIT) {
                true => format!("connection_limit: {limit}"),
                false => format!("additional_connection_limits: {name}: {limit}"),
            },
            since,
        });
        let pot = ready.connection_rates.pot();
        let is_granted = pot.is_some_and(|pot| self.rates.grants.awaits(pot, Waiter::Open(key)));
        let waits = (ready.opens_after > now.mono || is_granted) && ready.opening_wait(&self.rates, now.mono).is_some();
        let rate = ready.leg.path.max_connection_rate.as_ref().filter(|_| waits);
        let connection_rate = ready
            .rate_awaited_since
            .zip(rate)
            .map(|(since, rate)| Limited { context: format!("max_connection_rate: {rate}"), since });
        Limits { connections, connection_rate }
    }
}

/// Numbers of scheduled queues that one visit looks at.
const QUEUES_LOOKED_AT: u32 = 8192;
