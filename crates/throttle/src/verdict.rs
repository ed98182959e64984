//! What a throttle says to one hit.

use clock::Duration;

/// The answer to one hit; the fields are those of KumoMTA's `throttle:throttle()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// True when the hit was refused; it was not counted then.
    pub throttled: bool,
    /// How many hits are admitted at once.
    pub limit: u64,
    /// How many more would be admitted now.
    pub remaining: u64,
    /// Until all is as if nothing had happened.
    pub reset_after: Duration,
    /// How long to wait before asking again; `None` for a hit that was admitted.
    pub retry_after: Option<Duration>,
}
