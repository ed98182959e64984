//! The two signatures of an ARC set (RFC 8617 sections 4.1.2 and 4.1.3), made with a DKIM signer.
//!
//! In: the number of the set, its `ARC-Authentication-Results` field, the sets before it in order, the message. Out: the
//! `ARC-Message-Signature` and `ARC-Seal` fields. Can fail: as signing does.
//! Deliberately does not judge the chain it continues: `sender-check` does.

use super::Canonicalization;
use super::body::BodyHashes;
use super::field::FieldWriter;
use super::headers::{push_field, push_signature_field};
use super::signer::{Scratch, SignError, Signer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mime::{FieldView, HeaderView};

/// What the sealer found of the chain so far: `cv=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainValidation {
    /// There was no chain; the only value of a first set.
    None,
    /// It was intact.
    Pass,
}

impl ChainValidation {
    /// The word used in the `cv=` tag.
    pub fn tag(self) -> &'static str {
        match self {
            ChainValidation::None => "none",
            ChainValidation::Pass => "pass",
        }
    }
}

/// The fields made; each with its final CRLF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArcSealed {
    pub message_signature: Vec<u8>,
    pub seal: Vec<u8>,
}

impl Signer {
    /// Makes `ARC-Message-Signature` over the message as it stands, then `ARC-Seal` over `earlier` (all fields of the
    /// earlier sets: results, message signature and seal of the first, of the second, ...), `results` (the complete
    /// `ARC-Authentication-Results` field of this set) and the new message signature.
    ///
    /// # Errors
    /// [`SignError`].
    #[allow(
        clippy::too_many_arguments,
        reason = "the message in three parts and the set in four; a struct would be made for one call"
    )]
    pub fn seal_arc(
        &self,
        now_unix_secs: u64,
        (instance, validation): (usize, ChainValidation),
        earlier: &[FieldView<'_>],
        results: &FieldView<'_>,
        (headers, body): (HeaderView<'_>, &[u8]),
        hashes: &BodyHashes,
        scratch: &mut Scratch,
    ) -> Result<ArcSealed, SignError> {
        let mut field = FieldWriter::new();
        field.tag("ARC-Message-Signature:");
        self.identity(instance, now_unix_secs, &mut field);
        let (header, body_form) = (self.header_canonicalization.tag(), self.body_canonicalization.tag());
        field.tag(&format!("c={header}/{body_form};"));
        let message_signature = self.finish(field, (headers, body), hashes, stays_unsigned, scratch)?;

        let mut field = FieldWriter::new();
        field.tag("ARC-Seal:");
        self.identity(instance, now_unix_secs, &mut field);
        field.tag(&format!("cv={};", validation.tag()));
        field.tag("b=");
        let data = &mut scratch.data;
        data.clear();
        earlier.iter().chain([results]).for_each(|field| push_field(Canonicalization::Relaxed, field, data));
        push_signature_field(Canonicalization::Relaxed, &message_signature, data);
        data.extend_from_slice(b"\r\n");
        push_signature_field(Canonicalization::Relaxed, field.text(), data);
        let signature = self.key.sign(data).ok_or(SignError::Crypto)?;
        Ok(ArcSealed { message_signature, seal: field.finish(&STANDARD.encode(signature)) })
    }

    /// The tags that both have.
    fn identity(&self, instance: usize, now_unix_secs: u64, field: &mut FieldWriter) {
        field.tag(&format!("i={instance};"));
        field.tag(&format!("a={};", self.key.algorithm().tag()));
        field.tag(&format!("t={now_unix_secs};"));
        field.tag(&format!("d={};", self.domain));
        field.tag(&format!("s={};", self.selector));
    }
}

/// Fields that a message signature of ARC must not sign: they change on the way (RFC 8617 section 4.1.2).
fn stays_unsigned(name: &str) -> bool {
    ["Authentication-Results", "ARC-Authentication-Results", "ARC-Message-Signature", "ARC-Seal"]
        .iter()
        .any(|field| field.eq_ignore_ascii_case(name))
}
