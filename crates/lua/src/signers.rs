//! DKIM signers shared by all Lua states, made once per set of options and `ttl`.
//!
//! Every state runs the policy's top level, which usually makes its signers there; without
//! this cache each state would read and check the key again.

use config::{Canonicalization, KeySource, SignerOptions};
use sender_auth::{Signer, SignerParams, SigningKey};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use thiserror::Error;

/// The cache.
#[derive(Default)]
pub(crate) struct Signers {
    made: Mutex<HashMap<String, (Instant, Arc<Signer>)>>,
}

/// Why there is no signer.
#[derive(Debug, Error)]
pub(crate) enum SignerError {
    #[error("key: {0}")]
    Key(#[from] sender_auth::KeyError),
    #[error("{0}")]
    Signer(#[from] sender_auth::SignerError),
}

impl Signers {
    /// The signer of these options, if there is one that is not too old.
    pub fn find(&self, options: &SignerOptions) -> Option<Arc<Signer>> {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, signer) = made.get(&name_of(options))?;
        (since.elapsed() < options.ttl.get()).then(|| signer.clone())
    }

    /// Makes the signer of these options; `key` is what is behind their key source.
    pub fn make(&self, options: &SignerOptions, key: &[u8]) -> Result<Arc<Signer>, SignerError> {
        let signer = Arc::new(Signer::new(params(options, key)?)?);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= SIGNERS_MAX {
            made.clear();
        }
        made.insert(name_of(options), (Instant::now(), signer.clone()));
        Ok(signer)
    }
}

fn name_of(options: &SignerOptions) -> String {
    format!("{options:?}{:?}", key_digest(&options.key))
}

fn params(options: &SignerOptions, key: &[u8]) -> Result<SignerParams, SignerError> {
    let key = Arc::new(SigningKey::from_pem_or_der(key)?);
    let headers: Vec<&str> = options.headers.iter().map(String::as_str).collect();
    let mut params = SignerParams::new(&options.domain, &options.selector, &headers, key);
    params.header_canonicalization = canonicalization(options.header_canonicalization);
    params.body_canonicalization = canonicalization(options.body_canonicalization);
    params.over_sign = options.over_sign;
    params.expiration_secs = options.expiration;
    Ok(params)
}

fn canonicalization(chosen: Canonicalization) -> sender_auth::Canonicalization {
    match chosen {
        Canonicalization::Relaxed => sender_auth::Canonicalization::Relaxed,
        Canonicalization::Simple => sender_auth::Canonicalization::Simple,
    }
}

/// Tells inline keys and tokens apart without keeping them in the name; all else is in there.
fn key_digest(source: &KeySource) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    match source {
        KeySource::Data(bytes) => bytes.hash(&mut hasher),
        KeySource::Vault { token, .. } => token.hash(&mut hasher),
        KeySource::File(_) | KeySource::Event { .. } => {}
    }
    hasher.finish()
}

/// Signers kept; beyond it the cache starts anew.
const SIGNERS_MAX: usize = 100_000;
