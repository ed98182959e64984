//! Sender authentication: what proves who sent a message. For now DKIM signing.
//!
//! Owns: signing keys read from PEM or DER, signers, the two canonicalizations, body hashes.
//! In: header fields and body bytes of a message about to be sealed, and the time. Out: a complete
//! `DKIM-Signature` field to prepend.
//! Can fail: unusable keys ([`KeyError`]) and signer options ([`SignerError`]) when they are loaded;
//! signing itself only by absurd header counts or a fault in the crypto library ([`SignError`]).
//!
//! Deliberately does not: read files, keep caches with lifetimes, look at a clock, ask DNS, or verify
//! signatures of others (that, SPF, DMARC and ARC come later and will stand beside `dkim`).

mod dkim;

pub use dkim::batch::{Job, sign_many};
pub use dkim::body::{BodyHash, BodyHashes};
pub use dkim::key::{Algorithm, KeyError, SigningKey};
pub use dkim::signer::{Scratch, SignError, Signer};
pub use dkim::{Canonicalization, SignerError, SignerParams};
