//! DKIM signers shared by all Lua states, made once per set of options and `ttl`.
//!
//! Every state runs the policy's top level, which usually makes its signers there; without
//! this cache each state would read and check the key again.

use config::{Canonicalization, KeySource, SignerOptions};
use sender_auth::{Signer, SignerParams, SigningKey};
use sender_check::dkim::PublicKey;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use thiserror::Error;

/// The cache.
#[derive(Default)]
pub(crate) struct Signers(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    made: HashMap<String, (Instant, Arc<Checked>)>,
    /// Their names, those made first in front: they go first when there are too many.
    order: VecDeque<String>,
}

/// A signer, and what its signatures are checked with.
#[derive(Debug)]
pub(crate) struct Checked {
    pub signer: Signer,
    /// The public half of its key, when signatures are to be checked before they leave.
    pub public_half: Option<PublicKey>,
}

/// Why there is no signer.
#[derive(Debug, Error)]
pub(crate) enum SignerError {
    #[error("key: {0}")]
    Key(#[from] sender_auth::KeyError),
    #[error("{0}")]
    Signer(#[from] sender_auth::SignerError),
    #[error("key: its public half cannot be read, and `self_check` needs it")]
    NoPublicHalf,
}

impl Signers {
    /// The signer of these options, if there is one that is not too old.
    pub fn find(&self, options: &SignerOptions) -> Option<Arc<Checked>> {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, signer) = cached.made.get(&name_of(options))?;
        (since.elapsed() < options.ttl.get()).then(|| signer.clone())
    }

    /// Makes the signer of these options; `key` is what is behind their key source.
    pub fn make(&self, options: &SignerOptions, key: &[u8]) -> Result<Arc<Checked>, SignerError> {
        let params = params(options, key)?;
        let public_half = options.self_check.then(|| public_half(&params.key)).transpose()?;
        let made = Arc::new(Checked { signer: Signer::new(params)?, public_half });
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.keep(name_of(options), made.clone(), SIGNERS_MAX);
        Ok(made)
    }
}

impl Cached {
    /// Keeps a signer; one more than `most` costs the oldest its place, and nobody else's.
    fn keep(&mut self, name: String, signer: Arc<Checked>, most: usize) {
        if self.made.insert(name.clone(), (Instant::now(), signer)).is_none() {
            self.order.push_back(name);
        }
        if self.made.len() > most
            && let Some(oldest) = self.order.pop_front()
        {
            self.made.remove(&oldest);
        }
    }
}

fn public_half(key: &SigningKey) -> Result<PublicKey, SignerError> {
    let record = key.dns_record().ok_or(SignerError::NoPublicHalf)?;
    PublicKey::parse(record.as_bytes()).map_err(|_| SignerError::NoPublicHalf)
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

/// Signers kept.
const SIGNERS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = include_bytes!("../../sender-auth/tests/keys/ed25519-pkcs8.pem");

    fn options(domain: &str) -> SignerOptions {
        let table = serde_json::json!({"domain": domain, "selector": "s", "headers": ["From"], "key": "k"});
        config::parse("kumo.dkim.ed25519_signer", table).expect("sound options")
    }

    #[test]
    fn one_too_many_costs_the_oldest_alone() {
        let signers = Signers::default();
        let made = signers.make(&options("a.test"), KEY).expect("a signer");
        assert!(made.public_half.is_none());
        let mut cached = Cached::default();
        for name in ["a", "b", "a", "c"] {
            cached.keep(name.to_owned(), made.clone(), 2);
        }
        let mut kept: Vec<&str> = cached.made.keys().map(String::as_str).collect();
        kept.sort_unstable();
        assert_eq!((kept, cached.order.len()), (vec!["b", "c"], 2));
        assert!(signers.find(&options("a.test")).is_some() && signers.find(&options("b.test")).is_none());
    }
}
