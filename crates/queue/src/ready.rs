//! Ready queues: messages ready for one source and one site, and the connections they get.
//!
//! Owns order, limits and rates of one `source->site@protocol`. A ready queue never loses
//! room silently: when it is full, scheduled queues wait in `waiters` and are called, in
//! turn, as soon as there is room (KumoMTA sends the message back for up to a minute instead).

use crate::Why;
use crate::core::{ConnKey, QueueKey};
use crate::effect::Opening;
use crate::epoch::Epoch;
use crate::feedback::Window;
use crate::grants::PotKey;
use crate::line::Line;
use crate::shared::{LeaseSet, Rates, SharedRates, lease_sets};
use crate::sources::Sources;
use clock::{Duration, Instant, WallTime};
use config::{EgressPath, EgressSource};
use core::any::Any;
use core::fmt;
use slab::Slab;
use smtp_wire::Reply;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Where a ready queue's connections go, found once with the route. Opaque to the queue: it
/// only tells destinations of one site name apart, and hands them to whoever connects.
#[derive(Clone)]
pub struct Destination {
    identity: Arc<str>,
    hosts: Arc<dyn Any + Send + Sync>,
}

impl Destination {
    /// `identity` differs for destinations that must not share a ready queue although their
    /// site has the same name, such as two `mx_list`s with one label and different addresses.
    pub fn new<T: Send + Sync + 'static>(identity: &str, hosts: Arc<T>) -> Destination {
        Destination { identity: identity.into(), hosts }
    }

    /// What distinguishes it from others of the same site name.
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// What the maker put in, when it is of that type.
    pub fn hosts<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.hosts.clone().downcast().ok()
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Destination").field(&self.identity).finish()
    }
}

/// One way out: a source to a site.
#[derive(Clone, Debug)]
pub struct Leg {
    /// The sending identity.
    pub source: Arc<EgressSource>,
    /// Pool it was chosen from, for logs.
    pub pool: Arc<str>,
    /// Limits, timeouts, TLS.
    pub path: Arc<EgressPath>,
    /// Where to.
    pub destination: Destination,
    /// The epoch in which the path was asked for.
    pub epoch: Epoch,
}

/// The resolved ways out of one scheduled queue.
#[derive(Clone, Debug)]
pub struct Route {
    /// Ready queue name, weight and leg of every source of the pool.
    pub legs: Vec<(Arc<str>, u32, Leg)>,
    /// Ask again after this long.
    pub fresh_for: Duration,
}

/// Why there is no way out now.
#[derive(Clone, Debug)]
pub struct RouteFailure {
    /// The obstacle.
    pub why: Why,
    /// What is logged for each message; 5xx bounces, 4xx is a counted retry.
    pub reply: Reply,
    /// Do not ask again before this long.
    pub hold_for: Duration,
}

/// The queue itself; `QueueCore` drives it.
#[derive(Debug)]
pub(crate) struct ReadyQueue {
    pub name: Arc<str>,
    pub leg: Leg,
    pub messages: Line,
    /// Scheduled queues with due messages that found this queue full.
    pub waiters: VecDeque<QueueKey>,
    /// The same, for queues that were small then.
    pub small_waiters: VecDeque<QueueKey>,
    /// The last that was called was a small one.
    small_was_called: bool,
    /// There are ready queues of the same name, or were, and this is the largest `connection_limit` of theirs: all of them together
    /// have no more connections.
    limit_of_all: Option<u64>,
    /// How often what was due in a scheduled queue found no room here.
    pub full: u64,
    /// The message whose turn it is has been refused by a rate, and that is counted.
    pub is_delayed: bool,
    pub connections: Slab<Connection>,
    /// Connections that wait for a message, longest idle first.
    pub idle: VecDeque<usize>,
    pub consecutive_failures: u32,
    /// No new connection before this moment.
    pub opens_after: Instant,
    /// That is how long a rate has it wait, which another definition may end.
    pub waits_for_rate: bool,
    /// How many connections its destination bears, when that is to be learnt.
    pub window: Option<Box<Window>>,
    /// It sends nothing before this moment: an order.
    pub suspended_until: Instant,
    /// When those who wait are called because the source may be chosen again.
    pub selects_at: Instant,
    /// Since when a connection is wanted that `additional_connection_limits` does not let open.
    pub lease_awaited_since: Option<WallTime>,
    /// The same for `max_connection_rate`.
    pub rate_awaited_since: Option<WallTime>,
    pub message_rates: Rates,
    pub connection_rates: Rates,
    /// How often a pool may choose this way.
    pub selection_rates: Rates,
    /// What each connection needs.
    pub leases: LeaseSet,
    /// Those of them that the cluster counts.
    pub cluster_leases: LeaseSet,
    /// The cluster had no lease: it is asked again then.
    pub leases_after: Instant,
    pub last_used: Instant,
}

