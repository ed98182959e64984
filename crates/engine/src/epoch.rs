//! New configuration epochs: an operator, a file, or the policy itself says that configuration has changed.
//!
//! Policy reads its files again first, and is tried out; when that fails nothing changes, and what is in force stays. Then
//! listeners have their new options, for sessions to come, the bounce classifier its rules, and the queues ask again for what
//! ages by epoch. What cannot change in a running program is said.

use crate::engine::Engine;
use crate::epoch_notes::FileChange;
use crate::ingress::listener::Current;
use crate::pressure::Volume;
use crate::recorders::Recorders;
use crate::sockets::SocketsChange;
use arc_swap::ArcSwap;
use bounce::Classifier;
use config::ThrottleSpec;
use policy::{Event, Interest, PolicyError, Startup};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// What is ready to take the place of what is in force.
struct Prepared {
    listeners: Vec<(Arc<ArcSwap<Current>>, Current)>,
    classifier: Option<Classifier>,
    recorders: Recorders,
    events: event_stream::Change,
    volumes: Vec<Volume>,
    delivers_when_spool_unhealthy: bool,
    injection_rate: Option<ThrottleSpec>,
    sockets: Option<SocketsChange>,
    needs_restart: Vec<String>,
}

impl Engine {
    /// Begins a new configuration epoch; `origin` says who wants it.
    ///
    /// # Errors
    /// The policy's, when what it reads now cannot be used.
    pub async fn bump_config_epoch(&self, origin: &str) -> Result<(), PolicyError> {
        let read = self.read_again(origin, Arc::default()).await;
        match &read {
            Ok(()) => tracing::info!("configuration was read again: {origin}"),
            Err(error) => tracing::error!("configuration stays as it was ({origin}): {error}"),
        }
        read
    }

    /// The same, and notes how watched files differ.
    ///
    /// # Errors
    /// As [`Engine::bump_config_epoch`].
    pub async fn read_again(&self, origin: &str, files: Arc<[FileChange]>) -> Result<(), PolicyError> {
        self.epoch_is_wanted.store(false, Ordering::Release);
        let (engine, of, changes) = (self.clone(), origin.to_owned(), files.clone());
        let read = match tokio::task::spawn_blocking(move || engine.read_and_begin(&of, changes)).await {
            Ok(read) => read,
            Err(error) => Err(PolicyError::Script { event: RELOAD, text: error.to_string() }),
        };
        if let Err(error) = &read {
            self.epochs.note_failure(self.clock.wall(), origin, error.to_string(), files);
        }
        read
    }

    fn read_and_begin(&self, origin: &str, files: Arc<[FileChange]>) -> Result<(), PolicyError> {
        let _one_at_a_time = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stop.is_draining() {
            return Err(PolicyError::Script { event: RELOAD, text: "the program ends".to_owned() });
        }
        let mut prepared = None;
        let mut check = |startup: Startup, interest: Interest| {
            prepared = Some(self.prepare_epoch(startup, interest)?);
            Ok(())
        };
        self.policy.reload(&mut check)?;
        self.begin_epoch(prepared, origin, files);
        Ok(())
    }

    /// Looks whether a policy that was read again can take the place of the one in force.
    fn prepare_epoch(&self, mut startup: Startup, interest: Interest) -> Result<Prepared, String> {
        let needs_restart = self.startup.needs_restart_for(&startup);
        let classifier = startup.bounce_classifier.as_ref().map(self.read_rules).transpose()?;
        // The log that is written to is the one that was opened.
        startup.acct_log = self.startup.acct_log.clone();
        self.sockets.get().into_iter().for_each(|sockets| sockets.share_files(&mut startup));
        let mut listeners = Vec::new();
        let mut wanted = startup.esmtp_listeners.clone();
        for listening in &*self.listening.lock().unwrap_or_else(PoisonError::into_inner) {
            // In order, so that two on ports of the system's choice are told apart.
            if let Some(place) = wanted.iter().position(|options| options.listen == listening.at) {
                let ready = listening.prepare(self, wanted.remove(place), interest);
                listeners.push(ready.map_err(|error| error.to_string())?);
            }
        }
        let sockets = self.sockets.get().map(|sockets| sockets.prepare(self, &startup, interest)).transpose()?;
        let events = self.events.prepare(&startup.event_streams, &startup.local_logs)?;
        // Last, for it begins something; and behind it nothing fails.
        let recorders = self.prepare_recorders(&startup)?;
        self.announce_recorders(&recorders);
        let volumes = Volume::all(&startup, &self.settings.spool_dir);
        let delivers_when_spool_unhealthy = startup.delivers_when_spool_unhealthy;
        Ok(Prepared {
            listeners,
            classifier,
            recorders,
            events,
            volumes,
            delivers_when_spool_unhealthy,
            injection_rate: startup.injection_rate,
            sockets,
            needs_restart,
        })
    }

    fn begin_epoch(&self, prepared: Option<Prepared>, origin: &str, files: Arc<[FileChange]>) {
        let mut needs_restart = Vec::new();
        // Before listeners change: who comes in between is asked about by the new handlers.
        self.interest.set(self.policy.interest());
        if let Some(prepared) = prepared {
            for (place, current) in prepared.listeners {
                place.store(Arc::new(current));
            }
            self.injection_rate.set(prepared.injection_rate);
            self.change_recorders(prepared.recorders);
            self.events.change(prepared.events);
            self.change_pressure(prepared.delivers_when_spool_unhealthy, prepared.volumes);
            self.classifier.store(prepared.classifier.map(Arc::new));
            prepared.sockets.into_iter().for_each(|change| change());
            needs_restart = prepared.needs_restart;
            for part in &needs_restart {
                tracing::warn!("the policy's {part} differs from what the program began with: that takes a restart");
            }
        }
        let is_asked = self.interest.has(Event::ThrottleInsertReadyQueue);
        let (epoch, now) = self.with_queue(|queue, now| {
            queue.ask_before_ready(is_asked);
            queue.begin_epoch();
            (queue.epoch(), now.wall)
        });
        self.epochs.note(epoch, now, origin, needs_restart, files);
    }

    /// Once this is over nothing is read again: the program is draining.
    pub(crate) async fn end_reloads(&self) {
        let engine = self.clone();
        let wait = move || drop(engine.reloading.lock().unwrap_or_else(PoisonError::into_inner));
        if let Err(error) = tokio::task::spawn_blocking(wait).await {
            tracing::error!("reading configuration again: {error}");
        }
    }

    /// Many wishes before it is begun are one.
    pub(crate) fn bump_later(&self) {
        if self.stop.is_draining() || self.epoch_is_wanted.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = self.clone();
        self.deliveries.spawn(async move {
            // It has been said.
            _ = engine.bump_config_epoch("kumo.bump_config_epoch").await;
        });
    }
}

/// What the reading is called among events.
const RELOAD: &str = "bump_config_epoch";
