//! DKIM signers shared by all Lua states, made once per set of options and `ttl`.
//!
//! Every state runs the policy's top level, which usually makes its signers there; without
//! this cache each state would read and check the key again. [`SIGNERS_MAX`] are kept; one more takes the place of any other, by lot:
//! if the oldest went, mail of one domain more than there is room for, in turn, would find no signer at all.

use config::{Canonicalization, KeySource, SignerOptions};
use policy::{CacheCounts, SigningTimes};
use sender_auth::{Signer, SignerParams, SigningKey};
use sender_check::dkim::PublicKey;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use thiserror::Error;
use watched::Timing;

/// The cache.
#[derive(Default)]
pub(crate) struct Signers(Mutex<Cached>, Arc<SignerTimes>);

/// How long the parts of signing take.
#[derive(Debug, Default)]
pub(crate) struct SignerTimes {
    pub creation: Timing,
    pub key_fetch: Timing,
    pub sign: Timing,
}

#[derive(Default)]
struct Cached {
    /// Where a signer is, by its name.
    places: HashMap<Arc<str>, usize>,
    made: Vec<Made>,
    /// The last number that was drawn.
    lot: u64,
    /// What is counted; how many there are is not.
    counts: CacheCounts,
}

struct Made {
    name: Arc<str>,
    since: Instant,
    signer: Arc<Checked>,
}

/// A signer, and what its signatures are checked with.
#[derive(Debug)]
pub(crate) struct Checked {
    pub signer: Signer,
    /// The public half of its key, when signatures are to be checked before they leave.
    pub public_half: Option<PublicKey>,
    /// Where its signatures are counted.
    pub times: Arc<SignerTimes>,
}

impl SignerTimes {
    /// What was counted, if anything was.
    pub fn so_far(&self) -> Option<SigningTimes> {
        let [creation, key_fetch, sign] = [&self.creation, &self.key_fetch, &self.sign].map(Timing::so_far);
        (creation.count() > 0).then_some(SigningTimes { creation, key_fetch, sign })
    }
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
        let name = name_of(options);
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let made = cached.places.get(name.as_str()).and_then(|place| cached.made.get(*place));
        let found = made.filter(|made| made.since.elapsed() < options.ttl.get()).map(|made| made.signer.clone());
        let Cached { counts, .. } = &mut *cached;
        *(if found.is_some() { &mut counts.hits } else { &mut counts.misses }) += 1;
        found
    }

    /// What is counted of the cache.
    pub fn counts(&self) -> CacheCounts {
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        CacheCounts { len: cached.made.len() as u64, ..cached.counts }
    }

    /// Where it is counted how long signing takes.
    pub fn times(&self) -> &SignerTimes {
        &self.1
    }

    /// Makes the signer of these options; `key` is what is behind their key source.
    pub fn make(&self, options: &SignerOptions, key: &[u8]) -> Result<Arc<Checked>, SignerError> {
        let begun = Instant::now();
        let params = params(options, key)?;
        let public_half = options.self_check.then(|| public_half(&params.key)).transpose()?;
        let made = Arc::new(Checked { signer: Signer::new(params)?, public_half, times: self.1.clone() });
        let name = name_of(options);
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.keep(&name, made.clone(), SIGNERS_MAX);
        cached.counts.populated += 1;
        drop(cached);
        self.1.creation.took(begun.elapsed());
        Ok(made)
    }
}

impl Cached {
    /// Keeps a signer; one more than `most` takes the place of another.
    fn keep(&mut self, name: &str, signer: Arc<Checked>, most: usize) {
        let since = Instant::now();
        if let Some(known) = self.places.get(name).and_then(|place| self.made.get_mut(*place)) {
            (known.since, known.signer) = (since, signer);
            return;
        }
        let name: Arc<str> = name.into();
        let made = Made { name: name.clone(), since, signer };
        let place = if self.made.len() < most { self.made.len() } else { self.draw(most) };
        match self.made.get_mut(place) {
            Some(old) => _ = self.places.remove(&std::mem::replace(old, made).name),
            None => self.made.push(made),
        }
        self.places.insert(name, place);
    }

    /// A number below `end`: who knows the numbers before could tell it, which would be of no use to him (splitmix64).
    fn draw(&mut self, end: usize) -> usize {
        self.lot = self.lot.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.lot ^ (self.lot >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end.max(1) as u64) as usize
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
#[path = "signers_tests.rs"]
mod tests;
