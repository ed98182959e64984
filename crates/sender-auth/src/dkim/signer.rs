//! A signer: checked options and a key, turned into signature fields.
//!
//! In: header fields, body, time. Out: one complete `DKIM-Signature` field with its CRLF, to prepend.
//! Can fail: [`SignError`], and only by a message with absurdly many fields of a signed name or by a
//! fault of the crypto library. A signer never changes, so one can serve all threads.
//!
//! Tags, in order: `v a d s c t [x] h bh b`. Without `over_sign`, `h=` is the configured list as it
//! stands; with it, each distinct name once more than the message has it.

use super::body::BodyHashes;
use super::field::FieldWriter;
use super::headers::{Instances, push_field, push_signature_field};
use super::key::SigningKey;
use super::{Canonicalization, SignerError, SignerParams};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mime::HeaderView;
use std::sync::Arc;

/// Makes DKIM signatures for one domain and selector.
#[derive(Debug)]
pub struct Signer {
    pub(super) key: Arc<SigningKey>,
    pub(super) header_canonicalization: Canonicalization,
    pub(super) body_canonicalization: Canonicalization,
    over_sign: bool,
    expiration_secs: Option<u64>,
    /// The distinct signed names, as first listed.
    names: Vec<String>,
    /// The configured list, as places in `names`.
    listed: Vec<usize>,
    /// The field up to the first tag that changes from message to message.
    prefix: Vec<u8>,
    pub(super) domain: String,
    pub(super) selector: String,
}

impl Signer {
    /// Checks the options and makes a signer.
    ///
    /// # Errors
    /// [`SignerError`] names the option, its value and what was expected.
    pub fn new(params: SignerParams) -> Result<Signer, SignerError> {
        params.check()?;
        let mut names: Vec<String> = Vec::new();
        let mut listed = Vec::with_capacity(params.headers.len());
        for name in &params.headers {
            let place = names.iter().position(|n| n.eq_ignore_ascii_case(name));
            listed.push(place.unwrap_or(names.len()));
            if place.is_none() {
                names.push(name.clone());
            }
        }
        Ok(Signer {
            prefix: prefix(&params),
            key: params.key,
            header_canonicalization: params.header_canonicalization,
            body_canonicalization: params.body_canonicalization,
            over_sign: params.over_sign,
            expiration_secs: params.expiration_secs,
            names,
            listed,
            domain: params.domain,
            selector: params.selector,
        })
    }

    /// The signing domain, `d=`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Signs a message: `headers` as they will be sent, `body` as it will be sent, `hashes` belonging
    /// to this body. Returns `DKIM-Signature: ...` with folds and final CRLF.
    ///
    /// # Errors
    /// [`SignError`]; the message is as good as before.
    pub fn sign(
        &self,
        now_unix_secs: u64,
        headers: HeaderView<'_>,
        body: &[u8],
        hashes: &BodyHashes,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, SignError> {
        let mut field = FieldWriter::begin(&self.prefix);
        field.tag(&format!("t={now_unix_secs};"));
        if let Some(secs) = self.expiration_secs {
            field.tag(&format!("x={};", now_unix_secs.saturating_add(secs)));
        }
        self.finish(field, (headers, body), hashes, |_| false, scratch)
    }

    /// Adds `h=`, `bh=` and `b=` to a field that has all other tags; names that `leaves_out` are not signed.
    pub(super) fn finish(
        &self,
        mut field: FieldWriter,
        (headers, body): (HeaderView<'_>, &[u8]),
        hashes: &BodyHashes,
        leaves_out: fn(&str) -> bool,
        scratch: &mut Scratch,
    ) -> Result<Vec<u8>, SignError> {
        self.add_headers(headers, &mut field, leaves_out, scratch)?;
        let body_hash = hashes.get(self.body_canonicalization, body);
        field.tag(&format!("bh={};", STANDARD.encode(body_hash)));
        field.tag("b=");
        let signature = self.sign_field(field.text(), &mut scratch.data)?;
        Ok(field.finish(&STANDARD.encode(signature)))
    }

    /// Writes `h=` and puts the same fields, canonical, into the hash input.
    fn add_headers(
        &self,
        headers: HeaderView<'_>,
        field: &mut FieldWriter,
        leaves_out: fn(&str) -> bool,
        scratch: &mut Scratch,
    ) -> Result<(), SignError> {
        scratch.instances.find(&self.names, headers);
        scratch.data.clear();
        self.choose(&scratch.instances, &mut scratch.chosen)?;
        scratch.chosen.retain(|&name| !leaves_out(&self.names[name]));
        let last = scratch.chosen.len() - 1;
        for (number, &name) in scratch.chosen.iter().enumerate() {
            let end = if number == last { ';' } else { ':' };
            match number {
                0 => field.tag(&format!("h={}{end}", self.names[name])),
                _ => field.part(&format!("{}{end}", self.names[name])),
            }
            let place = scratch.instances.take(name);
            if let Some(signed) = place.and_then(|place| headers.get(place)) {
                push_field(self.header_canonicalization, &signed, &mut scratch.data);
            }
        }
        Ok(())
    }

    /// The entries of `h=` in order, as places in `names`.
    fn choose(&self, instances: &Instances, chosen: &mut Vec<usize>) -> Result<(), SignError> {
        chosen.clear();
        if !self.over_sign {
            chosen.extend_from_slice(&self.listed);
            return Ok(());
        }
        let found: usize = (0..self.names.len()).map(|n| instances.left(n) + 1).sum();
        if found > SIGNED_FIELDS_MAX {
            return Err(SignError::TooManyFields { found, max: SIGNED_FIELDS_MAX });
        }
        for name in 0..self.names.len() {
            chosen.extend(std::iter::repeat_n(name, instances.left(name) + 1));
        }
        Ok(())
    }

    /// Signs `data` (canonical fields) followed by the signature field up to `b=`.
    fn sign_field(&self, field: &[u8], data: &mut Vec<u8>) -> Result<Vec<u8>, SignError> {
        push_signature_field(self.header_canonicalization, field, data);
        self.key.sign(data).ok_or(SignError::Crypto)
    }
}

/// Memory reused from signature to signature; one per thread or task.
#[derive(Debug, Default)]
pub struct Scratch {
    instances: Instances,
    chosen: Vec<usize>,
    pub(super) data: Vec<u8>,
}

impl Scratch {
    /// Empty; grows with use.
    pub fn new() -> Scratch {
        Scratch::default()
    }
}

/// Why a message was not signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("dkim: over-signing this message takes {found} entries in h=, expected at most {max}")]
    TooManyFields { found: usize, max: usize },
    #[error("dkim: the crypto library failed to sign")]
    Crypto,
}

/// The tags that are the same for every message.
fn prefix(params: &SignerParams) -> Vec<u8> {
    let mut field = FieldWriter::new();
    field.tag("DKIM-Signature:");
    field.tag("v=1;");
    field.tag(&format!("a={};", params.key.algorithm().tag()));
    field.tag(&format!("d={};", params.domain));
    field.tag(&format!("s={};", params.selector));
    let header = params.header_canonicalization.tag();
    let body = params.body_canonicalization.tag();
    field.tag(&format!("c={header}/{body};"));
    field.text().to_vec()
}

/// Most entries in `h=` when over-signing.
const SIGNED_FIELDS_MAX: usize = 1_000;

#[cfg(test)]
#[path = "signer_tests.rs"]
mod tests;
