//! Key files as OpenSSL writes them: which load, and what the refusals say.
//! The keys in `keys/` were made for these tests and protect nothing.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sender_auth::{Algorithm, KeyError, SigningKey};

const RSA_PKCS1: &str = include_str!("keys/rsa2048-pkcs1.pem");
const RSA_PKCS8: &str = include_str!("keys/rsa2048-pkcs8.pem");
const ED25519: &str = include_str!("keys/ed25519-pkcs8.pem");

fn der(pem: &str) -> Vec<u8> {
    let base64: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(base64).expect("PEM holds base64")
}

fn load(bytes: &[u8]) -> SigningKey {
    SigningKey::from_pem_or_der(bytes).expect("a usable key")
}

fn refused(bytes: &[u8]) -> KeyError {
    SigningKey::from_pem_or_der(bytes).expect_err("must be refused")
}

#[test]
fn every_supported_form_loads() {
    for bytes in [RSA_PKCS1.into(), RSA_PKCS8.into(), der(RSA_PKCS1), der(RSA_PKCS8)] {
        let key = load(&bytes);
        assert_eq!(key.algorithm(), Algorithm::RsaSha256);
        assert_eq!(key.dns_record(), load(RSA_PKCS1.as_bytes()).dns_record());
    }
    for bytes in [ED25519.into(), der(ED25519)] {
        assert_eq!(load(&bytes).algorithm(), Algorithm::Ed25519Sha256);
    }
    let crlf = RSA_PKCS8.replace('\n', "\r\n");
    let surrounded = format!("some text\n{}\n{crlf}", include_str!("keys/public.pem"));
    assert_eq!(load(surrounded.as_bytes()).algorithm(), Algorithm::RsaSha256);
}

#[test]
fn refusals_say_what_was_found() {
    assert_eq!(refused(b""), KeyError::Empty);
    assert_eq!(refused(b"not a key"), KeyError::UnknownFormat);
    assert_eq!(refused(b"\x30\x03\x02\x01\x00"), KeyError::UnknownFormat);
    assert_eq!(refused(include_bytes!("keys/encrypted-pkcs8.pem")), KeyError::Encrypted);
    assert_eq!(refused(&der(include_str!("keys/encrypted-pkcs8.pem"))), KeyError::Encrypted);
    assert_eq!(refused(include_bytes!("keys/encrypted-traditional.pem")), KeyError::Encrypted);
    assert_eq!(refused(include_bytes!("keys/rsa1024.pem")), KeyError::RsaSize { bits: 1024 });
    let text = |bytes: &[u8]| refused(bytes).to_string();
    assert!(text(include_bytes!("keys/ec-with-parameters.pem")).contains("EC PRIVATE KEY"));
    assert!(text(include_bytes!("keys/ec-pkcs8.pem")).contains("an EC key"));
    assert!(text(include_bytes!("keys/public.pem")).contains("PUBLIC KEY"));
    assert!(text(&der(include_str!("keys/public.pem"))).contains("a public key"));
    assert!(text(include_bytes!("keys/rsa1024.pem")).contains("1024 bits, expected 2048 to 8192"));
}

#[test]
fn damaged_files_are_refused() {
    let no_end = RSA_PKCS8.split("-----END").next().expect("split has a first part");
    assert!(matches!(refused(no_end.as_bytes()), KeyError::DamagedPem { .. }));
    let not_base64 = RSA_PKCS8.replace("MII", "M*I");
    assert!(matches!(refused(not_base64.as_bytes()), KeyError::DamagedPem { .. }));
    assert!(matches!(refused(b"-----BEGIN PRIVATE KEY"), KeyError::DamagedPem { .. }));
    for whole in [der(RSA_PKCS1), der(RSA_PKCS8), der(ED25519)] {
        for len in 0..whole.len() {
            refused(&whole[..len]);
        }
        let mut flipped = whole.clone();
        for at in 0..whole.len().min(64) {
            flipped[at] ^= 0x41;
            let _ = SigningKey::from_pem_or_der(&flipped);
            flipped[at] ^= 0x41;
        }
    }
    assert!(matches!(refused(&[b'x'; 65537]), KeyError::TooLong { .. }));
    assert_eq!(refused(&[b'x'; 65536]), KeyError::UnknownFormat);
}
