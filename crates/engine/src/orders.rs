//! Orders of operators: kept on disk first, then in force.
//!
//! One at a time: the list on disk and the one in force must not drift apart. The disk sees the new list before anybody
//! hears that an order is given or withdrawn, so a crash keeps what was answered.

use crate::engine::Engine;
use clock::{Duration, WallTime};
use queue::{Action, Order, OrderId, OrderState};
use std::sync::{Arc, PoisonError};
use store::OrdersFile;
use thiserror::Error;

/// An order that is to be given.
#[derive(Clone, Debug)]
pub struct NewOrder {
    /// What to do, and to what.
    pub action: Action,
    /// In the operator's words.
    pub reason: String,
    /// When it is over.
    pub lasts: Lasts,
    /// Bounces write no log records.
    pub suppress_logging: bool,
    /// It is kept on disk.
    pub survives_restart: bool,
    /// What it may take the place of.
    pub instead_of: InsteadOf,
}

/// The order of the same action in whose place another one is given, as who gives it knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsteadOf {
    /// Whatever is in force.
    #[default]
    Any,
    /// There is to be none.
    Nothing,
    /// This one is to be in force still.
    Order(OrderId),
    /// What is in force and ends sooner; one that lasts as long stays, and is the answer.
    Shorter,
}

/// An order that was given.
#[derive(Clone, Debug)]
pub struct GivenOrder {
    /// Its identity.
    pub id: OrderId,
    /// How many messages it is about now.
    pub messages: usize,
    /// The one about the same that was in force and gave way to it.
    pub replaced: Option<Arc<Order>>,
}

/// How long an order is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// From now on for so long.
    For(Duration),
    /// Until then.
    Until(WallTime),
}

/// Why an order could not be given or withdrawn. Nothing has changed then.
#[derive(Debug, Error)]
pub enum OrderError {
    /// There are enough.
    #[error(
        "{ORDERS_MAX} orders about messages, or {SUSPENSIONS_MAX} suspensions, are in force already: withdraw some first"
    )]
    TooMany,
    /// What is in force is not what the order was to take the place of: somebody was faster.
    #[error("{}", changed(.found.as_deref()))]
    Changed {
        /// What is in force about the same.
        found: Option<Arc<Order>>,
    },
    /// The program ends.
    #[error("shutting down")]
    Stopping,
    /// The list could not be written.
    #[error("the list of orders could not be written: {0}")]
    Disk(#[from] std::io::Error),
}

impl Engine {
    /// Gives an order.
    ///
    /// # Errors
    /// See [`OrderError`].
    pub async fn order(&self, new: NewOrder) -> Result<GivenOrder, OrderError> {
        let engine = self.clone();
        to_its_end(move || engine.give_order(new)).await
    }

    /// Takes an order back; `None` when there is none of that id.
    ///
    /// # Errors
    /// [`OrderError::Disk`], [`OrderError::Stopping`].
    pub async fn withdraw_order(&self, id: OrderId) -> Result<Option<Arc<Order>>, OrderError> {
        let engine = self.clone();
        to_its_end(move || engine.take_order_back(id)).await
    }

    fn give_order(&self, new: NewOrder) -> Result<GivenOrder, OrderError> {
        let file = self.orders_file.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let id = OrderId(*self.next_id().as_bytes());
        let expires = match new.lasts {
            Lasts::For(span) => now.wall + span,
            Lasts::Until(at) => at,
        };
        let NewOrder { action, reason, suppress_logging, survives_restart, instead_of, .. } = new;
        let order = Order { id, action, reason, given: now.wall, expires, suppress_logging, survives_restart };
        let (same, counts) = self.with_queue(|queue, _| {
            (queue.same_orders(&order.action).cloned().collect::<Vec<_>>(), queue.order_counts())
        });
        // One that is over has nothing to come back to.
        let replaced = same.first().filter(|other| now.wall < other.expires).cloned();
        if !instead_of.is_met(replaced.as_deref().map(|other| other.id)) {
            return Err(OrderError::Changed { found: replaced });
        }
        if let Some(stays) =
            replaced.as_deref().filter(|other| instead_of == InsteadOf::Shorter && other.expires >= expires)
        {
            let messages = self.with_queue(|queue, _| queue.concerned_by(&stays.action));
            return Ok(GivenOrder { id: stays.id, messages, replaced: None });
        }
        if same.is_empty() && is_full(&order.action, counts) {
            return Err(OrderError::TooMany);
        }
        if survives_restart || same.iter().any(|other| other.survives_restart) {
            let mut kept = self.surviving_orders();
            kept.retain(|other| other.action != order.action);
            kept.extend(survives_restart.then(|| Arc::new(order.clone())));
            write(&file, &kept)?;
        }
        let messages = self.with_queue(|queue, now| queue.order(now, order));
        Ok(GivenOrder { id, messages, replaced })
    }

