//! DKIM signing (RFC 6376, 8301, 8463): the options of a signer, and which of them are refused.
//!
//! In: [`SignerParams`], named and defaulted as KumoMTA's `kumo.dkim` signers. Out: checked options.
//! Can fail: [`SignerError`] names option, value and expectation.
//! The rooms below: `key` (private keys), `key_shape` (what a key file holds), `der` (its elements), `body` (body hash),
//! `headers` (header canonicalization), `field` (the signature field's text), `signer`; `arc` (the two signatures of an ARC set).

pub(crate) mod arc;
pub(crate) mod body;
pub mod der;
mod field;
pub(crate) mod headers;
pub(crate) mod key;
mod key_shape;
pub(crate) mod made;
pub(crate) mod signer;

use key::SigningKey;
use std::sync::Arc;

/// How much change on the way a signature survives (RFC 6376 section 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Canonicalization {
    /// White space may change.
    #[default]
    Relaxed,
    /// Nothing may change but trailing blank lines of the body.
    Simple,
}

impl Canonicalization {
    /// The word used in the `c=` tag.
    pub fn tag(self) -> &'static str {
        match self {
            Canonicalization::Relaxed => "relaxed",
            Canonicalization::Simple => "simple",
        }
    }
}

impl std::str::FromStr for Canonicalization {
    type Err = SignerError;

    /// Reads KumoMTA's option values, `Relaxed` and `Simple`.
    fn from_str(text: &str) -> Result<Canonicalization, SignerError> {
        match text {
            "Relaxed" => Ok(Canonicalization::Relaxed),
            "Simple" => Ok(Canonicalization::Simple),
            _ => Err(SignerError::Canonicalization { value: text.to_owned() }),
        }
    }
}

/// What a signer is made from; field names and defaults are KumoMTA's.
#[derive(Clone, Debug)]
pub struct SignerParams {
    /// `d=`: the signing domain, an A-label name.
    pub domain: String,
    /// `s=`: the selector.
    pub selector: String,
    /// `h=`: names of the fields to sign, in order; must include `From`. A name given twice signs two
    /// instances. Absent fields are signed as absent (RFC 6376 section 5.4).
    pub headers: Vec<String>,
    /// The private key; its type chooses the algorithm.
    pub key: Arc<SigningKey>,
    /// First half of `c=`. Default relaxed.
    pub header_canonicalization: Canonicalization,
    /// Second half of `c=`. Default relaxed.
    pub body_canonicalization: Canonicalization,
    /// Sign each listed name once more than it occurs, so that none can be added. Default off.
    pub over_sign: bool,
    /// `x=`, counted from the time of signing, in seconds. Default none.
    pub expiration_secs: Option<u64>,
    /// Not supported, must stay `None`.
    pub atps: Option<String>,
    /// Not supported, must stay `None`.
    pub atpsh: Option<String>,
    /// Not supported, must stay `None`.
    pub agent_user_identifier: Option<String>,
    /// Not supported, must stay off.
    pub body_length: bool,
    /// Not supported, must stay off.
    pub reporting: bool,
}

impl SignerParams {
    /// The required options, all others at their defaults.
    pub fn new(domain: &str, selector: &str, headers: &[&str], key: Arc<SigningKey>) -> SignerParams {
        SignerParams {
            domain: domain.to_owned(),
            selector: selector.to_owned(),
            headers: headers.iter().map(|&name| name.to_owned()).collect(),
            key,
            header_canonicalization: Canonicalization::default(),
            body_canonicalization: Canonicalization::default(),
            over_sign: false,
            expiration_secs: None,
            atps: None,
            atpsh: None,
            agent_user_identifier: None,
            body_length: false,
            reporting: false,
        }
    }

    /// Refuses everything that would make an invalid or an unsupported signature.
    pub(crate) fn check(&self) -> Result<(), SignerError> {
        self.check_unsupported()?;
        check_dns_name("domain", &self.domain, DOMAIN_BYTES_MAX)?;
        check_dns_name("selector", &self.selector, SELECTOR_BYTES_MAX)?;
        if self.headers.len() > HEADERS_MAX {
            return Err(SignerError::TooManyHeaders { found: self.headers.len(), max: HEADERS_MAX });
        }
        let bad = |name: &&String| !is_header_name(name);
        if let Some(name) = self.headers.iter().find(bad) {
            return Err(SignerError::HeaderName { name: name.clone() });
        }
        if !self.headers.iter().any(|name| name.eq_ignore_ascii_case("From")) {
            return Err(SignerError::FromNotSigned);
        }
        Ok(())
    }

    fn check_unsupported(&self) -> Result<(), SignerError> {
        let set = [
            ("atps", self.atps.is_some()),
            ("atpsh", self.atpsh.is_some()),
            ("agent_user_identifier", self.agent_user_identifier.is_some()),
            ("body_length", self.body_length),
            ("reporting", self.reporting),
        ];
        match set.iter().find(|(_, set)| *set) {
            Some((option, _)) => Err(SignerError::NotSupported { option }),
            None => Ok(()),
        }
    }
}

/// Why a signer cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    #[error("dkim signer: {option} is not currently supported")]
    NotSupported { option: &'static str },
    #[error(
        "dkim signer: {option} {value:?} is not a DNS name, expected labels of letters, digits, - and _ (A-labels for other scripts), at most {max} bytes"
    )]
    DnsName { option: &'static str, value: String, max: usize },
    #[error("dkim signer: headers must include From")]
    FromNotSigned,
    #[error(
        "dkim signer: headers holds {name:?}, expected a header name of printable ASCII without colon, semicolon and space"
    )]
    HeaderName { name: String },
    #[error("dkim signer: headers lists {found} names, expected at most {max}")]
    TooManyHeaders { found: usize, max: usize },
    #[error("dkim signer: canonicalization {value:?}, expected Relaxed or Simple")]
    Canonicalization { value: String },
}

fn check_dns_name(option: &'static str, value: &str, max: usize) -> Result<(), SignerError> {
    let label_ok = |label: &str| {
        (1..=LABEL_BYTES_MAX).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if value.len() <= max && value.split('.').all(label_ok) {
        return Ok(());
    }
    Err(SignerError::DnsName { option, value: value.to_owned(), max })
}

/// A name that can stand in `h=`: RFC 5322 `ftext` without the semicolon that ends a tag.
fn is_header_name(name: &str) -> bool {
    (1..=HEADER_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_graphic() && b != b':' && b != b';')
}

/// Most names in the `headers` option.
pub(crate) const HEADERS_MAX: usize = 256;

/// Longest name in the `headers` option, in bytes.
pub(crate) const HEADER_NAME_BYTES_MAX: usize = 256;

/// Longest `d=`, in bytes (RFC 1035).
const DOMAIN_BYTES_MAX: usize = 253;

/// Longest `s=`, in bytes: with `._domainkey.` and a domain it must still be a DNS name.
const SELECTOR_BYTES_MAX: usize = 240;

/// Longest label of a DNS name, in bytes (RFC 1035).
const LABEL_BYTES_MAX: usize = 63;
