//! The queue manager: owns every scheduled and ready queue and all messages in them.
//!
//! In: admitted messages, answers to effects, connections asking for work, time. Out:
//! messages by value and [`Effect`]s. Nothing here can fail: an obstacle is a state that
//! `promote` judges, with a time at which it is looked at again. One instance stands behind
//! one short lock of the engine; every method does a bounded amount of work.
//!
//! Invariant, checked by the simulator: every admitted message is in exactly one of
//! {waiting, due, ready, ending, unspooled, taken by one connection, settler or spooler, settled}.

use crate::Why;
use crate::asking::Asking;
use crate::domains::Domains;
use crate::effect::Effect;
use crate::ending::{Endings, Failure};
use crate::epoch::Epoch;
use crate::explain::Wait;
use crate::grants::PotKey;
use crate::messages::{Messages, SlotNumber};
use crate::orders::Orders;
use crate::pool::Rotation;
use crate::promote::refresh;
use crate::ready::{Leg, ReadyQueue, Route, RouteFailure};
use crate::retry;
use crate::schedule::Belonging;
use crate::scheduled::{Fate, ScheduledQueue, Way};
use crate::settle::Verdict;
use crate::shared::{Leases, SharedRates};
use crate::sources::Sources;
use crate::volatile::Unspooled;
use clock::{Duration, Instant, Now, TimerWheel};
use config::{QueueConfig, RefreshStrategy};
use hashbrown::HashMap;
use message::{Message, TlsDemand};
use smtp_wire::{EnhancedCode, Reply};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A scheduled queue's number; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueKey(u32);

impl QueueKey {
    /// No queue has it.
    pub(crate) const NONE: QueueKey = QueueKey(0);

    /// The key of that number, whether a queue has it or not.
    pub(crate) fn of(number: u32) -> QueueKey {
        QueueKey(number)
    }

    #[cfg(test)]
    pub(crate) fn of_test(number: u32) -> QueueKey {
        QueueKey(number)
    }

    #[cfg(test)]
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A ready queue's number; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReadyKey(u32);

#[cfg(test)]
impl ReadyKey {
    pub(crate) fn of_test(number: u32) -> ReadyKey {
        ReadyKey(number)
    }
}

/// A connection of a ready queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnKey {
    /// Whose.
    pub ready: ReadyKey,
    pub(crate) slot: usize,
}

impl ConnKey {
    /// A number that no other connection of this process has at the same time.
    pub fn id(&self) -> u64 {
        u64::from(self.ready.0) << 32 | self.slot as u64
    }
}

/// A message and the scheduled queue it will return to.
#[derive(Debug)]
pub struct Queued {
    /// The message.
    pub message: Message,
    /// Its queue.
    pub queue: QueueKey,
}

/// The answer to a connection that asks for work.
#[derive(Debug)]
pub enum Take {
    /// Deliver this, then settle it.
    Message(Box<Queued>),
    /// Nothing now; `Effect::Wake` will follow. The connection may close after its idle timeout.
    Idle,
    /// Ask again after this long (`max_message_rate`).
    After(Duration),
    /// Finish and close.
    Close,
}

/// Limits of the whole manager.
#[derive(Clone, Debug)]
pub struct QueueSettings {
    /// Octets of content that queued messages may have in memory.
    pub resident_bytes_max: usize,
    /// Seed of all jitter.
    pub seed: u64,
}

