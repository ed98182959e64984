//! ARC: chains that hold, everything that breaks one, and the links we add.

mod common;
#[path = "common/signing.rs"]
mod signing;

use common::{Table, now, with_mail};
use sender_auth::Canonicalization::{Relaxed, Simple};
use sender_auth::Signer;
use sender_check::arc::{ArcCheck, ChainStatus, SealError, SealInput, Sealing, check_own, seal, verify};
use sender_check::dkim::PublicKey;
use sender_check::limits::ARC_SETS_MAX;
use sender_check::{AuthenticationResult, Mail};
use signing::{ED25519, Forger, RSA, signer};

const RAW: &str =
    "From: a@ex.example\r\nTo: b@ex.example\r\nSubject: x\r\n y\r\nAuthentication-Results: other; none\r\n\r\nline\r\n";
const NAMES: [&str; 5] = ["From", "To", "Subject", "Authentication-Results", "ARC-Seal"];
const PLACE: &str = "s1._domainkey.sign.example";

fn check(table: &Table, raw: &str) -> ArcCheck {
    with_mail(raw.as_bytes(), |mail| now(verify(table, mail)))
}

fn reason(table: &Table, raw: &str) -> String {
    let found = check(table, raw);
    assert_eq!((found.disposition, found.result.result.as_str()), (ChainStatus::Fail, "fail"), "{raw}");
    found.result.reason.expect("a reason")
}

