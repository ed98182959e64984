//! Pressure: how much room memory, disks and spool have left, and what that means for mail.
//!
//! [`Pressure`] is what everybody asks: the queue for its [`Level`] (bodies leave memory), a session
//! whether MAIL is taken and whether content in progress must go, a connection whether delivery is held,
//! `check-liveness` for the reason. Answers are a few atomic loads. Who looks at the system and writes the answers
//! is in `watch`; the judgements are pure and stand in `memory` and `disk`. In: samples. Out: verdicts, log lines,
//! metrics. Nothing here ends a process or a message by itself.
//!
//! Between two samples content is counted where it is received ([`Pressure::charge`]), so that no
//! burst, however fast, runs past the hard limit unseen.

mod disk;
mod memory;
pub(crate) mod processors;
mod watch;

pub use disk::Volume;
pub use memory::Level;

use config::MemoryLimits;
use disk::Verdict;
use memory::Thresholds;
use smtp_server::Admission;
use spool::SpoolError;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use watch::{Wanted, Watched};

/// The process's memory, as the program that owns the allocator knows it.
pub trait Memory: Send + Sync {
    /// Octets in use, as the hard limit counts them; `None` when the system does not tell. Called many times a second.
    fn used(&self) -> Option<u64>;
    /// Gives pages that are not in use back to the system.
    fn purge(&self);
    /// What else is known of it: names, and octets or words. For people who ask; nothing that is secret.
    fn words(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// What is watched, and against which limits.
pub struct PressureSettings {
    /// Octets; without a soft limit memory is not watched.
    pub limits: MemoryLimits,
    /// Who measures.
    pub memory: Arc<dyn Memory>,
    /// Directories whose file systems must keep some room.
    pub volumes: Vec<Volume>,
    /// Go on delivering while the spool fails for another reason than lack of space.
    pub delivers_when_spool_unhealthy: bool,
}

/// The room that is left; clones share it.
#[derive(Clone)]
pub struct Pressure(Arc<Inner>);

struct Inner {
    settings: PressureSettings,
    thresholds: Thresholds,
    /// Go on delivering while the spool fails.
    delivers_when_spool_unhealthy: AtomicBool,
    /// Which volumes are watched.
    watched: tokio::sync::watch::Sender<Watched>,
    /// Which are to be.
    wanted: Wanted,
    level: AtomicU8,
    is_nearly_low: AtomicBool,
    /// Octets ever charged, less what was credited.
    charged: AtomicI64,
    /// What `charged` may rise to until content is cut; beyond it memory is out.
    charge_max: AtomicI64,
    /// Somebody should look at the two.
    out_of_memory: Notify,
    /// Who brings large content back while memory is short; in turn.
    loading: Semaphore,
    /// How many wait for room to load.
    waiting: AtomicUsize,
    /// Octets that were promised to content on its way back: a sample does not show them yet.
    promised: AtomicU64,
    /// Volumes with too little room.
    full: AtomicUsize,
    /// Volumes that do not answer.
    silent: AtomicUsize,
    spool: Mutex<Option<SpoolError>>,
    spool_state: AtomicU8,
    delivery_held: AtomicBool,
    delivery_changed: Notify,
}

impl Pressure {
    /// Room without end until the first sample.
    pub fn new(settings: PressureSettings) -> Pressure {
        let thresholds = Thresholds::of(settings.limits);
        Pressure(Arc::new(Inner {
            delivers_when_spool_unhealthy: AtomicBool::new(settings.delivers_when_spool_unhealthy),
            settings,
            thresholds,
            watched: tokio::sync::watch::Sender::default(),
            wanted: Wanted::default(),
            level: AtomicU8::new(Level::Fine as u8),
            is_nearly_low: AtomicBool::new(false),
            charged: AtomicI64::new(0),
            charge_max: AtomicI64::new(i64::MAX),
            out_of_memory: Notify::new(),
            loading: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            promised: AtomicU64::new(0),
            full: AtomicUsize::new(0),
            silent: AtomicUsize::new(0),
            spool: Mutex::default(),
            spool_state: AtomicU8::new(SPOOL_WORKS),
            delivery_held: AtomicBool::new(false),
            delivery_changed: Notify::new(),
        }))
    }

    /// Nothing is watched and nothing is short.
    pub fn unlimited() -> Pressure {
        Pressure::new(PressureSettings {
            limits: MemoryLimits::default(),
            memory: Arc::new(NotMeasured),
            volumes: Vec::new(),
            delivers_when_spool_unhealthy: false,
        })
    }

    /// Limits, level and measurements, for people.
    pub(crate) fn memory_words(&self) -> Vec<(&'static str, String)> {
        let level = match self.level() {
            Level::Fine => "there is enough",
            Level::Low => "low: content that the spool has leaves memory",
            Level::Stop => "out: no new mail is taken",
        };
        let waiting = self.0.waiting.load(Ordering::Relaxed).to_string();
        let own = [("level", level.to_owned()), ("waiting_for_room_to_load", waiting)];
        own.into_iter().chain(self.measured_words()).collect()
    }

    /// Of these, what does not depend on mail.
    pub(crate) fn measured_words(&self) -> Vec<(&'static str, String)> {
        let limits = self.0.settings.limits.in_force();
        let octets = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), |octets| octets.to_string());
        let mut words = vec![
            ("used_bytes", octets(self.0.settings.memory.used())),
            ("low_threshold_bytes", octets(limits.low)),
            ("soft_limit_bytes", octets(limits.soft)),
            ("hard_limit_bytes", octets(limits.hard)),
        ];
        words.extend(self.0.settings.memory.words());
        words
    }

