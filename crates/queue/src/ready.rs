//! Ready queues: messages ready for one source and one site, and the connections they get.
//!
//! Owns order, limits and rates of one `source->site@protocol`. A ready queue never loses
//! room silently: when it is full, scheduled queues wait in `waiters` and are called, in
//! turn, as soon as there is room (KumoMTA sends the message back for up to a minute instead).

use crate::Why;
use crate::core::QueueKey;
use crate::messages::List;
use crate::throttle::Gcra;
use clock::{Duration, Instant};
use config::{EgressPath, EgressSource};
use core::any::Any;
use core::fmt;
use slab::Slab;
use smtp_wire::Reply;
use std::collections::VecDeque;
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
    pub messages: List,
    /// Scheduled queues with due messages that found this queue full.
    pub waiters: VecDeque<QueueKey>,
    pub connections: Slab<Connection>,
    /// Connections that wait for a message, longest idle first.
    pub idle: VecDeque<usize>,
    pub consecutive_failures: u32,
    /// No new connection before this moment.
    pub opens_after: Instant,
    pub message_rate: Option<Gcra>,
    pub connection_rate: Option<Gcra>,
    pub last_used: Instant,
}

/// One connection as the queue sees it.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub idle: bool,
}

impl ReadyQueue {
    pub fn new(name: Arc<str>, leg: Leg, now: Instant) -> ReadyQueue {
        let mut queue = ReadyQueue {
            name,
            message_rate: None,
            connection_rate: None,
            leg,
            messages: List::default(),
            waiters: VecDeque::new(),
            connections: Slab::new(),
            idle: VecDeque::new(),
            consecutive_failures: 0,
            opens_after: Instant::ZERO,
            last_used: now,
        };
        queue.set_rates();
        queue
    }

    /// Takes a new definition; rates keep their state unless they changed.
    pub fn redefine(&mut self, leg: Leg) {
        let old = std::mem::replace(&mut self.leg, leg);
        let (a, b) = (&old.path, &self.leg.path);
        if a.max_message_rate != b.max_message_rate || a.max_connection_rate != b.max_connection_rate {
            self.set_rates();
        }
    }

    pub fn has_room(&self) -> bool {
        self.messages.len() < self.leg.path.max_ready
    }

    /// Connections this queue should have: `ceil(limit * min(1 - e^(-0.023 n), n))`, never
    /// more than there are messages (KumoMTA behaviour).
    pub fn wanted_connections(&self) -> usize {
        let waiting = self.messages.len();
        let limit = self.leg.path.connection_limit.limit as f64;
        let share = (1.0 - (-0.023 * waiting as f64).exp()).min(waiting as f64);
        ((limit * share).ceil() as usize).min(waiting)
    }

    /// True when nothing refers to this queue and nobody waits in it.
    pub fn is_unused(&self) -> bool {
        self.messages.is_empty() && self.waiters.is_empty() && self.connections.is_empty()
    }

    /// Spaces out attempts to reach a destination that does not answer.
    pub fn note_failure(&mut self, now: Instant) {
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        let pause_ms = (REOPEN_MS_MIN << self.consecutive_failures.min(16)).min(REOPEN_MS_MAX);
        self.opens_after = self.opens_after.max(now + Duration::from_millis(pause_ms));
    }

    fn set_rates(&mut self) {
        let path = &self.leg.path;
        let gcra = |spec: &Option<config::ThrottleSpec>| spec.as_ref().map(gcra);
        (self.message_rate, self.connection_rate) = (gcra(&path.max_message_rate), gcra(&path.max_connection_rate));
    }
}

/// The in-memory throttle of a specification.
pub(crate) fn gcra(spec: &config::ThrottleSpec) -> Gcra {
    Gcra::new(spec.limit, spec.period(), spec.burst())
}

/// First pause after a failed connection, doubled with each further failure.
const REOPEN_MS_MIN: u64 = 10;
/// Longest pause between attempts to connect.
const REOPEN_MS_MAX: u64 = 1_000;
