//! Metadata of an inbound connection, shared between its events and copied to its messages.

use access::AuthInfo;
use message::Meta;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cheap handle; clones share one table (KumoMTA's `conn_meta`).
#[derive(Clone, Debug, Default)]
pub struct ConnMeta(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    meta: Mutex<Meta>,
    auth: Mutex<AuthInfo>,
    session_id: Option<Arc<str>>,
}

impl From<Meta> for ConnMeta {
    fn from(meta: Meta) -> ConnMeta {
        ConnMeta(Arc::new(Inner { meta: Mutex::new(meta), ..Inner::default() }))
    }
}

impl ConnMeta {
    /// An empty table.
    pub fn new() -> ConnMeta {
        ConnMeta::default()
    }

    /// An empty table of the session with that id, a UUID.
    pub fn of_session(id: Arc<str>) -> ConnMeta {
        ConnMeta(Arc::new(Inner { session_id: Some(id), ..Inner::default() }))
    }

    /// The session's id, as log records have it; `None` where there is no session.
    pub fn session_id(&self) -> Option<Arc<str>> {
        self.0.session_id.clone()
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

    /// Who the client is, as far as it is known.
    pub fn auth(&self) -> AuthInfo {
        self.0.auth.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on it is known to be this one.
    pub fn set_auth(&self, auth: AuthInfo) {
        *self.0.auth.lock().unwrap_or_else(PoisonError::into_inner) = auth;
    }

    fn lock(&self) -> MutexGuard<'_, Meta> {
        // A panic while holding the lock leaves a whole table: every write is one insert.
        self.0.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
