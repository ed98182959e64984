//! Private keys: from the bytes of a PEM or DER file to something that signs.
//!
//! In: file content, already read. Out: [`SigningKey`], RSA or Ed25519; the key type chooses the
//! algorithm, as in KumoMTA. Accepted: PKCS#1 RSA, PKCS#8 RSA, PKCS#8 Ed25519 (with or without the
//! public key in it). Can fail: [`KeyError`] says what was found and what was expected.
//! Deliberately does not decrypt protected keys and does not make keys.

use super::key_shape::{self, KeyShape};
use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// A private key that makes DKIM signatures.
pub struct SigningKey {
    inner: Inner,
}

impl SigningKey {
    /// Reads a private key from the content of a PEM or DER file. In PEM, the first private key counts.
    ///
    /// # Errors
    /// [`KeyError`]: not a private key, encrypted, another algorithm, or an RSA key outside
    /// [`RSA_BITS_MIN`] to [`RSA_BITS_MAX`].
    pub fn from_pem_or_der(bytes: &[u8]) -> Result<SigningKey, KeyError> {
        if bytes.len() > KEY_BYTES_MAX {
            return Err(KeyError::TooLong { len: bytes.len(), max: KEY_BYTES_MAX });
        }
        if memchr::memmem::find(bytes, PEM_BEGIN).is_some() {
            return SigningKey::from_der(&private_key_in_pem(bytes)?);
        }
        match bytes {
            [] => Err(KeyError::Empty),
            [DER_SEQUENCE, ..] => SigningKey::from_der(bytes),
            _ => Err(KeyError::UnknownFormat),
        }
    }

    fn from_der(der: &[u8]) -> Result<SigningKey, KeyError> {
        let inner = match key_shape::shape(der) {
            KeyShape::Pkcs1 { modulus_bits } => {
                check_rsa_bits(modulus_bits)?;
                RsaKeyPair::from_der(der).map(Inner::Rsa)
            }
            KeyShape::Pkcs8Rsa { modulus_bits } => {
                check_rsa_bits(modulus_bits)?;
                RsaKeyPair::from_pkcs8(der).map(Inner::Rsa)
            }
            KeyShape::Pkcs8Ed25519 => Ed25519KeyPair::from_pkcs8(der).map(Inner::Ed25519),
            KeyShape::Other { what } => return Err(KeyError::Unsupported { found: what.into() }),
            KeyShape::Encrypted => return Err(KeyError::Encrypted),
            KeyShape::Public => {
                return Err(KeyError::NotPrivate { found: "a public key or certificate".into() });
            }
            KeyShape::Unknown => return Err(KeyError::UnknownFormat),
        };
        let inner = inner.map_err(|cause| KeyError::Rejected { cause: cause.to_string() })?;
        Ok(SigningKey { inner })
    }

    /// The algorithm this key signs with.
    pub fn algorithm(&self) -> Algorithm {
        match self.inner {
            Inner::Rsa(_) => Algorithm::RsaSha256,
            Inner::Ed25519(_) => Algorithm::Ed25519Sha256,
        }
    }

    /// The text of the DNS TXT record that publishes the public key (RFC 6376 section 3.6.1).
    /// `None` only if the crypto library cannot write the key it has read.
    pub fn dns_record(&self) -> Option<String> {
        let (name, public) = match &self.inner {
            Inner::Rsa(key) => {
                let spki: PublicKeyX509Der = key.public_key().as_der().ok()?;
                ("rsa", STANDARD.encode(spki.as_ref()))
            }
            Inner::Ed25519(key) => ("ed25519", STANDARD.encode(key.public_key().as_ref())),
        };
        Some(format!("v=DKIM1; k={name}; p={public}"))
    }

    /// Signs canonical header data; `None` when the crypto library fails.
    /// RSA: PKCS#1 v1.5 over its SHA-256. Ed25519: pure EdDSA of its SHA-256 (RFC 8463 section 3).
    pub(crate) fn sign(&self, data: &[u8]) -> Option<Vec<u8>> {
        let digest = digest::digest(&digest::SHA256, data);
        match &self.inner {
            Inner::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign_digest(&RSA_PKCS1_SHA256, &digest, &mut signature).ok()?;
                Some(signature)
            }
            Inner::Ed25519(key) => Some(key.try_sign(digest.as_ref()).ok()?.as_ref().to_vec()),
        }
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningKey({})", self.algorithm().tag())
    }
}

