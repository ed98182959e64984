//! What is queued, queue by queue, for whoever sums it up. Reads only.
//!
//! Keys are told at once, which costs a few octets a queue; the queues are then looked at one by one, some at each visit, so that
//! nobody waits long for the lock however many there are. A queue that is gone by then is passed over.

use crate::Why;
use crate::core::{QueueCore, QueueKey, ReadyKey};
use crate::ready::Leg;
use clock::Now;
use std::sync::Arc;

/// A scheduled queue at one look.
#[derive(Clone, Copy, Debug)]
pub struct SurveyedQueue<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Messages that wait for their time.
    pub waiting: usize,
    /// Messages whose time has come.
    pub due: usize,
    /// Messages that are ready, with a connection, held, or on their way to an end.
    pub out: usize,
    /// An order holds it back.
    pub is_suspended: bool,
    /// What the due ones wait for.
    pub why: Option<Why>,
}

/// A ready queue at one look.
#[derive(Clone, Copy, Debug)]
pub struct SurveyedReady<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Its way out.
    pub leg: &'a Leg,
    /// Messages in it.
    pub messages: usize,
    /// Its connections, those that are being opened included.
    pub connections: usize,
    /// An order holds it back.
    pub is_suspended: bool,
    /// What its messages wait for.
    pub why: Option<Why>,
}

/// How much there is, known without looking at any queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Messages in the queues; connections have theirs besides.
    pub messages: usize,
    /// Scheduled queues.
    pub scheduled_queues: usize,
    /// Ready queues.
    pub ready_queues: usize,
    /// Orders in force.
    pub orders: usize,
}

impl QueueCore {
    /// Every scheduled queue, in no order.
    pub fn scheduled_keys(&self) -> Vec<QueueKey> {
        self.scheduled.keys().copied().collect()
    }

    /// How many scheduled queues there are.
    pub fn scheduled_len(&self) -> usize {
        self.scheduled.len()
    }

    /// Every ready queue, in no order.
    pub fn ready_keys(&self) -> Vec<ReadyKey> {
        self.ready.keys().copied().collect()
    }

    /// One scheduled queue.
    pub fn survey(&self, now: Now, key: QueueKey) -> Option<SurveyedQueue<'_>> {
        let queue = self.scheduled.get(&key)?;
        Some(SurveyedQueue {
            name: &queue.name,
            waiting: queue.waiting,
            due: queue.due.len(),
            out: queue.out,
            is_suspended: queue.suspended_by(now.wall).is_some(),
            why: (!queue.due.is_empty()).then(|| self.why_due(now, queue).why),
        })
    }

    /// One ready queue.
    pub fn survey_ready(&self, now: Now, key: ReadyKey) -> Option<SurveyedReady<'_>> {
        let ready = self.ready.get(&key)?;
        Some(SurveyedReady {
            name: &ready.name,
            leg: &ready.leg,
            messages: ready.messages.len(),
            connections: ready.connections.len(),
            is_suspended: now.mono < ready.suspended_until,
            why: (!ready.messages.is_empty()).then(|| self.why_ready(now, ready).why),
        })
    }

    /// How much there is.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            messages: self.messages.len(),
            scheduled_queues: self.scheduled.len(),
            ready_queues: self.ready.len(),
            orders: self.orders.len(),
        }
    }
}
