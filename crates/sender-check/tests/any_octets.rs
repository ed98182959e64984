//! Whatever comes in, a result comes out: no panic, and nothing that cannot be written into a header field.

mod common;

use common::{Table, now, with_mail};
use mimepart::{AuthenticationResults, FieldKind, FieldValue};
use proptest::prelude::*;
use sender_check::arc;
use sender_check::dkim::{self, PublicKey};
use sender_check::dmarc::{self, DmarcInput, DmarcRecord};
use sender_check::limits::{ARC_SETS_MAX, SIGNATURES_MAX};
use sender_check::spf::{SpfQuery, SpfRecord, check_host};
use sender_check::tags::Tags;
use sender_check::{AuthenticationResult, iprev};
use std::time::{Duration, Instant};

/// Text that is nearly something: pieces of tag lists and records, and any octets between.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&str] = &[
        "v=1;",
        "v=DKIM1;",
        "v=DMARC1;",
        "v=spf1 ",
        "a=rsa-sha256;",
        "a=ed25519-sha256;",
        "b=AAAA;",
        "bh=AAAA;",
        "d=a.example;",
        "s=s;",
        "h=from;",
        "h=from:to:arc-seal;",
        "i=1;",
        "i=@a.example;",
        "i=50;",
        "l=1;",
        "l=99999999999999999999;",
        "x=1;",
        "c=simple/relaxed;",
        "cv=none;",
        "cv=pass;",
        "k=ed25519;",
        "p=;",
        "p=reject;",
        "pct=5;",
        "q=dns/txt;",
        "t=s;",
        "include:a.example ",
        "redirect=a.example",
        "a//129 ",
        "mx/24 ",
        "ip4:1.2.3.4/8 ",
        "ip6:::/0 ",
        "exists:%{ir}.%{d1r} ",
        "exp=%{p}.a.example ",
        "ptr ",
        "-all",
        "%{",
        "%{S128r.-+,/_=}.a.example ",
        "\r\n\t",
        " ",
        ";",
        "=",
        "\u{fc}",
    ];
    let piece = prop_oneof![
        8 => proptest::sample::select(pieces).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    let names: &[&str] = &[
        "DKIM-Signature",
        "ARC-Seal",
        "ARC-Message-Signature",
        "ARC-Authentication-Results",
        "From",
        "dkim-signature ",
        "",
    ];
    let field = (proptest::sample::select(names), nearly()).prop_map(|(name, value)| {
        let value: Vec<u8> = value.into_iter().filter(|octet| !matches!(octet, b'\r' | b'\n')).collect();
        [name.as_bytes(), b": ", &value, b"\r\n"].concat()
    });
    let fields = proptest::collection::vec(field, 0..20).prop_map(|fields| fields.concat());
    (fields, nearly()).prop_map(|(fields, body)| [fields.as_slice(), b"From: a@a.example\r\n\r\n", &body].concat())
}

fn check_writable(results: Vec<AuthenticationResult>) {
    let value = AuthenticationResults { serv_id: "mx.example".to_owned(), version: None, results };
    let written =
        FieldKind::AuthenticationResults.write("Authentication-Results", &FieldValue::AuthenticationResults(value));
    assert!(written.is_ok(), "{written:?}");
}

proptest! {
    #[test]
    fn parsers_take_anything(text in nearly()) {
        let _ = Tags::parse(&text);
        let _ = SpfRecord::parse(&text);
        let _ = DmarcRecord::parse(&text);
        let _ = PublicKey::parse(&text);
    }

    #[test]
    fn messages_and_answers_may_be_anything(raw in message(), text in nearly(), word in "[ -~]{0,40}") {
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut table = Table::new().with_ptr("4.3.2.1.in-addr.arpa", &word).with_ip("a.example", "1.2.3.4");
        for name in ["a.example", "s._domainkey.a.example", "_dmarc.a.example"] {
            table = table.with_txt(name, &text);
        }
        let ip = [1, 2, 3, 4].into();
        let query = SpfQuery { ip, domain: "a.example", sender: Some(&word), helo: &word, receiver: &word, now_unix_secs: 7 };
        let spf = now(check_host(&table, &query));
        let mut results = with_mail(&raw, |mail| {
            let mut results = now(dkim::verify(&table, mail, 7));
            assert!(results.len() <= SIGNATURES_MAX);
            let input = DmarcInput { dkim: &results, spf: &spf.result, sample_percent: 0 };
            let dmarc = now(dmarc::check(&table, mail.headers(), input));
            let arc = now(arc::verify(&table, mail));
            assert!(arc.sets <= ARC_SETS_MAX);
            results.extend([dmarc.result, arc.result]);
            results
        });
        results.extend([spf.result, now(iprev(&table, ip))]);
        check_writable(results);
    }
}

