//! The watchers: they look at memory, spool and disks, write verdicts into `Pressure`, and say so once per change.
//!
//! Memory and spool are sampled by one task, often. Each volume has a task of its own, so that a disk that
//! hangs stops nobody else's look; at most one system call per volume is under way, on a blocking thread.

use super::disk::{Judge, Look, Looker, Volume, measure};
use super::memory::Level;
use super::{Pressure, SPOOL_FAILS, processors};
use crate::engine::Engine;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use store::Free;
use telemetry::ProcessCounts;
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;

impl Engine {
    /// Looks at memory, spool and disks once, then goes on watching them until draining begins. Returns when every
    /// disk has been looked at, or does not answer in time.
    pub async fn watch_pressure(&self) {
        self.pressure.show_limits(&self.metrics.process);
        self.look_at_memory();
        let engine = self.clone();
        self.sessions.spawn(async move { engine.watch_memory().await });
        let engine = self.clone();
        self.sessions.spawn(async move {
            engine.stop.unless_requested(processors::watch(&engine.metrics.process.machine_use)).await;
        });
        let volumes = self.pressure.0.settings.volumes.clone();
        if let Some(turn) = self.pressure.0.wanted.turn_for(&volumes) {
            self.watch_volumes(volumes, turn).await;
        }
    }

    /// What a policy that was read again says of spool and disks; what it watches no more is given up once the rest was looked at.
    pub(crate) fn change_pressure(&self, delivers_when_spool_unhealthy: bool, volumes: Vec<Volume>) {
        self.pressure.0.delivers_when_spool_unhealthy.store(delivers_when_spool_unhealthy, Ordering::Relaxed);
        if let Some(turn) = self.pressure.0.wanted.turn_for(&volumes) {
            let engine = self.clone();
            self.sessions.spawn(async move { engine.watch_volumes(volumes, turn).await });
        }
    }

    /// Watches these volumes, and no others once it has looked at each of them, or waited for it long enough.
    async fn watch_volumes(&self, volumes: Vec<Volume>, turn: u64) {
        let mut first_looks = Vec::new();
        for volume in volumes.clone() {
            let (seen, first_look) = oneshot::channel();
            let engine = self.clone();
            self.sessions.spawn(async move { engine.watch_volume(volume, turn, seen).await });
            first_looks.push(first_look);
        }
        for first_look in first_looks {
            // An error means that the watcher ended: draining has begun.
            let _ = first_look.await;
        }
        let next = Watched { turn, volumes };
        self.pressure.0.watched.send_if_modified(|watched| {
            let is_newer = turn > watched.turn;
            if is_newer {
                *watched = next;
            }
            is_newer
        });
    }

