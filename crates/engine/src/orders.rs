//! Orders of operators: kept on disk first, then in force.
//!
//! One at a time: the list on disk and the one in force must not drift apart. The disk sees the new list before anybody
//! hears that an order is given or withdrawn, so a crash keeps what was answered.

use crate::engine::Engine;
use clock::{Duration, WallTime};
use queue::{Action, Order, OrderCounts, OrderId, OrderState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::OrdersFile;
use thiserror::Error;

/// Where orders are kept. Whoever has the file may change them.
#[derive(Debug)]
pub(crate) struct OrderBook {
    file: Mutex<OrdersFile>,
    /// Somebody is about to write the file because orders have ended.
    is_outdated: AtomicBool,
}

impl OrderBook {
    pub fn new(file: OrdersFile) -> OrderBook {
        OrderBook { file: Mutex::new(file), is_outdated: AtomicBool::new(false) }
    }

    fn file(&self) -> MutexGuard<'_, OrdersFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
    #[error("{ORDERS_MAX} orders about messages are in force already: withdraw some first")]
    TooMany,
    /// The same of suspensions.
    #[error("{SUSPENSIONS_MAX} suspensions are in force already: withdraw some first")]
    TooManySuspensions,
    /// The same of those that are kept over a restart.
    #[error(
        "{SURVIVING_MAX} suspensions with survives_restart are in force already: give it without, or withdraw some first"
    )]
    TooManySurviving,
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
        let file = self.order_book.file();
        let now = self.clock.now();
        let id = OrderId(*self.next_id().as_bytes());
        let expires = match new.lasts {
            Lasts::For(span) => now.wall + span,
            Lasts::Until(at) => at,
        };
        let NewOrder { action, reason, suppress_logging, survives_restart, instead_of, .. } = new;
        let mut order = Order { id, action, reason, given: now.wall, expires, suppress_logging, survives_restart };
        let (same, counts) = self.with_queue(|queue, _| {
            (queue.same_orders(&order.action).cloned().collect::<Vec<_>>(), queue.order_counts())
        });
        // One that is over has nothing to come back to.
        let replaced = same.first().filter(|other| now.wall < other.expires).cloned();
        if !instead_of.is_met(replaced.as_deref().map(|other| other.id)) {
            return Err(OrderError::Changed { found: replaced });
        }
        if let Some(other) = replaced.as_deref().filter(|_| instead_of == InsteadOf::Shorter) {
            if covers(other, &order) {
                let messages = self.with_queue(|queue, _| queue.concerned_by(&other.action));
                return Ok(GivenOrder { id: other.id, messages, replaced: None });
            }
            // Nothing that it holds is given up for another's sake.
            order.expires = order.expires.max(other.expires);
            order.survives_restart |= other.survives_restart;
        }
        let survives_restart = order.survives_restart;
        too_many(&order, &same, counts).map_or(Ok(()), Err)?;
        if survives_restart || same.iter().any(|other| other.survives_restart) {
            let new = Arc::new(order.clone());
            write(&file, &self.with_queue(|queue, _| queue.surviving_orders(Some(&new))))?;
        }
        if matches!(order.action, Action::Flush(_)) {
            // An attempt that believes what DNS failed to say a while ago would be none.
            self.mx.forget_failures();
        }
        let messages = self.with_queue(|queue, now| queue.order(now, order));
        Ok(GivenOrder { id, messages, replaced })
    }

    fn take_order_back(&self, id: OrderId) -> Result<Option<Arc<Order>>, OrderError> {
        let file = self.order_book.file();
        let Some(order) = self.order_of(id) else { return Ok(None) };
        if order.survives_restart {
            let mut kept = self.with_queue(|queue, _| queue.surviving_orders(None));
            kept.retain(|order| order.id != id);
            write(&file, &kept)?;
        }
        Ok(self.with_queue(|queue, now| queue.withdraw(now, id)))
    }

    /// The orders in force that do what is wanted, in the order in which they were given.
    pub fn orders(&self, is_wanted: impl Fn(&Action) -> bool) -> Vec<OrderState> {
        let mut orders = self.with_queue(|queue, _| queue.orders_to(is_wanted));
        orders.sort_by_key(|state| (state.order.given, state.order.id));
        orders
    }

    /// The time by the engine's clock.
    pub fn wall_time(&self) -> WallTime {
        self.clock.wall()
    }

    /// Carries out `Effect::OrdersEnded`: the disk forgets them too. One at a time, for all that have ended until then.
    pub(crate) fn forget_orders(&self) {
        if self.order_book.is_outdated.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = self.clone();
        self.sessions.spawn(async move {
            let written = to_its_end(move || {
                let file = engine.order_book.file();
                engine.order_book.is_outdated.store(false, Ordering::Release);
                Ok(write(&file, &engine.with_queue(|queue, _| queue.surviving_orders(None)))?)
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

/// Why there are enough already; one that takes the place of another is no more than before.
fn too_many(order: &Order, same: &[Arc<Order>], counts: OrderCounts) -> Option<OrderError> {
    let is_suspension = matches!(order.action, Action::Suspend(_) | Action::SuspendReady(_));
    let survived = same.iter().any(|other| other.survives_restart);
    if !is_suspension {
        return (same.is_empty() && counts.about_messages >= ORDERS_MAX).then_some(OrderError::TooMany);
    }
    if order.survives_restart && !survived && counts.surviving_suspensions >= SURVIVING_MAX {
        return Some(OrderError::TooManySurviving);
    }
    (same.is_empty() && counts.suspensions >= SUSPENSIONS_MAX).then_some(OrderError::TooManySuspensions)
}

/// Whether all that one order of the same action asks for is so by another that is in force.
fn covers(standing: &Order, asked: &Order) -> bool {
    standing.expires >= asked.expires && standing.survives_restart >= asked.survives_restart
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
/// Those of them that hold after a restart: with each that comes or goes all are written.
const SURVIVING_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lasts: i64, survives_restart: bool) -> Order {
        Order {
            id: OrderId([1; 16]),
            action: Action::SuspendReady("a".into()),
            reason: "test".into(),
            given: WallTime::EPOCH,
            expires: WallTime::from_unix_secs(lasts),
            suppress_logging: false,
            survives_restart,
        }
    }

    #[test]
    fn an_order_stays_that_does_all_another_would() {
        for (standing, asked, stays) in [
            (order(100, true), order(100, true), true),
            (order(100, true), order(99, false), true),
            (order(100, false), order(99, true), false),
            (order(99, true), order(100, false), false),
        ] {
            assert_eq!(covers(&standing, &asked), stays, "{standing:?} {asked:?}");
        }
    }

    #[test]
    fn there_are_so_many_of_each_kind() {
        let counts = |about_messages, suspensions, surviving_suspensions| OrderCounts {
            about_messages,
            suspensions,
            surviving_suspensions,
        };
        let bounce = Arc::new(Order { action: Action::Bounce(queue::Criteria::default()), ..order(1, true) });
        let (own, other) = (Arc::new(order(1, true)), Arc::new(order(1, false)));
        for (order, same, counts, expected) in [
            (&bounce, None, counts(ORDERS_MAX - 1, SUSPENSIONS_MAX, SURVIVING_MAX), ""),
            (&bounce, None, counts(ORDERS_MAX, 0, 0), "about messages"),
            (&bounce, Some(&own), counts(ORDERS_MAX, 0, 0), ""),
            (&other, None, counts(ORDERS_MAX, SUSPENSIONS_MAX - 1, SURVIVING_MAX), ""),
            (&other, None, counts(0, SUSPENSIONS_MAX, 0), "65536 suspensions are"),
            (&own, None, counts(0, SURVIVING_MAX, SURVIVING_MAX), "with survives_restart"),
            (&own, Some(&other), counts(0, SURVIVING_MAX, SURVIVING_MAX), "with survives_restart"),
            (&own, Some(&own), counts(0, SUSPENSIONS_MAX, SURVIVING_MAX), ""),
        ] {
            let same: Vec<Arc<Order>> = same.into_iter().cloned().collect();
            let said = too_many(order, &same, counts).map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said:?}: {expected}");
        }
    }

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
