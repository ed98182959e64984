//! Messages that end without a connection: too old, or with no way out.
//!
//! They wait here, in the slots they had, until somebody has the time to load and settle them: an hour's mail to a site
//! that fails at once must not stand in memory at once. [`QueueCore::take_ending`] hands them out one by one. Each kind has
//! settlers of its own: those of an order may wait for another node, which must not keep others from being tried again.

use crate::core::{QueueCore, Queued};
use crate::effect::Effect;
use crate::messages::List;
use crate::order::{Order, OrderId};
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

impl Ending {
    /// Who settles it.
    pub fn kind(&self) -> EndingKind {
        match self {
            Ending::Expired => EndingKind::Expired,
            Ending::Bounced(_) | Ending::Rebound(_) => EndingKind::Ordered,
            Ending::Undeliverable(_) => EndingKind::Failed,
        }
    }

    /// The order that ends it.
    pub fn order(&self) -> Option<OrderId> {
        match self {
            Ending::Bounced(order) | Ending::Rebound(order) => Some(order.id),
            Ending::Expired | Ending::Undeliverable(_) => None,
        }
    }
}

/// Kinds of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndingKind {
    /// [`Ending::Expired`].
    Expired,
    /// [`Ending::Bounced`] and [`Ending::Rebound`].
    Ordered,
    /// [`Ending::Undeliverable`].
    Failed,
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
    /// Settlers of each kind asked for and not yet told that nothing is left.
    settlers: [usize; KINDS.len()],
}

impl Endings {
    fn failures(&self) -> usize {
        self.failed.iter().map(|(_, list)| list.len()).sum()
    }
}

impl QueueCore {
    /// The next message of a kind that ends without a connection, for a settler that `Effect::Settle` called; `None` sends it
    /// home. Its content may have to be loaded first. It is settled and comes back or is forgotten like any other.
    pub fn take_ending(&mut self, kind: EndingKind) -> Option<(Queued, Ending)> {
        let taken = match kind {
            EndingKind::Expired => self.take_expired(),
            EndingKind::Ordered => self.take_ordered(),
            EndingKind::Failed => self.take_failed(),
        };
        if taken.is_none() {
            let settlers = &mut self.endings.settlers[kind as usize];
            *settlers = settlers.saturating_sub(1);
        }
        taken
    }

    fn take_expired(&mut self) -> Option<(Queued, Ending)> {
        let slot = self.messages.pop_front(&mut self.endings.expired)?;
        self.messages.remove(slot).map(|queued| (queued, Ending::Expired))
    }

    fn take_failed(&mut self) -> Option<(Queued, Ending)> {
        while let Some((failure, list)) = self.endings.failed.front_mut() {
            if let Some(slot) = self.messages.pop_front(list) {
                let ending = Ending::Undeliverable(failure.clone());
                return self.messages.remove(slot).map(|queued| (queued, ending));
            }
            self.endings.failed.pop_front();
        }
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
        let work = [self.endings.expired.len(), self.orders.ending(), self.endings.failures()];
        for ((kind, work), settlers) in KINDS.into_iter().zip(work).zip(&mut self.endings.settlers) {
            while *settlers < SETTLERS_MAX.min(work) {
                *settlers += 1;
                self.effects.push(Effect::Settle(kind));
            }
        }
    }
}

/// All of them, in order.
const KINDS: [EndingKind; 3] = [EndingKind::Expired, EndingKind::Ordered, EndingKind::Failed];
/// Settlers of a kind at work at the same time: each may be waiting for the spool.
const SETTLERS_MAX: usize = 8;