    fn take_order_back(&self, id: OrderId) -> Result<Option<Arc<Order>>, OrderError> {
        let file = self.orders_file.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(order) = self.order_of(id) else { return Ok(None) };
        if order.survives_restart {
            let mut kept = self.surviving_orders();
            kept.retain(|order| order.id != id);
            write(&file, &kept)?;
        }
        Ok(self.with_queue(|queue, now| queue.withdraw(now, id)))
    }

    /// Every order in force.
    pub fn orders(&self) -> Vec<OrderState> {
        self.with_queue(|queue, _| queue.orders())
    }

    /// The time by the engine's clock.
    pub fn wall_time(&self) -> WallTime {
        self.clock.wall()
    }

    /// Carries out `Effect::OrdersEnded`: the disk forgets them too.
    pub(crate) fn forget_orders(&self) {
        let engine = self.clone();
        self.sessions.spawn(async move {
            let written = to_its_end(move || {
                let file = engine.orders_file.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(write(&file, &engine.surviving_orders())?)
            });
            if let Err(error) = written.await {
                // They end once more after the next start.
                tracing::warn!("orders that are over stay in the list on disk: {error}");
            }
        });
    }

    /// The order of that id, if it is in force.
    pub fn order_of(&self, id: OrderId) -> Option<Arc<Order>> {
        self.with_queue(|queue, _| queue.order_of(id).cloned())
    }

    fn surviving_orders(&self) -> Vec<Arc<Order>> {
        self.with_queue(|queue, _| queue.surviving_orders())
    }
}

impl InsteadOf {
    fn is_met(self, found: Option<OrderId>) -> bool {
        match self {
            InsteadOf::Any | InsteadOf::Shorter => true,
            InsteadOf::Nothing => found.is_none(),
            InsteadOf::Order(id) => found == Some(id),
        }
    }
}

fn changed(found: Option<&Order>) -> String {
    match found {
        Some(order) => format!("somebody has given another order about the same since: {}", order.reason),
        None => "no order about the same is in force any more: it is over, or somebody has taken it back".to_owned(),
    }
}

/// Whether there are enough of the kind of this one already.
fn is_full(action: &Action, (about_messages, of_queues): (usize, usize)) -> bool {
    match action {
        Action::Suspend(_) | Action::SuspendReady(_) => of_queues >= SUSPENSIONS_MAX,
        _ => about_messages >= ORDERS_MAX,
    }
}

fn write(file: &OrdersFile, orders: &[Arc<Order>]) -> std::io::Result<()> {
    let orders: Vec<&Order> = orders.iter().map(|order| &**order).collect();
    file.write(&orders)
}

/// Runs a change on a thread that may block, to its end whether or not the caller waits for it: disk and memory must
/// not drift apart when somebody hangs up.
async fn to_its_end<T: Send + 'static>(
    change: impl FnOnce() -> Result<T, OrderError> + Send + 'static,
) -> Result<T, OrderError> {
    tokio::task::spawn_blocking(change).await.unwrap_or(Err(OrderError::Stopping))
}

/// Orders about messages that are in force at the same time.
const ORDERS_MAX: usize = 1024;
/// Suspensions: a daemon may give one for each site of each source.
const SUSPENSIONS_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_takes_the_place_of_what_it_was_given_for() {
        let [one, other] = [1, 2].map(|number| OrderId([number; 16]));
        for (instead_of, found, is_met) in [
            (InsteadOf::Any, None, true),
            (InsteadOf::Any, Some(one), true),
            (InsteadOf::Shorter, Some(one), true),
            (InsteadOf::Nothing, None, true),
            (InsteadOf::Nothing, Some(one), false),
            (InsteadOf::Order(one), Some(one), true),
            (InsteadOf::Order(one), Some(other), false),
            (InsteadOf::Order(one), None, false),
        ] {
            assert_eq!(instead_of.is_met(found), is_met, "{instead_of:?} {found:?}");
        }
    }
}
