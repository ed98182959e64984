//! What scripts share across states by name: caches, counters, queues of values.
//!
//! One of it a policy; states hold it behind one pointer. Everything in it is bounded.

use crate::memos::Memos;
use crate::modules::redis::RedisClients;
use crate::mpsc::Channels;
use crate::series::SeriesByName;
use config::HttpClientOptions;
use net::tls::{Connectors, TlsError};
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use tokio::runtime::{Builder, Runtime};
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
    /// Where the top level and `init` wait.
    pub early: Early,
}

/// A runtime for what is waited for before the program serves. It stays, since connections that were made in it live by it.
#[derive(Default)]
pub(crate) struct Early(OnceLock<Runtime>, Mutex<()>);

impl Early {
    /// The one there is, made when it is first needed.
    pub fn runtime(&self) -> io::Result<&Runtime> {
        let _one_makes_it = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = self.0.get() {
            return Ok(runtime);
        }
        let made = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(self.0.get_or_init(|| made))
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        // Whoever drops it may be a task itself, which must not wait for others to end.
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
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

    /// A client for secrets, which go to nobody but who is asked.
    pub fn client(&self) -> Result<Client, WebError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let made = Client::on_one_host(&HttpClientOptions::default(), self.connectors()?)?;
        Ok(self.client.get_or_init(|| made).clone())
    }
}
