//! The counters of a run, in a few shards so that tasks on different cores do not fight for one cache line.
//!
//! In: one call an event. Out: sums, at any time. A histogram for each of 20 000 tasks would cost half a gigabyte;
//! a shard for a few hundred tasks costs nothing measurable.

use std::sync::atomic::{AtomicU64, Ordering};

use super::histogram::{Distribution, Histogram, Latency};

/// All counters of a run.
pub(super) struct Tally {
    shards: Vec<Shard>,
}

/// The counters one group of tasks writes.
#[repr(align(128))]
pub(super) struct Shard {
    sent: AtomicU64,
    failed: AtomicU64,
    unknown: AtomicU64,
    connections: AtomicU64,
    latency: Histogram,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages answered 250.
    pub sent: u64,
    /// Messages refused, or not sent because no connection could be had.
    pub failed: u64,
    /// Messages whose connection died between the final dot and its reply.
    pub unknown: u64,
    /// Connections opened.
    pub connections: u64,
}

impl Tally {
    /// Counters for `tasks` tasks.
    pub(super) fn new(tasks: usize) -> Self {
        let shards = (0..tasks.clamp(1, SHARDS_MAX)).map(|_| Shard::new());
        Self { shards: shards.collect() }
    }

    /// The shard task number `task` writes to.
    pub(super) fn shard(&self, task: usize) -> &Shard {
        &self.shards[task % self.shards.len()]
    }

    /// The sums now.
    pub(super) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for shard in &self.shards {
            sum.sent += shard.sent.load(Ordering::Relaxed);
            sum.failed += shard.failed.load(Ordering::Relaxed);
            sum.unknown += shard.unknown.load(Ordering::Relaxed);
            sum.connections += shard.connections.load(Ordering::Relaxed);
        }
        sum
    }

    /// The latencies so far.
    pub(super) fn latency(&self) -> Latency {
        Distribution::of(self.shards.iter().map(|shard| &shard.latency)).latency()
    }
}

impl Shard {
    fn new() -> Self {
        Self {
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            latency: Histogram::new(),
        }
    }

    /// `messages` were answered 250 at once, `microseconds` after they were complete.
    pub(super) fn sent(&self, messages: u64, microseconds: u64) {
        self.sent.fetch_add(messages, Ordering::Relaxed);
        self.latency.record(microseconds);
    }

    /// `messages` were refused or given up.
    pub(super) fn failed(&self, messages: u64) {
        self.failed.fetch_add(messages, Ordering::Relaxed);
    }

    /// Nobody knows what became of `messages`.
    pub(super) fn unknown(&self, messages: u64) {
        self.unknown.fetch_add(messages, Ordering::Relaxed);
    }

    /// A connection was opened.
    pub(super) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }
}

const SHARDS_MAX: usize = 64;
