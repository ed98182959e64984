//! What `DKIM-Signature` (RFC 6376 section 3.5) and `ARC-Message-Signature` (RFC 8617 section 4.1.2) have in common: tags, and
//! what they are made over.
//!
//! In: the tag list of a field, and the message. Out: [`Signature`], then its hashes. Can fail: [`Refusal`]; the message is not
//! signed by it.

use crate::dkim::key::{KeyAlgorithm, PublicKey};
use crate::mail::Mail;
use crate::results::Refusal;
use crate::tags::{Tags, listed, without_blanks};
use crate::text::{domain_name, shown};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use mime::FieldView;
use sender_auth::{Canonicalization, push_verified_field};
use std::ops::Range;

/// The tags of a signature that say what it is made over and with which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub(crate) key: KeyName,
    pub(crate) algorithm: KeyAlgorithm,
    header_form: Canonicalization,
    body_form: Canonicalization,
    /// `h=`, in lower case.
    pub(crate) names: Vec<String>,
    body_hash: Vec<u8>,
    /// `l=`.
    octets: Option<usize>,
    made: Made,
}

/// `b=`: the octets, and where they stand in the field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) signature: Vec<u8>,
    pub(crate) place: Range<usize>,
}

/// Where a key is published: `s=` and `d=`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyName {
    pub(crate) selector: String,
    pub(crate) domain: String,
}

impl KeyName {
    pub(crate) fn parse(tags: &Tags) -> Result<KeyName, Refusal> {
        let name = |tag| {
            let text = required(tags, tag)?;
            domain_name(text)
                .ok_or_else(|| Refusal::permanent(format!("{tag}= is \"{}\", expected a domain name", shown(text))))
        };
        Ok(KeyName { domain: name("d")?, selector: name("s")? })
    }
}

impl Made {
    pub(crate) fn parse(tags: &Tags) -> Result<Made, Refusal> {
        let signature = octets(required(tags, "b")?)
            .filter(|octets| !octets.is_empty())
            .ok_or_else(|| Refusal::permanent("b= is not base64"))?;
        Ok(Made { signature, place: tags.place("b").unwrap_or_default() })
    }
}

impl Signature {
    /// Reads the tags both kinds of field have; `is_signable` says which names may be in `h=`.
    pub(crate) fn parse(tags: &Tags, default_form: &str, is_signable: fn(&str) -> bool) -> Result<Signature, Refusal> {
        let algorithm = algorithm(required(tags, "a")?)?;
        let key = KeyName::parse(tags)?;
        let (header_form, body_form) = forms(tags.get("c").unwrap_or(default_form))?;
        let names: Vec<String> = listed(required(tags, "h")?).map(str::to_ascii_lowercase).collect();
        if names.len() > SIGNED_NAMES_MAX {
            let found = names.len();
            return Err(Refusal::permanent(format!("h= has {found} names, expected at most {SIGNED_NAMES_MAX}")));
        }
        if !names.iter().any(|name| name == "from") {
            return Err(Refusal::permanent("h= does not have From"));
        }
        if let Some(name) = names.iter().find(|name| !is_signable(name)) {
            return Err(Refusal::permanent(format!("h= has {}, which must not be signed", shown(name))));
        }
        let body_hash = octets(required(tags, "bh")?).ok_or_else(|| Refusal::permanent("bh= is not base64"))?;
        let octets = tags.get("l").map(|text| number("l", text)).transpose()?;
        let octets = octets.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
        Ok(Signature { key, algorithm, header_form, body_form, names, body_hash, octets, made: Made::parse(tags)? })
    }

    /// Holds the body against `bh=`. Out: how many octets of it are not signed.
    pub(crate) fn check_body(&self, mail: &Mail) -> Result<usize, Refusal> {
        let (hash, length) = mail.body_hash(self.body_form, self.octets);
        let unsigned = match (self.octets, length) {
            (Some(signed), Some(length)) => length.checked_sub(signed).ok_or_else(|| {
                Refusal::permanent(format!("l= is {signed}, but the canonical body has {length} octets"))
            })?,
            _ => 0,
        };
        if hash.as_slice() != self.body_hash {
            return Err(Refusal::fail("the body does not fit its hash"));
        }
        Ok(unsigned)
    }

    /// Holds the header, with the signature's own `field` in it, against `b=`.
    pub(crate) fn check_header(&self, mail: &Mail, field: &FieldView, key: &PublicKey) -> Result<(), Refusal> {
        let mut data = Vec::new();
        mail.push_signed(&self.names, self.header_form, &mut data);
        push_verified_field(self.header_form, field, self.made.place.clone(), &mut data);
        key.verify(&digest(&SHA256, &data), &self.made.signature)
    }
}

/// A tag that has to be there.
pub(crate) fn required<'a>(tags: &Tags<'a>, name: &str) -> Result<&'a str, Refusal> {
    tags.get(name).ok_or_else(|| Refusal::permanent(format!("there is no tag {name}=")))
}

/// `a=` (RFC 6376 section 3.3, RFC 8301, RFC 8463).
pub(crate) fn algorithm(text: &str) -> Result<KeyAlgorithm, Refusal> {
    match text {
        "rsa-sha256" => Ok(KeyAlgorithm::Rsa),
        "ed25519-sha256" => Ok(KeyAlgorithm::Ed25519),
        "rsa-sha1" => Err(Refusal::policy("rsa-sha1 proves nothing any more (RFC 8301)")),
        other => Err(Refusal::permanent(format!("a= is \"{}\", expected rsa-sha256 or ed25519-sha256", shown(other)))),
    }
}

/// A decimal number of at most 20 digits; of more, all that are larger than any time or length.
pub(crate) fn number(tag: &str, text: &str) -> Result<u64, Refusal> {
    let is_number = !text.is_empty() && text.len() <= NUMBER_DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number {
        return Err(Refusal::permanent(format!("{tag}= is \"{}\", expected a number", shown(text))));
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

/// Base64 with white space anywhere in it.
pub(crate) fn octets(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(without_blanks(text)).ok()
}

/// `c=`: the second half is simple when it is not there.
fn forms(text: &str) -> Result<(Canonicalization, Canonicalization), Refusal> {
    let form = |word: &str| match word {
        "simple" => Ok(Canonicalization::Simple),
        "relaxed" => Ok(Canonicalization::Relaxed),
        _ => Err(Refusal::permanent(format!(
            "c= is \"{}\", expected simple or relaxed, then perhaps / and one of them",
            shown(text)
        ))),
    };
    let (header, body) = text.split_once('/').unwrap_or((text, "simple"));
    Ok((form(header)?, form(body)?))
}

/// Some signers leave the padding out, or bits behind the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Most names in `h=`.
pub const SIGNED_NAMES_MAX: usize = 2_000;

/// RFC 6376 allows lengths of 76 digits; no more than this mean anything.
const NUMBER_DIGITS_MAX: usize = 76;
