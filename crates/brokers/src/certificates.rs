//! Whom we believe, and who we are, on connections to brokers.

use net::tls::{Connectors, TlsError};
use rustls::ClientConfig;
use std::sync::Arc;

/// What a script says of TLS, as it was read.
#[derive(Clone, Default)]
pub struct Certificates {
    /// PEM of who may vouch for the server; the system's when absent.
    pub roots: Option<Vec<u8>>,
    /// PEM of a certificate of our own and of its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// How to be a TLS client with them.
    pub(crate) fn config(&self, connectors: &Connectors) -> Result<Arc<ClientConfig>, TlsError> {
        let identity = self.identity.as_ref().map(|(certificate, key)| (&certificate[..], &key[..]));
        connectors.private(self.roots.as_deref(), identity)
    }
}
