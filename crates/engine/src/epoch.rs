//! New configuration epochs: an operator, or the policy itself, says that configuration has changed.
//!
//! Policy reads its files again first; when that fails nothing changes, and what is in force stays. Then the queues ask again
//! for what ages by epoch.

use crate::engine::Engine;
use policy::PolicyError;
use std::sync::atomic::Ordering;

impl Engine {
    /// Begins a new configuration epoch.
    ///
    /// # Errors
    /// The policy's, when what it reads now cannot be used.
    pub async fn bump_config_epoch(&self) -> Result<(), PolicyError> {
        self.epoch_is_wanted.store(false, Ordering::Release);
        let policy = self.policy.clone();
        let reading = tokio::task::spawn_blocking(move || policy.reload());
        match reading.await {
            Ok(read) => read?,
            Err(error) => return Err(PolicyError::Script { event: RELOAD, text: error.to_string() }),
        }
        self.with_queue(|queue, _| queue.begin_epoch());
        Ok(())
    }

    /// Many wishes before it is begun are one.
    pub(crate) fn bump_later(&self) {
        if self.stop.is_draining() || self.epoch_is_wanted.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = self.clone();
        self.deliveries.spawn(async move {
            if let Err(error) = engine.bump_config_epoch().await {
                tracing::error!("kumo.bump_config_epoch: {error}");
            }
        });
    }
}

/// What the reading is called among events.
const RELOAD: &str = "bump_config_epoch";
