//! The pool of Lua states: checked out per event, returned afterwards (KumoMTA behaviour).
//!
//! A state is retired after so many events or seconds ([`Limits`], which scripts may set),
//! which bounds what a leaky script or a lazy collector can pile up and lets new data that the
//! top level reads come in; one whose handler failed is never returned. Loading a policy into
//! a new state costs some 100 us, a check-out a lock and a pop.

use crate::context::Context;
use crate::error::LoadError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// States that nobody uses now.
pub(crate) struct Pool {
    spare: Mutex<Vec<Context>>,
    limits: Limits,
    /// States of an earlier one are not used again.
    generation: AtomicU64,
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
        Pool { spare: Mutex::default(), limits, generation: AtomicU64::new(0) }
    }

    /// Another with some of the spare states of this one, which go on in there; the others end.
    pub fn parted(&self) -> Pool {
        let mut spare = std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner));
        // Those used last are behind.
        spare.drain(..spare.len().saturating_sub(PARTED_MAX));
        Pool { spare: Mutex::new(spare), limits: self.limits, generation: AtomicU64::new(self.generation()) }
    }

    /// A spare state, or a new one made by `load`.
    pub fn check_out(&self, load: impl FnOnce() -> Result<Context, LoadError>) -> Result<Context, LoadError> {
        self.take_spare().map_or_else(load, Ok)
    }

    /// A spare state, if there is one: the one used last, whose memory is warm.
    pub fn take_spare(&self) -> Option<Context> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// The generation that new states belong to.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Every state there is, in use or not, is not used again.
    pub fn retire_all(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::AcqRel);
        spare.clear();
    }

    /// Takes a state back unless it has served long enough.
    pub fn put_back(&self, mut context: Context) {
        context.uses = context.uses.saturating_add(1);
        if context.uses >= self.limits.uses_max || context.loaded_at.elapsed() >= self.limits.age_max {
            return;
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if context.generation != self.generation() {
            return;
        }
        if spare.len() < self.limits.spare_max {
            spare.push(context);
        }
    }
}

/// States that a policy which gives way goes on with, for what is left to it.
const PARTED_MAX: usize = 8;
