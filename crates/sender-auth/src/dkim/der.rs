//! What a DER key file holds, read just far enough to choose a loader or to say what is wrong.
//!
//! In: DER bytes of any origin. Out: [`KeyShape`]. Cannot fail: what is not understood is `Unknown`.
//! Deliberately no general ASN.1: five shapes are told apart; the crypto library does the real parse.

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

/// The content of the element `der` begins with, when it has that tag, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    if first < 0x80 {
        return rest.split_at_checked(usize::from(first));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > LENGTH_BYTES_MAX {
        return None;
    }
    let (length, rest) = rest.split_at_checked(count)?;
    let length = length.iter().fold(0, |sum, &b| sum << 8 | usize::from(b));
    rest.split_at_checked(length)
}

fn bits(integer: &[u8]) -> usize {
    let zeros = integer.iter().take_while(|&&b| b == 0).count();
    match integer.get(zeros) {
        Some(first) => (integer.len() - zeros) * 8 - first.leading_zeros() as usize,
        None => 0,
    }
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

const OID_RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const OID_RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
const OID_EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const OID_DSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01];
const OID_X25519: &[u8] = &[0x2b, 0x65, 0x6e];
const OID_ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const OID_ED448: &[u8] = &[0x2b, 0x65, 0x71];

/// Longest length field read, in bytes: key files are far below 16 MiB.
const LENGTH_BYTES_MAX: usize = 3;
