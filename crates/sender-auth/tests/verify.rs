//! Signatures checked by the independent verifier of `common`: random messages, both key types, all
//! canonicalization pairs; and that the verifier does notice a change.

mod common;

use mime::{HeaderBlock, ValueForm};
use proptest::prelude::*;
use sender_auth::{BodyHashes, Canonicalization, Scratch, Signer, SignerParams, SigningKey};
use std::sync::Arc;

const FORMS: [Canonicalization; 2] = [Canonicalization::Relaxed, Canonicalization::Simple];

fn keys() -> [Arc<SigningKey>; 2] {
    let load = |pem: &[u8]| Arc::new(SigningKey::from_pem_or_der(pem).expect("a usable key"));
    [load(include_bytes!("keys/ed25519-pkcs8.pem")), load(include_bytes!("keys/rsa2048-pkcs1.pem"))]
}

/// One signer for each key and canonicalization pair, every second one over-signing.
fn signers() -> Vec<(Signer, String)> {
    let mut out = Vec::new();
    for key in keys() {
        for header in FORMS {
            for body in FORMS {
                let names = ["From", "to", "Subject", "Date", "X-Multi", "X-Multi", "Absent"];
                let mut params = SignerParams::new("sender.example.com", "sel", &names, Arc::clone(&key));
                params.header_canonicalization = header;
                params.body_canonicalization = body;
                params.over_sign = out.len() % 2 == 1;
                params.expiration_secs = (header == body).then_some(3600);
                let record = key.dns_record().expect("a public key");
                out.push((Signer::new(params).expect("valid options"), record));
            }
        }
    }
    out
}

/// The message as it is sent with `field` in front.
fn sealed(block: &HeaderBlock, raw: &[u8], field: Vec<u8>) -> Vec<u8> {
    let mut block = block.clone();
    block.prepend_field(field).expect("a signature is a header field");
    let mut out = Vec::new();
    block.write_head_to(raw, &mut out);
    out.extend_from_slice(&raw[block.body_start()..]);
    out
}

fn check_all(signers: &[(Signer, String)], raw: &[u8], edit: bool) {
    let mut block = HeaderBlock::parse(raw);
    if edit {
        block.prepend("X-Multi", b"front\r\n\tfolded ", ValueForm::Raw).expect("valid");
        block.append("x-multi", b"  back", ValueForm::Raw).expect("valid");
        block.remove_all(raw, "X-Gone");
    }
    let body = &raw[block.body_start()..];
    let hashes = BodyHashes::new();
    let mut scratch = Scratch::new();
    for (signer, record) in signers {
        let field = signer.sign(1_700_000_000, block.view(raw), body, &hashes, &mut scratch);
        let message = sealed(&block, raw, field.expect("signs"));
        let verdict = common::verify(&message, record);
        assert_eq!(verdict, Ok(()), "{}", String::from_utf8_lossy(&message));
    }
}

fn header_soup() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just("plain value".to_owned()),
        Just(" two  spaces\tand tab ".to_owned()),
        Just("folded\r\n here\r\n\t and here".to_owned()),
        Just("\r\n folded at once".to_owned()),
        Just(String::new()),
        "[!-~ ]{0,60}",
        "\\PC{0,10}",
    ];
    let name = prop_oneof![
        Just("From"),
        Just("From "),
        Just("To"),
        Just("subject"),
        Just("X-Multi"),
        Just("X-MULTI"),
        Just("X-Gone"),
        Just("Date")
    ];
    proptest::collection::vec((name, value), 1..12)
        .prop_map(|fields| fields.iter().map(|(n, v)| format!("{n}:{v}\r\n")).collect())
}

fn body_soup() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\r\n".to_vec()),
        Just(b" \t".to_vec()),
        Just(b"a line of text\r\n".to_vec()),
        Just(b".\r\n..\r\n".to_vec()),
        proptest::collection::vec(128..=255u8, 1..6),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|p| p.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn random_messages_verify(head in header_soup(), body in body_soup(), edit: bool) {
        let raw = [head.as_bytes(), b"\r\n", &body].concat();
        check_all(&signers(), &raw, edit);
    }
}

#[test]
fn the_verifier_notices_changes() {
    let raw = b"From: a@b\r\nTo: c@d\r\nSubject: hello\r\n\r\nbody text\r\n";
    let block = HeaderBlock::parse(raw);
    for (signer, record) in signers() {
        let body = &raw[block.body_start()..];
        let field = signer.sign(1, block.view(raw), body, &BodyHashes::new(), &mut Scratch::new());
        let message = sealed(&block, raw, field.expect("signs"));
        assert_eq!(common::verify(&message, &record), Ok(()));
        let text = String::from_utf8(message).expect("ASCII");
        for (from, to) in [("a@b", "x@b"), ("body text", "body  txt"), ("t=1;", "t=2;"), ("hello", "hell0")] {
            let changed = text.replacen(from, to, 1);
            assert!(common::verify(changed.as_bytes(), &record).is_err(), "{from} to {to}");
        }
        let bent = text.replacen("\r\nFrom:", "\r\nFrom: added@x\r\nFrom:", 1);
        let over_signed = text.matches("From:").count() > 2;
        assert_eq!(common::verify(bent.as_bytes(), &record).is_err(), over_signed, "{text}");
    }
}

#[test]
fn one_scratch_serves_different_signers_and_messages() {
    let messages: [&[u8]; 3] =
        [b"From: a\r\n\r\nx\r\n", b"From: b\r\nTo: c\r\nTo: d\r\n\r\n", b"Subject: none\r\n\r\ny"];
    let mut scratch = Scratch::new();
    for raw in messages {
        let block = HeaderBlock::parse(raw);
        let hashes = BodyHashes::new();
        for (signer, record) in &signers() {
            let body = &raw[block.body_start()..];
            let field = signer.sign(1, block.view(raw), body, &hashes, &mut scratch);
            let message = sealed(&block, raw, field.expect("signs"));
            assert_eq!(common::verify(&message, record), Ok(()));
        }
    }
}