/// The work grows with the octets and with nothing else: each of these is a few megabytes made to cost more than it should.
#[test]
fn hostile_messages_take_no_longer_than_large_ones() {
    let table = Table::new();
    let tags = "a=ed25519-sha256; c=relaxed/relaxed; d=a.example; s=s; bh=AAAA; b=AAAA;";
    let names = "x:".repeat(1_900);
    let signature = format!("DKIM-Signature: v=1; {tags} h={names}from;\r\n");
    let long = format!("DKIM-Signature: v=1; {tags} h=from; z={}\r\n", "x".repeat(3_000_000));
    let many_tags = format!("DKIM-Signature: {}\r\n", (0..400_000).map(|n| format!("t{n}=;")).collect::<String>());
    let seals = |count: usize| (0..count).map(|n| format!("ARC-Seal: i={n}; cv=pass; {tags}\r\n")).collect::<String>();
    let letters = [
        signature.repeat(1_000) + &"x: y\r\n".repeat(8_000),
        long.clone(),
        many_tags,
        seals(9_000),
        format!("{}From: {}\r\n", "DKIM-Signature: ;\r\n".repeat(9_000), "a@a.example, ".repeat(100_000)),
    ];
    for raw in letters {
        let raw = format!("{raw}From: a@a.example\r\n\r\n{}", " \t\r\n".repeat(500_000));
        let began = Instant::now();
        with_mail(raw.as_bytes(), |mail| {
            assert!(now(dkim::verify(&table, mail, 7)).iter().all(|result| result.result != "pass"));
            now(arc::verify(&table, mail));
            let spf = AuthenticationResult::default();
            now(dmarc::check(&table, mail.headers(), DmarcInput { dkim: &[], spf: &spf, sample_percent: 0 }));
        });
        // A hundred times what it takes; anything quadratic takes minutes.
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}: {}", began.elapsed(), &raw[..60]);
    }
}

/// A record of the greatest length in which every term expands to the greatest length.
#[test]
fn hostile_records_take_no_longer_than_large_ones() {
    let record = format!("v=spf1 {}-all", "exists:%{s}%{s}%{s}%{s}%{s}%{s}%{s}.example ".repeat(380));
    let nested = format!("v=spf1 {}", "include:a.example ".repeat(900));
    for record in [record, nested, format!("v=spf1 {}", "ip4:1.2.3.4 ".repeat(1_300))] {
        let table = Table::new().with_txt("a.example", &record);
        let sender = format!("{}@a.example", "x".repeat(500));
        let ip = [9, 9, 9, 9].into();
        let query =
            SpfQuery { ip, domain: "a.example", sender: Some(&sender), helo: "h", receiver: "r", now_unix_secs: 7 };
        let began = Instant::now();
        now(check_host(&table, &query));
        assert!(began.elapsed() < Duration::from_secs(5) && table.questions() <= 12, "{:?}", began.elapsed());
    }
}

/// Policy runs on any thread: what it waits for can move.
#[test]
fn checks_can_move_between_threads() {
    fn can_move<T: Send>(_: &T) {}
    let table = Table::new();
    let ip = [1, 2, 3, 4].into();
    let query = SpfQuery { ip, domain: "a.example", sender: None, helo: "h", receiver: "r", now_unix_secs: 7 };
    let spf = AuthenticationResult::default();
    can_move(&check_host(&table, &query));
    can_move(&iprev(&table, ip));
    with_mail(b"From: a@a.example\r\n\r\n", |mail| {
        can_move(&dkim::verify(&table, mail, 7));
        can_move(&arc::verify(&table, mail));
        can_move(&dmarc::check(&table, mail.headers(), DmarcInput { dkim: &[], spf: &spf, sample_percent: 0 }));
    });
    let key =
        sender_auth::SigningKey::from_pem_or_der(include_bytes!("../../sender-auth/tests/keys/ed25519-pkcs8.pem"));
    let params = sender_auth::SignerParams::new("a.example", "s", &["From"], key.expect("a key").into());
    let signer = sender_auth::Signer::new(params).expect("sound options");
    let input = arc::SealInput { signer: &signer, server_id: "mx", results: &[], now_unix_secs: 7 };
    with_mail(b"From: a@a.example\r\n\r\n", |mail| can_move(&arc::seal(&table, mail, input)));
}
