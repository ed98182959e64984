//! Scheduled queues: messages of one `campaign:tenant@domain!routing_domain`.
//!
//! Counts the messages that wait for a time (`waiting`) and owns the line of those whose time has come but whose
//! way is not free yet (`due`, in order). Knows its configuration and route, or that somebody
//! is finding them out. Never judges a message; `promote` does.

use crate::asking::Asked;
use crate::core::ReadyKey;
use crate::ends::Ends;
use crate::epoch::Epoch;
use crate::messages::{List, Messages, SlotNumber};
use crate::order::{Action, Order, OrderId};
use crate::pool::Rotation;
use crate::schedule::End;
use crate::shared::{Rates, SharedRates};
use clock::{Duration, Instant, Now, WallTime};
use config::{QueueConfig, RefreshStrategy};
use hashbrown::{HashMap, HashSet};
use message::{Message, MessageId, TlsDemand};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The queue itself; `QueueCore` drives it.
#[derive(Debug)]
pub(crate) struct ScheduledQueue {
    pub name: Arc<str>,
    /// What the senders of its messages demand; such with other demands are in another queue of that name.
    pub tls: TlsDemand,
    pub config: Option<Arc<QueueConfig>>,
    pub config_fresh_until: Instant,
    pub configuring: bool,
    /// The epoch in which the configuration was asked for.
    pub config_epoch: Epoch,
    pub route: Option<Way>,
    pub route_fresh_until: Instant,
    pub routing: bool,
    /// Asked for by a configuration that has another protocol or pool than the one that came meanwhile.
    pub routes_by_old: bool,
    /// The same of the route, which ages by epoch when one of its paths does.
    pub route_epoch: Epoch,
    pub route_has_epoch: bool,
    /// How many messages wait for their due time; the timer wheel has them.
    pub waiting: usize,
    /// Messages whose time has come, oldest first.
    pub due: List,
    /// More can be promoted than one visit may do; it goes on at the next tick.
    pub unfinished: bool,
    /// Ready queues in whose `waiters` this queue stands, once each.
    pub waits_at: BTreeSet<ReadyKey>,
    /// Ready queues that had no room for what is due, and when that was counted last: not each turn in line is.
    pub found_full: BTreeMap<ReadyKey, Instant>,
    /// No promotion before this moment (`max_message_rate`).
    pub promotes_after: Instant,
    /// That is how long its rate has it wait, which another configuration may end.
    pub waits_for_rate: bool,
    pub message_rate: Rates,
    /// The way whose source is being asked for: the turn is its, if it may be chosen.
    pub picked: Option<ReadyKey>,
    /// Orders that name this queue.
    pub orders: Box<[Arc<Order>]>,
    /// The order that awaits messages of this queue which were in hand before.
    pub awaited: Option<Box<Awaited>>,
    /// Messages that end at a time of their own.
    pub expiries: Option<Box<Ends>>,
    /// When the first of those is looked at; in the past when no timer is set for them.
    pub expires_at: Instant,
    /// Stands in line for its first due message to be asked about.
    pub is_in_line: bool,
    /// What policy said about messages that are here.
    pub asked: Option<Box<HashMap<MessageId, Asked>>>,
    /// Messages in ready queues or in flight that will come back here if they fail.
    pub out: usize,
    pub last_used: Instant,
}

/// Messages of a queue that are awaited: all that are out, but for those that were sent since.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub order: Arc<Order>,
    pub sent_since: HashSet<MessageId>,
}

/// What is to become of a message before anybody tries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It may go its way.
    Goes,
    /// It is older than its queue lets messages become.
    Expired,
    /// An order takes it: to bounce or to hold it.
    Ordered(OrderId),
    /// Its queue is suspended.
    Suspended,
}

/// A route as the queue uses it: ready queues by key and the walk over their weights.
#[derive(Debug)]
pub(crate) struct Way {
    pub legs: Box<[ReadyKey]>,
    pub rotation: Rotation,
}

impl ScheduledQueue {
    pub fn new(name: &str, tls: TlsDemand, now: Instant) -> ScheduledQueue {
        ScheduledQueue {
            name: name.into(),
            tls,
            config: None,
            config_fresh_until: Instant::ZERO,
            configuring: false,
            config_epoch: Epoch::default(),
            route: None,
            route_fresh_until: Instant::ZERO,
            routing: false,
            routes_by_old: false,
            route_epoch: Epoch::default(),
            route_has_epoch: false,
            waiting: 0,
            due: List::default(),
            unfinished: false,
            waits_at: BTreeSet::new(),
            found_full: BTreeMap::new(),
            promotes_after: Instant::ZERO,
            waits_for_rate: false,
            message_rate: Rates::default(),
            picked: None,
            orders: Box::default(),
            awaited: None,
            expiries: None,
            expires_at: Instant::ZERO,
            is_in_line: false,
            asked: None,
            out: 0,
            last_used: now,
        }
    }

