//! The policy of a program started without one: KumoMTA's defaults and nothing else.

use crate::{Interest, Policy};

/// Handles no event: relaying for the listener's `relay_hosts`, delivery by MX, default
/// retries and limits.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticPolicy;

impl Policy for StaticPolicy {
    fn interest(&self) -> Interest {
        Interest::NONE
    }
}
