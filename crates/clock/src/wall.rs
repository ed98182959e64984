//! A civil moment: microseconds since 1970-01-01 UTC, no leap seconds.

use core::ops::{Add, Sub};
use core::time::Duration;

/// Civil moment, for what people and disks remember.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(i64);

impl WallTime {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: WallTime = WallTime(0);

    /// From microseconds since 1970.
    pub const fn from_unix_micros(us: i64) -> WallTime {
        WallTime(us)
    }

    /// From whole seconds since 1970.
    pub const fn from_unix_secs(secs: i64) -> WallTime {
        WallTime(secs.saturating_mul(1_000_000))
    }

    /// Microseconds since 1970.
    pub const fn unix_micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since 1970, rounded down.
    pub const fn unix_secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Time passed since `earlier`; zero when `earlier` is later (a clock that was set back).
    pub fn saturating_since(self, earlier: WallTime) -> Duration {
        let us = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_micros(u64::try_from(us.max(0)).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for WallTime {
    type Output = WallTime;
    fn add(self, span: Duration) -> WallTime {
        WallTime(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for WallTime {
    type Output = WallTime;
    fn sub(self, span: Duration) -> WallTime {
        WallTime(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}
