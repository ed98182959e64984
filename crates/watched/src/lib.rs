//! What is counted at the place where it happens: a lock that knows how often somebody waited for it, and a histogram of times.
//!
//! Owns [`Timing`] and [`Watched`]: what every message passes and all cores share stands behind one, so that `postrider_lock_waits` says
//! which of them is fought for. In: a value. Out: its guard, and a count that is touched only by who has to wait: a lock that
//! is free costs what a plain one does.
//!
//! Deliberately absent: how long they waited (that would take a clock), and waits on a condition.

mod timing;

pub use timing::{Times, Timing};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// A value behind a lock. Whoever holds it leaves the value whole at every step: a panic elsewhere does not spoil it.
#[derive(Debug, Default)]
pub struct Watched<T> {
    inner: Mutex<T>,
    waits: AtomicU64,
}

impl<T> Watched<T> {
    /// Around a value.
    pub const fn new(value: T) -> Watched<T> {
        Watched { inner: Mutex::new(value), waits: AtomicU64::new(0) }
    }

    /// The value, when nobody else has it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match self.inner.try_lock() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(value)) => value.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.waits.fetch_add(1, Ordering::Relaxed);
                self.inner.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// How often somebody found it taken.
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_it_taken_waits_and_is_counted() {
        let watched = Watched::new(0);
        *watched.lock() += 1;
        assert_eq!(watched.waits(), 0);
        std::thread::scope(|scope| {
            let mut held = watched.lock();
            let other = scope.spawn(|| *watched.lock());
            while watched.waits() == 0 {
                std::thread::yield_now();
            }
            *held = 7;
            drop(held);
            assert_eq!(other.join().expect("no panic"), 7);
        });
        assert_eq!((*watched.lock(), watched.waits()), (7, 1));
    }

    #[test]
    fn a_panic_elsewhere_does_not_close_it() {
        let watched = Watched::new(3);
        let panics = || {
            let _held = watched.lock();
            panic!("while it is held");
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("it panicked");
        assert_eq!((*watched.lock(), watched.waits()), (3, 0));
    }
}
