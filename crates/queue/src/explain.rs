//! Why a message waits, and until when: for operators who ask. Reads only.
//!
//! The questions are those of `promote` and `serve`, in the same order, so what is told here is what holds a message
//! back. A time is the first moment at which that can change by itself; where there is none, an event ends the wait.

use crate::Why;
use crate::asking::Asked;
use crate::binding::Binding;
use crate::census::Place;
use crate::core::{QueueCore, QueueKey};
use crate::messages::{List, SlotNumber};
use crate::order::OrderId;
use crate::ready::ReadyQueue;
use crate::scheduled::ScheduledQueue;
use clock::{Duration, Now, WallTime};
use message::{Message, MessageId};
use std::cell::OnceCell;
use std::sync::Arc;

/// What a message waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The obstacle.
    pub why: Why,
    /// When it ends by itself; `None` when an event ends it.
    pub until: Option<WallTime>,
    /// The order's reason, or the ready queue it is about.
    pub what: Option<Arc<str>>,
    /// The order that holds it.
    pub order: Option<OrderId>,
    /// The limit that holds it.
    pub limit: Option<Binding>,
}

/// When a message ends, whatever becomes of it, and what says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOf {
    /// No attempt from this moment on.
    pub at: WallTime,
    /// The option: `deliver_by` or `expires` of the message, `max_age` of its queue.
    pub option: &'static str,
}

/// A message as an operator sees it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The message; its content is in the spool.
    pub message: Message,
    /// Its scheduled queue.
    pub queue: Arc<str>,
    /// Where in the queues it is.
    pub place: Place,
    /// Why it waits there.
    pub wait: Wait,
    /// When it ends; not known before its queue's configuration is.
    pub end: Option<EndOf>,
}

impl ScheduledQueue {
    /// When a message of this queue ends.
    pub(crate) fn end_of(&self, message: &Message) -> Option<EndOf> {
        if let Some(end) = self.expiries.as_ref().and_then(|ends| ends.of.get(&message.id)) {
            return Some(EndOf { at: end.at, option: if end.is_deadline { "deliver_by" } else { "expires" } });
        }
        let config = self.config.as_ref()?;
        Some(EndOf { at: message.created() + Duration::from(config.max_age), option: "max_age" })
    }
}

impl QueueCore {
    /// When a message that a connection has in hand ends.
    pub fn end_in(&self, key: QueueKey, message: &Message) -> Option<EndOf> {
        self.scheduled.get(&key)?.end_of(message)
    }

    /// Messages of a queue, at most `limit`: due ones in order, ready ones, held ones. `None` when there is no such queue.
    pub fn list(&self, now: Now, name: &str, limit: usize) -> Option<Vec<Listed>> {
        self.by_name.get(name)?;
        let mut listed = Vec::new();
        for key in self.namesakes(name) {
            self.list_of(now, key, limit, &mut listed);
        }
        listed.truncate(limit);
        Some(listed)
    }

    fn list_of(&self, now: Now, key: QueueKey, limit: usize, out: &mut Vec<Listed>) {
        let Some(queue) = self.scheduled.get(&key) else { return };
        // All due ones wait for the same, and so do those of a ready queue: it is found out once.
        let of_due = OnceCell::new();
        let due = self.messages.iter(&queue.due).map(|message| {
            let wait = of_due.get_or_init(|| self.why_due(now, queue)).clone();
            listed(queue, message, Place::Due, wait)
        });
        let ready = self.ready.values().flat_map(|r| {
            let of_ready = OnceCell::new();
            r.messages.of(&self.messages, key).map(move |message| {
                let wait = of_ready.get_or_init(|| self.why_ready(now, r)).clone();
                listed(queue, message, Place::Ready, wait)
            })
        });
        let held = self.orders.lists().flat_map(|(list, place, order)| {
            let slots = self.messages.slots(list).take(WALKED_MAX);
            let mine = slots.filter(|slot| self.messages.queue_of(*slot) == Some(key));
            let message = mine.filter_map(|slot| self.messages.get(slot));
            message.map(move |message| listed(queue, message, place, held_back(order)))
        });
        out.extend(due.chain(ready).chain(held).take(limit));
    }

    /// Messages of a queue that wait for their time, at most `limit`, looking at some thousand messages from step `from`
    /// on; and the step to go on with.
    pub fn list_waiting(&self, name: &str, limit: usize, from: usize) -> (Vec<Listed>, Option<usize>) {
        let keys: Vec<QueueKey> = self.namesakes(name).collect();
        if keys.is_empty() {
            return (Vec::new(), None);
        }
        let (found, next) = self.messages.pick_waiting(from, LOOKED_AT, |of, _| keys.contains(&of).then_some(()));
        let messages = found.iter().filter_map(|(slot, ..)| {
            let queue = self.messages.queue_of(*slot).and_then(|key| self.scheduled.get(&key))?;
            let message = self.messages.get(*slot)?;
            Some(listed(queue, message, Place::Waiting, waits(queue, message)))
        });
        (messages.take(limit).collect(), next)
    }

