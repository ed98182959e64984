//! Throttles that scripts make by name: one hit at a time, counted for the whole process or, in Redis, for all nodes; and
//! there the rates and limits of queues and paths.
//!
//! In: a name and a rate. Out: a [`Verdict`]. The counting is `queue::throttle`'s, the project's one GCRA; here is its memory,
//! [`Local`], with a bound, and the same in Redis. While Redis does not answer each node goes on by itself, from what it
//! took itself before. Never fails a hit. Deliberately absent: what is done about a refusal.

mod client;
mod limits;
mod local;
mod redis;
mod scripts;
mod server;
mod times;
mod verdict;

pub use crate::redis::ShareError;
pub use client::{RedisClient, Reply};
pub use limits::{Asker, Holder, LeaseAnswer, NamedRates, WANTED_MS};
pub use local::{Local, NAMES_MAX};
pub use verdict::Verdict;

use crate::redis::Redis;
use clock::{Duration, Instant};
use config::{RedisThrottles, ThrottleSpec};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use watched::Times;

/// All throttles of one process.
pub struct Throttles {
    local: Local,
    shared: OnceLock<Redis>,
    began: std::time::Instant,
    waited_for: AtomicBool,
}

impl Default for Throttles {
    fn default() -> Throttles {
        Throttles {
            local: Local::default(),
            shared: OnceLock::new(),
            began: std::time::Instant::now(),
            waited_for: AtomicBool::new(false),
        }
    }
}

impl Throttles {
    /// Shares all throttles that are not `local:` with other nodes, from now on.
    ///
    /// # Errors
    /// The server cannot be reached (KumoMTA behaviour), or one is there already.
    pub async fn share(&self, options: &RedisThrottles) -> Result<(), ShareError> {
        let redis = Redis::connect(options).await?;
        self.will_be_waited_for();
        self.shared.set(redis).map_err(|_| ShareError::Twice)
    }

    /// One hit of the throttle of that name.
    pub async fn hit(&self, name: &str, spec: &ThrottleSpec) -> Verdict {
        let key = key(name, spec);
        let Some(redis) = self.shared.get().filter(|_| !spec.local) else {
            return self.local.hit(&key, &spec.into(), self.now());
        };
        match redis.hit(&key, spec).await {
            Some(verdict) => {
                if !verdict.throttled {
                    self.local.note(&key, &redis.share_of(spec), self.now());
                }
                verdict
            }
            None => self.local.hit(&key, &redis.share_of(spec), self.now()),
        }
    }

    /// The same for who cannot wait: this process alone is asked.
    pub fn hit_here(&self, name: &str, spec: &ThrottleSpec) -> Verdict {
        let rate = match self.shared.get().filter(|_| !spec.local) {
            Some(redis) => redis.share_of(spec),
            None => spec.into(),
        };
        self.local.hit(&key(name, spec), &rate, self.now())
    }

    /// How long questions to the server took that were answered, and those that failed; none where no server is asked.
    pub fn question_times(&self) -> Option<[Times; 2]> {
        self.shared.get().map(Redis::question_times)
    }

    /// True once somebody waits, or may have to, for an answer or for his turn.
    pub fn are_waited_for(&self) -> bool {
        self.waited_for.load(Ordering::Relaxed)
    }

    /// Notes that somebody waits for his turn.
    pub fn will_be_waited_for(&self) {
        self.waited_for.store(true, Ordering::Relaxed);
    }

    /// Time since these throttles were made; never zero, which is when nothing had happened yet.
    fn now(&self) -> Instant {
        Instant::ZERO + self.began.elapsed() + Duration::from_micros(1)
    }
}

/// What a throttle is counted under: a spec that changed is another throttle (KumoMTA behaviour).
fn key(name: &str, spec: &ThrottleSpec) -> String {
    format!("{PREFIX}{name}:{}:{}:{}", spec.limit, spec.burst(), spec.period_s)
}

/// KumoMTA's, for throttles that scripts make.
const PREFIX: &str = "lua-user-throttle-";
