//! Throttles that scripts make by name: one hit at a time, counted for the whole process.
//!
//! In: a name and a rate. Out: a [`Verdict`]. The counting is `queue::throttle`'s, the project's one GCRA; here is its memory,
//! [`Local`], with a bound. Deliberately absent: what is done about a refusal.

mod local;
mod verdict;

pub use local::{Local, NAMES_MAX};
pub use verdict::Verdict;

use clock::{Duration, Instant};
use config::ThrottleSpec;
use std::sync::atomic::{AtomicBool, Ordering};

/// All throttles of one process.
#[derive(Debug)]
pub struct Throttles {
    local: Local,
    began: std::time::Instant,
    waited_for: AtomicBool,
}

impl Default for Throttles {
    fn default() -> Throttles {
        Throttles { local: Local::default(), began: std::time::Instant::now(), waited_for: AtomicBool::new(false) }
    }
}

impl Throttles {
    /// One hit of the throttle of that name.
    pub async fn hit(&self, name: &str, spec: &ThrottleSpec) -> Verdict {
        self.hit_here(name, spec)
    }

    /// The same for who cannot wait: this process alone is asked.
    pub fn hit_here(&self, name: &str, spec: &ThrottleSpec) -> Verdict {
        self.local.hit(&key(name, spec), &spec.into(), self.now())
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