/// The manager. See the module page.
#[derive(Debug)]
pub struct QueueCore {
    pub(crate) by_name: HashMap<Arc<str>, Namesakes>,
    pub(crate) domains: Domains,
    pub(crate) scheduled: HashMap<QueueKey, Box<ScheduledQueue>>,
    /// By name and identity of the destination.
    pub(crate) ready_by_name: BTreeMap<(Arc<str>, Arc<str>), ReadyKey>,
    pub(crate) ready: HashMap<ReadyKey, Box<ReadyQueue>>,
    /// Rates and leases that ready queues share by name.
    pub(crate) rates: SharedRates,
    pub(crate) leases: Leases,
    /// Sources that do not work.
    pub(crate) sources: Sources,
    /// Ready queues of such, whose messages are on their way back.
    pub(crate) resting: VecDeque<ReadyKey>,
    pub(crate) messages: Messages,
    pub(crate) endings: Endings,
    /// What operators ordered.
    pub(crate) orders: Orders,
    /// Who is to be asked about before he becomes ready.
    pub(crate) asking: Asking,
    pub(crate) unspooled: Unspooled,
    /// Due times of waiting messages.
    pub(crate) due_wheel: TimerWheel<SlotNumber>,
    /// Timers of messages that do not wait any more because an order moved them.
    pub(crate) stale_timers: usize,
    pub(crate) wheel: TimerWheel<Timer>,
    pub(crate) effects: Vec<Effect>,
    /// Memory is short: no content stays that the spool has.
    lean: bool,
    /// Waits that nobody but the periodic look ended.
    pub(crate) caught: usize,
    /// How often ready queues were found full, by their protocol.
    pub(crate) full: HashMap<Arc<str>, u64>,
    /// Messages that had to wait for a rate when it was their turn.
    pub(crate) delayed_by_rate: u64,
    pub(crate) settings: QueueSettings,
    pub(crate) epoch: Epoch,
    /// Queues that are asked about because an epoch began.
    pub(crate) refreshing: VecDeque<QueueKey>,
    next_key: u32,
    random: u64,
    next_sweep: Instant,
    /// Messages whose time has come and who are not looked at yet.
    pub(crate) fired: VecDeque<SlotNumber>,
    /// Queues that used up what one visit may do.
    pub(crate) unfinished: VecDeque<QueueKey>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Timer {
    /// A scheduled queue may promote again.
    Promote(QueueKey),
    /// A message of a scheduled queue may have come to an end of its own.
    Expire(QueueKey),
    /// A ready queue may open connections again.
    Open(ReadyKey),
    /// The source of a ready queue may be chosen again.
    Select(ReadyKey),
    /// The cluster may be asked again.
    Grants(PotKey),
    /// Somebody without a place in the spool may have waited too long.
    Spool,
}

impl QueueCore {
    /// An empty manager.
    pub fn new(now: Instant, settings: QueueSettings) -> QueueCore {
        QueueCore {
            by_name: HashMap::new(),
            domains: Domains::default(),
            scheduled: HashMap::new(),
            ready_by_name: BTreeMap::new(),
            ready: HashMap::new(),
            rates: SharedRates::default(),
            leases: Leases::default(),
            sources: Sources::default(),
            resting: VecDeque::new(),
            messages: Messages::default(),
            endings: Endings::default(),
            orders: Orders::default(),
            asking: Asking::default(),
            unspooled: Unspooled::default(),
            due_wheel: TimerWheel::new(now),
            stale_timers: 0,
            wheel: TimerWheel::new(now),
            effects: Vec::new(),
            lean: false,
            caught: 0,
            full: HashMap::new(),
            delayed_by_rate: 0,
            random: settings.seed | 1,
            settings,
            epoch: Epoch::default(),
            refreshing: VecDeque::new(),
            next_key: 0,
            next_sweep: now + SWEEP_INTERVAL,
            fired: VecDeque::new(),
            unfinished: VecDeque::new(),
        }
    }

    /// The queue of that name for usual mail, made when it does not exist.
    pub fn queue(&mut self, now: Instant, name: &str) -> QueueKey {
        self.queue_for(now, name, TlsDemand::Usual)
    }

    /// The queue of that name for mail with that demand. Routes and connections are found for a queue, and so for a demand.
    fn queue_for(&mut self, now: Instant, name: &str, tls: TlsDemand) -> QueueKey {
        let namesakes = self.by_name.get(name).copied().unwrap_or_default();
        if let Some(key) = namesakes[tls as usize] {
            return key;
        }
        let key = QueueKey(self.fresh_key());
        let mut queue = ScheduledQueue::new(name, tls, now);
        queue.config_epoch = self.epoch;
        queue.orders = self.orders_for(name);
        // They have one configuration; policy need not be asked twice at once.
        let elder = namesakes.iter().flatten().find_map(|key| self.scheduled.get(key));
        if let Some((config, epoch)) = elder.and_then(|elder| Some((elder.config.clone()?, elder.config_epoch))) {
            queue.configure(config, &mut self.rates, now);
            queue.config_epoch = epoch;
        }
        self.by_name.entry(queue.name.clone()).or_default()[tls as usize] = Some(key);
        self.domains.insert(name, key);
        self.scheduled.insert(key, Box::new(queue));
        key
    }

