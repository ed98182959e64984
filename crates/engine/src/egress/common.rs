//! Equal values kept once: fifty thousand destinations whose policy says the same of all share one copy of it.
//!
//! Compares with the few values that were met last and puts a new one in the place of the oldest; a value nobody shares
//! costs that many comparisons when it is asked for, not per message. Beside them stands what else is one for all of them. Sources are found by their name: a large pool names
//! them in turn, and each would have made room for the others before it is met again. Bounded; nothing can fail.

use crate::egress::patience::Patience;
use config::{EgressPath, EgressSource, QueueConfig};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What destinations may have in common.
#[derive(Debug, Default)]
pub(crate) struct InCommon {
    pub queue_configs: Common<QueueConfig>,
    pub paths: Common<EgressPath>,
    pub sources: Sources,
    /// Names of pools.
    pub pools: Common<str>,
    /// How long mail waits for the configurations of queues.
    pub patience: Patience,
    /// That `enable_dane` is asked for where nobody validates was said.
    pub dane_is_in_vain: OnceLock<()>,
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
        let at = kept.iter().position(|known| **known == *value.as_ref());
        if let Some(known) = at.and_then(|at| kept.remove(at)) {
            // What is met often stays in front, where it is found soon and not displaced.
            kept.push_front(known.clone());
            return known;
        }
        kept.truncate(KEPT_MAX - 1);
        kept.push_front(value.into());
        kept[0].clone()
    }
}

/// The source of each name as it was when it was met last.
#[derive(Debug, Default)]
pub(crate) struct Sources(Mutex<HashMap<String, Arc<EgressSource>>>);

impl Sources {
    /// The copy of `source` that all share who have an equal one of that name.
    pub fn share(&self, source: EgressSource) -> Arc<EgressSource> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&source.name).filter(|known| ***known == source) {
            return known.clone();
        }
        if kept.len() >= SOURCES_MAX {
            kept.retain(|_, known| Arc::strong_count(known) > 1);
        }
        let source = Arc::new(source);
        if kept.len() < SOURCES_MAX {
            kept.insert(source.name.clone(), source.clone());
        }
        source
    }
}

/// Distinct values that are looked through.
const KEPT_MAX: usize = 32;
/// Names that are kept; sources beyond that are not shared.
const SOURCES_MAX: usize = 4096;

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
        let (second, third) = (common.share("second"), common.share("third"));
        for number in 100..100 + KEPT_MAX - 4 {
            common.share(number.to_string());
        }
        assert!(Arc::ptr_eq(&second, &common.share("second")), "the last but four");
        for number in 200..200 + KEPT_MAX - 2 {
            common.share(number.to_string());
        }
        assert!(Arc::ptr_eq(&second, &common.share("second")), "met again, it stood in front");
        assert!(!Arc::ptr_eq(&third, &common.share("third")), "older than that");
        let gone = common.share("5");
        assert_eq!((&*gone, Arc::strong_count(&gone)), ("5", 2), "kept anew");
    }

    #[test]
    fn a_source_is_shared_until_it_changes() {
        let sources = Sources::default();
        let source = |number: u32| EgressSource { name: format!("ip-{number}"), ..EgressSource::unspecified() };
        let first: Vec<_> = (0..100).map(|number| sources.share(source(number))).collect();
        assert!(first.iter().zip(0..).all(|(kept, number)| Arc::ptr_eq(kept, &sources.share(source(number)))));
        let changed = EgressSource { ehlo_domain: Some("other.test".to_owned()), ..source(7) };
        assert_eq!(*sources.share(changed.clone()), changed);
        assert!(!Arc::ptr_eq(&first[7], &sources.share(source(7))));
    }
}
