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
    #[error("key: cannot read `{path}`: {cause}")]
    KeyFile { path: String, cause: std::io::Error },
    #[error("key: {0} is not supported yet: expected a file name or {{key_data = ...}}")]
    KeySource(&'static str),
    #[error("key: {0}")]
    Key(#[from] sender_auth::KeyError),
    #[error("{0}")]
    Signer(#[from] sender_auth::SignerError),
}

impl Signers {
    /// The signer of these options.
    pub fn get(&self, options: &SignerOptions) -> Result<Arc<Signer>, SignerError> {
        let name = format!("{options:?}{:?}", key_digest(&options.key));
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, signer)) = made.get(&name)
            && since.elapsed() < options.ttl.get()
        {
            return Ok(signer.clone());
        }
        let signer = Arc::new(Signer::new(params(options)?)?);
        if made.len() >= SIGNERS_MAX {
            made.clear();
        }
        made.insert(name, (Instant::now(), signer.clone()));
        Ok(signer)
    }
}

fn params(options: &SignerOptions) -> Result<SignerParams, SignerError> {
    let key = Arc::new(SigningKey::from_pem_or_der(&key_bytes(&options.key)?)?);
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

fn key_bytes(source: &KeySource) -> Result<Vec<u8>, SignerError> {
    match source {
        KeySource::File(path) => {
            std::fs::read(path).map_err(|cause| SignerError::KeyFile { path: path.clone(), cause })
        }
        KeySource::Data(bytes) => Ok(bytes.clone()),
        KeySource::Vault { .. } => Err(SignerError::KeySource("a Vault key")),
        KeySource::Event { .. } => Err(SignerError::KeySource("a key from an event")),
    }
}

/// Tells inline keys apart without keeping them in the name; files are named by their path.
fn key_digest(source: &KeySource) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    if let KeySource::Data(bytes) = source {
        bytes.hash(&mut hasher);
    }
    hasher.finish()
}

/// Signers kept; beyond it the cache starts anew.
const SIGNERS_MAX: usize = 100_000;