    /// The configuration in force for a queue, if policy was asked already.
    pub fn config(&self, key: QueueKey) -> Option<Arc<QueueConfig>> {
        self.scheduled.get(&key).and_then(|q| q.config.clone())
    }

    /// The name of a queue; empty for one that is gone.
    pub fn queue_name(&self, key: QueueKey) -> Arc<str> {
        self.scheduled.get(&key).map_or_else(|| "".into(), |q| q.name.clone())
    }

    /// The name of a connection's ready queue; empty when it is gone.
    pub fn ready_name(&self, conn: ConnKey) -> Arc<str> {
        self.ready.get(&conn.ready).map_or_else(|| "".into(), |ready| ready.name.clone())
    }

    /// True when a message belongs to another queue than the one it is of.
    pub fn is_elsewhere(&self, key: QueueKey, belonging: Belonging<'_>) -> bool {
        self.scheduled.get(&key).is_none_or(|q| (&*q.name, q.tls) != (belonging.queue, belonging.tls))
    }

    /// Policy's answer to `Effect::Configure`, or asked ahead of time.
    pub fn configured(&mut self, now: Now, key: QueueKey, config: Arc<QueueConfig>) {
        if let Some(queue) = self.scheduled.get_mut(&key) {
            queue.configure(config, &mut self.rates, now.mono);
            if queue.route.is_some() {
                // Though nothing may be due.
                refresh(queue, key, (now.mono, self.epoch), &mut self.effects);
            }
            self.promote(now, key);
        }
    }

    /// The answer to `Effect::Route`. A route none of whose sources may send is none.
    pub fn routed(&mut self, now: Now, key: QueueKey, route: Route) {
        let weights: Vec<u32> = route.legs.iter().map(|(_, weight, _)| *weight).collect();
        if weights.iter().all(|weight| *weight == 0) {
            return self.unroutable(now, key, no_source());
        }
        let legs: Box<[ReadyKey]> =
            route.legs.iter().map(|(name, _, leg)| self.ready_queue(now, name, leg.clone())).collect();
        let Some(queue) = self.scheduled.get_mut(&key) else { return };
        queue.routing = false;
        let is_of_old = std::mem::take(&mut queue.routes_by_old);
        let ages_by_epoch = |leg: &Leg| leg.path.refresh_strategy == RefreshStrategy::Epoch;
        queue.route_has_epoch = route.legs.iter().any(|(_, _, leg)| ages_by_epoch(leg));
        queue.route_fresh_until = if is_of_old { now.mono } else { now.mono + route.fresh_for };
        let rotation = Rotation::new(weights);
        let same = |way: &Way| way.legs == legs && way.rotation.weights() == rotation.weights();
        let same = queue.route.as_ref().is_some_and(same);
        if !same {
            self.leave_route(key);
            let Some(queue) = self.scheduled.get_mut(&key) else { return };
            queue.route = Some(Way { legs: legs.clone(), rotation });
        }
        self.promote(now, key);
        // A new definition may have raised limits that somebody waits for.
        for leg in legs {
            self.serve(now, leg);
            self.call_waiters(now, leg);
        }
    }

    /// There is no configuration: as [`QueueCore::unroutable`], whatever way is being looked for by an earlier one.
    pub fn unconfigured(&mut self, now: Now, key: QueueKey, failure: RouteFailure) {
        self.scheduled.get_mut(&key).into_iter().for_each(|queue| queue.routes_by_old = false);
        self.unroutable(now, key, failure);
    }

