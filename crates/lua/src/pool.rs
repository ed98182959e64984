//! The pool of Lua states: checked out per event, returned on success (KumoMTA behaviour).
//!
//! A state is retired after [`USES_MAX`] events, which bounds what a leaky script or a lazy
//! collector can pile up; one whose handler failed is never returned. Loading a policy into a
//! new state costs some 100 us, a check-out a lock and a pop.

use crate::context::Context;
use crate::error::LoadError;
use std::sync::{Mutex, PoisonError};

/// States that nobody uses now.
#[derive(Default)]
pub(crate) struct Pool {
    spare: Mutex<Vec<Context>>,
}

impl Pool {
    /// A spare state, or a new one made by `load`.
    pub fn check_out(&self, load: impl FnOnce() -> Result<Context, LoadError>) -> Result<Context, LoadError> {
        self.take_spare().map_or_else(load, Ok)
    }

    /// A spare state, if there is one.
    pub fn take_spare(&self) -> Option<Context> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Takes a state back unless it has served long enough.
    pub fn put_back(&self, mut context: Context) {
        context.uses += 1;
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if context.uses < USES_MAX && spare.len() < SPARE_MAX {
            spare.push(context);
        }
    }
}

/// Events served before a state is retired; KumoMTA's `max_lua_context_use_count`.
const USES_MAX: u32 = 1024;
/// States kept for later; KumoMTA's `max_spare_lua_contexts`.
const SPARE_MAX: usize = 8192;