    pub fn configure(&mut self, config: Arc<QueueConfig>, rates: &mut SharedRates, now: Instant) {
        let changed = self.config.as_ref().is_none_or(|old| old.max_message_rate != config.max_message_rate);
        if changed {
            let own = (config.max_message_rate.as_ref(), || format!("kumomta.queue_message_rate.{}", self.name));
            self.message_rate.redefine(own, &BTreeMap::new(), rates);
            if std::mem::take(&mut self.waits_for_rate) {
                self.promotes_after = Instant::ZERO;
            }
        }
        if self
            .config
            .as_ref()
            .is_some_and(|old| old.protocol != config.protocol || old.egress_pool != config.egress_pool)
        {
            self.route_fresh_until = now;
            self.routes_by_old = self.routing;
        }
        self.config_fresh_until = match config.refresh_strategy {
            RefreshStrategy::Ttl => now + Duration::from(config.refresh_interval).max(FRESH_MIN),
            RefreshStrategy::Epoch => Instant::NEVER,
        };
        self.configuring = false;
        self.config = Some(config);
    }

    /// Whether policy is to be asked for the configuration again.
    pub fn config_is_stale(&self, now: Instant, epoch: Epoch) -> bool {
        let ages_by_epoch = self.config.as_ref().is_some_and(|c| c.refresh_strategy == RefreshStrategy::Epoch);
        now >= self.config_fresh_until || (ages_by_epoch && self.config_epoch != epoch)
    }

    /// Whether the route is to be found again.
    pub fn route_is_stale(&self, now: Instant, epoch: Epoch) -> bool {
        let is_of_before = self.route_has_epoch && self.route_epoch != epoch;
        self.route.is_none() || now >= self.route_fresh_until || is_of_before
    }

    /// Messages here, waiting or due.
    pub fn len(&self) -> usize {
        self.waiting + self.due.len()
    }

    /// True when this queue has only a handful of messages whose time has come: those pass what is bulk.
    pub fn is_small(&self) -> bool {
        self.due.len() + self.out <= SMALL_MAX
    }

    /// True when `message` is older than the queue lets messages become, or than it may become itself.
    pub fn is_expired(&self, message: &Message, now: Now) -> bool {
        if let Some(end) = self.expiries.as_ref().and_then(|ends| ends.of.get(&message.id)) {
            return now.wall >= end.at;
        }
        let age = now.wall.saturating_since(message.created());
        self.config.as_ref().is_some_and(|config| age >= Duration::from(config.max_age))
    }

    /// Notes that a message ends at a time of its own.
    pub fn end_at(&mut self, id: MessageId, end: End) {
        self.expiries.get_or_insert_default().of.insert(id, end);
    }

    /// The moment by which a message is to be delivered, if it has a deadline.
    pub fn deadline_of(&self, id: MessageId) -> Option<WallTime> {
        self.expiries.as_ref()?.of.get(&id).filter(|end| end.is_deadline).map(|end| end.at)
    }

    /// Puts a message whose time has come in line: those with a deadline first, the earliest before others.
    pub fn push_due(&mut self, messages: &mut Messages, slot: SlotNumber) {
        if self.due.is_empty() {
            // What was due has found its way.
            self.found_full.clear();
        }
        let id = messages.get(slot).map(|message| message.id);
        id.into_iter().for_each(|id| self.forget_sent(id));
        let deadline = id.and_then(|id| self.deadline_of(id));
        messages.place(&mut self.due, slot, deadline);
    }

    /// The first end of a message of its own that is ahead, and of how many.
    pub fn next_expiry(&self, now: WallTime) -> Option<(WallTime, usize)> {
        let ends = self.expiries.as_ref()?;
        let ahead = ends.of.values().map(|end| end.at).filter(|at| *at > now);
        Some((ahead.min()?, ends.of.len()))
    }

    /// A message is gone.
    pub fn forget(&mut self, id: MessageId) {
        let none_left = self.expiries.as_mut().is_some_and(|ends| ends.of.remove(&id).is_some() && ends.of.is_empty());
        if none_left {
            self.expiries = None;
        }
        self.forget_asked(id);
        self.forget_sent(id);
    }