    /// There is no configuration or no route: every due message is settled with the reply. A
    /// queue that never had a configuration keeps its messages instead, uncounted: nobody knows
    /// yet how often they may be tried and when they are too old. So does one that an order holds back.
    pub fn unroutable(&mut self, now: Now, key: QueueKey, failure: RouteFailure) {
        let Some(queue) = self.scheduled.get_mut(&key) else { return };
        if std::mem::take(&mut queue.routes_by_old) {
            // There is another way to be tried, by the configuration that counts.
            (queue.routing, queue.route_fresh_until) = (false, Instant::ZERO);
            return refresh(queue, key, (now.mono, self.epoch), &mut self.effects);
        }
        self.leave_route(key);
        let Some(queue) = self.scheduled.get_mut(&key) else { return };
        if queue.configuring {
            // Whatever it ages by: there was no answer in this epoch.
            queue.config_fresh_until = Instant::ZERO;
        }
        (queue.routing, queue.configuring) = (false, false);
        queue.route = None;
        (queue.promotes_after, queue.waits_for_rate) = (now.mono + failure.hold_for, false);
        self.wheel.insert(queue.promotes_after, Timer::Promote(key));
        let verdict = if failure.reply.is_permanent() { Verdict::Permanent } else { Verdict::Transient };
        let is_ordered = queue.suspended_by(now.wall).is_some() || (self.orders.is_walking() && queue.gives_messages());
        if (queue.config.is_none() && verdict == Verdict::Transient) || is_ordered {
            return;
        }
        let due = std::mem::take(&mut queue.due);
        self.messages.iter(&due).for_each(|message| queue.goes_out(message.id));
        self.fail(Failure { verdict, reply: failure.reply, route: None }, due);
    }

    /// Takes a message in. It waits for its due time or, when that has come, for its way.
    pub fn admit(&mut self, now: Now, queue_name: &str, message: Message) {
        self.admit_to(now, Belonging::to(queue_name), message);
    }

    /// The same for a message that has an end of its own or whose sender demands something.
    pub fn admit_to(&mut self, now: Now, belonging: Belonging<'_>, message: Message) {
        let queue = self.queue_for(now.mono, belonging.queue, belonging.tls);
        if let Some(end) = belonging.end {
            home(&mut self.scheduled, queue).end_at(message.id, end);
            self.watch_expiries(now.mono, queue, now.mono_at(end.at));
        }
        self.insert(now, queue, message);
    }

    /// A message that was tried comes back for another attempt after `delay`.
    pub fn retry(&mut self, now: Now, queued: Queued, delay: Duration) {
        let Queued { mut message, queue } = queued;
        message.due = now.wall + delay;
        self.comes_back(now, queue, message);
    }

    /// A message that was out is here again: it waits, or goes to the order that awaits it.
    pub(crate) fn comes_back(&mut self, now: Now, queue: QueueKey, message: Message) {
        match self.awaited_by(now, queue, &message) {
            Some(order) => self.returns_to(order, queue, message),
            None => self.insert(now, queue, message),
        }
        self.left(queue, now.mono);
    }

    /// A message that could not even be looked at, because the spool did not answer, waits up to a minute; no
    /// attempt is counted (`Why::SpoolUnhealthy`). Never less than it would have waited; but its deadline ends it. An order that
    /// awaits it takes it.
    pub fn postpone(&mut self, now: Now, queued: Queued) {
        if self.awaited_by(now, queued.queue, &queued.message).is_some() {
            return self.comes_back(now, queued.queue, queued.message);
        }
        let delay = retry::without_attempt(self.random()).max(POSTPONED_MIN);
        let Queued { mut message, queue } = queued;
        message.due = message.due.max(now.wall + delay);
        // A deadline that is past brought it here, maybe, to be loaded: it is not to come again and again.
        let is_away = message.resident.is_none();
        let deadline = home(&mut self.scheduled, queue).deadline_of(message.id);
        let due = match deadline.filter(|deadline| is_away && *deadline <= now.wall) {
            Some(_) => now.mono + delay,
            None => self.due_of(now, queue, &message),
        };
        self.insert_until(now, queue, message, due);
        self.left(queue, now.mono);
    }

