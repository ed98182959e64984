//! Published keys (RFC 6376 section 3.6.1, RFC 8463 section 4): from a TXT record to something that verifies.
//!
//! In: octets of TXT records. Out: [`PublicKey`]. Can fail: [`KeyError`] says which tag is wrong; an RSA key of fewer than
//! [`RSA_BITS_MIN`] bits is read, and then refused by policy (RFC 8301 section 3.2).

use crate::questions::texts;
use crate::results::Refusal;
use crate::signature::{KeyName, octets};
use crate::tags::{TagError, Tags, listed};
use crate::text::shown;
use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{
    ED25519, RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY, RsaPublicKeyComponents, UnparsedPublicKey,
};
use route::Resolver;
use sender_auth::der::{BIT_STRING, INTEGER, SEQUENCE, bits, element};

/// A key that verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    content: Content,
    is_strict: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Ed25519(Vec<u8>),
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyAlgorithm {
    Rsa,
    Ed25519,
}

/// Why a record is no usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("{0}")]
    Tags(#[from] TagError),
    #[error("v= is \"{found}\", expected DKIM1 as the first tag, or none")]
    Version { found: String },
    #[error("there is no tag p=")]
    NoKey,
    #[error("it is revoked: p= is empty")]
    Revoked,
    #[error("h= is \"{found}\", expected sha256 among it")]
    Hash { found: String },
    #[error("k= is \"{found}\", expected rsa or ed25519")]
    Algorithm { found: String },
    #[error("s= is \"{found}\", expected * or email among it")]
    Service { found: String },
    #[error("p= is not base64 of {expected}")]
    Content { expected: &'static str },
}

impl PublicKey {
    /// Reads a key record.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn parse(record: &[u8]) -> Result<PublicKey, KeyError> {
        let tags = Tags::parse(record)?;
        if let Some(version) = tags.get("v")
            && (version != "DKIM1" || tags.first() != Some("v"))
        {
            return Err(KeyError::Version { found: shown(version) });
        }
        let lists =
            |tag, wanted: &[&str]| tags.get(tag).is_none_or(|list| listed(list).any(|word| wanted.contains(&word)));
        let found = |tag| shown(tags.get(tag).unwrap_or_default());
        if !lists("h", &["sha256"]) {
            return Err(KeyError::Hash { found: found("h") });
        }
        if !lists("s", &["*", "email"]) {
            return Err(KeyError::Service { found: found("s") });
        }
        let content = match (tags.get("k").unwrap_or("rsa"), tags.get("p").ok_or(KeyError::NoKey)?) {
            (_, "") => return Err(KeyError::Revoked),
            ("rsa", key) => {
                octets(key).and_then(|der| rsa(&der)).ok_or(KeyError::Content { expected: "an RSA key" })?
            }
            ("ed25519", key) => octets(key)
                .filter(|key| key.len() == ED25519_BYTES)
                .map(Content::Ed25519)
                .ok_or(KeyError::Content { expected: "32 octets" })?,
            _ => return Err(KeyError::Algorithm { found: found("k") }),
        };
        let is_strict = tags.get("t").is_some_and(|flags| listed(flags).any(|flag| flag == "s"));
        Ok(PublicKey { content, is_strict })
    }

    /// The flag `t=s`: it signs for no subdomains.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    fn is_for(&self, algorithm: KeyAlgorithm) -> bool {
        matches!(
            (&self.content, algorithm),
            (Content::Rsa { .. }, KeyAlgorithm::Rsa) | (Content::Ed25519(_), KeyAlgorithm::Ed25519)
        )
    }

    /// Of a SHA-256. RSA: PKCS#1 v1.5. Ed25519: the hash is the message that is signed (RFC 8463 section 3).
    pub(crate) fn verify(&self, hash: &Digest, signature: &[u8]) -> Result<(), Refusal> {
        let verified = match &self.content {
            Content::Rsa { modulus, exponent } => {
                let bits = bits(modulus);
                if bits < RSA_BITS_MIN {
                    let why = format!("the key has {bits} bits, expected at least {RSA_BITS_MIN} (RFC 8301)");
                    return Err(Refusal::policy(why));
                }
                if bits > RSA_BITS_MAX {
                    let why = format!("the key has {bits} bits, expected at most {RSA_BITS_MAX}");
                    return Err(Refusal::permanent(why));
                }
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                let key = key.to_parsed_public_key(&RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY);
                let key = key.map_err(|_| Refusal::permanent("the key: it is no RSA key the crypto library takes"))?;
                key.verify_digest_sig(hash, signature)
            }
            Content::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(hash.as_ref(), signature),
        };
        verified.map_err(|_| Refusal::fail("the signature does not fit the header"))
    }
}

