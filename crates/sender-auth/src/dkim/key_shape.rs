//! What a DER key file holds, read just far enough to choose a loader or to say what is wrong.
//!
//! In: DER bytes of any origin. Out: [`KeyShape`]. Cannot fail: what is not understood is `Unknown`.
//! Deliberately no general ASN.1: five shapes are told apart; the crypto library does the real parse.

use super::der::{BIT_STRING, INTEGER, OCTET_STRING, OID, SEQUENCE, bits, element};

/// The kinds of key structure told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyShape {
    /// PKCS#1 `RSAPrivateKey`.
    Pkcs1 {
        modulus_bits: usize,
    },
    /// PKCS#8 with an RSA key.
    Pkcs8Rsa {
        modulus_bits: usize,
    },
    /// PKCS#8 with an Ed25519 key, version 1 or 2.
    Pkcs8Ed25519,
    /// A private key of another algorithm.
    Other {
        what: &'static str,
    },
    /// `EncryptedPrivateKeyInfo`.
    Encrypted,
    /// A public key or a certificate.
    Public,
    Unknown,
}

/// Tells what `der` is.
pub(crate) fn shape(der: &[u8]) -> KeyShape {
    key_shape(der).unwrap_or(KeyShape::Unknown)
}

fn key_shape(der: &[u8]) -> Option<KeyShape> {
    let (body, _) = element(der, SEQUENCE)?;
    if let Some((version, rest)) = element(body, INTEGER) {
        if let Some((modulus, _)) = element(rest, INTEGER) {
            return Some(KeyShape::Pkcs1 { modulus_bits: bits(modulus) });
        }
        if let Some((algorithm, key)) = element(rest, SEQUENCE) {
            return pkcs8_shape(algorithm, key);
        }
        // SEC 1 ECPrivateKey: version 1, then the private octets
        let sec1 = version == [1] && element(rest, OCTET_STRING).is_some();
        return sec1.then_some(KeyShape::Other { what: "an EC key" });
    }
    let (_, rest) = element(body, SEQUENCE)?;
    match rest.first()? {
        &OCTET_STRING => Some(KeyShape::Encrypted),
        &BIT_STRING | &SEQUENCE => Some(KeyShape::Public),
        _ => None,
    }
}

fn pkcs8_shape(algorithm: &[u8], key: &[u8]) -> Option<KeyShape> {
    let (oid, _) = element(algorithm, OID)?;
    let other = |what| Some(KeyShape::Other { what });
    match oid {
        OID_ED25519 => Some(KeyShape::Pkcs8Ed25519),
        OID_RSA => {
            let (pkcs1, _) = element(key, OCTET_STRING)?;
            Some(KeyShape::Pkcs8Rsa { modulus_bits: pkcs1_modulus_bits(pkcs1)? })
        }
        OID_EC => other("an EC key"),
        OID_ED448 => other("an Ed448 key"),
        OID_X25519 => other("an X25519 key"),
        OID_RSA_PSS => other("an RSA-PSS key"),
        OID_DSA => other("a DSA key"),
        _ => other("a key of an unknown algorithm"),
    }
}

fn pkcs1_modulus_bits(pkcs1: &[u8]) -> Option<usize> {
    let (body, _) = element(pkcs1, SEQUENCE)?;
    let (_, rest) = element(body, INTEGER)?;
    let (modulus, _) = element(rest, INTEGER)?;
    Some(bits(modulus))
}

const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const OID_RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
const OID_EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const OID_DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01];
const OID_X25519: &[u8] = &[0x2b, 0x65, 0x6e];
const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const OID_ED448: &[u8] = &[0x2b, 0x65, 0x71];