    /// A message that was taken but not tried goes back to the head of its ready queue, or home when it must not go that way.
    pub fn give_back(&mut self, now: Now, conn: ConnKey, mut queued: Queued) {
        if self.awaited_by(now, queued.queue, &queued.message).is_some() {
            return self.comes_back(now, queued.queue, queued.message);
        }
        let is_open = self.ready.get(&conn.ready).is_some_and(|ready| ready.closed_until() <= now.mono);
        let fate = self.scheduled.get(&queued.queue).map(|queue| queue.fate(&queued.message, now));
        if !is_open || fate.is_some_and(|fate| fate != Fate::Goes) {
            self.insert(now, queued.queue, queued.message);
            return self.left(queued.queue, now.mono);
        }
        if !self.keeps(queued.message.resident_octets()) {
            if queued.message.is_volatile() {
                return self.spool_out(queued);
            }
            queued.message.release();
        }
        if queued.message.is_volatile() {
            self.watch_volatile(now);
        }
        let queue = queued.queue;
        let deadline = self.scheduled.get(&queue).and_then(|of| of.deadline_of(queued.message.id));
        let slot = self.messages.insert(queue, queued.message);
        let Some(ready) = self.ready.get_mut(&conn.ready) else { return };
        ready.messages.push_front(&mut self.messages, queue, slot, deadline);
        self.serve(now, conn.ready);
    }

    /// A message is settled and gone.
    pub fn forget(&mut self, now: Instant, queued: &Queued) {
        if let Some(queue) = self.scheduled.get_mut(&queued.queue) {
            queue.forget(queued.message.id);
        }
        self.left(queued.queue, now);
    }

    /// Fires timers that are due; when there are many, some of them: [`QueueCore::deadline`] tells to come back at once.
    pub fn tick(&mut self, now: Now) {
        let mut fired = Vec::new();
        self.wheel.expire(now.mono, &mut fired);
        for timer in fired {
            match timer {
                Timer::Promote(key) => self.promote(now, key),
                Timer::Expire(key) => self.look_for_expired(now, key),
                Timer::Open(key) => self.serve(now, key),
                Timer::Select(key) => self.call_waiters(now, key),
                Timer::Grants(key) => self.call_for_grants(now, key),
                Timer::Spool => self.spool_patient(now),
            }
        }
        self.send_back(now);
        self.refresh_some(now);
        self.carry_out_orders(now);
        if self.fired.is_empty() {
            self.due_wheel.expire(now.mono, &mut self.fired);
        }
        for _ in 0..self.fired.len().min(FIRED_PER_TICK) {
            self.fired.pop_front().into_iter().for_each(|slot| self.message_due(now, slot));
        }
        if self.fired.is_empty() {
            // A crowd that came due at once must not cost memory for ever.
            self.fired.shrink_to(FIRED_PER_TICK);
        }
        for _ in 0..self.unfinished.len().min(QUEUES_PER_TICK) {
            let Some(key) = self.unfinished.pop_front() else { break };
            if let Some(queue) = self.scheduled.get_mut(&key) {
                queue.unfinished = false;
            }
            self.promote(now, key);
        }
        if now.mono >= self.next_sweep {
            self.next_sweep = now.mono + SWEEP_INTERVAL;
            self.sweep(now.mono);
            self.end_orders(now);
            self.tidy_timers(now.mono);
            self.look_again(now);
        }
    }

    /// When to call [`QueueCore::tick`] next; the beginning of time when there is more to do at once.
    pub fn deadline(&self) -> Instant {
        let goes_on = [self.unfinished.is_empty(), self.resting.is_empty(), self.refreshing.is_empty()];
        if !self.fired.is_empty() || goes_on.contains(&false) {
            return Instant::ZERO;
        }
        let timers = self.wheel.deadline().into_iter().chain(self.due_wheel.deadline()).chain(self.orders_deadline());
        timers.fold(self.next_sweep, Instant::min)
    }

    /// Moves what is to be done to `out`, in order.
    pub fn drain_effects(&mut self, out: &mut Vec<Effect>) {
        out.append(&mut self.effects);
    }

