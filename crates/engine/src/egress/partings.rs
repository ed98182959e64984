//! Transferred messages that this node has forgotten, until the nodes that have them are told: those keep what became of each until
//! then.
//!
//! Only known in memory: what is not told is forgotten there in time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Their origins, by target.
#[derive(Debug, Default)]
pub(crate) struct Partings(Mutex<HashMap<String, Vec<String>>>);

/// Those that a target is being told; dropped before [`Telling::done`], they are to be told yet.
#[derive(Debug)]
pub(crate) struct Telling<'a> {
    partings: &'a Partings,
    target: &'a str,
    origins: Vec<String>,
}

impl Telling<'_> {
    pub fn origins(&self) -> &[String] {
        &self.origins
    }

    /// They are told.
    pub fn done(mut self) {
        self.origins.clear();
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.partings.keep(self.target, std::mem::take(&mut self.origins));
    }
}

impl Partings {
    /// A message is forgotten here, as soon as the marks so far are durable. Beyond [`KEPT_MAX`] it is not told.
    pub fn add(&self, target: &str, origin: String) {
        self.keep(target, vec![origin]);
    }

    /// How many a target is to be told.
    pub fn count(&self, target: &str) -> usize {
        self.lock().get(target).map_or(0, Vec::len)
    }

    /// Some of them, once the marks so far are durable; `None` when there is none.
    pub fn tell<'a>(&'a self, target: &'a str) -> Option<Telling<'a>> {
        let mut all = self.lock();
        let of_target = all.get_mut(target)?;
        let origins = of_target.split_off(of_target.len().saturating_sub(TOLD_MAX));
        if of_target.is_empty() {
            all.remove(target);
        }
        Some(Telling { partings: self, target, origins })
    }

    fn keep(&self, target: &str, origins: Vec<String>) {
        let mut all = self.lock();
        if origins.is_empty() || (all.len() >= TARGETS_MAX && !all.contains_key(target)) {
            return;
        }
        let of_target = all.entry(target.to_owned()).or_default();
        let room = KEPT_MAX.saturating_sub(of_target.len());
        of_target.extend(origins.into_iter().take(room));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Origins of a target that are kept.
const KEPT_MAX: usize = 4096;
/// Targets of which they are.
const TARGETS_MAX: usize = 256;
/// Origins that are told at once.
const TOLD_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(partings: &Partings, target: &str) -> Vec<String> {
        let Some(telling) = partings.tell(target) else { return Vec::new() };
        let origins = telling.origins().to_vec();
        telling.done();
        origins
    }

    #[test]
    fn each_is_told_once_to_its_target() {
        let partings = Partings::default();
        assert!(partings.tell("a").is_none());
        ["1", "2"].into_iter().for_each(|origin| partings.add("a", origin.to_owned()));
        partings.add("b", "3".to_owned());
        drop(partings.tell("a"));
        assert_eq!(partings.count("a"), 2, "nobody heard it");
        assert_eq!([told(&partings, "a"), told(&partings, "a")], [vec!["1".to_owned(), "2".to_owned()], vec![]]);
        assert_eq!(told(&partings, "b"), ["3"]);
        assert!(partings.lock().is_empty(), "nothing is kept of targets that are done with");
    }

    #[test]
    fn only_so_many_are_kept_and_told_at_once() {
        let partings = Partings::default();
        (0..KEPT_MAX + 5).for_each(|n| partings.add("a", n.to_string()));
        assert_eq!((partings.count("a"), told(&partings, "a").len()), (KEPT_MAX, TOLD_MAX));
        let rest = std::iter::from_fn(|| Some(told(&partings, "a").len()).filter(|n| *n > 0));
        assert_eq!(rest.sum::<usize>(), KEPT_MAX - TOLD_MAX);
        (0..TARGETS_MAX + 5).for_each(|n| partings.add(&n.to_string(), "1".to_owned()));
        assert_eq!(partings.lock().len(), TARGETS_MAX);
        partings.add("0", "2".to_owned());
        assert_eq!(told(&partings, "0").len(), 2, "a known target");
    }
}
