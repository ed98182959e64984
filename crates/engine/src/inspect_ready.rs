//! Ready queues for operators: what one is and does, what limits it, and the end of one of its connections.
//!
//! The queue's lock is held for one look at a time; what connections do is read from themselves. Content is not touched.

use crate::egress::carriage::Carriage;
use crate::egress::dispatcher::DispatcherView;
use crate::engine::Engine;
use clock::Now;
use queue::{Limits, ReadyView};
use route::MailExchangers;
use std::sync::Arc;
use uuid::Uuid;

/// A ready queue as an operator sees it.
#[derive(Debug)]
pub struct InspectedReady {
    /// What the queue knows of it.
    pub view: ReadyView,
    /// The hosts it sends to.
    pub exchangers: Option<Arc<MailExchangers>>,
    /// Its connections, the oldest first.
    pub dispatchers: Vec<DispatcherView>,
    /// When that was so.
    pub now: Now,
}

/// Why no connection was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEnded {
    /// There is no such ready queue.
    NoQueue,
    /// It has no such connection.
    NoSession,
}

impl Engine {
    /// A ready queue by its name; `None` when there is none.
    pub fn inspect_ready(&self, name: &str) -> Option<InspectedReady> {
        let (view, now) = self.with_queue(|queue, now| Some((queue.ready_view(now, name)?, now)))?;
        let connections = self.connections();
        let held = view.connections.iter().filter_map(|conn| connections.get(conn));
        let mut dispatchers: Vec<DispatcherView> = held.map(|held| held.dispatcher.view(now)).collect();
        drop(connections);
        dispatchers.sort_by_key(|dispatcher| (dispatcher.started_at, dispatcher.session_id));
        Some(InspectedReady { exchangers: Carriage::exchangers(&view.leg.destination), view, dispatchers, now })
    }

    /// Names of scheduled queues that send through a ready queue, sorted, at most so many.
    pub async fn feeders(&self, ready: &ReadyView, limit: usize) -> Vec<Arc<str>> {
        let (mut names, mut step) = (Vec::new(), Some(0));
        while let Some(from) = step.filter(|_| names.len() < limit) {
            let (found, next) = self.with_queue(|queue, _| queue.feeders(ready.key, from));
            names.extend(found);
            step = next;
            tokio::task::yield_now().await;
        }
        names.truncate(limit);
        names.sort_unstable();
        names
    }

    /// Ready queues that want a connection and may not open it, by name, and what forbids it.
    pub fn limited_ready(&self) -> Vec<(Arc<str>, Limits)> {
        self.with_queue(|queue, now| queue.limited(now))
    }

    /// Ends one connection of a ready queue; what it has in hand is settled as if the network had failed.
    ///
    /// # Errors
    /// There is no such queue or connection.
    pub fn end_connection(&self, ready_name: &str, session_id: Uuid) -> Result<(), NotEnded> {
        let conns = self.with_queue(|queue, _| queue.connections_named(ready_name)).ok_or(NotEnded::NoQueue)?;
        let connections = self.connections();
        let mut held = conns.iter().filter_map(|conn| connections.get(conn));
        let found = held.find(|held| held.dispatcher.session_id() == session_id).ok_or(NotEnded::NoSession)?;
        found.dispatcher.end();
        Ok(())
    }
}
