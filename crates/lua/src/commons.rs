//! What scripts share across states by name: caches, counters, queues of values.
//!
//! One of it a policy; states hold it behind one pointer. Everything in it is bounded.

use crate::memos::Memos;
use crate::mpsc::Channels;
use crate::series::SeriesByName;
use std::sync::atomic::AtomicU64;

/// The shared things.
#[derive(Default)]
pub(crate) struct Commons {
    /// Of `kumo.memoize`.
    pub memos: Memos,
    /// Of `kumo.counter_series`.
    pub series: SeriesByName,
    /// Of `kumo.mpsc`.
    pub channels: Channels,
    /// Which configuration epoch it is; grows.
    pub epoch: AtomicU64,
}
