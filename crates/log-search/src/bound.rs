//! How much a question may read that no index points to, and how long it may take.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What is left of it, and what it was not enough for.
#[derive(Debug)]
pub(crate) struct Bound {
    octets_left: u64,
    until: Instant,
    unread: BTreeSet<String>,
}

impl Bound {
    /// All of it.
    pub fn new() -> Bound {
        Bound { octets_left: UNINDEXED_OCTETS_MAX, until: Instant::now() + TIME_MAX, unread: BTreeSet::new() }
    }

    /// Whether so many octets of this segment may be read; when not, it is noted as not read.
    pub fn allows(&mut self, octets: u64, segment: &str) -> bool {
        match self.octets_left.checked_sub(octets) {
            Some(left) => {
                self.octets_left = left;
                true
            }
            None => {
                self.unread.insert(segment.to_owned());
                false
            }
        }
    }

    /// Whether the time is over: nothing more is to be begun.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// A segment that could not be read.
    pub fn pass_over(&mut self, segment: &str) {
        self.unread.insert(segment.to_owned());
    }

    /// The names of segments that were not read, or not to their ends, in order.
    pub fn unread(self) -> Vec<String> {
        self.unread.into_iter().collect()
    }
}

/// Octets on disk of what is not indexed that a question reads at most: about a second's work.
pub const UNINDEXED_OCTETS_MAX: u64 = 64 * 1024 * 1024;

/// How long a question reads.
pub const TIME_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_named() {
        let mut bound = Bound::new();
        assert!(bound.allows(UNINDEXED_OCTETS_MAX - 1, "a"));
        assert!(!bound.allows(2, "c") && !bound.allows(2, "b") && bound.allows(1, "d"));
        assert_eq!(bound.unread(), ["b", "c"]);
    }
}
