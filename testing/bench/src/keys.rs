//! The keys a relay signs with, made anew for each run. In: a folder. Out: two PEM files (PKCS#8).

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use aws_lc_rs::encoding::AsDer as _;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::Ed25519KeyPair;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Where the keys are.
pub struct Keys {
    /// RSA, 2048 bits.
    pub rsa: PathBuf,
    /// Ed25519.
    pub ed25519: PathBuf,
}

impl Keys {
    /// Makes both keys in `folder`.
    ///
    /// # Errors
    /// No randomness, or the folder cannot be written.
    pub fn make(folder: &Path) -> anyhow::Result<Keys> {
        let keys = Keys { rsa: folder.join("rsa.pem"), ed25519: folder.join("ed25519.pem") };
        let rsa = KeyPair::generate(KeySize::Rsa2048).ok().context("cannot make an RSA key")?;
        let rsa = rsa.as_der().ok().context("cannot encode an RSA key")?;
        write(&keys.rsa, rsa.as_ref())?;
        let ed25519 = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).ok().context("cannot make a key")?;
        write(&keys.ed25519, ed25519.as_ref())?;
        Ok(keys)
    }
}

fn write(path: &Path, der: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, pem(der)).with_context(|| format!("cannot write {}", path.display()))
}

/// RFC 7468: lines of 64 characters.
fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem + "-----END PRIVATE KEY-----\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_keys_can_be_read_back() {
        let folder = tempfile::tempdir().expect("scratch folder");
        let keys = Keys::make(folder.path()).expect("keys");
        let der = |path: &Path| {
            let text = std::fs::read_to_string(path).expect("a file");
            assert!(text.lines().all(|line| line.len() <= 64), "{text}");
            let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
            STANDARD.decode(body).expect("base64")
        };
        let rsa = KeyPair::from_pkcs8(&der(&keys.rsa)).expect("an RSA key");
        assert_eq!(rsa.public_modulus_len(), 256);
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der(&keys.ed25519)).expect("an Ed25519 key");
    }
}
