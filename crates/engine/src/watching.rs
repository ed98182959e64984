//! Who watches SMTP sessions, and what they see of them: transcripts on demand, without a restart.
//!
//! In: what sessions of either side say and do, told only while somebody watches. Out: events as JSON text in KumoMTA's shape, to
//! each watcher those of the sessions he asked for. Sessions never wait for a watcher: who is slow, or asks for more than
//! [`OCTETS_MAX`] at once, misses events and is told how many. Passwords are shown to nobody.

mod filter;
mod secret;
mod seen;

pub use filter::Watch;
pub(crate) use secret::Secret;
pub(crate) use seen::{Seen, TEXT_MAX};

use crate::engine::Engine;
use record::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// Which sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Of clients of ours.
    Server,
    /// With servers that we deliver to.
    Client,
}

/// All watchers.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    is_watched: AtomicBool,
    all: Mutex<Arc<[Watcher]>>,
}

#[derive(Clone, Debug)]
struct Watcher {
    side: Side,
    watch: Watch,
    events: mpsc::Sender<String>,
    backlog: Arc<Backlog>,
}

/// What one watcher has not taken yet, and what he missed.
#[derive(Debug, Default)]
struct Backlog {
    octets: AtomicUsize,
    missed: AtomicU64,
}

/// A watcher's end; he watches as long as it is there.
pub struct Watching {
    events: mpsc::Receiver<String>,
    backlog: Arc<Backlog>,
    engine: Engine,
}

impl Watchers {
    /// Whether anybody watches.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Tells who wants to know of a session; `meta` says which it is.
    pub fn tell(&self, side: Side, meta: &Map<String, Value>, seen: &Seen<'_>, at: Timestamp) {
        // Sessions do not wait for each other's events.
        let all = self.all().clone();
        let mut texts = [None, None];
        for watcher in all.iter().filter(|watcher| watcher.side == side && watcher.watch.wants(meta)) {
            let event = |terse| json!({"conn_meta": meta, "payload": seen.json(terse), "when": at.rfc3339().as_str()});
            let terse = watcher.watch.terse;
            watcher.send(|| texts[usize::from(terse)].get_or_insert_with(|| event(terse).to_string()).clone());
        }
    }

    fn all(&self) -> MutexGuard<'_, Arc<[Watcher]>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    /// Sends an event, if there is room for it; it is made only then.
    fn send(&self, event: impl FnOnce() -> String) {
        let Backlog { octets, missed } = &*self.backlog;
        if octets.load(Ordering::Relaxed) < OCTETS_MAX
            && let Ok(place) = self.events.try_reserve()
        {
            let event = event();
            octets.fetch_add(event.len(), Ordering::Relaxed);
            return place.send(event);
        }
        missed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Watching {
    /// The next event.
    pub async fn next(&mut self) -> String {
        // Before what came later: what is missing stands where it is missing, as nearly as can be said.
        let missed = self.backlog.missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            return self.engine.notice(&format!("{missed} events were left out: they come faster than they are taken"));
        }
        match self.events.recv().await {
            Some(event) => {
                self.backlog.octets.fetch_sub(event.len(), Ordering::Relaxed);
                event
            }
            // The sender is in the engine, which is here.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let watchers = &self.engine.watchers;
        let mut all = watchers.all();
        *all = all.iter().filter(|watcher| !Arc::ptr_eq(&watcher.backlog, &self.backlog)).cloned().collect();
        watchers.is_watched.store(!all.is_empty(), Ordering::Relaxed);
    }
}

impl Engine {
    /// Watches sessions from now on; `None` when [`WATCHERS_MAX`] do.
    pub fn watch(&self, side: Side, watch: Watch) -> Option<Watching> {
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let backlog = Arc::new(Backlog::default());
        let mut all = self.watchers.all();
        if all.len() >= WATCHERS_MAX {
            return None;
        }
        let watcher = Watcher { side, watch, events: sender, backlog: backlog.clone() };
        *all = all.iter().cloned().chain([watcher]).collect();
        self.watchers.is_watched.store(true, Ordering::Relaxed);
        drop(all);
        Some(Watching { events, backlog, engine: self.clone() })
    }

    /// An event about the watching itself.
    pub fn notice(&self, message: &str) -> String {
        let payload = Seen::Diagnostic("ERROR", message).json(false);
        json!({"conn_meta": {}, "payload": payload, "when": self.instant().rfc3339().as_str()}).to_string()
    }

    fn instant(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.clock.wall().unix_micros())
    }

    /// Tells watchers what a session does; `meta` is asked for only when there are any.
    pub(crate) fn show_watchers(&self, side: Side, meta: impl FnOnce() -> Map<String, Value>, seen: &Seen<'_>) {
        if self.watchers.is_watched() {
            self.watchers.tell(side, &meta(), seen, self.instant());
        }
    }
}

/// Watchers at once.
pub const WATCHERS_MAX: usize = 16;
/// Events that a watcher has not taken.
const EVENTS_MAX: usize = 16_384;
/// Their octets.
const OCTETS_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher(places: usize) -> (Watcher, mpsc::Receiver<String>) {
        let (events, receiver) = mpsc::channel(places);
        let watch = Watch { values: vec![("domain", vec!["a.test".to_owned()])], ..Watch::default() };
        (Watcher { side: Side::Client, watch, events, backlog: Arc::default() }, receiver)
    }

    #[test]
    fn who_does_not_keep_up_misses_events_and_nobody_waits_for_him() {
        let (watcher, mut events) = watcher(2);
        for text in ["a", "b", "c"] {
            watcher.send(|| text.to_owned());
        }
        assert_eq!(watcher.backlog.missed.load(Ordering::Relaxed), 1, "no place for the third");
        assert_eq!(watcher.backlog.octets.load(Ordering::Relaxed), 2);
        assert_eq!([events.try_recv(), events.try_recv()].map(Result::unwrap_or_default), ["a", "b"]);
        watcher.send(|| "x".repeat(OCTETS_MAX));
        watcher.send(|| unreachable!("what nobody takes is not made"));
        assert_eq!(watcher.backlog.missed.load(Ordering::Relaxed), 2, "he holds as many octets as he may");
        assert!(events.try_recv().is_ok() && events.try_recv().is_err());
    }

    #[test]
    fn events_go_to_whom_they_concern() {
        let (watchers, (watcher, mut events)) = (Watchers::default(), watcher(8));
        *watchers.all() = [watcher].into();
        let tell = |side, domain: &str| {
            let meta = json!({"domain": domain});
            watchers.tell(
                side,
                meta.as_object().expect("an object"),
                &Seen::Closed,
                Timestamp::from_unix_micros(1_500_000),
            );
        };
        tell(Side::Server, "a.test");
        tell(Side::Client, "b.test");
        tell(Side::Client, "a.test");
        let event: Value = serde_json::from_str(&events.try_recv().expect("an event")).expect("JSON");
        let expected =
            json!({"conn_meta": {"domain": "a.test"}, "payload": "Closed", "when": "1970-01-01T00:00:01.500Z"});
        assert_eq!(event, expected);
        assert!(events.try_recv().is_err(), "of no other session");
    }
}
