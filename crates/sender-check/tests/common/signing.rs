//! Signatures with any tags, correct or not: what our signer would never make.
#![allow(dead_code, reason = "each test program uses another part of it")]

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mime::HeaderBlock;
use sender_auth::{Canonicalization, Signer, SignerParams, SigningKey, push_field};
use std::sync::Arc;

/// Keys of the tests of `sender-auth`.
pub const ED25519: &[u8] = include_bytes!("../../../sender-auth/tests/keys/ed25519-pkcs8.pem");
pub const RSA: &[u8] = include_bytes!("../../../sender-auth/tests/keys/rsa2048-pkcs8.pem");

/// A key that signs what it is told to.
pub struct Forger(Ed25519KeyPair);

impl Forger {
    pub fn new() -> Forger {
        Forger(Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("32 octets"))
    }

    /// What is published for it.
    pub fn record(&self) -> String {
        format!("v=DKIM1; k=ed25519; p={}", STANDARD.encode(self.0.public_key().as_ref()))
    }

    /// `raw` with one more field on top: `name: tags; bh=...; b=...`, relaxed, over the fields `signed`.
    pub fn sign(&self, name: &str, tags: &str, signed: &[&str], raw: &[u8]) -> Vec<u8> {
        let block = HeaderBlock::parse(raw);
        let body_hash = STANDARD.encode(digest(&SHA256, &raw[block.body_start()..]));
        let mut data = Vec::new();
        for name in signed {
            push_field(Canonicalization::Relaxed, &block.view(raw).first(name).expect("there"), &mut data);
        }
        let tags = tags.replace("BH", &body_hash);
        data.extend_from_slice(format!("{}:{tags} b=", name.to_ascii_lowercase()).as_bytes());
        let signature = self.0.sign(digest(&SHA256, &data).as_ref());
        [format!("{name}: {tags} b={}\r\n", STANDARD.encode(signature)).as_bytes(), raw].concat()
    }

    /// An `ARC-Seal` with these tags over these fields.
    pub fn seal(&self, tags: &str, fields: &[String]) -> String {
        let mut data = Vec::new();
        for field in fields {
            let block = HeaderBlock::parse(field.as_bytes());
            block
                .view(field.as_bytes())
                .iter()
                .for_each(|field| push_field(Canonicalization::Relaxed, &field, &mut data));
        }
        data.extend_from_slice(format!("arc-seal:{tags} b=").as_bytes());
        let signature = self.0.sign(digest(&SHA256, &data).as_ref());
        format!("ARC-Seal: {tags} b={}\r\n", STANDARD.encode(signature))
    }
}

/// A signer of ours.
pub fn signer(key: &[u8], headers: &[&str], forms: (Canonicalization, Canonicalization)) -> (Signer, String) {
    let key = Arc::new(SigningKey::from_pem_or_der(key).expect("a key"));
    let record = key.dns_record().expect("a record");
    let mut params = SignerParams::new("sign.example", "s1", headers, key);
    (params.header_canonicalization, params.body_canonicalization) = forms;
    (Signer::new(params).expect("sound options"), record)
}
