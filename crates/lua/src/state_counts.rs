//! How many Lua states there are, and how many there were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The count, shared by all states of a policy.
#[derive(Debug, Default)]
pub(crate) struct StateCount {
    alive: AtomicU64,
    loaded: AtomicU64,
}

/// Lives as long as a state.
#[derive(Debug)]
pub(crate) struct Alive(Arc<StateCount>);

impl StateCount {
    /// One more.
    pub fn one(self: &Arc<Self>) -> Alive {
        self.alive.fetch_add(1, Ordering::Relaxed);
        self.loaded.fetch_add(1, Ordering::Relaxed);
        Alive(self.clone())
    }

    /// Those that live, and all that ever did.
    pub fn so_far(&self) -> [u64; 2] {
        [&self.alive, &self.loaded].map(|count| count.load(Ordering::Relaxed))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_counts_as_long_as_it_lives() {
        let count = Arc::new(StateCount::default());
        let (one, two) = (count.one(), count.one());
        drop(one);
        assert_eq!(count.so_far(), [1, 2]);
        drop(two);
        assert_eq!(count.so_far(), [0, 2]);
    }
}
