//! The walk over messages that nobody would meet: an order finds them wherever they are, some thousand at a visit.
//!
//! Ready queues first, then what is due, then what waits for its time, then what is held. An order that is given meanwhile has the next walk: those before
//! it come to their end. What is ready of a suspended queue goes home.

use crate::core::{QueueCore, QueueKey, ReadyKey};
use crate::messages::{List, SlotNumber};
use crate::order::OrderId;
use crate::scheduled::Fate;
use clock::Now;
use message::Message;
use std::collections::VecDeque;

/// How far it is.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    step: Option<Step>,
    /// How many have begun.
    begun: u64,
    /// The last one, by number, that somebody needs who is no order about messages.
    pub wanted: u64,
}

#[derive(Debug)]
enum Step {
    Ready(VecDeque<ReadyKey>),
    /// Queues, and how many of their due messages were not looked at yet.
    Due(VecDeque<(QueueKey, usize)>),
    /// The step over waiting messages that is next.
    Waiting(usize),
    /// Orders that hold messages, and how many of theirs were not looked at yet.
    Held(VecDeque<(OrderId, usize)>),
}

impl Walk {
    /// True while there is one.
    pub fn is_under_way(&self) -> bool {
        self.step.is_some()
    }

    /// The last one that came to its end, by number.
    pub fn done(&self) -> u64 {
        self.begun - u64::from(self.step.is_some())
    }

    /// An order that holds messages has given its place, and them, to another.
    pub fn rename(&mut self, older: OrderId, new: OrderId) {
        if let Some(Step::Held(holders)) = &mut self.step {
            holders.iter_mut().filter(|(id, _)| *id == older).for_each(|(id, _)| *id = new);
        }
    }

    /// The first one that meets all there is now.
    pub fn next(&self) -> u64 {
        self.begun + 1
    }
}

impl QueueCore {
    /// Begins a walk, unless there is one.
    pub(crate) fn begin_walk(&mut self) {
        if self.orders.walk.is_under_way() {
            return;
        }
        let mut ready: Vec<ReadyKey> = self.ready.keys().copied().collect();
        // In order of age: equal runs must do equal things.
        ready.sort_unstable();
        self.orders.walk.step = Some(Step::Ready(ready.into()));
        self.orders.walk.begun += 1;
    }

    /// Goes on with it; true when it comes to its end.
    pub(crate) fn walk(&mut self, now: Now) -> bool {
        let Some(step) = self.orders.walk.step.take() else { return false };
        self.orders.walk.step = match step {
            Step::Ready(queues) => self.walk_ready(now, queues),
            Step::Due(queues) => Some(self.walk_due(now, queues)),
            Step::Waiting(step) => self.walk_waiting(now, step),
            Step::Held(holders) => self.walk_held(now, holders),
        };
        self.orders.walk.step.is_none()
    }

    fn walk_ready(&mut self, now: Now, mut queues: VecDeque<ReadyKey>) -> Option<Step> {
        let mut looked_at = 0;
        for _ in 0..READY_PER_VISIT {
            let Some(key) = queues.pop_front() else {
                // What holds queues back is not about who is in one.
                return self.orders.are_about_messages().then(|| Step::Due(self.due_of_orders(now)));
            };
            looked_at += self.look_through(now, key);
            if looked_at >= READY_MESSAGES_PER_VISIT {
                break;
            }
        }
        Some(Step::Ready(queues))
    }

    /// Queues whose due messages are to be looked at, and how many; those with a deadline have been.
    fn due_of_orders(&mut self, now: Now) -> VecDeque<(QueueKey, usize)> {
        let of_orders = self.scheduled.iter().filter(|(_, q)| q.gives_messages());
        let mut due: Vec<(QueueKey, usize)> = of_orders.map(|(key, q)| (*key, q.due.plain_len())).collect();
        due.sort_unstable();
        due.iter().for_each(|(key, _)| self.walk_urgent(now, *key));
        due.into()
    }

    /// One ready queue: messages that must not be there leave it. How many were looked at.
    fn look_through(&mut self, now: Now, key: ReadyKey) -> usize {
        let (mut gone, mut looked_at) = (List::default(), 0);
        let scheduled = &self.scheduled;
        let leaves = |queue: QueueKey, message: &Message| {
            let fate = scheduled.get(&queue).map(|q| q.fate(message, now));
            matches!(fate, Some(Fate::Ordered(_) | Fate::Suspended))
        };
        if let Some(ready) = self.ready.get_mut(&key) {
            let is_asked = |queue: QueueKey| scheduled.get(&queue).is_some_and(|q| !q.orders.is_empty());
            looked_at = ready.messages.move_those(&mut self.messages, &mut gone, is_asked, leaves);
        }
        if !gone.is_empty() {
            while let Some(slot) = self.messages.pop_front(&mut gone) {
                self.leave_ready(now, slot);
            }
            self.call_waiters(now, key);
        }
        looked_at
    }

