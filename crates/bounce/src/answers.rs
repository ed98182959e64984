//! Answers remembered: a map of bounded size that forgets what has not been used for longest, roughly.
//!
//! Two generations of half the bound each; the young one that is full becomes the old one. Replies repeat: a provider
//! that blocks says so thousands of times with the same words. Texts too long to repeat are not kept.

use std::collections::HashMap;

/// A bounded map from text to an answer.
#[derive(Debug)]
pub(crate) struct Answers<V> {
    young: HashMap<Box<str>, V>,
    old: HashMap<Box<str>, V>,
    half_max: usize,
}

impl<V: Copy> Answers<V> {
    /// At most `entries_max` (rounded down to an even number); none at all for 0 and 1.
    pub fn new(entries_max: usize) -> Self {
        Answers { young: HashMap::new(), old: HashMap::new(), half_max: entries_max / 2 }
    }

    /// Looks up, and marks as used.
    pub fn get(&mut self, text: &str) -> Option<V> {
        if let Some(value) = self.young.get(text) {
            return Some(*value);
        }
        let (text, value) = self.old.remove_entry(text)?;
        self.put(text, value);
        Some(value)
    }

    /// Remembers.
    pub fn insert(&mut self, text: &str, value: V) {
        if self.half_max > 0 && text.len() <= TEXT_OCTETS_MAX {
            self.put(text.into(), value);
        }
    }

    fn put(&mut self, text: Box<str>, value: V) {
        if self.young.len() >= self.half_max && !self.young.contains_key(&text) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(text, value);
    }
}

/// Longest text that is remembered (octets): with 2048 answers, 2 MiB.
pub(crate) const TEXT_OCTETS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_holds_and_the_unused_go_first() {
        let mut answers = Answers::new(4);
        for n in 0..4u32 {
            answers.insert(&n.to_string(), n);
        }
        assert_eq!(answers.get("0"), Some(0), "at the bound everything is there");
        answers.insert("4", 4);
        assert_eq!((answers.get("0"), answers.get("1")), (Some(0), None));
        for n in 0..1000u32 {
            answers.insert(&n.to_string(), n);
            assert!(answers.young.len() + answers.old.len() <= 4);
        }
    }

    #[test]
    fn long_texts_are_not_kept() {
        let mut answers = Answers::new(4);
        for (octets, kept) in [(TEXT_OCTETS_MAX, Some(1)), (TEXT_OCTETS_MAX + 1, None)] {
            answers.insert(&"x".repeat(octets), 1);
            assert_eq!(answers.get(&"x".repeat(octets)), kept);
        }
        let mut none = Answers::new(0);
        none.insert("a", 1);
        assert_eq!(none.get("a"), None);
    }
}
