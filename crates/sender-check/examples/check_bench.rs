//! Measures SPF with answers of DNS at hand, verifying a signature, and what the check of a signature adds to making it. Run with
//! `--release`; prints microseconds a call, the best of several rounds (the machine has others on it).

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/common/signing.rs"]
mod signing;

use common::{Table, now, with_mail};
use mime::HeaderBlock;
use sender_auth::Canonicalization::Relaxed;
use sender_auth::{BodyHashes, Scratch};
use sender_check::Mail;
use sender_check::dkim::{self, PublicKey};
use sender_check::spf::{SpfDisposition, SpfQuery, check_host};
use std::hint::black_box;
use std::time::Instant;

const HEADER: &str = "From: A <a@sign.example>\r\nTo: b@there.example\r\nSubject: a message\r\n\
    Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <1@sign.example>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\n";

fn main() {
    spf();
    for kb in [10, 100] {
        let raw =
            format!("{HEADER}{}", "The quick brown fox jumps over the lazy dog and runs away.\r\n".repeat(kb * 17));
        for (name, key) in [("Ed25519", signing::ED25519), ("RSA-2048", signing::RSA)] {
            signatures(&format!("{kb} KB, {name}"), key, raw.as_bytes());
        }
    }
}

/// A record with an include, an address behind a name, and a network: four questions.
fn spf() {
    let table = Table::new()
        .with_txt("ex.example", "v=spf1 a:mx.ex.example include:_spf.ex.example -all")
        .with_txt("_spf.ex.example", "v=spf1 ip4:198.51.100.0/24 ip4:192.0.2.0/24 ~all")
        .with_ip("mx.ex.example", "203.0.113.1");
    let ip = [192, 0, 2, 1].into();
    let query = SpfQuery::of_envelope(ip, "a@ex.example", "mx.ex.example", "here.example", 0);
    measure("SPF, two records and an address", || {
        assert_eq!(now(check_host(&table, black_box(&query))).disposition, SpfDisposition::Pass);
    });
}

fn signatures(what: &str, key: &[u8], raw: &[u8]) {
    let names = ["From", "To", "Subject", "Date", "Message-ID"];
    let (signer, record) = signing::signer(key, &names, (Relaxed, Relaxed));
    let public = PublicKey::parse(record.as_bytes()).expect("a key");
    let table = Table::new().with_txt("s1._domainkey.sign.example", &record);
    let mut scratch = Scratch::new();
    let mut sign = |checks: bool| {
        let block = HeaderBlock::parse(black_box(raw));
        let (headers, body) = (block.view(raw), &raw[block.body_start()..]);
        let field = signer.sign(1_700_000_000, headers, body, &BodyHashes::new(), &mut scratch).expect("signs");
        if checks {
            let made = HeaderBlock::parse(&field);
            let view = made.view(&field).get(0).expect("a field");
            dkim::check_own(&Mail::new(headers, body), &view, &public, 1_700_000_000).expect("holds");
        }
        field
    };
    measure(&format!("{what}: sign"), || drop(black_box(sign(false))));
    measure(&format!("{what}: sign and check"), || drop(black_box(sign(true))));
    let signed = [&sign(false), raw].concat();
    measure(&format!("{what}: verify"), || {
        let results = with_mail(black_box(&signed), |mail| now(dkim::verify(&table, mail, 1_700_000_000)));
        assert_eq!(results[0].result, "pass");
    });
}

fn measure(what: &str, mut run: impl FnMut()) {
    const ROUNDS: u32 = 15;
    const CALLS: u32 = 300;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        (0..CALLS).for_each(|_| run());
        best = best.min(start.elapsed().as_secs_f64() / f64::from(CALLS));
    }
    println!("{what}: {:.2} us", best * 1e6);
}
