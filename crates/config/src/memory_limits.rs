//! How much memory the process may use.
//!
//! Owns [`MemoryLimits`]: the hard limit, the soft limit from which no mail is taken, and the threshold from which bodies
//! leave memory. In: what the system, the environment and `kumo.set_memory_*` say. Out: all three, those nobody gave
//! derived as KumoMTA derives them. It measures nothing.

/// Limits in octets; `None` for what nobody gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MemoryLimits {
    /// What must never be reached.
    pub hard: Option<u64>,
    /// From here on no new mail is taken. Default: 75 % of hard.
    pub soft: Option<u64>,
    /// From here on bodies leave memory. Default: 80 % of soft.
    pub low: Option<u64>,
}

impl MemoryLimits {
    /// These limits, and those of `others` for what these do not give.
    pub fn or(self, others: MemoryLimits) -> MemoryLimits {
        MemoryLimits { hard: self.hard.or(others.hard), soft: self.soft.or(others.soft), low: self.low.or(others.low) }
    }

    /// The limits that hold: derived where nobody gave one, in order (low <= soft <= hard).
    pub fn in_force(self) -> MemoryLimits {
        let within = |limit: u64, above: Option<u64>| above.map_or(limit, |above| limit.min(above));
        let soft = self.soft.or(self.hard.map(|hard| percent(hard, SOFT_PERCENT)));
        let soft = soft.map(|soft| within(soft, self.hard));
        let low = self.low.or(soft.map(|soft| percent(soft, LOW_PERCENT)));
        MemoryLimits { hard: self.hard, soft, low: low.map(|low| within(low, soft)) }
    }
}

fn percent(whole: u64, percent: u64) -> u64 {
    u64::try_from(u128::from(whole) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// Of the hard limit.
const SOFT_PERCENT: u64 = 75;
/// Of the soft limit.
const LOW_PERCENT: u64 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(hard: u64, soft: u64, low: u64) -> MemoryLimits {
        let given = |n| (n > 0).then_some(n);
        MemoryLimits { hard: given(hard), soft: given(soft), low: given(low) }
    }

    #[test]
    fn what_is_not_given_is_derived_and_the_order_holds() {
        for (given, in_force) in [
            (limits(1000, 0, 0), limits(1000, 750, 600)),
            (limits(1000, 500, 0), limits(1000, 500, 400)),
            (limits(1000, 0, 100), limits(1000, 750, 100)),
            (limits(1000, 2000, 3000), limits(1000, 1000, 1000)),
            (limits(0, 100, 0), limits(0, 100, 80)),
            (limits(0, 0, 7), limits(0, 0, 7)),
            (limits(0, 0, 0), limits(0, 0, 0)),
        ] {
            assert_eq!(given.in_force(), in_force, "{given:?}");
        }
        let most = limits(u64::MAX, 0, 0).in_force();
        assert!(most.soft > Some(u64::MAX / 4 * 2) && most.low < most.soft, "{most:?}");
    }

    #[test]
    fn the_nearer_word_counts() {
        assert_eq!(limits(0, 5, 0).or(limits(10, 7, 6)), limits(10, 5, 6));
    }
}