    /// How short memory is: from [`Level::Low`] on, what the spool holds leaves it.
    pub fn level(&self) -> Level {
        Level::from_u8(self.0.level.load(Ordering::Relaxed))
    }

    /// What becomes of MAIL, and of new connections.
    pub fn admission(&self) -> Admission {
        let octets_max = self.octets_until_soft();
        if self.level() == Level::Stop || octets_max == 0 {
            return Admission::LoadShedding;
        }
        if self.0.full.load(Ordering::Relaxed) > 0 {
            return Admission::DiskTooFull;
        }
        match self.0.spool_state.load(Ordering::Relaxed) {
            SPOOL_FULL => Admission::SpoolFull,
            SPOOL_FAILS => Admission::SpoolFailing,
            _ if self.0.silent.load(Ordering::Relaxed) > 0 => Admission::SpoolFailing,
            _ => Admission::Open { octets_max },
        }
    }

    /// Room in memory for a message of so many octets, unless no new mail is taken: then why.
    ///
    /// # Errors
    /// As [`Pressure::reason`], or that there is no such room.
    pub fn room_or_reason(&self, octets: u64) -> Result<Room, String> {
        match self.admission() {
            Admission::Open { octets_max } if octets <= octets_max => Ok(self.room_for(octets)),
            _ => Err(self.reason().unwrap_or_else(|| format!("no memory for {octets} octets"))),
        }
    }

    /// Why no new mail is taken, in KumoMTA's words where it has them; `None` while it is. Of several reasons, what clients hear.
    pub fn reason(&self) -> Option<String> {
        self.reasons().into_iter().next()
    }

    /// All of them, in the order of [`Pressure::admission`].
    pub fn reasons(&self) -> Vec<String> {
        let is_short = self.level() == Level::Stop || self.octets_until_soft() == 0;
        let spool_state = self.0.spool_state.load(Ordering::Relaxed);
        let is_full = self.0.full.load(Ordering::Relaxed) > 0 || spool_state == SPOOL_FULL;
        let fails = || {
            let error = self.0.spool.lock().unwrap_or_else(PoisonError::into_inner).clone();
            error.map_or_else(|| "spool unhealthy".to_owned(), |error| format!("spool unhealthy: {error}"))
        };
        let found = [
            is_short.then(|| "load shedding".to_owned()),
            is_full.then(|| "storage is too full".to_owned()),
            (spool_state == SPOOL_FAILS).then(fails),
            (self.0.silent.load(Ordering::Relaxed) > 0).then(|| "storage does not answer".to_owned()),
        ];
        found.into_iter().flatten().collect()
    }

    /// Counts octets of memory that content has taken since the last sample.
    pub fn charge(&self, octets: u64) {
        let octets = i64::try_from(octets).unwrap_or(i64::MAX);
        let before = self.allowance();
        self.0.charged.fetch_add(octets, Ordering::Relaxed);
        if before >= 0 && self.is_out_of_memory() {
            self.0.out_of_memory.notify_waiters();
        }
    }

