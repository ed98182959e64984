//! TwoGenerations: a map of bounded size that forgets what has not been used for longest, roughly.
//!
//! Two maps of half the bound each. New and used entries go to the young one; when it is full it becomes the old one and
//! what was old is dropped. Every step is constant time, where a true least-recently-used list would need one link update
//! per look-up and a sweep for the expired would stall whoever triggers it.
//!
//! Cannot fail. Deliberately not here: locking, time.

use std::collections::HashMap;
use std::hash::Hash;

/// A bounded map; see the page above.
pub(crate) struct TwoGenerations<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    half_max: usize,
}

impl<K: Hash + Eq + Clone, V> TwoGenerations<K, V> {
    /// A map of at most `entries_max` entries (at least two).
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), half_max: (entries_max / 2).max(1) }
    }

    /// Looks up, and marks as used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        if !self.young.contains_key(key) {
            let (key, value) = self.old.remove_entry(key)?;
            self.insert(key, value);
        }
        self.young.get(key)
    }

    /// Adds or replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.old.remove(&key);
        if self.young.len() >= self.half_max && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    /// Entries held.
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Drops what is not to be kept.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&V) -> bool) {
        self.young.retain(|_, value| is_kept(value));
        self.old.retain(|_, value| is_kept(value));
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        self.young = HashMap::new();
        self.old = HashMap::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_the_unused_go_first() {
        let mut map = TwoGenerations::new(4);
        for key in 0..4 {
            map.insert(key, key);
        }
        assert_eq!(map.len(), 4, "at the bound everything is there");
        assert_eq!(map.get(&0), Some(&0), "using 0 makes it young");
        map.insert(4, 4);
        assert!(map.len() <= 4, "{}", map.len());
        assert_eq!(map.get(&0), Some(&0));
        assert_eq!(map.get(&1), None);
        for key in 0..1000 {
            map.insert(key, key);
            assert!(map.len() <= 4);
        }
    }

    #[test]
    fn replacing_does_not_count_twice() {
        let mut map = TwoGenerations::new(4);
        for round in 0..10 {
            map.insert("a", round);
            map.insert("b", round);
        }
        assert_eq!(map.len(), 2);
        assert_eq!(map.get(&"a"), Some(&9));
        assert_eq!(map.get(&"b"), Some(&9));
        map.clear();
        assert_eq!((map.len(), map.get(&"a")), (0, None));
    }
}
