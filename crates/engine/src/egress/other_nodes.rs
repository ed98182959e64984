//! What this node keeps in mind of others to which mail is transferred: what they are to be told, and which of them do not answer.
//!
//! A node that lets one request time out is left alone for a while, and then asked by one task only: else everybody who ends mail
//! would wait for it, one after the other, and so would all other mail that ends. Only known in memory.

use crate::egress::partings::Partings;
use ::clock::{Duration, Instant};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct OtherNodes {
    pub partings: Partings,
    pub silences: Silences,
}

/// Nodes that did not answer, and until when nobody asks them.
#[derive(Debug, Default)]
pub(crate) struct Silences(Mutex<HashMap<String, Instant>>);

impl Silences {
    /// Whether a node is to be asked now. Of one that did not answer the last time only who is told so first asks it again.
    pub fn may_ask(&self, target: &str, now: Instant) -> bool {
        match self.lock().get_mut(target) {
            Some(until) if *until > now => false,
            Some(until) => {
                *until = now + SILENT_FOR;
                true
            }
            None => true,
        }
    }

    /// It answered, or failed so soon that it takes nobody's time.
    pub fn answered(&self, target: &str) {
        self.lock().remove(target);
    }

    /// It did not answer in time.
    pub fn did_not_answer(&self, target: &str, now: Instant) {
        let mut all = self.lock();
        all.retain(|_, until| *until + SILENT_FOR > now);
        if all.len() < SILENT_MAX || all.contains_key(target) {
            all.insert(target.to_owned(), now + SILENT_FOR);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For how long a node is left alone.
const SILENT_FOR: Duration = Duration::from_secs(30);
/// Nodes of which it is known.
const SILENT_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_answer_is_left_alone_and_then_asked_by_one() {
        let (silences, now) = (Silences::default(), Instant::ZERO + Duration::from_secs(100));
        let later = |seconds: u64| now + Duration::from_secs(seconds);
        assert!(silences.may_ask("a", now) && silences.may_ask("a", now), "nothing is known of it");
        silences.did_not_answer("a", now);
        assert!(!silences.may_ask("a", later(29)) && silences.may_ask("b", later(29)));
        assert!(silences.may_ask("a", later(30)), "one asks");
        assert!(!silences.may_ask("a", later(30)), "and nobody else meanwhile");
        assert!(silences.may_ask("a", later(60)), "whatever became of him");
        silences.answered("a");
        assert!(silences.may_ask("a", later(60)) && silences.may_ask("a", later(60)));
    }

    #[test]
    fn so_many_are_known() {
        let (silences, now) = (Silences::default(), Instant::ZERO);
        (0..SILENT_MAX + 2).for_each(|n| silences.did_not_answer(&n.to_string(), now));
        assert_eq!(silences.lock().len(), SILENT_MAX);
        silences.did_not_answer("a", now + SILENT_FOR * 2);
        assert_eq!(silences.lock().len(), 1, "those of long ago are forgotten");
    }
}
