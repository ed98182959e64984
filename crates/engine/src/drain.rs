//! Stopping: refuse new work, finish what is in hand, sync, close.
//!
//! The same steps whether the operator or a test asks. Nothing needs to be saved: every
//! accepted message is in the spool already, and marks are flushed before the spool closes.

use crate::engine::Engine;
use std::future::Future;
use std::time::Duration;
use tokio::sync::watch;

/// What the program is doing, as tasks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Serving.
    Running,
    /// Finishing what is in hand.
    Draining,
}

/// The switch and its observers.
#[derive(Debug)]
pub(crate) struct Stop(watch::Sender<Phase>);

impl Stop {
    pub fn new() -> Stop {
        Stop(watch::Sender::new(Phase::Running))
    }

    pub fn begin(&self) {
        self.0.send_replace(Phase::Draining);
    }

    pub fn is_draining(&self) -> bool {
        *self.0.borrow() == Phase::Draining
    }

    /// The result of `work`, or `None` when draining begins first.
    pub async fn unless_requested<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.requested() => None,
        }
    }

    /// Completes when draining begins (at once when it has).
    pub async fn requested(&self) {
        let mut phase = self.0.subscribe();
        // The sender lives as long as self, so this cannot fail before draining.
        let _ = phase.wait_for(|p| *p == Phase::Draining).await;
    }
}

impl Engine {
    /// Something without which mail would be lost or doubled is gone: stop serving.
    pub(crate) fn fail(&self, why: &str) {
        tracing::error!("{why}: stopping");
        self.stop.begin();
    }

    /// Completes when draining begins.
    pub async fn draining(&self) {
        self.stop.requested().await;
    }

    /// Stops: sessions hear 421 between transactions, deliveries in hand get `grace` to end,
    /// then spool and logs are flushed and closed.
    pub async fn drain(&self, grace: Duration) {
        self.stop.begin();
        let tasks = async {
            self.sessions.drain().await;
            self.deliveries.drain().await;
        };
        if tokio::time::timeout(grace, tasks).await.is_err() {
            tracing::warn!("some sessions did not end within {grace:?}; what they held stays in the spool");
            self.sessions.abort();
            self.deliveries.abort();
        }
        if let Err(error) = self.spool.close().await {
            tracing::error!("spool: {error}");
        }
        let logs = self.logs.clone();
        let closed = tokio::task::spawn_blocking(move || logs.iter().for_each(telemetry::LogWriter::close)).await;
        if let Err(error) = closed {
            tracing::error!("closing logs: {error}");
        }
    }
}
