//! What handlers of `get_acl_definition` said of resources, for as long as that holds.

use access::AccessControlList;
use config::AclSettings;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What all states of a policy know of it.
#[derive(Default)]
pub(crate) struct Acls(Mutex<Known>);

#[derive(Default)]
struct Known {
    settings: AclSettings,
    said: HashMap<String, (Instant, Option<Arc<AccessControlList>>)>,
}

impl Acls {
    /// A policy was read: what an earlier one said is forgotten.
    pub fn begin(&self, settings: AclSettings) {
        *self.known() = Known { settings, said: HashMap::new() };
    }

    /// Whether built-in lists decide where nothing was said.
    pub fn falls_back(&self) -> bool {
        self.known().settings.falls_back
    }

    /// What was said, unless that is too long ago.
    pub fn recall(&self, resource: &str) -> Option<Option<Arc<AccessControlList>>> {
        let known = self.known();
        let (at, said) = known.said.get(resource)?;
        (at.elapsed() < known.settings.cache_ttl.get()).then(|| said.clone())
    }

    /// Something was said.
    pub fn note(&self, resource: String, said: Option<Arc<AccessControlList>>) {
        let mut known = self.known();
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
