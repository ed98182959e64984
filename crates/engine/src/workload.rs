//! What the program has in hand at this moment, for who looks at night: what is in memory, what tasks there are, what each does.
//!
//! Owns [`Workload`], and [`Looking`]: whose turn it is to be told, one at a time. In: counts that are kept anyway, and one look at what
//! outbound connections do, some hundred in one hold of their lock. Nothing is counted for it on the mail path. However much there is,
//! the answer is bounded: connections are counted by what they do, and [`LONGEST_MAX`] of them, those that have done one thing for the
//! longest time, are named. Of a message, a script or a key nothing is told.

use crate::egress::dispatcher::DispatcherView;
use crate::engine::Engine;
use ::clock::Now;
use queue::{ConnKey, Sizes};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::RuntimeMetrics;
use tokio::sync::SemaphorePermit;

/// Everything there is of everything.
#[derive(Debug)]
pub struct Workload {
    /// Octets of content in memory of messages that the spool has too, and the most there may be.
    pub content: (usize, usize),
    /// Octets of messages that are in memory alone.
    pub unspooled: usize,
    /// Messages, queues, orders.
    pub sizes: Sizes,
    /// Sets of tasks: what they do, and how many there are.
    pub tasks: Vec<(&'static str, usize)>,
    /// The runtime that carries a crowd of sessions.
    pub crowd: RuntimeMetrics,
    /// Outbound connections by what they do.
    pub phases: BTreeMap<&'static str, usize>,
    /// Those that have done one thing for the longest time, with their ready queues; the longest first.
    pub longest: Vec<(Arc<str>, DispatcherView)>,
    /// Batches that wait for the spool's writer.
    pub spool_backlog: usize,
    /// Memory as the program that owns the allocator and the limits tells it: a name, and a number of octets or words.
    pub memory: Vec<(&'static str, String)>,
}

/// A turn to be told.
pub struct Looking<'a> {
    engine: &'a Engine,
    _turn: SemaphorePermit<'a>,
}

/// What was seen of outbound connections, by their keys.
struct Seen<K> {
    phases: BTreeMap<&'static str, usize>,
    longest: Vec<(K, DispatcherView)>,
}

impl Engine {
    /// A turn to be told what there is; none while somebody else has it.
    pub fn look(&self) -> Option<Looking<'_>> {
        self.looking.try_acquire().ok().map(|turn| Looking { engine: self, _turn: turn })
    }

    /// What outbound connections do: those that are there throughout, and of others some.
    async fn look_at_connections(&self, now: Now) -> Seen<ConnKey> {
        let conns: Vec<ConnKey> = self.connections().keys().copied().collect();
        let mut seen = Seen::new();
        for some in conns.chunks(CONNECTIONS_PER_VISIT) {
            self.look_at_some(some, now, &mut seen);
            tokio::task::yield_now().await;
        }
        seen
    }

    fn look_at_some(&self, conns: &[ConnKey], now: Now, seen: &mut Seen<ConnKey>) {
        let connections = self.connections();
        let held = conns.iter().filter_map(|conn| Some((*conn, connections.get(conn)?)));
        seen.add(held.map(|(conn, held)| (conn, held.dispatcher.view(now))));
    }

    async fn workload(&self) -> Workload {
        let (sizes, content, unspooled, now) =
            self.with_queue(|queue, now| (queue.sizes(), queue.resident_bytes(), queue.volatile_octets(), now));
        let Seen { phases, longest: views } = self.look_at_connections(now).await;
        let longest =
            self.with_queue(|queue, _| views.into_iter().map(|(conn, view)| (queue.ready_name(conn), view)).collect());
        let slots_taken = |slots: &tokio::sync::Semaphore, max: usize| max.saturating_sub(slots.available_permits());
        Workload {
            sizes,
            content: (content, self.settings.resident_bytes_max),
            unspooled,
            tasks: vec![
                ("sessions of clients and what serves the whole program", self.sessions.len()),
                ("outbound connections, and what finds routes and ends messages", self.deliveries.len()),
                ("messages being written that were in memory alone", self.spoolers.len()),
                ("log hooks and filters", self.hook_tasks.len()),
                ("bulk requests", slots_taken(&self.bulk_slots, crate::injection::STREAMS_MAX)),
                ("searches of the log", slots_taken(&self.search_slots, crate::search::SEARCHES_MAX)),
            ],
            crowd: self.threads.crowd.metrics(),
            phases,
            longest,
            spool_backlog: self.spool.stats().queued,
            memory: self.pressure.memory_words(),
        }
    }
}

impl Looking<'_> {
    /// What there is now.
    pub async fn workload(&self) -> Workload {
        self.engine.workload().await
    }
}

impl<K> Seen<K> {
    fn new() -> Seen<K> {
        Seen { phases: BTreeMap::new(), longest: Vec::new() }
    }

    fn add(&mut self, views: impl Iterator<Item = (K, DispatcherView)>) {
        for (conn, view) in views {
            *self.phases.entry(view.phase.name()).or_default() += 1;
            self.longest.push((conn, view));
        }
        self.longest.sort_by_key(|(_, view)| (Reverse(view.time_in_phase), view.session_id));
        self.longest.truncate(LONGEST_MAX);
    }
}

/// Connections that are named.
pub const LONGEST_MAX: usize = 20;
/// Connections that are looked at in one hold of their lock.
const CONNECTIONS_PER_VISIT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::dispatcher::DispatcherPhase;
    use ::clock::{Duration, WallTime};
    use uuid::Uuid;

    fn view(number: u64) -> (u64, DispatcherView) {
        let view = DispatcherView {
            session_id: Uuid::from_u128(u128::from(number)),
            started_at: WallTime::from_unix_secs(0),
            age: Duration::from_secs(1000),
            phase: DispatcherPhase::AttemptingConnection,
            batch: (0, 0),
            detail: None,
            time_in_phase: Duration::from_secs(number),
            delivered: 0,
            transfailed: 0,
            failed: 0,
        };
        (number, view)
    }

    #[test]
    fn the_longest_of_all_visits_are_kept_and_all_are_counted() {
        let mut seen = Seen::new();
        let all = 3 * LONGEST_MAX as u64;
        // The longest come first, last and between.
        for visit in [all / 3..all / 3 * 2, all / 3 * 2..all, 0..all / 3] {
            seen.add(visit.map(view));
            assert!(seen.longest.len() <= LONGEST_MAX, "no more is kept than is told");
        }
        assert_eq!(seen.phases.values().sum::<usize>() as u64, all);
        let longest: Vec<u64> = seen.longest.iter().map(|(_, view)| view.time_in_phase.as_secs()).collect();
        assert_eq!(longest, (all - LONGEST_MAX as u64..all).rev().collect::<Vec<u64>>());
    }
}