/// One connection as the queue sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub idle: bool,
    /// Messages it took.
    pub taken: usize,
    /// What it took of what others need too.
    pub leases: LeaseSet,
    /// Until the cluster has answered.
    pub leasing: Option<Leasing>,
    /// The cluster has given its lease to somebody else: it takes nothing more.
    pub is_lost: bool,
    /// It was told to wait for a rate.
    pub has_waited: bool,
    /// It goes, as the destination bears fewer.
    pub is_surplus: bool,
    /// It goes, so that others may have its leases.
    pub makes_room: bool,
    /// How it was made.
    made_by: (Arc<EgressPath>, Arc<EgressSource>),
}

impl Connection {
    /// One that opens by this leg, with what it took of what others need too.
    pub fn new(leg: &Leg, leases: LeaseSet, leasing: Option<Leasing>) -> Connection {
        Connection {
            idle: false,
            taken: 0,
            leases,
            leasing,
            is_lost: false,
            has_waited: false,
            is_surplus: false,
            makes_room: false,
            made_by: (leg.path.clone(), leg.source.clone()),
        }
    }

    /// Whether it has served and would be made in another way now: by other hosts, to another port, under other TLS. One that has
    /// not served yet does so, or definitions that alternate would let none.
    pub fn is_outdated(&mut self, leg: &Leg) -> bool {
        let (path, source) = &self.made_by;
        if self.taken == 0 || (Arc::ptr_eq(path, &leg.path) && Arc::ptr_eq(source, &leg.source)) {
            return false;
        }
        let is_like = path.connects_like(&leg.path) && source.connects_like(&leg.source);
        if is_like {
            self.made_by = (leg.path.clone(), leg.source.clone());
        }
        !is_like
    }
}

/// What the cluster is asked before a connection opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leasing {
    /// For its leases and rates.
    Asks,
    /// To note leases of this node's share, if it is there.
    Tells,
}

impl ReadyQueue {
    pub fn new(name: Arc<str>, leg: Leg, rates: &mut SharedRates, now: Instant) -> ReadyQueue {
        let mut queue = ReadyQueue {
            name,
            message_rates: Rates::default(),
            connection_rates: Rates::default(),
            selection_rates: Rates::default(),
            leases: LeaseSet::default(),
            cluster_leases: LeaseSet::default(),
            leases_after: Instant::ZERO,
            leg,
            messages: Line::default(),
            waiters: VecDeque::new(),
            small_waiters: VecDeque::new(),
            small_was_called: false,
            limit_of_all: None,
            full: 0,
            is_delayed: false,
            connections: Slab::new(),
            idle: VecDeque::new(),
            consecutive_failures: 0,
            opens_after: Instant::ZERO,
            waits_for_rate: false,
            window: None,
            suspended_until: Instant::ZERO,
            selects_at: Instant::ZERO,
            lease_awaited_since: None,
            rate_awaited_since: None,
            last_used: now,
        };
        queue.set_rates(rates);
        queue
    }

    /// Takes a new definition; rates keep their state unless they changed.
    pub fn redefine(&mut self, leg: Leg, rates: &mut SharedRates) {
        self.leg = leg;
        self.set_rates(rates);
        self.forget_rate_wait();
    }

    /// The `connection_limit` of all ready queues of its name, if there are more than this one.
    pub fn shared_limit(&self) -> Option<u64> {
        self.limit_of_all
    }

    /// `connection_limit` is that of all ready queues of its name from now on, and the largest of them is `limit`: the leases that its
    /// connections have besides.
    pub fn share_connections(&mut self, limit: u64, rates: &SharedRates) -> LeaseSet {
        let shared_before = self.limit_of_all.replace(limit).is_some();
        let before = self.leases.clone();
        self.set_leases(rates);
        if shared_before {
            return LeaseSet::default();
        }
        let is_new = |lease: &&(Arc<str>, u64)| before.iter().all(|(name, _)| *name != lease.0);
        let more: LeaseSet = self.leases.iter().filter(is_new).cloned().collect();
        for (_, connection) in &mut self.connections {
            connection.leases = connection.leases.iter().chain(more.iter()).cloned().collect();
        }
        more
    }

