//! The options of a DKIM signer.
//!
//! Owns [`SignerOptions`], the argument of `kumo.dkim.rsa_sha256_signer` and `ed25519_signer`; the algorithm follows
//! the key. Signing is in the sender-auth crate.

use crate::choices::{AtpsHash, Canonicalization};
use crate::duration::Duration;
use crate::key_source::KeySource;
use crate::options::options;

options! {
    /// `kumo.dkim.rsa_sha256_signer` and `kumo.dkim.ed25519_signer`
    pub struct SignerOptions check check_signer {
        /// The signing domain, `d=`.
        domain: String;
        /// The selector, `s=`.
        selector: String;
        /// The header fields signed, `h=`; From must be among them.
        headers: Vec<String>;
        /// The private key, PEM or DER: PKCS#1 RSA, PKCS#8 RSA or PKCS#8 Ed25519.
        key: KeySource;
        /// Lifetime of signatures (seconds), `x=`; none when absent.
        expiration: Option<u64> = None;
        /// Header part of `c=`.
        header_canonicalization: Canonicalization = Canonicalization::Relaxed;
        /// Body part of `c=`.
        body_canonicalization: Canonicalization = Canonicalization::Relaxed;
        /// Sign each listed field once more than it occurs, so that none can be added.
        over_sign: bool = false;
        /// How long the signer and its key may be cached.
        ttl: Duration = Duration::from_secs(300);
        /// Hold each signature against the message and the public half of the key before it is put there: one that does not hold
        /// is an error, and the message stays unsigned.
        self_check: bool = false;
        /// Not supported; must be absent.
        atps: Option<String> = None;
        /// Not supported; must be absent.
        atpsh: Option<AtpsHash> = None;
        /// Not supported; must be absent.
        agent_user_identifier: Option<String> = None;
        /// Not supported; must be false.
        body_length: bool = false;
        /// Not supported; must be false.
        reporting: bool = false;
    }
}

fn check_signer(signer: &SignerOptions) -> Result<(), String> {
    for (name, value) in [("domain", &signer.domain), ("selector", &signer.selector)] {
        if value.is_empty() || !value.chars().all(is_tag_char) {
            return Err(format!("invalid {name} {value:?}: expected a DNS name"));
        }
    }
    if !signer.headers.iter().any(|name| name.eq_ignore_ascii_case("from")) {
        return Err(format!("invalid headers {:?}: expected a list that includes \"From\"", signer.headers));
    }
    if let Some(name) = signer.headers.iter().find(|name| !is_field_name(name)) {
        return Err(format!("headers: invalid header name {name:?}: expected printable ASCII without \":\""));
    }
    let unsupported = [
        ("atps", signer.atps.is_some()),
        ("atpsh", signer.atpsh.is_some()),
        ("agent_user_identifier", signer.agent_user_identifier.is_some()),
        ("body_length", signer.body_length),
        ("reporting", signer.reporting),
    ];
    match unsupported.into_iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => Err(format!("{name} is not currently supported: expected it to be left out")),
        None => Ok(()),
    }
}

fn is_tag_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') || (!c.is_ascii() && !c.is_whitespace())
}

/// RFC 5322 section 3.6.8 field names, without `;` which would end the `h=` tag.
fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b':' && b != b';')
}
