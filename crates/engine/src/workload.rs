//! What the program has in hand at this moment, for who looks at night: what is in memory, what tasks there are, what each does.
//!
//! Owns [`Workload`]. In: counts that are kept anyway, and one look at what outbound connections do. Nothing is counted for it on the
//! mail path. However much there is, the answer is bounded: connections are counted by what they do, and [`LONGEST_MAX`] of them,
//! those that have done one thing for the longest time, are named. Of a message, a script or a key nothing is told.

use crate::egress::dispatcher::DispatcherView;
use crate::engine::Engine;
use queue::{ConnKey, Sizes};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// Outbound connections by what they do.
    pub phases: BTreeMap<&'static str, usize>,
    /// Those that have done one thing for the longest time, with their ready queues; the longest first.
    pub longest: Vec<(Arc<str>, DispatcherView)>,
    /// Batches that wait for the spool's writer.
    pub spool_backlog: usize,
    /// Memory as the program that owns the allocator and the limits tells it: a name, and a number of octets or words.
    pub memory: Vec<(&'static str, String)>,
}

impl Engine {
    /// What there is now.
    pub fn workload(&self) -> Workload {
        let (sizes, content, unspooled, now) =
            self.with_queue(|queue, now| (queue.sizes(), queue.resident_bytes(), queue.volatile_octets(), now));
        let (mut phases, mut views): (BTreeMap<&'static str, usize>, Vec<(ConnKey, DispatcherView)>) =
            Default::default();
        for (conn, held) in self.connections().iter() {
            let view = held.dispatcher.view(now);
            *phases.entry(view.phase.name()).or_default() += 1;
            views.push((*conn, view));
        }
        views.sort_by_key(|(_, view)| (Reverse(view.time_in_phase), view.session_id));
        views.truncate(LONGEST_MAX);
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
            phases,
            longest,
            spool_backlog: self.spool.stats().queued,
            memory: self.pressure.memory_words(),
        }
    }
}

/// Connections that are named.
pub const LONGEST_MAX: usize = 20;
