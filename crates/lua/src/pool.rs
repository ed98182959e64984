//! The pool of Lua states: checked out per event, returned afterwards (KumoMTA behaviour).
//!
//! A state is retired after so many events or seconds ([`Limits`], which scripts may set),
//! which bounds what a leaky script or a lazy collector can pile up and lets new data that the
//! top level reads come in; one whose handler failed is never returned. Loading a policy into
//! a new state costs some 100 us, a check-out a lock and a pop.

use crate::context::Context;
use crate::error::LoadError;
use std::collections::VecDeque;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use watched::Watched;

/// States that nobody uses now.
pub(crate) struct Pool {
    spare: Watched<Spare>,
    /// States of an earlier one are not used again.
    generation: AtomicU64,
}

#[derive(Default)]
struct Spare {
    /// Those used last are behind.
    states: VecDeque<Context>,
    limits: Limits,
}

/// How long states live and how many are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Events served before a state is retired (`kumo.set_max_lua_context_use_count`).
    pub uses_max: u32,
    /// Age at which a state is retired (`kumo.set_max_lua_context_age`).
    pub age_max: Duration,
    /// States kept for later (`kumo.set_max_spare_lua_contexts`).
    pub spare_max: usize,
}

impl Default for Limits {
    /// KumoMTA's.
    fn default() -> Limits {
        Limits { uses_max: 1024, age_max: Duration::from_secs(300), spare_max: 8192 }
    }
}

impl Pool {
    /// An empty pool.
    pub fn new(limits: Limits) -> Pool {
        let spare = Spare { states: VecDeque::new(), limits };
        Pool { spare: Watched::new(spare), generation: AtomicU64::new(0) }
    }

    /// Another with some of the spare states of this one, which go on in there; the others end.
    pub fn parted(&self) -> Pool {
        let mut mine = self.spare();
        let (mut states, limits) = (std::mem::take(&mut mine.states), mine.limits);
        drop(mine);
        drop(states.drain(..states.len().saturating_sub(PARTED_MAX)));
        Pool { spare: Watched::new(Spare { states, limits }), generation: AtomicU64::new(self.generation()) }
    }

    /// A spare state, or a new one made by `load`.
    pub fn check_out(&self, load: impl FnOnce() -> Result<Context, LoadError>) -> Result<Context, LoadError> {
        self.take_spare().map_or_else(load, Ok)
    }

    /// A spare state, if there is one: the one used last, whose memory is warm. Those that have grown old meanwhile end.
    pub fn take_spare(&self) -> Option<Context> {
        let mut old = Vec::new();
        let mut spare = self.spare();
        let age_max = spare.limits.age_max;
        // It takes a while to end them: a few at a time, and not under the lock.
        while old.len() < OLD_AT_ONCE {
            let taken = spare.states.pop_back()?;
            if taken.loaded_at.elapsed() < age_max {
                drop(spare);
                return Some(taken);
            }
            old.push(taken);
        }
        drop(spare);
        None
    }

    /// From now on these count.
    pub fn limit(&self, limits: Limits) {
        self.spare().limits = limits;
    }

    /// The generation that new states belong to.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Every state there is, in use or not, is not used again.
    pub fn retire_all(&self) {
        let mut spare = self.spare();
        self.generation.fetch_add(1, Ordering::AcqRel);
        let ended = std::mem::take(&mut spare.states);
        drop(spare);
        drop(ended);
    }

    /// Takes a state back unless it has served long enough.
    pub fn put_back(&self, mut context: Context) {
        context.uses = context.uses.saturating_add(1);
        let mut spare = self.spare();
        let Limits { uses_max, age_max, spare_max } = spare.limits;
        let is_done = context.uses >= uses_max || context.loaded_at.elapsed() >= age_max;
        let mut ended = Vec::new();
        if !is_done && context.generation == self.generation() && spare.states.len() < spare_max {
            spare.states.push_back(context);
        } else {
            ended.push(context);
        }
        // Those that nobody has needed for long: without them the pool would stay as large as it ever was.
        while ended.len() < OLD_AT_ONCE
            && let Some(old) = spare.states.pop_front_if(|state| state.loaded_at.elapsed() >= age_max)
        {
            ended.push(old);
        }
        drop(spare);
        // It takes a while to end them.
        drop(ended);
    }

    /// Ends all spare states that are old, for when memory is short and nothing comes that would.
    pub fn end_old(&self) {
        let mut spare = self.spare();
        let age_max = spare.limits.age_max;
        let (old, young): (VecDeque<_>, _) =
            std::mem::take(&mut spare.states).into_iter().partition(|state| state.loaded_at.elapsed() >= age_max);
        spare.states = young;
        drop(spare);
        drop(old);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spare().states.len()
    }

    /// How often somebody found it locked.
    pub fn lock_waits(&self) -> u64 {
        self.spare.waits()
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock()
    }
}

/// Old states that one event ends.
const OLD_AT_ONCE: usize = 8;
/// States that a policy which gives way goes on with, for what is left to it.
const PARTED_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    /// Those that nobody has used for long are as old as the others.
    #[test]
    fn spare_states_end_with_their_age() {
        let second = Duration::from_secs(1);
        let pool = Pool::new(Limits { age_max: second * 60, ..Limits::default() });
        let aged = |seconds: u32| {
            let mut state = Context::bare();
            state.loaded_at = state.loaded_at.checked_sub(second * seconds).expect("the machine is up that long");
            state
        };
        pool.spare().states.extend([5, 61, 30, 70, 62].map(aged));
        let age = |state: Context| state.loaded_at.elapsed().as_secs() / 5 * 5;
        assert_eq!([pool.take_spare().map(age), pool.take_spare().map(age)], [Some(30), Some(5)]);
        assert!(pool.take_spare().is_none() && pool.spare().states.is_empty());
        // Whoever puts one back ends those that nobody needs; where nobody comes, who looks after memory does.
        pool.spare().states.extend([70, 30, 65].map(aged));
        pool.put_back(aged(1));
        let ages =
            || pool.spare().states.iter().map(|state| state.loaded_at.elapsed().as_secs() / 5 * 5).collect::<Vec<_>>();
        assert_eq!(ages(), [30, 65, 0]);
        pool.end_old();
        assert_eq!(ages(), [30, 0]);
        pool.spare().states.clear();
        // So many are kept, and no more.
        pool.limit(Limits { spare_max: 1, ..Limits::default() });
        (0..2).for_each(|_| pool.put_back(Context::bare()));
        assert_eq!(pool.spare().states.len(), 1);
    }
}