/// Asks for a key: of several records, the first that is one for `algorithm`.
pub(crate) async fn published(
    resolver: &dyn Resolver,
    name: &KeyName,
    algorithm: KeyAlgorithm,
) -> Result<PublicKey, Refusal> {
    let place = format!("{}._domainkey.{}", name.selector, name.domain);
    let found = texts(resolver, &place).await;
    let found = found.map_err(|error| Refusal::temporary(format!("the key: {}", shown(&error.to_string()))))?;
    let mut trouble = format!("there is no key at {}", shown(&place));
    for record in found.iter().take(KEY_RECORDS_MAX) {
        match PublicKey::parse(record) {
            Ok(key) if key.is_for(algorithm) => return Ok(key),
            Ok(_) => trouble = "the key is for another algorithm".to_owned(),
            Err(error) => trouble = format!("the key: {error}"),
        }
    }
    Err(Refusal::permanent(trouble))
}

/// An RSA key, as `SubjectPublicKeyInfo` (what everybody publishes) or `RSAPublicKey` (what RFC 6376 says).
fn rsa(der: &[u8]) -> Option<Content> {
    let (body, _) = element(der, SEQUENCE)?;
    let pair = match element(body, SEQUENCE) {
        Some((_, behind)) => {
            let (bits, _) = element(behind, BIT_STRING)?;
            element(bits.strip_prefix(&[0])?, SEQUENCE)?.0
        }
        None => body,
    };
    let (modulus, behind) = element(pair, INTEGER)?;
    let (exponent, _) = element(behind, INTEGER)?;
    let plain = |integer: &[u8]| integer.iter().copied().skip_while(|octet| *octet == 0).collect::<Vec<u8>>();
    Some(Content::Rsa { modulus: plain(modulus), exponent: plain(exponent) })
}

/// An Ed25519 key, in octets.
const ED25519_BYTES: usize = 32;

/// Smallest RSA key that proves anything, in bits (RFC 8301 section 3.2).
pub const RSA_BITS_MIN: usize = 1_024;

/// Largest RSA key the crypto library takes, in bits.
pub const RSA_BITS_MAX: usize = 8_192;

/// Key records of a name that are looked at.
pub const KEY_RECORDS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_are_no_keys() {
        let ed25519 = "k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        assert!(PublicKey::parse(format!("v=DKIM1; h=sha1:sha256; s=email; {ed25519}").as_bytes()).is_ok());
        assert!(PublicKey::parse(format!("v=DKIM1; t=y:s; {ed25519}").as_bytes()).is_ok_and(|key| key.is_strict()));
        for bad in [
            "v=DKIM2; p=",
            "v=DKIM1",
            "v=DKIM1; p=",
            "p=!",
            "p=AAAA",
            "k=ed25519; p=AAAA",
            "k=dsa; p=AAAA",
            &format!("{ed25519}; v=DKIM1"),
            &format!("h=sha1; {ed25519}"),
            &format!("s=tlsrpt; {ed25519}"),
        ] {
            assert!(PublicKey::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