    /// How long a rate had it wait may be wrong now: whoever opens the next connection finds out.
    pub fn forget_rate_wait(&mut self) {
        if std::mem::take(&mut self.waits_for_rate) {
            self.opens_after = Instant::ZERO;
        }
    }

    /// A scheduled queue waits for room.
    pub fn line_up(&mut self, queue: QueueKey, is_small: bool) {
        if is_small { &mut self.small_waiters } else { &mut self.waiters }.push_back(queue);
    }

    /// The next that waits and for which there is room: in turn, the small and the others by turns. `is_small` tells which
    /// are small now.
    pub fn call(&mut self, is_small: impl Fn(QueueKey) -> bool) -> Option<QueueKey> {
        while let Some(queue) = self.small_waiters.pop_front_if(|queue| !is_small(*queue)) {
            self.waiters.push_back(queue);
        }
        let bulk_may = !self.waiters.is_empty() && self.has_room(false);
        let small_may = !self.small_waiters.is_empty() && self.has_room(true);
        self.small_was_called = small_may && (!bulk_may || !self.small_was_called);
        match (self.small_was_called, bulk_may) {
            (true, _) => self.small_waiters.pop_front(),
            (false, true) => self.waiters.pop_front(),
            (false, false) => None,
        }
    }

    /// Whether a message may come in; the last places are for queues with few messages.
    pub fn has_room(&self, is_small: bool) -> bool {
        let max = self.leg.path.max_ready;
        let kept = if is_small { 0 } else { max / ROOM_FOR_SMALL };
        self.messages.len() < max - kept
    }

    /// Whether a pool may choose this way now; else how long it may not.
    pub fn may_be_chosen(&self, rates: &SharedRates, sources: &Sources, now: Instant) -> Result<(), Duration> {
        if now < self.closed_until() {
            return Err(self.closed_until().saturating_since(now));
        }
        let rests = sources.rests(now, &self.leg.source.name);
        self.selection_rates.check(rates, now).and(rests.map_or(Ok(()), Err))
    }

    /// The grant that is to be asked for before it is known whether a pool may choose this way.
    pub fn may_be_asked_for(&self, rates: &SharedRates, sources: &Sources, now: Instant) -> Option<PotKey> {
        let is_open = now >= self.closed_until() && sources.rests(now, &self.leg.source.name).is_none();
        self.selection_rates.is_unsure_of(rates, now).filter(|_| is_open)
    }

    /// When it may send again: an order, or a destination that is dead.
    pub fn closed_until(&self) -> Instant {
        self.suspended_until.max(self.window.as_ref().map_or(Instant::ZERO, |window| window.closed_until()))
    }

    /// True when there are more connections than the destination bears, without those that go already.
    pub fn has_too_many(&self) -> bool {
        let Some(borne) = self.window.as_ref().map(|window| window.connections()) else { return false };
        let stay = || self.connections.iter().filter(|(_, connection)| !connection.is_surplus).count();
        self.connections.len() > borne && stay() > borne
    }

    /// True while the cluster is asked for one of its connections.
    pub fn is_leasing(&self) -> bool {
        self.connections.iter().any(|(_, connection)| connection.leasing.is_some())
    }

    /// What the cluster is asked before the next connection opens.
    pub fn leasing(&self, rates: &SharedRates) -> Option<Leasing> {
        let leasing = if rates.grants.is_away() { Leasing::Tells } else { Leasing::Asks };
        (!self.cluster_leases.is_empty()).then_some(leasing)
    }

    /// How long `max_connection_rate` admits no connection. Where the cluster counts leases it is asked for both together, not for
    /// grants ahead: then what counts is what it has said of the rate.
    pub fn opening_wait(&self, rates: &SharedRates, now: Instant) -> Option<Duration> {
        let wait = self.connection_rates.check(rates, now).err()?;
        (self.leasing(rates) != Some(Leasing::Asks) || !wait.is_zero()).then_some(wait)
    }

    /// What opens a connection that was noted just now.
    pub fn opening(&self, conn: ConnKey, leasing: Option<Leasing>) -> Opening {
        let (ready_name, leg, leases) = (self.name.clone(), self.leg.clone(), self.cluster_leases.clone());
        let asks = leasing == Some(Leasing::Asks);
        let rates = self.connection_rates.of_cluster().filter(|_| asks).cloned();
        Opening { conn, ready_name, leg, leases, asks, rates, is_first: self.connections.len() == 1 }
    }

