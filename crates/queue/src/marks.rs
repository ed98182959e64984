//! Which queues are under which orders: told them when an order is given and when it is over, so that who meets a message asks its
//! queue and nobody else.
//!
//! An order costs a look at the queues of its domain or of its names, or at all names where it has neither, however many others are in
//! force. What holds queues back is carried out here: what is
//! ready of a scheduled queue that is suspended goes home ([`crate::walk`]), and a suspended ready queue sends its messages back.

use crate::core::{QueueCore, QueueKey, ReadyKey};
use crate::order::{Action, Criteria, Order, OrderId};
use crate::scheduled::Awaited;
use clock::{Instant, Now, WallTime};
use hashbrown::HashSet;
use std::sync::Arc;

impl QueueCore {
    /// Gives a new queue the orders it is under.
    pub(crate) fn orders_for(&self, name: &str) -> Box<[Arc<Order>]> {
        let mut all: Vec<Arc<Order>> = self.orders.naming(name).cloned().collect();
        all.append(&mut self.orders.suspensions.of_scheduled(name));
        all.into_boxed_slice()
    }

    /// Until when the ready queue of that name is suspended.
    pub(crate) fn ready_suspended_until(&self, now: Now, name: &str) -> Instant {
        self.ready_suspension(now.wall, name).map_or(Instant::ZERO, |order| now.mono_at(order.expires))
    }

    /// The order that suspends the ready queue of that name.
    pub(crate) fn ready_suspension(&self, now: WallTime, name: &str) -> Option<&Arc<Order>> {
        self.orders.suspensions.of_ready(name).filter(|order| order.expires > now)
    }

    /// How many messages an order to do that is about now.
    pub fn concerned_by(&self, action: &Action) -> usize {
        match action {
            Action::SuspendReady(name) => {
                self.ready_named(name).filter_map(|key| self.ready.get(&key)).map(|ready| ready.messages.len()).sum()
            }
            _ => action.criteria().map_or(0, |criteria| self.count_concerned(action, &self.named_by(criteria))),
        }
    }

    /// The same for who knows which queues it names. Of messages that it names themselves no more than it names: to look for them
    /// would take as long as all of them are.
    pub(crate) fn count_concerned(&self, action: &Action, queues: &[QueueKey]) -> usize {
        let named = action.criteria().map_or(0, |criteria| criteria.messages.len());
        self.count_of(queues).min(if named == 0 { usize::MAX } else { named })
    }

    /// Takes on an order that holds queues back; how many messages it is about now.
    pub(crate) fn suspend(&mut self, now: Now, order: Arc<Order>) -> usize {
        let older = self.orders.suspensions.give(order.clone());
        if let Action::SuspendReady(name) = &order.action {
            self.suspend_ready(now, name);
            return self.concerned_by(&order.action);
        }
        let queues = self.mark(&order, older.map(|older| older.id));
        if queues.iter().any(|key| self.scheduled.get(key).is_some_and(|queue| queue.out > 0)) {
            // What is ready goes home.
            self.orders.walk.wanted = self.orders.walk.next();
            self.begin_walk();
        }
        self.count_concerned(&order.action, &queues)
    }

    /// Orders are over: whoever waited for that goes on.
    pub(crate) fn lift(&mut self, now: Now, orders: &[Arc<Order>]) {
        let (ready, scheduled): (Vec<_>, Vec<_>) = orders.iter().partition(|order| order.criteria().is_none());
        if !scheduled.is_empty() {
            let freed = self.unmark(&scheduled);
            freed.into_iter().for_each(|key| self.go_on_later(key));
        }
        for order in ready {
            if let Action::SuspendReady(name) = &order.action {
                self.suspend_ready(now, name);
            }
        }
    }

    /// Puts the scheduled queues that an order names under it, in the place of an older one; these queues, the oldest first.
    pub(crate) fn mark(&mut self, order: &Arc<Order>, older: Option<OrderId>) -> Vec<QueueKey> {
        let mut queues = order.criteria().map_or_else(Vec::new, |criteria| self.named_by(criteria));
        queues.sort_unstable();
        for key in &queues {
            let Some(queue) = self.scheduled.get_mut(key) else { continue };
            let mut all = std::mem::take(&mut queue.orders).into_vec();
            match all.iter_mut().find(|other| Some(other.id) == older) {
                Some(place) => *place = order.clone(),
                None => all.push(order.clone()),
            }
            queue.orders = all.into_boxed_slice();
        }
        queues
    }