fn sealed(table: &Table, signer: &Signer, raw: &str) -> Result<Sealing, SealError> {
    let result =
        AuthenticationResult { method: "spf".into(), result: "pass".into(), ..AuthenticationResult::default() };
    let input = SealInput { signer, server_id: "mx.sign.example", results: &[result], now_unix_secs: 1_700_000_000 };
    with_mail(raw.as_bytes(), |mail: &Mail<'_>| now(seal(table, mail, input)))
}

/// The message with one more set.
fn linked(table: &Table, signer: &Signer, raw: &str) -> String {
    let Ok(Sealing::Sealed { fields }) = sealed(table, signer, raw) else { panic!("not sealed: {raw}") };
    let fields: Vec<String> = fields.into_iter().rev().map(|field| String::from_utf8(field).expect("ASCII")).collect();
    fields.concat() + raw
}

fn chain(key: &[u8], links: usize) -> (Table, Signer, String) {
    let (signer, record) = signer(key, &NAMES, (Relaxed, Simple));
    let table = Table::new().with_txt(PLACE, &record);
    let raw = (0..links).fold(RAW.to_owned(), |raw, _| linked(&table, &signer, &raw));
    (table, signer, raw)
}

#[test]
fn our_chains_hold() {
    for key in [ED25519, RSA] {
        let (table, _, raw) = chain(key, 3);
        let found = check(&table, &raw);
        assert_eq!((found.disposition, found.sets, found.result.reason), (ChainStatus::Pass, 3, None));
        for field in [
            "ARC-Seal: i=3; a=",
            "ARC-Message-Signature: i=3; a=",
            "ARC-Authentication-Results: i=3; mx.sign.example;\r\n\tspf=pass\r\n",
        ] {
            assert!(raw.contains(field), "{field} in {raw}");
        }
        assert!(raw.contains("h=From:To:Subject;"), "what must not be signed is left out: {raw}");
        assert!(raw.contains("cv=none;") && raw.matches("cv=pass;").count() == 2, "{raw}");
    }
    assert_eq!(check(&Table::new(), RAW).disposition, ChainStatus::None);
}

#[test]
fn every_octet_of_a_chain_counts() {
    let (table, signer, raw) = chain(ED25519, 3);
    let edits = [
        ("line", "lime", "i=3: ARC-Message-Signature: the body does not fit its hash"),
        ("Subject: x", "Subject: z", "i=3: ARC-Message-Signature: the signature does not fit the header"),
        ("i=3; mx.sign.example;\r\n\tspf=pass", "i=3; mx.sign.example;\r\n\tspf=fail", "i=3: ARC-Seal: the signature"),
        ("i=1; mx.sign.example;\r\n\tspf=pass", "i=1; mx.sign.example;\r\n\tspf=fail", "i=3: ARC-Seal: the signature"),
        ("cv=none", "cv=pass", "i=1: ARC-Seal: cv= is \"pass\", expected none"),
        ("cv=pass", "cv=none", "i=3: ARC-Seal: cv= is \"none\", expected pass"),
        ("cv=pass", "cv=fail", "i=3: ARC-Seal: cv=fail"),
        ("cv=pass", "h=from; cv=pass", "i=3: ARC-Seal: there is a tag h="),
        ("ARC-Seal: i=3", "ARC-Seal: i=2", "arc-seal has i=2 twice"),
        ("ARC-Seal: i=3", "ARC-Seal: i=4", "arc-seal has i=4, but there are 3 sets"),
        ("ARC-Seal: i=3", "ARC-Seal: i=0", "arc-seal has no i= from 1"),
        ("ARC-Seal: i=3", "ARC-Seal: i=51", "arc-seal has no i= from 1"),
        ("ARC-Seal: i=2", "X-Seal: i=2", "arc-seal has no i=2"),
        (
            "ARC-Authentication-Results: i=2",
            "ARC-Authentication-Results: j=2",
            "arc-authentication-results has no i= from",
        ),
        ("ARC-Message-Signature: i=1", "X: i=1", "arc-message-signature has no i=1"),
        ("h=From:To", "h=From:ARC-Seal:To", "i=3: ARC-Message-Signature: h= has arc-seal"),
        ("a=ed25519-sha256", "a=rsa-sha1", "i=3: ARC-Seal: rsa-sha1"),
    ];
    for (from, to, expected) in edits {
        assert!(raw.contains(from), "{from}");
        let altered = raw.replacen(from, to, 1);
        let said = reason(&table, &altered);
        assert!(said.starts_with(expected), "{from} -> {to}: {said}");
        let sealed = sealed(&table, &signer, &altered);
        assert!(
            matches!(&sealed, Ok(Sealing::Broken { reason }) if *reason == said),
            "a broken chain is left: {sealed:?}"
        );
    }
}

/// The check before a set leaves finds what a receiver would find in it.
#[test]
fn our_own_set_is_checked_with_the_key_at_hand() {
    for key in [ED25519, RSA] {
        let (_, record) = signer(key, &NAMES, (Relaxed, Simple));
        let public = PublicKey::parse(record.as_bytes()).expect("a key");
        for links in 1..=3 {
            let (_, _, raw) = chain(key, links);
            let own = |raw: &str| with_mail(raw.as_bytes(), |mail| check_own(mail, &public));
            assert_eq!(own(&raw), Ok(()));
            let last = format!("i={links}; mx.sign.example;\r\n\tspf=");
            for (from, to, why) in [
                ("line", "lime", "ARC-Message-Signature: the body does not fit its hash"),
                ("Subject: x", "Subject: z", "ARC-Message-Signature: the signature does not fit the header"),
                (&*format!("{last}pass"), &*format!("{last}fail"), "ARC-Seal: the signature does not fit the header"),
                ("ARC-Seal: i=1", "ARC-Seal: i=9", "arc-seal has i=9"),
            ] {
                let altered = raw.replace(from, to);
                assert_ne!(altered, raw, "{from}");
                let found = own(&altered).expect_err(from);
                assert!(found.starts_with(why), "{from}: {found}");
            }
        }
        let (_, other) = signer(if key == RSA { ED25519 } else { RSA }, &NAMES, (Relaxed, Simple));
        let other = PublicKey::parse(other.as_bytes()).expect("a key");
        let (_, _, raw) = chain(key, 1);
        with_mail(raw.as_bytes(), |mail| check_own(mail, &other)).expect_err("another key");
    }
    let public = PublicKey::parse(signer(RSA, &NAMES, (Relaxed, Simple)).1.as_bytes()).expect("a key");
    assert_eq!(with_mail(RAW.as_bytes(), |mail| check_own(mail, &public)), Err("there is no set".to_owned()));
}

#[test]
fn an_earlier_seal_counts_too() {
    let (table, _, raw) = chain(ED25519, 1);
    // The second and third links are another's, who signs whatever there is.
    let forger = Forger::new();
    let seal = raw.find("b=").expect("a seal") + 2;
    let broken = format!("{}{}{}", &raw[..seal], if &raw[seal..=seal] == "A" { "B" } else { "A" }, &raw[seal + 1..]);
    assert!(reason(&table, &broken).starts_with("i=1: ARC-Seal: the signature"));
    let table = table.with_txt("f._domainkey.forger.example", &forger.record());
    assert_eq!(check(&table, &raw).disposition, ChainStatus::Pass);
    for (start, expected) in [(&raw, None), (&broken, Some("i=1: ARC-Seal: the signature"))] {
        let raw = forger_links(&forger, start);
        match expected {
            None => assert_eq!(check(&table, &raw).result.reason, None, "{raw}"),
            Some(expected) => assert!(reason(&table, &raw).starts_with(expected)),
        }
    }
}

/// The message with a second set by somebody who looks at nothing.
fn forger_links(forger: &Forger, raw: &str) -> String {
    let tags = "i=2; a=ed25519-sha256; c=relaxed/simple; d=forger.example; s=f; h=from:to; bh=BH;";
    let signed = forger.sign("ARC-Message-Signature", tags, &["from", "to"], raw.as_bytes());
    let signed = String::from_utf8(signed).expect("ASCII");
    let (signature, _) = signed.split_once("\r\n").expect("a line");
    let with_set = format!("{signature}\r\nX-Results: i=2; forger.example; none\r\n{raw}")
        .replace("X-Results", "ARC-Authentication-Results");
    let seal = forger.seal("i=2; a=ed25519-sha256; cv=pass; d=forger.example; s=f;", &in_order(&with_set));
    format!("{seal}{with_set}")
}

/// The ARC fields of a message with two sets and one seal, in the order the second seal signs them.
fn in_order(raw: &str) -> Vec<String> {
    let block = mime::HeaderBlock::parse(raw.as_bytes());
    let view = block.view(raw.as_bytes());
    let mut found = Vec::new();
    for instance in ["i=1;", "i=2;"] {
        for name in ["ARC-Authentication-Results", "ARC-Message-Signature", "ARC-Seal"] {
            let of = view.named(name).find(|field| field.value.starts_with(instance.as_bytes()));
            found.extend(of.map(|field| String::from_utf8(field.whole.to_vec()).expect("ASCII")));
        }
    }
    found
}

#[test]
fn keys_are_asked_for() {
    let (table, _, raw) = chain(ED25519, 2);
    assert!(reason(&Table::new(), &raw).contains("there is no key at s1._domainkey.sign.example"));
    assert!(reason(&Table::new().with_silence(PLACE), &raw).contains("no answer from DNS in time"));
    let before = table.questions();
    check(&table, &raw);
    assert_eq!(table.questions() - before, 3);
}

#[test]
fn sets_at_the_bound_and_past_it() {
    let (table, signer, raw) = chain(ED25519, ARC_SETS_MAX);
    assert_eq!(check(&table, &raw).sets, ARC_SETS_MAX);
    assert_eq!(sealed(&table, &signer, &raw), Err(SealError::Full));
    let more = format!("ARC-Seal: i=51; cv=pass\r\n{raw}");
    assert_eq!(reason(&table, &more), "more than 50 sets");
}

#[test]
fn results_that_cannot_be_written_are_refused() {
    let (table, signer, _) = chain(ED25519, 0);
    let result =
        AuthenticationResult { method: "a b".into(), result: "pass".into(), ..AuthenticationResult::default() };
    let input = SealInput { signer: &signer, server_id: "mx", results: &[result], now_unix_secs: 0 };
    let sealed = with_mail(RAW.as_bytes(), |mail| now(seal(&table, mail, input)));
    assert!(matches!(sealed, Err(SealError::Results(_))), "{sealed:?}");
}