    /// A number for jitter: xorshift over the seed; fine for spreading, nothing else.
    pub fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Octets of content that queued messages have in memory although the spool has it too; what is in hand is not in it.
    pub fn resident_bytes(&self) -> usize {
        self.messages.resident().spooled
    }

    /// Memory is short, or no longer: while it is, no content stays in memory that the spool has, and what it does not have
    /// yet goes to it. What is in memory already is let go of by [`QueueCore::shed`].
    /// True when this begins with it.
    pub fn set_lean(&mut self, now: Now, lean: bool) -> bool {
        let begins = !std::mem::replace(&mut self.lean, lean) && lean;
        if begins {
            self.spool_all(now);
        }
        begins
    }

    /// Lets go of content that the spool has, looking at some thousand messages from step `from` on; the step to go on
    /// with, or `None` at the end.
    pub fn shed(&mut self, from: usize) -> Option<usize> {
        self.messages.shed(from, SHED_PER_VISIT)
    }

    pub(crate) fn insert(&mut self, now: Now, key: QueueKey, message: Message) {
        let due = self.due_of(now, key, &message);
        self.insert_until(now, key, message, due);
    }

    /// A message with a deadline waits until then at most.
    fn due_of(&mut self, now: Now, key: QueueKey, message: &Message) -> Instant {
        let deadline = home(&mut self.scheduled, key).deadline_of(message.id);
        now.mono_at(deadline.map_or(message.due, |deadline| deadline.min(message.due)))
    }

    fn insert_until(&mut self, now: Now, key: QueueKey, mut message: Message, due: Instant) {
        let queue = home(&mut self.scheduled, key);
        queue.forget_sent(message.id);
        let order = queue.taken_by(&message, now.wall).map(|order| order.id);
        let waits = due > now.mono || order.is_some();
        if waits || !self.keeps(message.resident_octets()) {
            if message.is_volatile() {
                return self.spool(key, message);
            }
            message.release();
        }
        if let Some(id) = order {
            home(&mut self.scheduled, key).out += 1;
            let slot = self.messages.insert(key, message);
            return self.take_by_order(key, slot, id);
        }
        if !waits {
            return self.put_due(now, key, message);
        }
        let queue = home(&mut self.scheduled, key);
        queue.last_used = now.mono;
        queue.waiting += 1;
        let slot = self.messages.insert_waiting(key, message, due);
        self.due_wheel.insert(due, slot);
    }

    /// A message whose time has come stands in line for its way.
    pub(crate) fn put_due(&mut self, now: Now, key: QueueKey, message: Message) {
        if message.is_volatile() {
            self.watch_volatile(now);
        }
        let slot = self.messages.insert(key, message);
        let queue = home(&mut self.scheduled, key);
        queue.last_used = now.mono;
        queue.push_due(&mut self.messages, slot);
        self.promote(now, key);
    }

    /// True when a message may come to wait with so many octets of content in memory.
    pub(crate) fn keeps(&self, octets: usize) -> bool {
        let resident = self.messages.resident();
        octets == 0 || (!self.lean && resident.spooled + resident.volatile + octets <= self.settings.resident_bytes_max)
    }

    /// A message left ready queues and connections.
    pub(crate) fn left(&mut self, key: QueueKey, now: Instant) {
        if let Some(queue) = self.scheduled.get_mut(&key) {
            queue.out = queue.out.saturating_sub(1);
            queue.last_used = now;
        }
    }

    fn message_due(&mut self, now: Now, slot: SlotNumber) {
        let key = self.messages.due_in(slot, now.mono);
        let Some((key, queue)) = key.and_then(|key| Some((key, self.scheduled.get_mut(&key)?))) else {
            self.stale_timers = self.stale_timers.saturating_sub(1);
            return;
        };
        queue.waiting -= 1;
        self.comes_due(now, key, slot);
    }

    /// A message is due that was not before. An order takes it at once: behind others nobody would ask about it, and the walk may have
    /// been there.
    pub(crate) fn comes_due(&mut self, now: Now, key: QueueKey, slot: SlotNumber) {
        if self.stands_due(now, key, slot) {
            self.promote(now, key);
        }
    }

