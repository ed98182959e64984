//! Messages that end without a connection: too old, or with no way out.
//!
//! They wait here, in the slots they had, until somebody has the time to load and settle them: an hour's mail to a site
//! that fails at once must not stand in memory at once. [`QueueCore::take_ending`] hands them out one by one.

use crate::core::{QueueCore, Queued};
use crate::effect::Effect;
use crate::messages::List;
use crate::order::{Action, Order};
use crate::ready::Leg;
use crate::settle::Verdict;
use smtp_wire::Reply;
use std::collections::VecDeque;
use std::sync::Arc;

/// How a message ends that no connection took.
#[derive(Clone, Debug)]
pub enum Ending {
    /// It is older than its queue's `max_age`.
    Expired,
    /// The operator bounces it.
    Bounced(Arc<Order>),
    /// The operator moves it.
    Rebound(Arc<Order>),
    /// It could not be tried: settle all its pending recipients so.
    Undeliverable(Arc<Failure>),
}

/// What many messages have in common that could not be tried.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Permanent: bounce. Transient: a counted retry.
    pub verdict: Verdict,
    /// What to log.
    pub reply: Reply,
    /// Ready queue and leg they were to take; `None` when there never was a route.
    pub route: Option<(Arc<str>, Leg)>,
}

/// Those who wait to be settled.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    pub expired: List,
    pub failed: VecDeque<(Arc<Failure>, List)>,
    /// Settlers asked for and not yet told that nothing is left.
    settlers: usize,
}

impl Endings {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.expired.len() + self.failed.iter().map(|(_, list)| list.len()).sum::<usize>()
    }
}

impl QueueCore {
    /// The next message that ends without a connection, for a settler that `Effect::Settle` called; `None` sends it home.
    /// Its content may have to be loaded first. It is settled and comes back or is forgotten like any other.
    pub fn take_ending(&mut self) -> Option<(Queued, Ending)> {
        if let Some(slot) = self.messages.pop_front(&mut self.endings.expired) {
            return self.messages.remove(slot).map(|queued| (queued, Ending::Expired));
        }
        if let Some((queued, order)) = self.take_ordered() {
            let moves = matches!(order.action, Action::Rebind(_));
            return Some((queued, if moves { Ending::Rebound(order) } else { Ending::Bounced(order) }));
        }
        while let Some((failure, list)) = self.endings.failed.front_mut() {
            if let Some(slot) = self.messages.pop_front(list) {
                let ending = Ending::Undeliverable(failure.clone());
                return self.messages.remove(slot).map(|queued| (queued, ending));
            }
            self.endings.failed.pop_front();
        }
        self.endings.settlers = self.endings.settlers.saturating_sub(1);
        None
    }

    /// Hands messages over to be settled with `failure`.
    pub(crate) fn fail(&mut self, failure: Failure, list: List) {
        if !list.is_empty() {
            self.endings.failed.push_back((Arc::new(failure), list));
            self.call_settlers();
        }
    }

    /// Asks for as many settlers as there is work for.
    pub(crate) fn call_settlers(&mut self) {
        let work = self.endings.len() + self.orders.ending();
        while self.endings.settlers < SETTLERS_MAX.min(work) {
            self.endings.settlers += 1;
            self.effects.push(Effect::Settle);
        }
    }
}

/// Settlers at work at the same time: each may be waiting for the spool.
const SETTLERS_MAX: usize = 8;
