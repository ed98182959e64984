//! The effects in force, the rules that bring them about, and who is told.
//!
//! Rules are loaded by policy at the start and every 30 s (KumoMTA behaviour). Effects are kept in a file each minute and at
//! the end; what is over is forgotten then.

use crate::{KeptFile, TsaError};
use automation::{Automation, Effect, Observed, matching};
use policy::{Policy, PolicyError};
use record::{LogRecord, Timestamp};
use shaping::Shaping;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// Clones share one.
#[derive(Clone)]
pub struct Keeper(Arc<Inner>);

struct Inner {
    policy: Arc<dyn Policy>,
    /// None until policy has loaded them once.
    shaping: RwLock<Option<Arc<Shaping>>>,
    automation: Mutex<Automation>,
    file: Option<KeptFile>,
    /// True when effects differ from the file's.
    is_changed: AtomicBool,
    /// Whoever writes the file has it: one at a time.
    writes: Mutex<()>,
    news: Sender<Arc<Effect>>,
    /// When something undone was said last, in seconds since 1970.
    said_undone_s: AtomicI64,
    /// Log records that were taken.
    records: AtomicU64,
}

impl Keeper {
    /// Takes up what was kept in `file`, and shows that it can be written.
    ///
    /// # Errors
    /// The file cannot be read or written, or holds something else.
    pub fn open(policy: Arc<dyn Policy>, file: Option<KeptFile>) -> Result<Keeper, TsaError> {
        let mut automation = Automation::default();
        if let Some(file) = &file {
            automation.restore(file.read()?, now());
            file.write(automation.effects(now()).cloned().collect())?;
        }
        let (news, _) = broadcast::channel(NEWS_MAX);
        Ok(Keeper(Arc::new(Inner {
            policy,
            shaping: RwLock::default(),
            automation: Mutex::new(automation),
            file,
            is_changed: AtomicBool::new(false),
            writes: Mutex::new(()),
            news,
            said_undone_s: AtomicI64::new(0),
            records: AtomicU64::new(0),
        })))
    }

    /// Has policy load the rules.
    ///
    /// # Errors
    /// The policy's; the rules stay as they were.
    pub async fn load_rules(&self) -> Result<(), PolicyError> {
        let shaping = self.0.policy.tsa_load_shaping_data().await?;
        shaping.warnings().iter().for_each(|line| tracing::debug!("shaping: {line}"));
        *self.0.shaping.write().unwrap_or_else(PoisonError::into_inner) = Some(shaping);
        Ok(())
    }

    /// The same; an error is logged.
    pub async fn try_to_load_rules(&self) {
        if let Err(error) = self.load_rules().await {
            tracing::error!("the rules stay as they were: {error}");
        }
    }

    /// Loads rules and keeps effects when it is time, until `stop`; then keeps them once more.
    pub async fn work(self, stop: impl Future<Output = ()>) {
        let load = async {
            let mut ticks = every(LOAD_INTERVAL);
            loop {
                ticks.tick().await;
                self.try_to_load_rules().await;
            }
        };
        let keep = async {
            let mut ticks = every(KEEP_INTERVAL);
            loop {
                ticks.tick().await;
                let keeper = self.clone();
                if let Err(error) = tokio::task::spawn_blocking(move || keeper.keep()).await {
                    tracing::error!("keeping effects: {error}");
                }
            }
        };
        tokio::select! {
            () = stop => {}
            () = load => {}
            () = keep => {}
        }
        self.keep();
    }

    /// What a record sets off is done; false while there are no rules yet.
    pub(crate) fn observe(&self, record: &LogRecord) -> bool {
        let Some(shaping) = self.0.shaping.read().unwrap_or_else(PoisonError::into_inner).clone() else { return false };
        self.0.records.fetch_add(1, Ordering::Relaxed);
        let found = matching(&shaping, record);
        found.failures.iter().for_each(|failure| tracing::warn!("{failure}"));
        if found.rules.is_empty() {
            return true;
        }
        let Observed { told, has_changed, undone } = self.automation().observe(record, &found.rules, now());
        undone.first().into_iter().for_each(|why| self.say_undone(why));
        if has_changed {
            self.0.is_changed.store(true, Ordering::Relaxed);
        }
        for effect in told {
            tracing::info!("{effect}");
            // Without anybody who follows there is nobody to tell; who comes later is told all that is in force.
            let _ = self.0.news.send(Arc::new(effect));
        }
        true
    }

    /// False until policy has loaded rules once.
    pub(crate) fn has_rules(&self) -> bool {
        self.0.shaping.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Log records that were taken.
    pub(crate) fn records(&self) -> u64 {
        self.0.records.load(Ordering::Relaxed)
    }

    /// How many effects are held, and how many counts of those that are not yet.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        self.automation().sizes()
    }

    /// What `look` makes of the effects in force.
    pub(crate) fn in_force<T>(&self, look: impl FnOnce(&mut dyn Iterator<Item = &Effect>) -> T) -> T {
        let automation = self.automation();
        look(&mut automation.effects(now()))
    }

    /// What comes about from now on.
    pub(crate) fn follow(&self) -> Receiver<Arc<Effect>> {
        self.0.news.subscribe()
    }

    /// Says what could not be done, now and then: a rule that asks for what mail does not have does so for each message.
    fn say_undone(&self, why: &str) {
        let now_s = now().unix_seconds();
        let before = self.0.said_undone_s.load(Ordering::Relaxed);
        let is_first =
            || self.0.said_undone_s.compare_exchange(before, now_s, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if now_s.saturating_sub(before) >= UNDONE_INTERVAL_S && is_first() {
            tracing::warn!("not done, and perhaps more of it: {why}");
        }
    }

    /// Forgets what is over, and keeps the rest if it is another than before.
    fn keep(&self) {
        self.automation().expire(now());
        let Some(file) = &self.0.file else { return };
        let _writes = self.0.writes.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.0.is_changed.swap(false, Ordering::Relaxed) {
            return;
        }
        let effects = self.in_force(|effects| effects.cloned().collect());
        if let Err(error) = file.write(effects) {
            self.0.is_changed.store(true, Ordering::Relaxed);
            tracing::error!("{error}");
        }
    }

    fn automation(&self) -> MutexGuard<'_, Automation> {
        self.0.automation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn every(period: Duration) -> Interval {
    let mut ticks = tokio::time::interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// Time between two questions for the rules (KumoMTA behaviour).
const LOAD_INTERVAL: Duration = Duration::from_secs(30);
/// Time between two writings of the file.
const KEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Seconds between two lines about what could not be done.
const UNDONE_INTERVAL_S: i64 = 10;
/// News that a subscriber may be behind; one who is further behind is told all that is in force.
const NEWS_MAX: usize = 1024;
