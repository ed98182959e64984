//! The real clocks: the only place of the mail path that reads time.

use ::clock::{Instant, Now, WallTime};
use std::time::{SystemTime, UNIX_EPOCH};

/// Reads both clocks and translates deadlines for the runtime's timers.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock whose monotonic origin is now.
    pub fn start() -> Clock {
        Clock { origin: tokio::time::Instant::now() }
    }

    /// Both clocks, now.
    pub fn now(&self) -> Now {
        Now { mono: self.mono(), wall: self.wall() }
    }

    /// The civil clock, now; before 1970 counts as 1970.
    pub fn wall(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallTime::from_unix_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    /// The monotonic clock, now.
    pub fn mono(&self) -> Instant {
        Instant::from_micros(self.origin.elapsed().as_micros() as u64)
    }

    /// A monotonic moment for the runtime's timers; `None` for never.
    pub fn timer(&self, at: Instant) -> Option<tokio::time::Instant> {
        (at < Instant::NEVER).then(|| self.origin + std::time::Duration::from_micros(at.as_micros()))
    }

    /// Completes at `at`; never for [`Instant::NEVER`].
    pub async fn sleep_until(&self, at: Instant) {
        match self.timer(at) {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}