    /// Counts octets that content has given back.
    pub fn credit(&self, octets: u64) {
        self.0.charged.fetch_sub(i64::try_from(octets).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// True when content being received must be given up.
    pub fn is_out_of_memory(&self) -> bool {
        self.allowance() < 0
    }

    /// Completes when [`Pressure::is_out_of_memory`]; by then that may be over again.
    pub async fn out_of_memory(&self) {
        let told = self.0.out_of_memory.notified();
        if !self.is_out_of_memory() {
            told.await;
        }
    }

    /// True while deliveries are not to be begun, because their outcome cannot be noted.
    pub fn delivery_is_held(&self) -> bool {
        self.0.delivery_held.load(Ordering::Relaxed)
    }

    /// Completes when deliveries may be begun.
    pub async fn delivery_allowed(&self) {
        loop {
            let told = self.0.delivery_changed.notified();
            if !self.delivery_is_held() {
                return;
            }
            told.await;
        }
    }

    /// Waits until memory has room for content that comes back from the spool, and promises it. Small content may go on
    /// nearly to the end; large content waits for its turn below the soft limit, or one after the other above it: a
    /// hundred connections must not fill memory with what a slow peer takes minutes to accept.
    ///
    /// Whoever waits here must hold no content himself: all would wait for each other.
    pub async fn room_to_load(&self, octets: u64) -> Room {
        if self.has_room_to_load(octets, Duration::ZERO) {
            return self.promise(octets);
        }
        let _waiting = Waiting::new(&self.0.waiting);
        let _turn = self.0.loading.acquire().await;
        let begun = tokio::time::Instant::now();
        while !self.has_room_to_load(octets, begun.elapsed()) {
            tokio::time::sleep(LOAD_PAUSE).await;
        }
        self.promise(octets)
    }

    /// True while somebody waits for room: memory that nobody uses should go back to the system then.
    fn is_room_wanted(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }

    /// True from three quarters of the low threshold on.
    fn is_nearly_low(&self) -> bool {
        self.0.is_nearly_low.load(Ordering::Relaxed)
    }

    /// [`Pressure::room_to_load`] without waiting; `None` when memory is short.
    pub fn room_to_load_now(&self, octets: u64) -> Option<Room> {
        let has_room = self.level() == Level::Fine && self.has_room_to_load(octets, Duration::ZERO);
        has_room.then(|| self.promise(octets))
    }

    /// Counts the copy that the spool makes of content while it writes it; of what is not large the reserve has room.
    pub fn room_to_append(&self, octets: u64) -> Room {
        self.promise(octets.saturating_sub(APPEND_OCTETS_FREE))
    }

    /// Counts content that is about to come in.
    pub fn room_for(&self, octets: u64) -> Room {
        self.promise(octets)
    }

    fn promise(&self, octets: u64) -> Room {
        self.0.promised.fetch_add(octets, Ordering::Relaxed);
        self.charge(octets);
        Room { pressure: self.clone(), octets }
    }

    /// `waited`: since its turn came.
    fn has_room_to_load(&self, octets: u64, waited: Duration) -> bool {
        let (until_soft, until_cut) = (self.octets_until_soft(), self.octets_until_cut());
        let small = octets <= SMALL_OCTETS && octets <= until_cut / LOAD_SHARE;
        small || octets <= until_soft / LOAD_SHARE || (waited >= LOAD_PATIENCE && octets <= until_cut / 2)
    }

    fn octets_until_soft(&self) -> u64 {
        let Thresholds { soft, cut, .. } = self.0.thresholds;
        self.octets_until_cut().saturating_sub(cut - soft)
    }

    fn octets_until_cut(&self) -> u64 {
        u64::try_from(self.allowance()).unwrap_or(0)
    }

    /// Octets content may still take until it is cut; below 0 memory is out.
    fn allowance(&self) -> i64 {
        let charged = self.0.charged.load(Ordering::Relaxed);
        self.0.charge_max.load(Ordering::Relaxed).saturating_sub(charged)
    }

    /// What is counted already, to be asked before memory is measured: what comes in during the measurement may
    /// show in it or not, and is better counted twice than not at all.
    fn counted(&self) -> Counted {
        let promised = self.0.promised.load(Ordering::Relaxed);
        Counted { promised, charged: self.0.charged.load(Ordering::Relaxed) }
    }

    /// Takes a sample of memory in; returns the level before and after it.
    fn set_memory(&self, counted: Counted, used: u64) -> (Level, Level) {
        let before = self.level();
        let after = self.0.thresholds.judge(before, used);
        self.0.level.store(after as u8, Ordering::Relaxed);
        self.0.is_nearly_low.store(self.0.thresholds.is_nearly_low(used), Ordering::Relaxed);
        let Counted { promised, charged } = counted;
        let charge_max =
            i128::from(self.0.thresholds.cut) - i128::from(used) - i128::from(promised) + i128::from(charged);
        let bounds = i128::from(i64::MIN / 2)..=i128::from(i64::MAX / 2);
        let charge_max = charge_max.clamp(*bounds.start(), *bounds.end()) as i64;
        self.0.charge_max.store(charge_max, Ordering::Relaxed);
        if self.is_out_of_memory() {
            self.0.out_of_memory.notify_waiters();
        }
        (before, after)
    }

    /// A volume's verdict has changed.
    fn set_volume(&self, before: Verdict, after: Verdict) {
        let count = |verdict| match verdict {
            Verdict::Room => None,
            Verdict::Full => Some(&self.0.full),
            Verdict::Silent => Some(&self.0.silent),
        };
        // Up first: between the two nobody finds the disk sound.
        count(after).map(|count| count.fetch_add(1, Ordering::Relaxed));
        count(before).map(|count| count.fetch_sub(1, Ordering::Relaxed));
    }

    /// Whether the spool takes mail, and why not; true when this began or ended to hold delivery.
    fn set_spool(&self, error: Option<SpoolError>) -> bool {
        let inner = &self.0;
        let state = error.as_ref().map_or(SPOOL_WORKS, |e| if e.is_full() { SPOOL_FULL } else { SPOOL_FAILS });
        *inner.spool.lock().unwrap_or_else(PoisonError::into_inner) = error;
        inner.spool_state.store(state, Ordering::Relaxed);
        let held = state == SPOOL_FAILS && !inner.delivers_when_spool_unhealthy.load(Ordering::Relaxed);
        let changed = inner.delivery_held.swap(held, Ordering::Relaxed) != held;
        if changed {
            inner.delivery_changed.notify_waiters();
        }
        changed
    }
}

/// What was counted when a measurement began.
#[derive(Clone, Copy, Debug)]
struct Counted {
    promised: u64,
    charged: i64,
}

/// Room for content on its way to or from the spool, held until it is there: before that no sample shows it.
pub struct Room {
    pressure: Pressure,
    octets: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.pressure.0.promised.fetch_sub(self.octets, Ordering::Relaxed);
    }
}

/// Somebody who waits for room, counted while this lives.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn new(count: &AtomicUsize) -> Waiting<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Octets of memory touched when content went from one (length, capacity) to another: all of it
/// when it had to move, else what was added.
pub(crate) fn content_growth(before: (usize, usize), after: (usize, usize)) -> u64 {
    let grown = if before.1 == after.1 { after.0.saturating_sub(before.0) } else { after.0 };
    grown as u64
}

/// For servers without a limit.
struct NotMeasured;

impl Memory for NotMeasured {
    fn used(&self) -> Option<u64> {
        None
    }

    fn purge(&self) {}
}

/// Content that may be brought back as long as memory is not out, in octets.
const SMALL_OCTETS: u64 = 64 << 10;
/// Octets of an append that are not counted: they fit into what is kept below the hard limit.
const APPEND_OCTETS_FREE: u64 = 4 << 20;
/// Content may take this part of the room there is: one in so many.
const LOAD_SHARE: u64 = 4;
/// How long the next in turn waits for room below the soft limit.
const LOAD_PATIENCE: Duration = Duration::from_secs(1);
/// Pause between two looks for room.
const LOAD_PAUSE: Duration = Duration::from_millis(50);
const SPOOL_WORKS: u8 = 0;
const SPOOL_FULL: u8 = 1;
const SPOOL_FAILS: u8 = 2;

#[cfg(test)]
mod tests;
