//! The server at one look: what came in and went out, how long it took, what room there is. Nothing here looks at a queue, so it
//! costs the same however many there are.

use crate::engine::Engine;
use crate::epoch_notes::EpochNote;
use crate::refusals::Refusal;
use clock::Now;
use queue::Sizes;
use std::sync::Arc;
use store::Stats;
use telemetry::reading;

/// What there is to see.
#[derive(Debug)]
pub struct Overview {
    /// When.
    pub now: Now,
    /// Messages and queues.
    pub sizes: Sizes,
    /// Messages received since the start.
    pub received: u64,
    /// Recipients delivered to, transient failures and permanent ones since the start.
    pub outcomes: [u64; 3],
    /// Open SMTP sessions of clients.
    pub sessions: u64,
    /// Outbound connections.
    pub connections: u64,
    /// Octets of memory in use, and the soft limit; 0 where there is none.
    pub memory: [u64; 2],
    /// What of the spool's own.
    pub spool: Stats,
    /// Free space by volume: octets and percent.
    pub volumes: Vec<(String, u64, u64)>,
    /// Seconds to take a message in.
    pub reception: Latency,
    /// Seconds from reception to delivery.
    pub delivery: Latency,
    /// Configuration epochs, the latest first.
    pub epochs: Vec<EpochNote>,
    /// What destinations refused, the latest first.
    pub refusals: Vec<Arc<Refusal>>,
}

/// Durations by upper bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    /// Upper bounds (seconds), each with how many took at most so long.
    pub buckets: Vec<(f64, u64)>,
    /// How many there were.
    pub count: u64,
}

impl Engine {
    /// The server at this moment.
    pub fn overview(&self) -> Overview {
        let (sizes, now) = self.with_queue(|queue, now| (queue.sizes(), now));
        let metrics = &self.metrics;
        let connections = self.connections().len() as u64;
        let latency = |histogram| {
            let (buckets, count) = reading::buckets(histogram);
            Latency { buckets, count }
        };
        let octets = |gauge: i64| u64::try_from(gauge).unwrap_or(0);
        let percents = reading::by_label(&metrics.disk_free_percent);
        let percent =
            |name: &str| percents.iter().find(|(of, _)| of == name).map_or(0, |(_, percent)| octets(*percent));
        let volumes = reading::by_label(&metrics.disk_free_bytes).into_iter().map(|(name, free)| {
            let percent = percent(&name);
            (name, octets(free), percent)
        });
        let mut volumes: Vec<_> = volumes.collect();
        volumes.sort();
        Overview {
            now,
            sizes,
            received: reading::sum(&metrics.total_messages_received),
            outcomes: metrics.tallies.total(),
            sessions: octets(metrics.open_sessions.get()),
            connections,
            memory: [octets(metrics.process.memory_usage.get()), octets(metrics.process.memory_limit.get())],
            spool: self.spool.stats(),
            volumes,
            reception: latency(&metrics.latencies.process_data),
            delivery: latency(&metrics.delivery_seconds),
            epochs: self.epochs.all(),
            refusals: self.refusals.recent(),
        }
    }

    /// The last configuration epochs, the latest first.
    pub fn epoch_notes(&self) -> Vec<EpochNote> {
        self.epochs.all()
    }

    /// What a ready queue's destination refused last.
    pub fn last_refusal(&self, ready_name: &str) -> Option<Arc<Refusal>> {
        self.refusals.last(ready_name)
    }
}