/// A DKIM signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    RsaSha256,
    Ed25519Sha256,
}

impl Algorithm {
    /// The word used in the `a=` tag.
    pub fn tag(self) -> &'static str {
        match self {
            Algorithm::RsaSha256 => "rsa-sha256",
            Algorithm::Ed25519Sha256 => "ed25519-sha256",
        }
    }
}

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("private key is empty, expected {EXPECTED}")]
    Empty,
    #[error("private key has {len} bytes, expected at most {max}")]
    TooLong { len: usize, max: usize },
    #[error("found neither PEM nor a known DER structure, expected {EXPECTED}")]
    UnknownFormat,
    #[error("found {found}, expected {EXPECTED}")]
    NotPrivate { found: String },
    #[error("private key is encrypted, expected {EXPECTED} without a passphrase")]
    Encrypted,
    #[error("found {found}, expected {EXPECTED}")]
    Unsupported { found: String },
    #[error("RSA key has {bits} bits, expected {RSA_BITS_MIN} to {RSA_BITS_MAX}")]
    RsaSize { bits: usize },
    #[error("PEM block {label:?} is damaged: {why}")]
    DamagedPem { label: String, why: &'static str },
    #[error("private key was rejected as invalid: {cause}")]
    Rejected { cause: String },
}

enum Inner {
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

fn check_rsa_bits(bits: usize) -> Result<(), KeyError> {
    if (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        return Ok(());
    }
    Err(KeyError::RsaSize { bits })
}

/// The DER of the first private key in a PEM file; other blocks (parameters, certificates) are passed over.
fn private_key_in_pem(pem: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut passed_over = None;
    let mut rest = pem;
    while let Some(begin) = memchr::memmem::find(rest, PEM_BEGIN) {
        rest = &rest[begin + PEM_BEGIN.len()..];
        let label_len = memchr::memmem::find(rest, PEM_DASHES).unwrap_or(rest.len());
        let label = String::from_utf8_lossy(&rest[..label_len.min(LABEL_BYTES_MAX)]).into_owned();
        let damaged = |why| KeyError::DamagedPem { label: label.clone(), why };
        rest =
            rest.get(label_len + PEM_DASHES.len()..).ok_or_else(|| damaged("its first line does not end in -----"))?;
        let text_len = memchr::memmem::find(rest, PEM_END).ok_or_else(|| damaged("it has no END line"))?;
        let (text, after) = rest.split_at(text_len);
        match label.as_str() {
            "RSA PRIVATE KEY" | "PRIVATE KEY" => return pem_content(text, &damaged),
            "ENCRYPTED PRIVATE KEY" => return Err(KeyError::Encrypted),
            label if label.ends_with("PRIVATE KEY") => {
                return Err(KeyError::Unsupported { found: format!("PEM block {label:?}") });
            }
            _ => passed_over = passed_over.or(Some(label)),
        }
        rest = after;
    }
    Err(KeyError::NotPrivate { found: format!("PEM block {:?}", passed_over.unwrap_or_default()) })
}

fn pem_content(text: &[u8], damaged: &dyn Fn(&'static str) -> KeyError) -> Result<Vec<u8>, KeyError> {
    // RFC 1421 headers of a key that `openssl rsa -aes256 -traditional` protected
    if memchr::memmem::find(text, b"ENCRYPTED").is_some() && memchr::memchr(b':', text).is_some() {
        return Err(KeyError::Encrypted);
    }
    let base64: Vec<u8> = text.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    STANDARD.decode(base64).map_err(|_| damaged("its content is not base64"))
}

/// Smallest RSA key: RFC 8301 allows signing with 1024 bits but asks for 2048, which is also the
/// least the crypto library signs with.
pub const RSA_BITS_MIN: usize = 2048;

/// Largest RSA key the crypto library takes, in bits.
pub const RSA_BITS_MAX: usize = 8192;

/// Longest key file, in bytes.
const KEY_BYTES_MAX: usize = 64 * 1024;

/// Longest PEM label shown, in bytes.
const LABEL_BYTES_MAX: usize = 64;

const EXPECTED: &str = "an RSA (PKCS#1 or PKCS#8) or Ed25519 (PKCS#8) private key in PEM or DER";
const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";
const PEM_DASHES: &[u8] = b"-----";
const DER_SEQUENCE: u8 = 0x30;