    async fn watch_memory(&self) {
        let mut ticks = tokio::time::interval(MEMORY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut since_purge = EARLY_PURGE_SAMPLES;
        while self.stop.unless_requested(ticks.tick()).await.is_some() {
            self.look_at_memory();
            self.follow_pressure().await;
            self.look_at_spool();
            let is_short = self.pressure.level() != Level::Fine || self.pressure.is_room_wanted();
            let pause = match is_short {
                true => Some(PURGE_SAMPLES),
                false => self.pressure.is_nearly_low().then_some(EARLY_PURGE_SAMPLES),
            };
            since_purge = since_purge.saturating_add(1);
            if pause.is_some_and(|pause| since_purge >= pause) {
                since_purge = 0;
                self.receive_pool.trim();
                self.purge().await;
            }
        }
    }

    /// It takes a moment for each GiB.
    async fn purge(&self) {
        let (memory, policy) = (self.pressure.0.settings.memory.clone(), self.policy.clone());
        let purge = move || {
            policy.end_idle();
            memory.purge();
        };
        if let Err(error) = tokio::task::spawn_blocking(purge).await {
            tracing::error!("giving memory back: {error}");
        }
    }

    fn look_at_memory(&self) {
        let Some(Sample { used, before, after }) = self.pressure.sample_memory(&self.metrics.process) else { return };
        let limits = self.pressure.0.settings.limits.in_force();
        let limit = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
        match after {
            Level::Stop => {
                tracing::warn!(
                    "{used} bytes of memory in use, the soft limit is {}: load shedding",
                    limit(limits.soft)
                );
            }
            Level::Low => {
                let what = if before == Level::Stop { "mail is taken again" } else { "bodies leave memory" };
                tracing::info!("{used} bytes of memory in use, the low threshold is {}: {what}", limit(limits.low));
            }
            Level::Fine => tracing::info!("{used} bytes of memory in use: there is enough again"),
        }
    }

    fn look_at_spool(&self) {
        let changed = self.pressure.set_spool(self.spool.stopped());
        if !changed {
            return;
        }
        match self.pressure.0.spool_state.load(Ordering::Relaxed) == SPOOL_FAILS {
            true => tracing::error!("the spool fails: deliveries wait, for their outcome could not be noted"),
            false => tracing::info!("deliveries go on"),
        }
    }

    /// Until others are watched, or the program ends.
    async fn watch_volume(&self, volume: Volume, turn: u64, seen: oneshot::Sender<()>) {
        let mut watched = self.pressure.0.watched.subscribe();
        let mut judge = Judge::new(volume.clone());
        let looking = self.stop.unless_requested(self.look_at_volume(&volume, &mut judge, seen));
        let others = tokio::select! {
            _ = looking => return,
            Ok(others) = watched.wait_for(|others| others.turn > turn) => others.volumes.clone(),
        };
        self.pressure.set_volume(judge.verdict, super::Verdict::Room);
        if !others.iter().any(|other| other.name == volume.name) {
            self.hide(&volume.name);
        }
    }

    async fn look_at_volume(&self, volume: &Volume, judge: &mut Judge, seen: oneshot::Sender<()>) {
        let mut seen = Some(seen);
        let mut looker = Looker::new(volume.path.clone(), volume.must_stay, measure);
        loop {
            let look = looker.look(DISK_PATIENCE).await;
            self.take_look(volume, judge, &look);
            // Whoever waited for the first look may have gone.
            seen.take().map(|seen| seen.send(()));
            if !matches!(look, Look::Silent) {
                tokio::time::sleep(DISK_INTERVAL).await;
            }
        }
    }

    fn take_look(&self, volume: &Volume, judge: &mut Judge, look: &Look) {
        if let Look::Free(free) = look {
            self.show(&volume.name, free);
        }
        if let Some(change) = judge.judge(look) {
            self.pressure.set_volume(change.before, change.after);
            match change.after {
                super::Verdict::Room => tracing::info!("{}", change.text),
                _ => tracing::error!("{}", change.text),
            }
        }
    }

    /// Of a volume that is not watched any more.
    fn hide(&self, name: &str) {
        let metrics = &self.metrics;
        let gone = [
            &metrics.disk_free_bytes,
            &metrics.disk_free_inodes,
            &metrics.disk_free_percent,
            &metrics.disk_free_inodes_percent,
        ];
        // One that was never looked at has no values.
        gone.into_iter().for_each(|gauge| _ = gauge.remove_label_values(&[name]));
    }

    fn show(&self, name: &str, free: &Free) {
        let (metrics, name) = (&self.metrics, &[name]);
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        metrics.disk_free_bytes.with_label_values(name).set(count(free.octets));
        metrics.disk_free_percent.with_label_values(name).set(free.octets_percent as i64);
        metrics.disk_free_inodes.with_label_values(name).set(count(free.inodes));
        metrics.disk_free_inodes_percent.with_label_values(name).set(free.inodes_percent as i64);
    }
}

impl Pressure {
    /// Fills the gauges of limits, which stay as they are.
    pub(crate) fn show_limits(&self, counts: &ProcessCounts) {
        let limits = self.0.settings.limits.in_force();
        let gauge = |limit: Option<u64>| i64::try_from(limit.unwrap_or(0)).unwrap_or(i64::MAX);
        counts.memory_limit.set(gauge(limits.soft));
        counts.memory_low_thresh.set(gauge(limits.low));
    }

    /// Measures memory, for the gauges too; tells when it is short to another degree than before.
    pub(crate) fn sample_memory(&self, counts: &ProcessCounts) -> Option<Sample> {
        let counted = self.counted();
        let used = self.0.settings.memory.used()?;
        counts.memory_usage.set(i64::try_from(used).unwrap_or(i64::MAX));
        let (before, after) = self.set_memory(counted, used);
        if before == after {
            return None;
        }
        if before < Level::Low {
            counts.memory_low_count.inc();
        }
        if after == Level::Stop {
            counts.memory_over_limit_count.inc();
        }
        Some(Sample { used, before, after })
    }
}

/// Memory is short to another degree.
pub(crate) struct Sample {
    /// Octets.
    pub used: u64,
    pub before: Level,
    pub after: Level,
}

impl Engine {
    /// What is watched, and the verdicts.
    pub fn pressure(&self) -> &Pressure {
        &self.pressure
    }
}

/// The volumes that are to be watched, which are not yet while they are looked at for the first time.
#[derive(Debug, Default)]
pub(super) struct Wanted(Mutex<Watched>);

impl Wanted {
    /// From now on these are wanted: the turn of that, unless they were already.
    fn turn_for(&self, volumes: &[Volume]) -> Option<u64> {
        let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = wanted.turn == 0 || wanted.volumes != volumes;
        is_new.then(|| {
            wanted.turn += 1;
            wanted.volumes = volumes.to_vec();
            wanted.turn
        })
    }
}

/// The volumes that are watched.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// Those of an earlier turn are not.
    turn: u64,
    volumes: Vec<Volume>,
}

/// Pause between two looks at memory: what comes in meanwhile is charged as it comes.
const MEMORY_INTERVAL: Duration = Duration::from_millis(50);
/// Looks at memory from one purge to the next while it is short, or somebody waits for some.
const PURGE_SAMPLES: u32 = 5;
/// The same while memory is not short yet, but what nobody uses may make it so: 10 s.
const EARLY_PURGE_SAMPLES: u32 = 200;
/// Pause between two looks at a volume.
const DISK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a volume may take to answer before it counts as silent.
const DISK_PATIENCE: Duration = Duration::from_secs(5);
