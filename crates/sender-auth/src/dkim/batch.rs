//! Many signatures in one call: several signers for a message, several messages, or both.
//!
//! In: jobs. Out: one result a job, in their order. Each body is hashed once per canonicalization,
//! because all jobs of a message share its [`BodyHashes`].
//! Signs one after the other today. The shape is what matters: RSA is the largest cost of signed
//! mail, and an implementation that signs several messages at once can go behind this call.

use super::body::BodyHashes;
use super::signer::{Scratch, SignError, Signer};
use mime::HeaderView;

/// One signature to make.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub signer: &'a Signer,
    /// Time of signing, seconds since 1970.
    pub now_unix_secs: u64,
    /// The header fields as they will be sent.
    pub headers: HeaderView<'a>,
    /// The body as it will be sent.
    pub body: &'a [u8],
    /// The hashes of this body; the same for all jobs of one message.
    pub hashes: &'a BodyHashes,
}

/// Makes all signatures; a failed one does not disturb the others.
pub fn sign_many(jobs: &[Job<'_>], scratch: &mut Scratch) -> Vec<Result<Vec<u8>, SignError>> {
    jobs.iter().map(|job| job.signer.sign(job.now_unix_secs, job.headers, job.body, job.hashes, scratch)).collect()
}
