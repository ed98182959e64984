//! Sender authentication: what proves who sent a message. DKIM signatures and those of ARC sets, made.
//!
//! Owns: signing keys read from PEM or DER, signers, the two canonicalizations, body hashes.
//! In: header fields and body bytes of a message about to be sealed, and the time. Out: a complete
//! `DKIM-Signature` field to prepend.
//! Can fail: unusable keys ([`KeyError`]) and signer options ([`SignerError`]) when they are loaded;
//! signing itself only by absurd header counts or a fault in the crypto library ([`SignError`]).
//!
//! Deliberately does not: read files, keep caches with lifetimes, look at a clock, ask DNS, or judge
//! signatures of others (`sender-check` does, with the canonical forms of this crate).

mod dkim;

pub use dkim::arc::{ArcSealed, ChainValidation};
pub use dkim::body::{BodyHash, BodyHashes, limited_body_hash};
pub use dkim::der;
pub use dkim::headers::{push_field, push_verified_field};
pub use dkim::key::{Algorithm, KeyError, SigningKey};
pub use dkim::made::new_rsa_key;
pub use dkim::signer::{Scratch, SignError, Signer};
pub use dkim::{Canonicalization, SignerError, SignerParams};