    /// An order takes a message, or it stands in line for its way; true then.
    pub(crate) fn stands_due(&mut self, now: Now, key: QueueKey, slot: SlotNumber) -> bool {
        let fate = self.fate(slot, now);
        let queue = home(&mut self.scheduled, key);
        let Fate::Ordered(id) = fate else {
            queue.push_due(&mut self.messages, slot);
            return true;
        };
        queue.out += 1;
        self.take_by_order(key, slot, id);
        false
    }

    /// Forgets timers of messages that orders moved, when those have become many: one for each message that waits is enough.
    fn tidy_timers(&mut self, now: Instant) {
        if self.stale_timers <= self.messages.len() + STALE_TIMERS_MAX {
            return;
        }
        let mut wheel = TimerWheel::new(now);
        self.messages.each_waiting(|slot, due| wheel.insert(due, slot));
        self.due_wheel = wheel;
        // Each that has fired already is there again, or was stale.
        self.stale_timers = self.fired.len();
    }

    fn ready_queue(&mut self, now: Now, name: &Arc<str>, leg: Leg) -> ReadyKey {
        let identity = (name.clone(), leg.destination.identity().clone());
        if let Some(key) = self.ready_by_name.get(&identity).copied() {
            if let Some(ready) = self.ready.get_mut(&key) {
                let limit_before = ready.leg.path.connection_limit.limit;
                ready.redefine(leg, &mut self.rates);
                ready.last_used = now.mono;
                if ready.shared_limit().is_some() && ready.leg.path.connection_limit.limit != limit_before {
                    self.share_connections(name);
                }
            }
            return key;
        }
        let key = ReadyKey(self.fresh_key());
        self.ready_by_name.insert(identity, key);
        let mut ready = ReadyQueue::new(name.clone(), leg, &mut self.rates, now.mono);
        ready.suspended_until = self.ready_suspended_until(now, name);
        self.ready.insert(key, Box::new(ready));
        self.join_namesakes(key, name);
        key
    }

    /// Looks at everything that waits for something other than a time. Each of those waits has
    /// somebody who ends it; this is the net below them, and what refreshes the definitions of
    /// queues in which nothing moves. What nobody would have ended is counted: the simulator
    /// wants none of it.
    fn look_again(&mut self, now: Now) {
        let mut due: Vec<QueueKey> =
            self.scheduled.iter().filter(|(_, q)| !q.due.is_empty()).map(|(k, _)| *k).collect();
        // In order of age: equal runs must do equal things.
        due.sort_unstable();
        for key in due {
            if self.waits_in_vain(key, now) {
                let stalled = self.scheduled.get(&key).map(|q| (q.name.clone(), self.why_due(now, q)));
                self.note_stall(stalled);
            }
            self.promote(now, key);
        }
        let mut ready: Vec<ReadyKey> =
            self.ready.iter().filter(|(_, r)| !r.messages.is_empty()).map(|(k, _)| *k).collect();
        ready.sort_unstable();
        for key in ready {
            self.expire_ready(now, key);
            if self.is_unserved(key, now.mono) {
                let stalled = self.ready.get(&key).map(|r| (r.name.clone(), self.why_ready(now, r)));
                self.note_stall(stalled);
            }
            self.serve(now, key);
        }
    }

    fn note_stall(&mut self, stalled: Option<(Arc<str>, Wait)>) {
        self.caught += 1;
        self.effects.extend(stalled.map(|(name, wait)| Effect::Stalled { name, wait }));
    }

    /// The number that was given out last.
    pub(crate) fn last_key(&self) -> u32 {
        self.next_key
    }