    fn named_by(&self, criteria: &Criteria) -> Vec<QueueKey> {
        if !criteria.queue_names.is_empty() {
            return criteria.queue_names.iter().flat_map(|name| self.namesakes(name)).collect();
        }
        if let Some(domain) = &criteria.domain {
            let is_it = |key: &QueueKey| self.scheduled.get(key).is_some_and(|queue| criteria.matches(&queue.name));
            return self.domains.of(domain).filter(is_it).collect();
        }
        let named = self.by_name.iter().filter(|(name, _)| criteria.matches(name));
        named.flat_map(|(_, namesakes)| namesakes.iter().flatten()).copied().collect()
    }

    /// Orders are not about scheduled queues any more; those of these queues in which messages are due, the oldest first.
    pub(crate) fn unmark(&mut self, orders: &[&Arc<Order>]) -> Vec<QueueKey> {
        let criteria = || orders.iter().filter_map(|order| order.criteria());
        let mut queues: Vec<QueueKey> = match criteria().all(|c| c.domain.is_some() || !c.queue_names.is_empty()) {
            true => criteria().flat_map(|criteria| self.named_by(criteria)).collect(),
            false => self.scheduled.keys().copied().collect(),
        };
        queues.sort_unstable();
        queues.dedup();
        let ids: HashSet<OrderId> = orders.iter().map(|order| order.id).collect();
        queues.retain(|key| {
            let Some(queue) = self.scheduled.get_mut(key) else { return false };
            let was_under = queue.orders.iter().any(|order| ids.contains(&order.id));
            if was_under {
                let mut all = std::mem::take(&mut queue.orders).into_vec();
                all.retain(|order| !ids.contains(&order.id));
                queue.orders = all.into_boxed_slice();
            }
            was_under && !queue.due.is_empty()
        });
        queues
    }

    /// Messages of these queues, wherever they are.
    fn count_of(&self, queues: &[QueueKey]) -> usize {
        queues.iter().filter_map(|key| self.scheduled.get(key)).map(|queue| queue.len() + queue.out).sum()
    }

    /// Tells every scheduled queue which order awaits those that are in hand.
    pub(crate) fn mark_awaited(&mut self) {
        let awaits = self.orders.awaiting().next().is_some();
        if !std::mem::replace(&mut self.orders.awaits, awaits) && !awaits {
            return;
        }
        let awaiting: Vec<(&Criteria, &Arc<Order>)> = self.orders.awaiting().collect();
        for queue in self.scheduled.values_mut() {
            let order = awaiting.iter().find(|(criteria, _)| criteria.matches(&queue.name)).map(|(_, order)| *order);
            let is_known = |awaited: &Awaited| order.is_some_and(|order| order.id == awaited.order.id);
            if !queue.awaited.as_deref().is_some_and(is_known) {
                let awaited =
                    |order: &Arc<Order>| Box::new(Awaited { order: order.clone(), sent_since: HashSet::new() });
                queue.awaited = order.map(awaited);
            }
        }
    }

    /// Tells ready queues of that name whether they are suspended: what is now sends its messages back, what is free again goes on.
    fn suspend_ready(&mut self, now: Now, name: &str) {
        let until = self.ready_suspended_until(now, name);
        let keys: Vec<ReadyKey> = self.ready_named(name).collect();
        for key in keys {
            let Some(ready) = self.ready.get_mut(&key) else { continue };
            // It may be over by itself already; it is over for those who wait when they are told.
            let was = std::mem::replace(&mut ready.suspended_until, until);
            let is_freed = was != Instant::ZERO && until == Instant::ZERO;
            if is_freed {
                let waiters: Vec<QueueKey> = ready.waiters.iter().chain(&ready.small_waiters).copied().collect();
                waiters.into_iter().for_each(|queue| self.go_on_later(queue));
            }
            // What is closed now sends its messages back at the next visit, what is open is served.
            if is_freed || (was <= now.mono && until > now.mono) {
                self.resting.push_back(key);
            }
        }
    }
}
