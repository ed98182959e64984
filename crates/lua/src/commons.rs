//! What scripts share across states by name: caches, counters, queues of values.
//!
//! One of it a policy; states hold it behind one pointer. Everything in it is bounded.

use crate::memos::Memos;
use crate::modules::redis::RedisClients;
use crate::mpsc::Channels;
use crate::series::SeriesByName;

/// The shared things.
#[derive(Default)]
pub(crate) struct Commons {
    /// Of `kumo.memoize`.
    pub memos: Memos,
    /// Of `kumo.counter_series`.
    pub series: SeriesByName,
    /// Of `kumo.mpsc`.
    pub channels: Channels,
    /// Of `require 'redis'`.
    pub redis: RedisClients,
}
