//! One sync for all who wait for the same directory.
//!
//! Whoever finds no sync running runs one; the others wait, and share the result of one that began after their change.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The names of one directory, as far as they are durable.
#[derive(Debug, Default)]
pub struct SharedSync {
    state: Mutex<State>,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Changes of names so far.
    changes: u64,
    /// How many of them are durable.
    durable: u64,
    running: bool,
    failures: u64,
}

impl SharedSync {
    /// Notes a change of a name that was just made.
    pub fn changed(&self) {
        self.state().changes += 1;
    }

    /// Syncs that failed so far.
    pub fn failures(&self) -> u64 {
        self.state().failures
    }

    /// Returns once all changes that were noted before the call are durable; `sync` is called when no other call covers them.
    ///
    /// # Errors
    /// That of `sync`, or that another's sync which should have covered them failed.
    pub fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        let (wanted, failures) = (state.changes, state.failures);
        while state.durable < wanted {
            if state.failures != failures {
                return Err(io::Error::other("a sync of this directory failed"));
            }
            if state.running {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.running = true;
            let covered = state.changes;
            drop(state);
            let result = sync();
            state = self.state();
            state.running = false;
            match &result {
                Ok(()) => state.durable = covered,
                Err(_) => state.failures += 1,
            }
            drop(state);
            self.done.notify_all();
            return result;
        }
        Ok(())
    }

    /// Each change under the lock leaves the state whole, so a panic elsewhere does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Barrier, mpsc};
    use std::thread;

    #[test]
    fn nothing_changed_takes_no_sync() {
        let names = SharedSync::default();
        names.sync(|| panic!("there is nothing to sync")).expect("all is durable");
        names.changed();
        names.sync(|| Ok(())).expect("syncs");
        names.sync(|| panic!("it is durable already")).expect("all is durable");
    }

    #[test]
    fn those_who_wait_share_one_sync_that_began_after_their_change() {
        let (names, syncs) = (SharedSync::default(), AtomicU32::new(0));
        let (first_runs, all_wait) = (Barrier::new(2), Barrier::new(2));
        names.changed();
        thread::scope(|scope| {
            scope.spawn(|| {
                let first = names.sync(|| {
                    first_runs.wait();
                    all_wait.wait();
                    syncs.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                });
                first.expect("syncs");
            });
            first_runs.wait();
            // These change names while the first sync runs: it does not cover them.
            let (told, tell) = mpsc::channel();
            for _ in 0..8 {
                let (tell, names, syncs) = (told.clone(), &names, &syncs);
                scope.spawn(move || {
                    names.changed();
                    tell.send(()).expect("somebody listens");
                    names.sync(|| Ok(_ = syncs.fetch_add(1, Ordering::SeqCst))).expect("syncs");
                });
            }
            (0..8).for_each(|_| tell.recv().expect("all begin"));
            assert_eq!(syncs.load(Ordering::SeqCst), 0, "nobody was let go before a sync");
            all_wait.wait();
        });
        let syncs = syncs.load(Ordering::SeqCst);
        assert!((2..=9).contains(&syncs), "{syncs}");
        assert_eq!(names.state().durable, 9);
    }

    #[test]
    fn a_failed_sync_refuses_all_it_should_have_covered_and_is_counted() {
        let names = SharedSync::default();
        let (runs, go_on) = (Barrier::new(2), Barrier::new(2));
        names.changed();
        names.changed();
        thread::scope(|scope| {
            scope.spawn(|| {
                let failed = names.sync(|| {
                    runs.wait();
                    go_on.wait();
                    Err(io::ErrorKind::StorageFull.into())
                });
                assert_eq!(failed.expect_err("refused").kind(), io::ErrorKind::StorageFull);
            });
            runs.wait();
            let before = names.failures();
            scope.spawn(|| go_on.wait());
            // Either it waits for the failure, or comes after it and is told by the count.
            let second = names.sync(|| Ok(()));
            assert!(second.is_err() || names.failures() != before);
        });
        assert_eq!(names.failures(), 1);
        names.changed();
        names.sync(|| Ok(())).expect("a later change may succeed");
    }
}
