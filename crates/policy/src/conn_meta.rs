//! Metadata of an inbound connection, shared between its events and copied to its messages.

use message::Meta;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cheap handle; clones share one table (KumoMTA's `conn_meta`).
#[derive(Clone, Debug, Default)]
pub struct ConnMeta(Arc<Mutex<Meta>>);

impl From<Meta> for ConnMeta {
    fn from(meta: Meta) -> ConnMeta {
        ConnMeta(Arc::new(Mutex::new(meta)))
    }
}

impl ConnMeta {
    /// An empty table.
    pub fn new() -> ConnMeta {
        ConnMeta::default()
    }

    /// A copy of one value; `None` when absent or null.
    pub fn get(&self, name: &str) -> Option<Value> {
        self.lock().get(name).cloned()
    }

    /// Sets one value.
    pub fn set(&self, name: impl Into<String>, value: impl Into<Value>) {
        self.lock().set(name, value);
    }

    /// A copy of the whole table.
    pub fn snapshot(&self) -> Meta {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Meta> {
        // A panic while holding the lock leaves a whole table: every write is one insert.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
