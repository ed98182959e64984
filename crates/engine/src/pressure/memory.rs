//! Memory judged: from limits to thresholds, from a sample and the level before it to a level.
//!
//! Levels are left at less than they are entered, so that a server at the edge does not flap.

use config::MemoryLimits;

/// How short memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// There is enough.
    Fine,
    /// What the spool holds leaves memory.
    Low,
    /// No new mail is taken either.
    Stop,
}

impl Level {
    pub(super) fn from_u8(number: u8) -> Level {
        match number {
            0 => Level::Fine,
            1 => Level::Low,
            _ => Level::Stop,
        }
    }
}

/// The limits in octets at which something changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Thresholds {
    pub low: u64,
    pub soft: u64,
    /// Content in progress is given up; never below `soft`.
    pub cut: u64,
}

impl Thresholds {
    /// Limits that nobody gave are never reached.
    pub fn of(limits: MemoryLimits) -> Thresholds {
        let limits = limits.in_force();
        let soft = limits.soft.unwrap_or(u64::MAX);
        let low = limits.low.unwrap_or(u64::MAX);
        let cut = match (limits.hard, limits.soft) {
            (Some(hard), _) => cut_at(soft, hard),
            (None, Some(soft)) => soft.saturating_add(CUT_FAR_OCTETS),
            (None, None) => u64::MAX,
        };
        Thresholds { low, soft, cut }
    }

    /// True from three quarters of the low threshold on.
    pub fn is_nearly_low(&self, used: u64) -> bool {
        used >= self.low - self.low / 4
    }

    /// The level at `used` octets, coming from the level `before`.
    pub fn judge(&self, before: Level, used: u64) -> Level {
        let floor = |entered: u64, at: Level| if before >= at { entered - entered / LEAVE_SHARE } else { entered };
        if used >= floor(self.soft, Level::Stop) {
            Level::Stop
        } else if used >= floor(self.low, Level::Low) {
            Level::Low
        } else {
            Level::Fine
        }
    }
}

/// Nine tenths of the way from soft to hard, but with a reserve for what is not content; the half at least.
fn cut_at(soft: u64, hard: u64) -> u64 {
    let rest = hard - soft;
    let near = soft + rest / 10 * 9;
    near.min(hard.saturating_sub(RESERVE_OCTETS)).max(soft + rest / 2)
}

/// A level is left this part of its threshold below it: one in so many.
const LEAVE_SHARE: u64 = 16;
/// Octets below the hard limit kept for what is not content being received, where limits allow it.
const RESERVE_OCTETS: u64 = 16 << 20;
/// Octets above the soft limit that nobody has: where content is cut when there is no hard limit.
const CUT_FAR_OCTETS: u64 = 1 << 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(hard: u64, soft: u64, low: u64) -> Thresholds {
        Thresholds::of(MemoryLimits { hard: Some(hard), soft: Some(soft), low: Some(low) })
    }

    #[test]
    fn levels_are_entered_at_their_limit_and_left_a_sixteenth_below() {
        let thresholds = of(2000, 1600, 800);
        for (before, used, after) in [
            (Level::Fine, 799, Level::Fine),
            (Level::Fine, 800, Level::Low),
            (Level::Low, 751, Level::Low),
            (Level::Low, 750, Level::Low),
            (Level::Low, 749, Level::Fine),
            (Level::Low, 1599, Level::Low),
            (Level::Low, 1600, Level::Stop),
            (Level::Fine, 1600, Level::Stop),
            (Level::Stop, 1500, Level::Stop),
            (Level::Stop, 1499, Level::Low),
            (Level::Stop, 749, Level::Fine),
        ] {
            assert_eq!(thresholds.judge(before, used), after, "{used} octets after {before:?}");
        }
    }

    #[test]
    fn content_is_cut_near_the_hard_limit_with_a_reserve_where_there_is_room_for_one() {
        const MIB: u64 = 1 << 20;
        assert_eq!(of(4000 * MIB, 3000 * MIB, 1).cut, 3900 * MIB, "nine tenths of the rest");
        assert_eq!(of(200 * MIB, 150 * MIB, 1).cut, 184 * MIB, "the reserve");
        assert_eq!(of(20 * MIB, 16 * MIB, 1).cut, 18 * MIB, "half of the rest");
        assert_eq!(of(5, 5, 5).cut, 5, "never below soft");
    }

    #[test]
    fn without_limits_nothing_is_ever_short() {
        let thresholds = Thresholds::of(MemoryLimits::default());
        assert_eq!(thresholds.judge(Level::Fine, u64::MAX - 1), Level::Fine);
        assert_eq!(thresholds.cut, u64::MAX);
    }
}