    /// Where a message is, looking at some thousand messages from step `from` on; and the step to go on with.
    pub fn find(&self, now: Now, id: MessageId, from: usize) -> (Option<Listed>, Option<usize>) {
        let (found, next) = self.messages.find(from, LOOKED_AT, id);
        match found.and_then(|slot| self.listed_at(now, slot)) {
            Some(found) => (Some(found), None),
            None => (None, next),
        }
    }

    /// The message in a slot.
    pub(crate) fn listed_at(&self, now: Now, slot: SlotNumber) -> Option<Listed> {
        let message = self.messages.get(slot)?;
        let key = self.messages.queue_of(slot)?;
        let queue = self.scheduled.get(&key)?;
        Some(match self.messages.waits(slot) {
            true => listed(queue, message, Place::Waiting, waits(queue, message)),
            false => self.find_in_lists(now, (key, queue), slot, message),
        })
    }

    fn find_in_lists(
        &self,
        now: Now,
        (key, queue): (QueueKey, &ScheduledQueue),
        slot: SlotNumber,
        message: &Message,
    ) -> Listed {
        let ready = self.ready.values().find(|r| r.messages.slots_of(&self.messages, key).any(|s| s == slot));
        if let Some(ready) = ready {
            return listed(queue, message, Place::Ready, self.why_ready(now, ready));
        }
        // Nobody waits while a list of a million is walked.
        let is_in = |list: &List| self.messages.slots(list).take(WALKED_MAX).any(|s| s == slot);
        if is_in(&queue.due) {
            return self.due(now, queue, message);
        }
        let order = self.orders.lists().find(|(list, ..)| is_in(list));
        let long = self.orders.lists().find(|(list, ..)| list.len() > WALKED_MAX);
        match order {
            Some((_, place, order)) => listed(queue, message, place, held_back(order)),
            None if is_in(&self.unspooled.list) => {
                listed(queue, message, Place::Unspooled, Wait::of(Why::SpoolUnhealthy))
            }
            // Far back in the one that is long.
            None if queue.due.len() > WALKED_MAX => self.due(now, queue, message),
            None => match long {
                Some((_, place, order)) => listed(queue, message, place, held_back(order)),
                None => listed(queue, message, Place::Ending, Wait::of(Why::DueTimeWasReached)),
            },
        }
    }

    fn due(&self, now: Now, queue: &ScheduledQueue, message: &Message) -> Listed {
        listed(queue, message, Place::Due, self.why_due(now, queue))
    }

    /// What the due messages of a queue wait for.
    pub(crate) fn why_due(&self, now: Now, queue: &ScheduledQueue) -> Wait {
        if let Some(order) = queue.suspended_by(now.wall) {
            let what = Some(order.reason.as_str().into());
            let wait = Wait::until(Why::ReadyQueueWasSuspended, order.expires);
            return Wait { what, order: Some(order.id), ..wait };
        }
        let rate = queue.message_rate.check(&self.rates, now.mono).err();
        if let Some(wait) = rate {
            return Wait::until(Why::MessageRateThrottle, now.wall + wait).by(QueueCore::queue_rate(queue));
        }
        if now.mono < queue.promotes_after {
            return Wait::until(Why::FailedToInsertIntoReadyQueue, now.wall_at(queue.promotes_after));
        }
        let Some(way) = queue.route.as_ref().filter(|_| queue.config.is_some()) else {
            return Wait::of(Why::ConfigurationIsAwaited);
        };
        if queue.is_in_line {
            return Wait::of(Why::ConfigurationIsAwaited);
        }
        let ways = way.legs.iter().filter_map(|leg| self.ready.get(leg));
        // The way that will be free first; a full one has no time of its own.
        let waits = ways.map(|ready| self.why_closed(now, queue, ready));
        waits.min_by_key(|wait| wait.until.unwrap_or(LAST)).unwrap_or(Wait::of(Why::ConfigurationIsAwaited))
    }

    fn why_closed(&self, now: Now, queue: &ScheduledQueue, ready: &ReadyQueue) -> Wait {
        let of_source = self.why_source(now, ready);
        let chosen = ready.may_be_chosen(&self.rates, &self.sources, now.mono).err();
        let rate = chosen.map(|wait| {
            Wait::until(Why::SourceSelectionRateThrottle, now.wall + wait).by(self.selection_rate(now, ready))
        });
        let full = (!ready.has_room(queue.is_small())).then(|| self.why_full(now, ready));
        let wait = of_source.or(rate).or(full).unwrap_or(Wait::of(Why::BehindOthers));
        Wait { what: Some(ready.name.clone()), ..wait }
    }

