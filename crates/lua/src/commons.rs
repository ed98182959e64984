//! What scripts share across states by name: caches, counters, queues of values.
//!
//! One of it a policy; states hold it behind one pointer. Everything in it is bounded.

use crate::memos::Memos;
use crate::modules::redis::RedisClients;
use crate::mpsc::Channels;
use crate::series::SeriesByName;
use net::tls::{Connectors, TlsError};
use std::sync::OnceLock;

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
    /// Of `kumo.http` and whatever else asks over HTTP.
    pub web: Web,
}

/// How other servers' certificates are verified: read when it is first needed.
#[derive(Default)]
pub(crate) struct Web(OnceLock<Connectors>);

impl Web {
    /// The one there is.
    pub fn connectors(&self) -> Result<&Connectors, TlsError> {
        if let Some(connectors) = self.0.get() {
            return Ok(connectors);
        }
        let read = Connectors::of_system()?;
        Ok(self.0.get_or_init(|| read))
    }
}