    /// How long a connection may be held with nothing to do.
    pub fn patience(&self) -> Duration {
        Duration::from(self.leg.path.idle_timeout)
    }

    /// Connections this queue should have: `ceil(limit * min(1 - e^(-0.023 n), n))`, never
    /// more than there are messages (KumoMTA behaviour); at once as many as may be with `aggressive_connection_opening`.
    pub fn wanted_connections(&self) -> usize {
        let waiting = self.messages.len();
        let borne = self.window.as_ref().map_or(u64::MAX, |window| window.connections() as u64);
        let limit = self.leg.path.connection_limit.limit.min(borne);
        if self.leg.path.aggressive_connection_opening {
            return usize::try_from(limit).unwrap_or(usize::MAX).min(waiting);
        }
        let limit = limit as f64;
        let share = (1.0 - (-0.023 * waiting as f64).exp()).min(waiting as f64);
        ((limit * share).ceil() as usize).min(waiting)
    }

    /// True when nothing refers to this queue, nobody waits in it, and nothing is lost with it: not that its destination is dead. Its
    /// rates are remembered.
    pub fn is_unused(&self, now: Instant) -> bool {
        let is_dead = self.window.as_ref().is_some_and(|window| now < window.closed_until());
        let nobody_waits = self.waiters.is_empty() && self.small_waiters.is_empty();
        self.messages.is_empty() && nobody_waits && self.connections.is_empty() && !is_dead
    }

    /// Gives back the room that messages and connections took, once there is none of either.
    pub fn rest(&mut self) {
        if self.messages.is_empty() && self.connections.is_empty() {
            self.messages.rest();
            (self.connections, self.idle) = (Slab::new(), VecDeque::new());
            self.waiters.shrink_to_fit();
            self.small_waiters.shrink_to_fit();
        }
    }

    /// Spaces out attempts to reach a destination that does not answer.
    pub fn note_failure(&mut self, now: Instant) {
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        let pause_ms = (REOPEN_MS_MIN << self.consecutive_failures.min(16)).min(REOPEN_MS_MAX);
        self.pause(now + Duration::from_millis(pause_ms));
    }

    /// No connection is opened before.
    pub fn pause(&mut self, until: Instant) {
        self.waits_for_rate &= self.opens_after > until;
        self.opens_after = self.opens_after.max(until);
    }

    /// No connection is wanted that may not be opened.
    pub fn note_open(&mut self) {
        (self.lease_awaited_since, self.rate_awaited_since) = (None, None);
    }

    /// What its limits are for this node now.
    pub fn set_leases(&mut self, rates: &SharedRates) {
        (self.leases, self.cluster_leases) = lease_sets(&self.leg.path, &self.name, self.limit_of_all, &rates.grants);
    }

    fn set_rates(&mut self, rates: &mut SharedRates) {
        let (path, name) = (&self.leg.path, &self.name);
        let of_messages = (path.max_message_rate.as_ref(), || format!("kumomta.max_message_rate.{name}"));
        self.message_rates.redefine(of_messages, &path.additional_message_rate_throttles, rates);
        let of_connections = (path.max_connection_rate.as_ref(), || format!("{name}-connection-rate"));
        self.connection_rates.redefine(of_connections, &BTreeMap::new(), rates);
        let source = &self.leg.source.name;
        let name = || format!("kumomta.source_selection_rate.{name}.{source}");
        let of_source = (path.source_selection_rate.as_ref(), name);
        self.selection_rates.redefine(of_source, &path.additional_source_selection_rates, rates);
        self.window = Window::redefine(self.window.as_deref(), path.concurrency_feedback.as_ref()).map(Box::new);
        self.set_leases(rates);
    }
}

/// The protocol in the name `source->site@protocol:more` of a ready queue; a source, a site and a protocol have no such signs.
pub(crate) fn protocol_of(name: &str) -> &str {
    let site = name.split_once("->").map_or(name, |(_, site)| site);
    let protocol = site.split_once('@').map_or("", |(_, protocol)| protocol);
    protocol.split_once(':').map_or(protocol, |(protocol, _)| protocol)
}

/// One place in so many of a ready queue is for scheduled queues with few messages.
const ROOM_FOR_SMALL: usize = 8;
/// First pause after a failed connection, doubled with each further failure.
const REOPEN_MS_MIN: u64 = 10;
/// Longest pause between attempts to connect.
const REOPEN_MS_MAX: u64 = 1_000;