    /// A message that must not be in a ready queue leaves it: it ends, or is due again in its scheduled queue.
    pub(crate) fn leave_ready(&mut self, now: Now, slot: SlotNumber) {
        let Some(key) = self.messages.queue_of(slot) else { return };
        let fate = self.fate(slot, now);
        match fate {
            Fate::Ordered(id) => self.take_by_order(key, slot, id),
            Fate::Expired => {
                self.messages.push_back(&mut self.endings.expired, slot);
                self.call_settlers();
            }
            Fate::Suspended | Fate::Goes => {
                let Some(queue) = self.scheduled.get_mut(&key) else { return };
                queue.out = queue.out.saturating_sub(1);
                queue.push_due(&mut self.messages, slot);
            }
        }
    }

    /// Due messages with a deadline: they keep their places, and are few as a rule.
    fn walk_urgent(&mut self, now: Now, key: QueueKey) {
        let Some(queue) = self.scheduled.get_mut(&key) else { return };
        for slot in self.messages.pop_urgent(&mut queue.due) {
            self.stands_due(now, key, slot);
        }
    }

    /// Due messages of a queue that is bounced, but for those with a deadline: the list goes round once, and those that end are left out.
    fn walk_due(&mut self, now: Now, mut queues: VecDeque<(QueueKey, usize)>) -> Step {
        for _ in 0..DUE_PER_VISIT {
            let Some((key, left)) = queues.front_mut() else { return Step::Waiting(0) };
            let key = *key;
            let slot = match left.checked_sub(1) {
                None => None,
                Some(rest) => {
                    *left = rest;
                    let queue = self.scheduled.get_mut(&key);
                    queue.and_then(|queue| self.messages.pop_plain(&mut queue.due))
                }
            };
            let Some(slot) = slot else {
                queues.pop_front();
                continue;
            };
            self.stands_due(now, key, slot);
        }
        Step::Due(queues)
    }

    /// Waiting messages, wherever they are: they end, or are due now.
    fn walk_waiting(&mut self, now: Now, step: usize) -> Option<Step> {
        let scheduled = &self.scheduled;
        let picks = |key: QueueKey, message: &Message| {
            let queue = scheduled.get(&key).filter(|q| !q.orders.is_empty())?;
            let taken = queue.taken_by(message, now.wall).map(|order| (order.id, true));
            taken.or_else(|| queue.flushed_by(message, now.wall).map(|order| (order.id, false)))
        };
        let (picked, next) = self.messages.pick_waiting(step, WAITING_PER_VISIT, picks);
        let mut flushed = Vec::new();
        for (slot, key, (id, is_taken)) in picked {
            let Some(queue) = self.scheduled.get_mut(&key) else { continue };
            queue.waiting -= 1;
            self.stale_timers += 1;
            if is_taken {
                queue.out += 1;
                self.take_by_order(key, slot, id);
                continue;
            }
            if let Some(message) = self.messages.get_mut(slot) {
                message.due = now.wall;
            }
            queue.push_due(&mut self.messages, slot);
            let name = queue.name.clone();
            self.orders.count(id, name);
            flushed.push(key);
        }
        flushed.sort_unstable();
        flushed.dedup();
        flushed.into_iter().for_each(|key| self.promote(now, key));
        next.map(Step::Waiting).or_else(|| {
            let holders: VecDeque<_> = self.holders().collect();
            (!holders.is_empty()).then_some(Step::Held(holders))
        })
    }

    /// Messages that are held: each list goes round once, and those that end or move are left out.
    fn walk_held(&mut self, now: Now, mut holders: VecDeque<(OrderId, usize)>) -> Option<Step> {
        let mut room = HELD_PER_VISIT;
        while room > 0 {
            let (holder, left) = holders.front_mut()?;
            let count = room.min(*left);
            self.look_at_held(now.wall, *holder, count);
            (room, *left) = (room - count, *left - count);
            if *left == 0 {
                holders.pop_front();
            }
        }
        Some(Step::Held(holders))
    }
}

/// Ready queues that one visit looks through.
const READY_PER_VISIT: usize = 64;
/// Messages of theirs; a visit ends with the ready queue that reaches this.
const READY_MESSAGES_PER_VISIT: usize = 2048;
/// Due messages that one visit looks at.
const DUE_PER_VISIT: usize = 2048;
/// Held messages that one visit looks at.
const HELD_PER_VISIT: usize = 2048;
/// Waiting messages that one visit looks at.
const WAITING_PER_VISIT: usize = 8192;
