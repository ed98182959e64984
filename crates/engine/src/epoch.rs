//! New configuration epochs: an operator, a file, or the policy itself says that configuration has changed.
//!
//! Policy reads its files again first, and is tried out; when that fails nothing changes, and what is in force stays. Then
//! listeners have their new options, for sessions to come, the bounce classifier its rules, and the queues ask again for what
//! ages by epoch. What cannot change in a running program is said.

use crate::engine::Engine;
use crate::ingress::listener::Current;
use arc_swap::ArcSwap;
use bounce::Classifier;
use policy::{Event, Interest, PolicyError, Startup};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use telemetry::Lines;

/// What is ready to take the place of what is in force.
struct Prepared {
    listeners: Vec<(Arc<ArcSwap<Current>>, Current)>,
    classifier: Option<Classifier>,
    needs_restart: Vec<String>,
}

impl Engine {
    /// Begins a new configuration epoch.
    ///
    /// # Errors
    /// The policy's, when what it reads now cannot be used.
    pub async fn bump_config_epoch(&self) -> Result<(), PolicyError> {
        self.epoch_is_wanted.store(false, Ordering::Release);
        let engine = self.clone();
        match tokio::task::spawn_blocking(move || engine.read_and_begin()).await {
            Ok(read) => read,
            Err(error) => Err(PolicyError::Script { event: RELOAD, text: error.to_string() }),
        }
    }

    fn read_and_begin(&self) -> Result<(), PolicyError> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut prepared = None;
        let mut check = |startup: Startup, interest: Interest| {
            prepared = Some(self.prepare_epoch(startup, interest)?);
            Ok(())
        };
        self.policy.reload(&mut check)?;
        self.begin_epoch(prepared);
        Ok(())
    }

    /// Looks whether a policy that was read again can take the place of the one in force.
    fn prepare_epoch(&self, startup: Startup, interest: Interest) -> Result<Prepared, String> {
        if let Some(gone) = gone(&self.startup, &startup) {
            return Err(format!("{gone} is running and the policy knows it no more: that takes a restart"));
        }
        let entries = startup.local_logs.iter().map(|logs| &logs.per_record);
        for per_record in entries.chain(startup.log_hooks.iter().map(|hook| &hook.per_record)) {
            Lines::of(per_record).map_err(|error| error.to_string())?;
        }
        let needs_restart = self.startup.needs_restart_for(&startup);
        let classifier = startup.bounce_classifier.as_ref().map(self.read_rules).transpose()?;
        let mut listeners = Vec::new();
        let mut wanted = startup.esmtp_listeners;
        for listening in &*self.listening.lock().unwrap_or_else(PoisonError::into_inner) {
            // In order, so that two on ports of the system's choice are told apart.
            if let Some(place) = wanted.iter().position(|options| options.listen == listening.at) {
                let ready = listening.prepare(self, wanted.remove(place), interest);
                listeners.push(ready.map_err(|error| error.to_string())?);
            }
        }
        Ok(Prepared { listeners, classifier, needs_restart })
    }

    fn begin_epoch(&self, prepared: Option<Prepared>) {
        // Before listeners change: who comes in between is asked about by the new handlers.
        self.interest.set(self.policy.interest());
        if let Some(prepared) = prepared {
            for (place, current) in prepared.listeners {
                place.store(Arc::new(current));
            }
            self.classifier.store(prepared.classifier.map(Arc::new));
            for part in prepared.needs_restart {
                tracing::warn!("the policy's {part} differs from what the program began with: that takes a restart");
            }
        }
        let is_asked = self.interest.has(Event::ThrottleInsertReadyQueue);
        self.with_queue(|queue, _| {
            queue.ask_before_ready(is_asked);
            queue.begin_epoch();
        });
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

/// What goes on by a name that only handlers of the earlier policy answer to: without them records would be lost.
fn gone(running: &Startup, new: &Startup) -> Option<String> {
    let filters = |startup: &Startup| -> Vec<String> {
        startup.local_logs.iter().filter_map(|logs| logs.filter_event.clone()).collect()
    };
    let new_filters = filters(new);
    let filter = filters(running).into_iter().find(|event| !new_filters.contains(event));
    let hook = running.log_hooks.iter().find(|hook| new.log_hooks.iter().all(|other| other.name != hook.name));
    let teller = running
        .log_disposition_hooks
        .iter()
        .find(|hook| new.log_disposition_hooks.iter().all(|other| other.name != hook.name));
    filter
        .map(|event| format!("the filter_event {event}"))
        .or_else(|| hook.map(|hook| format!("the log hook {}", hook.name)))
        .or_else(|| teller.map(|hook| format!("the disposition hook {}", hook.name)))
}

/// What the reading is called among events.
const RELOAD: &str = "bump_config_epoch";