    /// What a ready queue that has no room waits for: what its own messages wait for is what keeps the others out.
    fn why_full(&self, now: Now, ready: &ReadyQueue) -> Wait {
        match self.why_ready(now, ready) {
            Wait { why: Why::BehindOthers, .. } => Wait::of(Why::ReadyQueueWasFull).by(Some(QueueCore::room(ready))),
            wait => wait,
        }
    }

    fn why_source(&self, now: Now, ready: &ReadyQueue) -> Option<Wait> {
        if now.mono < ready.closed_until() && ready.suspended_until <= now.mono {
            return Some(Wait::until(Why::DestinationIsDead, now.wall_at(ready.closed_until())));
        }
        if now.mono < ready.suspended_until {
            let order = self.ready_suspension(now.wall, &ready.name).map(|order| order.id);
            let wait = Wait::until(Why::ReadyQueueWasSuspended, now.wall_at(ready.suspended_until));
            return Some(Wait { order, ..wait });
        }
        let rests = self.sources.rests(now.mono, &ready.leg.source.name)?;
        Some(Wait::until(Why::SourceIsUnhealthyAndSuspended, now.wall + rests))
    }

    /// What the messages of a ready queue wait for.
    pub(crate) fn why_ready(&self, now: Now, ready: &ReadyQueue) -> Wait {
        let of_rate = ready.message_rates.check(&self.rates, now.mono).err();
        let rate = of_rate
            .map(|wait| Wait::until(Why::MessageRateThrottle, now.wall + wait).by(self.message_rate(now, ready)));
        let opening = (ready.opens_after > now.mono && ready.connections.is_empty()).then(|| {
            let until = now.wall_at(ready.opens_after);
            let throttled = ready.opening_wait(&self.rates, now.mono).is_some();
            if ready.consecutive_failures > 0 && !throttled {
                return Wait::until(Why::TooManyConnectionFailures, until);
            }
            // One that would have to wait long for the rate of messages is not opened before that admits one.
            let by_connections =
                || Wait::until(Why::ConnectionRateThrottle, until).by(QueueCore::connection_rate(ready));
            rate.clone().filter(|_| !throttled).unwrap_or_else(by_connections)
        });
        let key = self.ready_by_name.get(&(ready.name.clone(), ready.leg.destination.identity().clone()));
        let awaits = key.is_some_and(|key| self.leases.awaits(&ready.leases, *key));
        let refused = (now.mono < ready.leases_after && ready.lease_awaited_since.is_some())
            .then(|| Wait::until(Why::ConnectionLimit, now.wall_at(ready.leases_after)));
        let lease = awaits.then(|| Wait::of(Why::ConnectionLimit)).or(refused).filter(|_| ready.connections.is_empty());
        let lease = lease.map(|wait| wait.by(self.lease(key.copied(), ready)));
        let unopened = ready.connections.is_empty().then(|| ready.opening_wait(&self.rates, now.mono));
        let opening = opening.or(unopened.flatten().map(|wait| {
            Wait::until(Why::ConnectionRateThrottle, now.wall + wait).by(QueueCore::connection_rate(ready))
        }));
        let wait = self.why_source(now, ready).or(opening).or(lease).or(rate);
        let behind = || Wait::of(Why::BehindOthers).by(QueueCore::connections_taken(ready));
        Wait { what: Some(ready.name.clone()), ..wait.unwrap_or_else(behind) }
    }
}

impl Wait {
    fn of(why: Why) -> Wait {
        Wait { why, until: None, what: None, order: None, limit: None }
    }

    fn until(why: Why, until: WallTime) -> Wait {
        Wait { until: Some(until), ..Wait::of(why) }
    }

    /// That limit is what holds it.
    fn by(self, limit: Option<Binding>) -> Wait {
        Wait { limit, ..self }
    }
}

fn listed(queue: &ScheduledQueue, message: &Message, place: Place, wait: Wait) -> Listed {
    let message = Message { resident: None, ..message.clone() };
    let end = queue.end_of(&message);
    Listed { message, queue: queue.name.clone(), place, wait, end }
}

/// Why a message waits for its time.
fn waits(queue: &ScheduledQueue, message: &Message) -> Wait {
    let why = match queue.asked(message.id) {
        Some(Asked::HeldBack) => Why::ThrottledByThrottleInsertReadyQueue,
        Some(Asked::Unanswered) => Why::FailedToInsertIntoReadyQueue,
        Some(Asked::Passed) | None if message.attempts == 0 => Why::ScheduledForLater,
        Some(Asked::Passed) | None => Why::LoggedTransientFailure,
    };
    Wait::until(why, message.due)
}

fn held_back(order: Option<OrderId>) -> Wait {
    Wait { order, ..Wait::of(Why::HeldByOrder) }
}

/// Later than any time a wait has.
const LAST: WallTime = WallTime::from_unix_micros(i64::MAX);
/// Waiting messages that one visit looks at.
const LOOKED_AT: usize = 8192;
/// Messages of one list that are looked at, at most.
const WALKED_MAX: usize = 16_384;
