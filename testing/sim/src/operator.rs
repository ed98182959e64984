//! The operator who suspends, holds, bounces and flushes, and changes his mind; and the list of his orders on disk.
//!
//! The list is written whole before an order is in force, so a crash keeps exactly what was answered. The oracle wants
//! that nothing leaves for a queue that is suspended, in this life or after a crash.

use crate::plan::SECOND;
use crate::world::World;
use clock::Duration;
use message::Message;
use queue::{Action, Change, Criteria, Order, OrderId, QueueCore, QueueKey, Rebinding};
use std::sync::Arc;

impl World {
    /// The operator does something, or takes something back.
    pub fn operator_acts(&mut self) {
        if self.recovered || self.process.as_ref().is_none_or(|p| p.stopping) {
            return;
        }
        if self.dice.chance(300) && !self.orders.is_empty() {
            let at = self.dice.below(self.orders.len());
            let order = self.orders.remove(at);
            self.note(|| format!("the operator takes back {:?}", order.action));
            self.with_queue(|q, now| _ = q.withdraw(now, order.id));
            return self.note_flushes();
        }
        let (order, lasts) = (self.draw_order(), self.dice.within(0, 90) * SECOND);
        let given = self.wall();
        let lasts = if matches!(order, Action::Flush(_) | Action::Rebind(_)) { 0 } else { lasts };
        self.report.orders += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.report.orders.to_le_bytes());
        let order = Order {
            id: OrderId(id),
            action: order,
            reason: "the operator wants it".to_owned(),
            given,
            expires: given + Duration::from_micros(lasts),
            suppress_logging: false,
            survives_restart: true,
        };
        self.note(|| format!("the operator orders {order:?}"));
        let new = Arc::new(order.clone());
        let orders = self.with_queue(|q, _| q.surviving_orders(Some(&new)));
        self.orders = orders.iter().map(|order| (**order).clone()).collect();
        self.note_flushes();
        self.with_queue(|q, now| q.order(now, order));
    }

    /// A new life takes the orders on disk up again.
    pub fn orders_again(&mut self) {
        let orders = self.orders.clone();
        // What an order had made due before is due at its old time again, unless the order stands.
        self.flushes.clear();
        self.flushed.clear();
        self.note_flushes();
        self.with_queue(|q, now| {
            q.set_restoring(true);
            orders.into_iter().for_each(|order| _ = q.order(now, order));
        });
    }

    /// Carries out `Effect::OrdersEnded`.
    pub fn orders_ended(&mut self) {
        let orders = self.with_queue(|q, _| q.surviving_orders(None));
        self.orders = orders.iter().map(|order| (**order).clone()).collect();
        self.note_flushes();
    }

    /// Until when plans of this message, of that queue, were under an order to be flushed.
    pub fn flushed_until(&self, key: QueueKey, message: &Message) -> Option<u64> {
        let name = self.process.as_ref()?.queue.queue_name(key);
        let is_about = |order: &Order| {
            message.created() <= order.given && order.criteria().is_some_and(|criteria| criteria.matches(&name))
        };
        let here = self.flushes.iter().filter(|(order, _)| is_about(order)).map(|(_, ended)| ended.unwrap_or(u64::MAX));
        here.chain(self.flushed.get(&message.id).copied()).max()
    }

    /// Orders to flush came or went.
    fn note_flushes(&mut self) {
        let (orders, now) = (&self.orders, self.now);
        let stands = |order: &Order| orders.iter().any(|o| o.id == order.id);
        self.flushes.iter_mut().filter(|(order, _)| !stands(order)).for_each(|(_, ended)| _ = ended.get_or_insert(now));
        let is_new = |order: &&Order| {
            matches!(order.action, Action::Flush(_)) && !self.flushes.iter().any(|(o, _)| o.id == order.id)
        };
        let new: Vec<_> = orders.iter().filter(is_new).map(|order| (order.clone(), None)).collect();
        self.flushes.extend(new);
    }

    /// A message of this queue goes out now.
    pub fn watch_orders(&mut self, key: QueueKey) {
        let now = self.wall();
        let Some(name) = self.process.as_ref().map(|p| p.queue.queue_name(key)) else { return };
        let suspends = |order: &Order| match &order.action {
            Action::Suspend(criteria) => now < order.expires && criteria.matches(&name),
            _ => false,
        };
        if self.orders.iter().any(suspends) {
            self.ledger.violate(format!("a message of {name} is taken, and {name} is suspended"));
        }
    }

    fn draw_order(&mut self) -> Action {
        let process = self.process.as_ref().expect("only asked of a living server");
        let names = |found: &QueueCore| -> (Vec<String>, Vec<String>) {
            let mut queues: Vec<String> = found.scheduled_counts().map(|(name, _)| name.to_string()).collect();
            let mut ready: Vec<String> = found.ready_counts().map(|(name, ..)| name.to_string()).collect();
            queues.sort();
            ready.sort();
            (queues, ready)
        };
        let (queues, ready) = names(&process.queue);
        let mut criteria = Criteria::default();
        if !queues.is_empty() && self.dice.chance(800) {
            criteria.queue_names = [self.dice.pick(&queues).clone()].into();
        }
        match self.dice.below(6) {
            0 if !ready.is_empty() => Action::SuspendReady(self.dice.pick(&ready).clone()),
            1 => Action::Bounce(criteria),
            2 => Action::Hold(criteria),
            3 => Action::Flush(criteria),
            4 => {
                let to = queues.first().cloned().unwrap_or_else(|| "d0.test".to_owned());
                let is_end_of_transfer = !criteria.queue_names.is_empty() && self.dice.chance(500);
                let change = match is_end_of_transfer {
                    true => Change::CancelXfer { node_is_gone: false },
                    false => Change::Set([("queue".to_owned(), to)].into()),
                };
                Action::Rebind(Rebinding { criteria, change, always_flush: false })
            }
            _ => Action::Suspend(criteria),
        }
    }
}