    fn fresh_key(&mut self) -> u32 {
        self.next_key += 1;
        self.next_key
    }
}

/// The scheduled queues of one name, by [`TlsDemand`].
pub(crate) type Namesakes = [Option<QueueKey>; TlsDemand::ALL.len()];

/// Tells queues with few messages from the others.
pub(crate) fn is_small(scheduled: &HashMap<QueueKey, Box<ScheduledQueue>>) -> impl Fn(QueueKey) -> bool {
    |key| scheduled.get(&key).is_none_or(|queue| queue.is_small())
}

/// The queue of a message: it is only forgotten when nothing waits in it or is out of it.
fn home(scheduled: &mut HashMap<QueueKey, Box<ScheduledQueue>>, key: QueueKey) -> &mut ScheduledQueue {
    scheduled.get_mut(&key).expect("a message's queue exists")
}

/// How much there is of everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages waiting or due in scheduled queues.
    pub scheduled: usize,
    /// Messages in ready queues.
    pub ready: usize,
    /// Messages in ready queues, with connections, or handed out in effects.
    pub out: usize,
    /// Scheduled queues.
    pub scheduled_queues: usize,
    /// Outbound connections, opening ones included.
    pub connections: usize,
}

/// All sources of the pool have the weight 0.
fn no_source() -> RouteFailure {
    let reply =
        Reply::enhanced(451, EnhancedCode::new(4, 4, 4), "KumoMTA internal: no source of the egress pool may send");
    RouteFailure { why: Why::FailedToInsertIntoReadyQueue, reply, hold_for: NO_SOURCE_HOLD }
}

/// How long a queue without a source rests before it is asked about again (KumoMTA: 60 s).
const NO_SOURCE_HOLD: Duration = Duration::from_secs(60);
/// Shortest pause before the spool is asked for the same message again.
const POSTPONED_MIN: Duration = Duration::from_secs(1);
/// Messages whose time has come that one visit looks at: about a millisecond's work.
const FIRED_PER_TICK: usize = 2048;
/// Queues with more to do that one visit goes on with.
const QUEUES_PER_TICK: usize = 2;
/// Messages that one visit of the shedding looks at.
const SHED_PER_VISIT: usize = 8192;
/// Timers beyond twice the messages that are let stand.
const STALE_TIMERS_MAX: usize = 65_536;
/// How often unused queues are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ready::{Destination, Route};
    use clock::WallTime;
    use config::{EgressPath, EgressSource};
    use message::{IdGenerator, Place};

    fn message() -> Message {
        let place = Some(Place { segment: 1, offset: 0, index: 0 });
        Message { place, ..Message::bare(IdGenerator::new([0; 6], 1).next(WallTime::EPOCH), WallTime::EPOCH) }
    }

    /// No caller can lose a wake-up, so a test takes one away: what then stands still is found, named and set going.
    #[test]
    fn who_waits_for_nothing_is_found_within_a_minute_and_named() {
        let mut now = Now { mono: Instant::ZERO, wall: WallTime::EPOCH };
        let mut core = QueueCore::new(now.mono, QueueSettings { resident_bytes_max: 0, seed: 1 });
        let key = core.queue(now.mono, "x.test");
        core.configured(now, key, Arc::new(QueueConfig::default()));
        let leg = Leg {
            source: Arc::new(EgressSource::unspecified()),
            pool: "p".into(),
            path: Arc::new(EgressPath::default()),
            destination: Destination::new("site", Arc::new(())),
            epoch: Epoch::default(),
        };
        core.routed(now, key, Route { legs: vec![("a".into(), 1, leg)], fresh_for: Duration::from_secs(3600) });
        let slot = core.messages.insert(key, message());
        let queue = home(&mut core.scheduled, key);
        core.messages.push_back(&mut queue.due, slot);
        now = now.after(SWEEP_INTERVAL);
        core.tick(now);
        let mut effects = Vec::new();
        core.drain_effects(&mut effects);
        let stalled = effects.iter().find_map(|effect| match effect {
            Effect::Stalled { name, wait } => Some((&**name, wait.why)),
            _ => None,
        });
        assert_eq!(stalled, Some(("x.test", crate::Why::BehindOthers)));
        assert_eq!((core.counts().ready, core.footprint().caught), (1, 1));
        now = now.after(SWEEP_INTERVAL);
        core.tick(now);
        assert_eq!(core.footprint().caught, 1, "a connection is being opened for it");
    }
}
