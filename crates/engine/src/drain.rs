//! Stopping: refuse new work, finish what is in hand, sync, close.
//!
//! The same steps whether the operator or a test asks. Every accepted message is in the spool already, but
//! for those of `deferred_spool` listeners: they are written now, and what comes back from deliveries at the end. Marks are flushed
//! before the spool closes.

use crate::engine::Engine;
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
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
pub(crate) struct Stop {
    phase: watch::Sender<Phase>,
    /// The same for those who only look, several times for each message: a lock that all of them take is not for them.
    is_draining: AtomicBool,
    began_at: OnceLock<tokio::time::Instant>,
}

impl Stop {
    pub fn new() -> Stop {
        Stop {
            phase: watch::Sender::new(Phase::Running),
            is_draining: AtomicBool::new(false),
            began_at: OnceLock::new(),
        }
    }

    pub fn begin(&self) {
        self.began_at.get_or_init(tokio::time::Instant::now);
        // Before those who wait are told.
        self.is_draining.store(true, Ordering::Release);
        self.phase.send_replace(Phase::Draining);
    }

    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
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
        let mut phase = self.phase.subscribe();
        // The sender lives as long as self, so this cannot fail before draining.
        let _ = phase.wait_for(|p| *p == Phase::Draining).await;
    }

    /// Completes when draining has lasted so long; without a time, never.
    pub async fn over_for(&self, grace: Option<Duration>) {
        let Some(grace) = grace else { return std::future::pending().await };
        self.requested().await;
        let began_at = *self.began_at.get_or_init(tokio::time::Instant::now);
        match began_at.checked_add(grace) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
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

    /// Stops: sessions hear 421 between transactions, deliveries in hand get `grace` to end, or as long as a path's
    /// `system_shutdown_timeout` says; then spool and logs are flushed and closed.
    pub async fn drain(&self, grace: Duration) {
        self.stop.begin();
        self.events.stop();
        // First of all: of what is in memory only nothing is left if the time does not suffice, or somebody kills the program.
        self.with_queue(|q, now| q.spool_the_rest(now));
        let for_sessions = grace.mul_f32(SESSIONS_SHARE);
        let asked_for = self.longest_shutdown().min(SHUTDOWN_TIMEOUT_MAX);
        let for_deliveries = for_sessions.max(asked_for + SETTLING);
        let begun = tokio::time::Instant::now();
        if tokio::time::timeout_at(begun + for_sessions, self.end_reloads()).await.is_err() {
            tracing::warn!("configuration was still being read after {for_sessions:?}");
        }
        if tokio::time::timeout_at(begun + for_sessions, self.sessions.drain()).await.is_err() {
            tracing::warn!("some sessions did not end within {for_sessions:?}");
            self.sessions.abort().await;
        }
        if tokio::time::timeout_at(begun + for_deliveries, self.deliveries.drain()).await.is_err() {
            tracing::warn!("some deliveries did not end within {for_deliveries:?}; what they held stays in the spool");
            self.deliveries.abort().await;
        }
        // Who is not told that his mail was taken gives it again.
        if let Some(sockets) = self.sockets.get() {
            sockets.answered().await;
        }
        self.drain_hooks(begun + for_deliveries + (grace - for_sessions) / 2).await;
        self.tell_of_the_end().await;
        let end = begun + for_deliveries + (grace - for_sessions);
        self.spool_the_rest(end.max(tokio::time::Instant::now() + SPOOLING_MIN)).await;
        if tokio::time::timeout(REPORTS_MAX, self.close_domain_reports()).await.is_err() {
            tracing::error!("what is counted for reports is not written within {REPORTS_MAX:?}");
        }
        match tokio::time::timeout(CLOSE_MAX, self.spool.close()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("spool: {error}"),
            Err(_) => tracing::error!("the spool was not closed within {CLOSE_MAX:?}: its disk does not answer"),
        }
        let logs = self.all_logs();
        let accounts = self.gate.accounts().clone();
        let engine = self.clone();
        let close = move || {
            engine.events.close();
            logs.iter().for_each(telemetry::LogWriter::close);
            accounts.close();
        };
        match tokio::time::timeout(CLOSE_MAX, tokio::task::spawn_blocking(close)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("closing logs: {error}"),
            Err(_) => tracing::error!("logs were not closed within {CLOSE_MAX:?}: their disk does not answer"),
        }
    }

    /// The longest that [`Engine::drain`] takes with this `grace` and what is in hand now.
    pub fn drains_within(&self, grace: Duration) -> Duration {
        let asked_for = self.longest_shutdown().min(SHUTDOWN_TIMEOUT_MAX) + SETTLING;
        asked_for.max(grace) + grace + ANSWERS_MAX + SPOOLING_MIN + LAST_WORDS + REPORTS_MAX + 2 * CLOSE_MAX
    }

    /// Policy hears of the end, and has a moment.
    async fn tell_of_the_end(&self) {
        match tokio::time::timeout(LAST_WORDS, self.policy.shutdown_logging()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("{error}"),
            Err(_) => tracing::error!("shutdown_logging took longer than {LAST_WORDS:?}"),
        }
    }

    /// Writes what is in memory only, and waits for it until `end`.
    async fn spool_the_rest(&self, end: tokio::time::Instant) {
        if tokio::time::timeout_at(end, self.keepers.drain()).await.is_err() {
            tracing::error!("the spool did not keep in time what was to be transferred: it may be there twice");
        }
        let abandoned = self.take_abandoned();
        self.with_queue(|q, now| {
            abandoned.into_iter().for_each(|queued| q.abandoned(queued));
            q.spool_the_rest(now);
        });
        if tokio::time::timeout_at(end, self.spoolers.drain()).await.is_err() {
            let left = self.with_queue(|q, _| q.unspooled());
            tracing::error!("{left} messages of deferred_spool listeners could not be written and are lost");
            self.spoolers.abort().await;
        }
    }
}

/// The part of the grace that sessions and deliveries have; the rest is for what must be written.
const SESSIONS_SHARE: f32 = 0.8;
/// About how long listeners take for [`crate::Sockets::answered`].
const ANSWERS_MAX: Duration = Duration::from_secs(2);
/// How long policy may take for `shutdown_logging`.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What came back last has so long to be written, whatever the others took.
const SPOOLING_MIN: Duration = Duration::from_secs(2);
/// For what is settled when a path's `system_shutdown_timeout` is over.
const SETTLING: Duration = Duration::from_secs(1);
/// What is counted for reports has so long to be written: a disk that hangs must not keep the spool from closing.
const REPORTS_MAX: Duration = Duration::from_secs(5);
/// Spool and logs have so long to be closed, each: what was promised is on the disk already.
const CLOSE_MAX: Duration = Duration::from_secs(15);
/// Longest time a path can hold up the end.
const SHUTDOWN_TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
