//! Time as values: the only notion of time below the drivers.
//!
//! This room owns [`Instant`] (monotonic), [`WallTime`] (civil), [`Now`] (both, read together)
//! and the [`TimerWheel`]. Nothing here reads a clock: a driver reads it once per event and
//! passes `now` down, so that sessions and queues can be run for simulated years.
//! Spans are `core::time::Duration`. Arithmetic saturates: a deadline computed from a hostile
//! or absurd span is "never", not a panic.
//!
//! Deliberately absent: formatting of dates (record, engine) and reading of clocks (engine).

mod instant;
mod wall;
mod wheel;

pub use core::time::Duration;
pub use instant::Instant;
pub use wall::WallTime;
pub use wheel::TimerWheel;

/// Both clocks, read at one moment by a driver and handed to a decider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic: for deadlines, retries, rates.
    pub mono: Instant,
    /// Civil: for ages, logs, headers and what is written to disk.
    pub wall: WallTime,
}

impl Now {
    /// Both clocks at their origins; the start of a simulation.
    pub const ZERO: Now = Now { mono: Instant::ZERO, wall: WallTime::EPOCH };

    /// The moment `span` later on both clocks.
    pub fn after(self, span: Duration) -> Now {
        Now { mono: self.mono + span, wall: self.wall + span }
    }

    /// The monotonic moment that corresponds to a civil one, as the clocks stand now.
    /// A civil moment in the past becomes `now`.
    pub fn mono_at(self, wall: WallTime) -> Instant {
        self.mono + wall.saturating_since(self.wall)
    }

    /// The civil moment that corresponds to a monotonic one, as the clocks stand now.
    pub fn wall_at(self, mono: Instant) -> WallTime {
        if mono >= self.mono {
            self.wall + mono.saturating_since(self.mono)
        } else {
            self.wall - self.mono.saturating_since(mono)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_convert_both_ways() {
        let now = Now { mono: Instant::from_micros(5_000_000), wall: WallTime::from_unix_secs(100) };
        let later = now.wall + Duration::from_secs(7);
        assert_eq!(now.mono_at(later), Instant::from_micros(12_000_000));
        assert_eq!(now.wall_at(Instant::from_micros(12_000_000)), later);
        assert_eq!(now.mono_at(WallTime::from_unix_secs(1)), now.mono, "the past is now");
        assert_eq!(now.wall_at(Instant::from_micros(4_000_000)), WallTime::from_unix_secs(99));
    }
}
