//! What of the diagnostic log is written: changed by policy and by operators while the program runs.
//!
//! In: a filter, in the language of `KUMOD_LOG`. Out: it counts from now on, or why it cannot. The log itself is the program's.

use crate::engine::Engine;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Changes the filter; in an error what is wrong with it.
pub type Diagnostics = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Who changes it, and to what it was changed last.
#[derive(Default)]
pub(crate) struct Diagnostic {
    change: OnceLock<Diagnostics>,
    last: Mutex<String>,
}

impl Engine {
    /// From now on the filter can be changed; the first counts.
    pub fn set_diagnostics(&self, change: Diagnostics) {
        let _: Result<(), _> = self.diagnostic.change.set(change);
    }

    /// Changes the filter, unless it is the one that was asked for last: a policy asks for each of its states.
    ///
    /// # Errors
    /// It is no filter, or the log of this program cannot be changed.
    pub fn filter_diagnostics(&self, filter: &str) -> Result<(), String> {
        let change = self.diagnostic.change.get().ok_or("the diagnostic log of this program cannot be changed")?;
        let mut last = self.diagnostic.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != filter {
            change(filter)?;
            filter.clone_into(&mut last);
        }
        Ok(())
    }
}
