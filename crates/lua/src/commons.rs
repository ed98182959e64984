//! What scripts share across states by name: caches, counters, queues of values.
//!
//! One of it a policy; states hold it behind one pointer. Everything in it is bounded.

use crate::globals::Spoken;
use crate::modules::amqp::AmqpPools;
use crate::modules::redis::RedisClients;
use crate::modules::secrets::Fetched;
use crate::modules::shaping::{RemoteFiles, UnknownSites};
use crate::mpsc::Channels;
use crate::series::SeriesByName;
use crate::slices::Line;
use crate::state_counts::StateCount;
use crate::waiting::HeldThreads;
use config::HttpClientOptions;
use net::tls::{Connectors, TlsError};
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Runtime};
use web::{Client, WebError};

/// The shared things.
#[derive(Default)]
pub(crate) struct Commons {
    /// How many states there are.
    pub states: Arc<StateCount>,
    /// Those that handlers hold while they wait.
    pub held_threads: HeldThreads,
    /// Of `kumo.counter_series`.
    pub series: SeriesByName,
    /// Of `kumo.mpsc`.
    pub channels: Channels,
    /// Of `require 'redis'`.
    pub redis: RedisClients,
    /// Of `kumo.amqp.basic_publish`.
    pub amqp: AmqpPools,
    /// Of `kumo.http` and whatever else asks over HTTP.
    pub web: Web,
    /// Shaping files of other servers.
    pub shaping_files: RemoteFiles,
    /// Domains that shaping files name and DNS does not know.
    pub shaping_sites: UnknownSites,
    /// Keys and passwords of Vault.
    pub fetched: Fetched,
    /// Globals that handlers wrote.
    pub globals: Spoken,
    /// Handlers that compute for long.
    pub line: Line,
    /// Where the top level and `init` wait.
    pub early: Early,
}

/// A runtime for what is waited for before the program serves. It stays, since connections that were made in it live by it.
#[derive(Default)]
pub(crate) struct Early(OnceLock<Result<Runtime, String>>);

impl Early {
    /// The one there is, made when it is first needed.
    pub fn runtime(&self) -> Result<&Runtime, String> {
        let make = || Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|e| e.to_string());
        self.0.get_or_init(make).as_ref().map_err(String::clone)
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        // Whoever drops it may be a task itself, which must not wait for others to end.
        self.0.take().into_iter().flatten().for_each(Runtime::shutdown_background);
    }
}

/// How other servers' certificates are verified: read when it is first needed.
#[derive(Default)]
pub(crate) struct Web {
    connectors: OnceLock<Connectors>,
    secrets: OnceLock<Client>,
    files: OnceLock<Client>,
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
    pub fn secrets(&self) -> Result<Client, WebError> {
        self.client(&self.secrets, Client::on_one_host)
    }

    /// A client for files, which may have moved to another host.
    pub fn files(&self) -> Result<Client, WebError> {
        self.client(&self.files, Client::new)
    }

    fn client(
        &self,
        kept: &OnceLock<Client>,
        make: impl FnOnce(&HttpClientOptions, &Connectors) -> Result<Client, WebError>,
    ) -> Result<Client, WebError> {
        if let Some(client) = kept.get() {
            return Ok(client.clone());
        }
        let made = make(&HttpClientOptions::default(), self.connectors()?)?;
        Ok(kept.get_or_init(|| made).clone())
    }
}
