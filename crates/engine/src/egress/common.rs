//! Equal values kept once: fifty thousand destinations whose policy says the same of all share one copy of it.
//!
//! Compares with the few values that were kept last and puts a new one in the place of the oldest; a value nobody shares
//! costs that many comparisons when it is asked for, not per message. Bounded; nothing can fail.

use config::{EgressPath, EgressSource, QueueConfig};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// What destinations may have in common.
#[derive(Debug, Default)]
pub(crate) struct InCommon {
    pub queue_configs: Common<QueueConfig>,
    pub paths: Common<EgressPath>,
    pub sources: Common<EgressSource>,
    /// Names of pools.
    pub pools: Common<str>,
}

/// The last distinct values of one kind.
#[derive(Debug)]
pub(crate) struct Common<T: ?Sized>(Mutex<VecDeque<Arc<T>>>);

impl<T: ?Sized> Default for Common<T> {
    fn default() -> Self {
        Common(Mutex::default())
    }
}

impl<T: ?Sized + PartialEq> Common<T> {
    /// The copy of `value` that all share who have an equal one.
    pub fn share(&self, value: impl Into<Arc<T>> + AsRef<T>) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|known| **known == *value.as_ref()) {
            // What is met often stays in front, where it is found soon and not displaced.
            kept.swap(0, at);
            return kept[0].clone();
        }
        kept.truncate(KEPT_MAX - 1);
        kept.push_front(value.into());
        kept[0].clone()
    }
}

/// Distinct values that are looked through.
const KEPT_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_rare_ones_make_room() {
        let common = Common::<str>::default();
        let first = common.share("the usual");
        for number in 0..100 {
            let other = common.share(number.to_string());
            assert_eq!(
                (&*other, Arc::ptr_eq(&first, &common.share("the usual".to_owned()))),
                (&*number.to_string(), true)
            );
        }
        assert_eq!(common.0.lock().expect("sound").len(), KEPT_MAX);
        let gone = common.share("5");
        assert_eq!((&*gone, Arc::strong_count(&gone)), ("5", 2), "kept anew");
    }
}
