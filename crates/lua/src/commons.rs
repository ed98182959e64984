//! What scripts share across states by name: caches, counters, queues of values.
//!
//! One of it a policy; states hold it behind one pointer. Everything in it is bounded.

use crate::memos::Memos;
use crate::modules::redis::RedisClients;
use crate::mpsc::Channels;
use crate::series::SeriesByName;
use config::HttpClientOptions;
use net::tls::{Connectors, TlsError};
use std::sync::OnceLock;
use web::{Client, WebError};

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
pub(crate) struct Web {
    connectors: OnceLock<Connectors>,
    client: OnceLock<Client>,
}

impl Web {
    /// The one there is.
    pub fn connectors(&self) -> Result<&Connectors, TlsError> {
        if let Some(connectors) = self.connectors.get() {
            return Ok(connectors);
        }
        let read = Connectors::of_system()?;
        Ok(self.connectors.get_or_init(|| read))
    }

    /// A client for the program's own questions: secrets, files.
    pub fn client(&self) -> Result<Client, WebError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let made = Client::new(&HttpClientOptions::default(), self.connectors()?)?;
        Ok(self.client.get_or_init(|| made).clone())
    }
}
