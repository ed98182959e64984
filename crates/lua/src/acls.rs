//! What handlers of `get_acl_definition` said of resources, for as long as that holds.

use access::AccessControlList;
use config::AclSettings;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What all states of a policy know of it.
#[derive(Default)]
pub(crate) struct Acls(Mutex<Known>);

/// A reading of the policy.
#[derive(Clone, Copy)]
pub(crate) struct Reading(u64);

#[derive(Default)]
struct Known {
    settings: AclSettings,
    /// How often a policy was read.
    readings: u64,
    said: HashMap<String, (Instant, Option<Arc<AccessControlList>>)>,
}

impl Acls {
    /// A policy was read: what an earlier one said is forgotten.
    pub fn begin(&self, settings: AclSettings) {
        let mut known = self.known();
        *known = Known { settings, readings: known.readings + 1, said: HashMap::new() };
    }

    /// Whether built-in lists decide where nothing was said.
    pub fn falls_back(&self) -> bool {
        self.known().settings.falls_back
    }

    /// What was said, unless that is too long ago; then, which reading of the policy is to be asked.
    pub fn recall(&self, resource: &str) -> Result<Option<Arc<AccessControlList>>, Reading> {
        let known = self.known();
        match known.said.get(resource) {
            Some((at, said)) if at.elapsed() < known.settings.cache_ttl.get() => Ok(said.clone()),
            _ => Err(Reading(known.readings)),
        }
    }

    /// Something was said by that reading, or an earlier one: then it does not hold.
    pub fn note(&self, reading: Reading, resource: String, said: Option<Arc<AccessControlList>>) {
        let mut known = self.known();
        if known.readings != reading.0 {
            return;
        }
        let lasting = known.settings.cache_ttl.get();
        if known.said.len() >= KNOWN_MAX {
            known.said.retain(|_, (at, _)| at.elapsed() < lasting);
        }
        if known.said.len() >= KNOWN_MAX {
            known.said.clear();
        }
        known.said.insert(resource, (Instant::now(), said));
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Most resources that are remembered; clients choose paths, and so resources.
const KNOWN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A handler of the former policy may answer when the next is in force.
    #[test]
    fn what_an_earlier_reading_said_does_not_hold() {
        let acls = Acls::default();
        let list = Some(Arc::new(AccessControlList::default()));
        let Err(reading) = acls.recall("r") else { panic!("nothing was said") };
        acls.note(reading, "r".to_owned(), list.clone());
        assert!(acls.recall("r").is_ok_and(|said| said == list));
        acls.begin(AclSettings::default());
        acls.note(reading, "r".to_owned(), list);
        assert!(acls.recall("r").is_err());
    }
}
