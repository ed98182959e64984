//! Measures signing: body hashes of canonical and other bodies, whole signatures, and the bare RSA operation they stand on. Run
//! with `--release`; prints microseconds a call, the best of several rounds (the machine has others on it).

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mime::HeaderBlock;
use sender_auth::{BodyHashes, Canonicalization, Scratch, Signer, SignerParams, SigningKey};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const HEAD: &str = "Received: from client.test (client.test [192.0.2.1])\r\n by relay.test with ESMTP id 0123456789abcdef;\r\n Thu, 20 Nov 2025 10:00:00 +0000\r\n\
    From: Sender <sender@bench.test>\r\nTo: Recipient <r@sink.test>\r\nSubject: a message\r\nDate: Thu, 20 Nov 2025 10:00:00 +0000\r\n\
    Message-ID: <0123456789@bench.test>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nX-Campaign: none\r\n\r\n";

fn main() {
    let ed25519 = key(include_bytes!("../tests/keys/ed25519-pkcs8.pem"));
    let rsa = key(include_bytes!("../tests/keys/rsa2048-pkcs1.pem"));
    bare_rsa();
    for len in [10 * 1024, 100 * 1024] {
        let clean = body("The quick brown fox jumps over the lazy dog and runs far away from here.\r\n", len);
        let dirty = body("The quick brown fox jumps  over the lazy dog,\tand runs far away from here. \r\n", len);
        let mixed = format!("{clean}one line with two  spaces\r\n");
        let kb = len / 1024;
        for form in [Canonicalization::Relaxed, Canonicalization::Simple] {
            let tag = form.tag();
            measure(&format!("{kb} KB {tag}, canonical"), || hash(form, &clean));
            measure(&format!("{kb} KB {tag}, last line not canonical"), || hash(form, &mixed));
            measure(&format!("{kb} KB {tag}, no line canonical"), || hash(form, &dirty));
        }
        for (kind, body) in [("canonical", &clean), ("no line canonical", &dirty)] {
            sign(&format!("{kb} KB Ed25519, total, {kind}"), &[&ed25519], body);
            sign(&format!("{kb} KB RSA-2048, total, {kind}"), &[&rsa], body);
            sign(&format!("{kb} KB both, total, {kind}"), &[&rsa, &ed25519], body);
        }
    }
}

/// The operation of the crypto library, without anything around it.
fn bare_rsa() {
    let pem = include_str!("../tests/keys/rsa2048-pkcs1.pem");
    let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let key = RsaKeyPair::from_der(&STANDARD.decode(text).expect("base64")).expect("a key");
    let hash = digest(&SHA256, b"text");
    let mut signature = vec![0; key.public_modulus_len()];
    measure("the bare RSA-2048 operation", || {
        key.sign_digest(&RSA_PKCS1_SHA256, black_box(&hash), &mut signature).expect("signs");
    });
}

fn hash(form: Canonicalization, body: &str) {
    black_box(BodyHashes::new().get(form, black_box(body.as_bytes())));
}

fn sign(what: &str, keys: &[&Arc<SigningKey>], body: &str) {
    let headers = ["From", "To", "Subject", "Date", "Message-ID"];
    let params = |key: &&Arc<SigningKey>| SignerParams::new("bench.test", "s1", &headers, Arc::clone(key));
    let signers: Vec<Signer> = keys.iter().map(|key| Signer::new(params(key)).expect("valid options")).collect();
    let raw = format!("{HEAD}{body}").into_bytes();
    let mut scratch = Scratch::new();
    measure(what, || {
        let block = HeaderBlock::parse(black_box(&raw));
        let body = &raw[block.body_start()..];
        let hashes = BodyHashes::new();
        for signer in &signers {
            let field = signer.sign(1_763_000_000, block.view(&raw), body, &hashes, &mut scratch);
            black_box(field.expect("signs"));
        }
    });
}

fn key(pem: &[u8]) -> Arc<SigningKey> {
    Arc::new(SigningKey::from_pem_or_der(pem).expect("a usable key"))
}

fn body(line: &str, len: usize) -> String {
    line.repeat(len / line.len())
}

fn measure(what: &str, mut run: impl FnMut()) {
    const ROUNDS: u32 = 15;
    const CALLS: u32 = 300;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..CALLS {
            run();
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(CALLS));
    }
    println!("{what}: {:.2} us", best * 1e6);
}