    /// A message leaves its place here and is out.
    pub fn goes_out(&mut self, id: MessageId) {
        self.out += 1;
        self.note_sent(id);
    }

    /// A message that was here is out now: an order that awaits others is not about it any more.
    pub fn note_sent(&mut self, id: MessageId) {
        self.awaited.iter_mut().for_each(|awaited| _ = awaited.sent_since.insert(id));
    }

    /// It is here again, or gone.
    pub fn forget_sent(&mut self, id: MessageId) {
        self.awaited.iter_mut().for_each(|awaited| _ = awaited.sent_since.remove(&id));
    }

    /// Messages that are out and were out before an order began to await them, or are with an order.
    pub fn out_before(&self) -> usize {
        self.awaited.as_ref().map_or(0, |awaited| self.out.saturating_sub(awaited.sent_since.len()))
    }

    /// Notes what policy said about a message.
    pub fn note_asked(&mut self, id: MessageId, asked: Asked) {
        self.asked.get_or_insert_default().insert(id, asked);
    }

    /// What policy said about a message that is here.
    pub fn asked(&self, id: MessageId) -> Option<Asked> {
        self.asked.as_ref().and_then(|of| of.get(&id)).copied()
    }

    /// A message is asked about anew when it comes again.
    pub fn forget_asked(&mut self, id: MessageId) {
        let none_left = self.asked.as_mut().is_some_and(|of| of.remove(&id).is_some() && of.is_empty());
        if none_left {
            self.asked = None;
        }
    }

    /// What is to become of `message` before anybody tries it.
    pub fn fate(&self, message: &Message, now: Now) -> Fate {
        if self.is_expired(message, now) {
            return Fate::Expired;
        }
        if self.orders.is_empty() {
            return Fate::Goes;
        }
        match self.taken_by(message, now.wall) {
            Some(order) => Fate::Ordered(order.id),
            None if self.suspended_by(now.wall).is_some() => Fate::Suspended,
            None => Fate::Goes,
        }
    }

    /// The order that takes `message`: the first that does, but what one holds another may end or move that names it.
    pub fn taken_by(&self, message: &Message, now: WallTime) -> Option<&Arc<Order>> {
        let takes = |order: &&Arc<Order>| order.takes_messages();
        let concern = |order: &&Arc<Order>| order.concerns(message.id, message.created(), now);
        let mut taking = self.orders.iter().filter(takes).filter(concern);
        let first = taking.next()?;
        match first.ends_messages() {
            true => Some(first),
            false => taking.find(|order| order.ends_held()).or(Some(first)),
        }
    }

    /// The order that makes `message` due: one that was tried before, or that is meant itself; who waits for its first
    /// attempt was told to.
    pub fn flushed_by(&self, message: &Message, now: WallTime) -> Option<&Arc<Order>> {
        let flushes = |order: &&Arc<Order>| matches!(order.action, Action::Flush(_));
        let by_id = |order: &Order| order.criteria().is_some_and(|c| !c.messages.is_empty());
        let concerns = |order: &&Arc<Order>| {
            (message.attempts > 0 || by_id(order)) && order.concerns(message.id, message.created(), now)
        };
        self.orders.iter().filter(flushes).find(concerns)
    }

    /// The order that holds the queue back longest.
    pub fn suspended_by(&self, now: WallTime) -> Option<&Arc<Order>> {
        let suspends = |order: &&Arc<Order>| matches!(order.action, Action::Suspend(_)) && now < order.expires;
        self.orders.iter().filter(suspends).max_by_key(|order| order.expires)
    }

    /// True when some order takes messages from here.
    pub fn gives_messages(&self) -> bool {
        self.orders.iter().any(|order| order.takes_messages())
    }

    /// The order that ends or moves `message`, which another holds.
    pub fn ended_by(&self, message: &Message, now: WallTime) -> Option<OrderId> {
        self.taken_by(message, now).filter(|order| order.ends_held()).map(|order| order.id)
    }

    /// True when the queue may be forgotten.
    pub fn is_unused(&self, now: Instant) -> bool {
        let idle_max = self.config.as_ref().map_or(Duration::from_secs(600), |c| Duration::from(c.reap_interval));
        self.len() == 0 && self.out == 0 && now.saturating_since(self.last_used) > idle_max
    }
}

/// Messages, due or under way, up to which a queue counts as small.
const SMALL_MAX: usize = 16;
/// Policy is not asked more often, whatever it says: it would be asked for ever, and nothing else would be done.
const FRESH_MIN: Duration = Duration::from_secs(1);
