//! DKIM verification: the examples of the RFCs, every tag that can be wrong, every bound.

mod common;
#[path = "common/signing.rs"]
mod signing;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{Table, now, with_mail};
use sender_auth::Canonicalization::{Relaxed, Simple};
use sender_auth::{BodyHashes, Scratch};
use sender_check::dkim::{Claim, KeyTrouble, PublicKey, check_own};
use sender_check::limits::{KEY_RECORDS_MAX, SIGNATURES_MAX, SIGNED_NAMES_MAX};
use sender_check::{AuthenticationResult, dkim};
use signing::{ED25519, Forger, RSA, signer};

const NOW: u64 = 1_700_000_000;
const RAW: &[u8] = b"From: a@ex.example\r\nTo: b@ex.example\r\nSubject: x\r\n\r\nline\r\n";
const PLACE: &str = "s._domainkey.ex.example";
const TAGS: &str = "v=1; a=ed25519-sha256; c=relaxed/simple; d=ex.example; s=s; h=from:to; bh=BH;";

fn verify(table: &Table, raw: &[u8]) -> Vec<AuthenticationResult> {
    with_mail(raw, |mail| now(dkim::verify(table, mail, NOW)))
}

/// Result and reason of the one signature.
fn only(table: &Table, raw: &[u8]) -> (String, String) {
    let mut results = verify(table, raw);
    assert_eq!(results.len(), 1);
    let result = results.remove(0);
    (result.result, result.reason.unwrap_or_default())
}

fn published() -> Table {
    Table::new().with_txt(PLACE, &Forger::new().record())
}

fn forged(tags: &str) -> Vec<u8> {
    Forger::new().sign("DKIM-Signature", tags, &["from", "to"], RAW)
}

const DINNER: &str = "From: Joe SixPack <joe@football.example.com>\r\n\
    To: Suzie Q <suzie@shopping.example.net>\r\n\
    Subject: Is dinner ready?\r\n\
    Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
    Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n\
    \r\n\
    Hi.\r\n\
    \r\n\
    We lost the game. Are you hungry yet?\r\n\
    \r\n\
    Joe.\r\n";

#[test]
fn the_example_of_rfc_6376_appendix_a() {
    let key = "v=DKIM1; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDwIRP/UC3SBsEmGqZ9ZJW3/DkMoGeLnQg1fWn7/zYtIxN2SnFCjxOCKG9v3b4jYfcT\
        Nh5ijSsq631uBItLa7od+v/RtdC2UzJ1lWT947qR+Rcac2gbto/NMqJ0fzfVjH4OuKhitdY9tf6mcwGjaNBcWToIMmPSPDdQPNUYckcQ2QIDAQAB";
    let raw = format!(
        "DKIM-Signature: v=1; a=rsa-sha256; s=brisbane; d=example.com;\r\n      c=simple/simple; q=dns/txt; i=joe@football.example.com;\r\n      \
         h=Received : From : To : Subject : Date : Message-ID;\r\n      bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n      \
         b=AuUoFEfDxTDkHlLXSZEpZj79LICEps6eda7W3deTVFOk4yAUoqOB\r\n      4nujc7YopdG5dWLSdNg6xNAZpOPr+kHxt1IrE+NahM6L/LbvaHut\r\n      \
         KVdkLLkpVaVVQPzeRDI009SO2Il5Lu7rDNH6mZckBdrIx0orEtZV\r\n      4bmp/YzhwvcubU4=;\r\n\
         Received: from client1.football.example.com  [192.0.2.1]\r\n      by submitserver.example.com with SUBMISSION;\r\n      \
         Fri, 11 Jul 2003 21:01:54 -0700 (PDT)\r\n{DINNER}"
    );
    let table = Table::new().with_txt("brisbane._domainkey.example.com", key);
    let results = verify(&table, raw.as_bytes());
    assert_eq!((results[0].result.as_str(), results[0].reason.as_deref()), ("pass", None));
    let props: Vec<(&str, &str)> =
        results[0].props.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("header.a", "rsa-sha256"),
        ("header.b", "AuUoFEfD"),
        ("header.d", "example.com"),
        ("header.i", "joe@football.example.com"),
        ("header.s", "brisbane"),
    ];
    assert_eq!(props, expected);
    assert_eq!(only(&table, raw.replace("game. Are", "game.  Are").as_bytes()).1, "the body does not fit its hash");
    let altered = raw.replace("dinner ready", "supper ready");
    assert_eq!(only(&table, altered.as_bytes()).1, "the signature does not fit the header");
}

#[test]
fn the_example_of_rfc_8463_appendix_a() {
    let raw = format!(
        "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n \
         q=dns/txt; s=brisbane; t=1528637909; h=from : to :\r\n subject : date : message-id : from : subject : date;\r\n \
         bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b=/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11Bus\r\n \
         Fa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==\r\n\
         DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed;\r\n d=football.example.com; i=@football.example.com;\r\n \
         q=dns/txt; s=test; t=1528637909; h=from : to : subject :\r\n date : message-id : from : subject : date;\r\n \
         bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;\r\n b=F45dVWDfMbQDGHJFlXUNB2HKfbCeLRyhDXgFpEL8GwpsRe0IeIixNTe3\r\n \
         DhCVlUrSjV4BwcVcOF6+FF3Zo9Rpo1tFOeS9mPYQTnGdaSGsgeefOsk2Jz\r\n dA+L10TeYt9BgDfQNZtKdN1WO//KgIqXP7OdEFE4LjFYNcUxZQ4FADY+8=\r\n{DINNER}"
    );
    let rsa = "v=DKIM1; k=rsa; p=MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDkHlOQoBTzWRiGs5V6NpP3idY6Wk08a5qhdR6wy5bdOKb2jLQiY/J16JYi0Qvx/b\
        yYzCNb3W91y3FutACDfzwQ/BC/e/8uBsCR+yz1Lxj+PL6lHvqMKrM3rG4hstT5QjvHO9PzoxZyVYLzBfO2EeC3Ip3G+2kryOTIKT+l/K4w3QIDAQAB";
    let table = Table::new()
        .with_txt(
            "brisbane._domainkey.football.example.com",
            "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        )
        .with_txt("test._domainkey.football.example.com", rsa);
    let words = |raw: &str| verify(&table, raw.as_bytes()).into_iter().map(|r| r.result).collect::<Vec<_>>();
    assert_eq!(words(&raw), ["pass", "pass"]);
    assert_eq!(words(&raw.replace("game. Are", "game.  Are")), ["pass", "pass"], "relaxed");
    assert_eq!(words(&raw.replace("Subject: Is", "Subject: Was")), ["fail", "fail"]);
}

#[test]
fn what_is_sound_passes() {
    let table = published();
    for tags in [
        TAGS.to_owned(),
        TAGS.replace("d=ex", "i=x@sub.ex.example; q=dns/foo : dns/txt; z=copied; n=\"x; d=ex").replace("\"x;", ";"),
        format!("{TAGS} t=1; x={NOW};"),
        TAGS.replace("d=ex.example", "d=Ex.Example"),
        TAGS.replace("from:to", "from:to:cc:cc"),
    ] {
        assert_eq!(only(&table, &forged(&tags)), ("pass".to_owned(), String::new()), "{tags}");
    }
    let (word, reason) = only(&table, &with_length(4));
    assert_eq!((word.as_str(), reason.as_str()), ("pass", "l= leaves 2 octets of the body unsigned"));
}

/// A signature with `l=` over the first octets of the body.
fn with_length(octets: usize) -> Vec<u8> {
    let hash = STANDARD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &b"line\r\n"[..octets.min(6)]));
    forged(&TAGS.replace("bh=BH", &format!("l={octets}; bh={hash}")))
}

#[test]
fn what_is_wrong_in_a_signature_is_said() {
    let table = published();
    let edits = [
        ("v=1;", "", "permerror", "there is no tag v="),
        ("v=1", "v=2", "permerror", "v= is \"2\", expected 1"),
        ("ed25519-sha256", "rsa-sha1", "policy", "rsa-sha1 proves nothing any more (RFC 8301)"),
        ("ed25519-sha256", "x", "permerror", "a= is \"x\""),
        ("ed25519-sha256", "rsa-sha256", "permerror", "the key is for another algorithm"),
        ("relaxed/simple", "x", "permerror", "c= is \"x\""),
        ("d=ex.example", "d=ex..example", "permerror", "d= is \"ex..example\", expected a domain name"),
        ("s=s;", "s=t;", "permerror", "there is no key at t._domainkey.ex.example"),
        ("from:to", "to", "permerror", "h= does not have From"),
        ("bh=BH", "bh=!", "permerror", "bh= is not base64"),
        ("bh=BH", "bh=AAAA", "fail", "the body does not fit its hash"),
        ("v=1", "v=1; l=x", "permerror", "l= is \"x\", expected a number"),
        ("v=1", "v=1; q=foo", "permerror", "q= is \"foo\", expected dns/txt among it"),
        ("v=1", "v=1; i=x@other.example", "permerror", "i= is \"x@other.example\""),
        ("v=1", "v=1; i=x@notex.example", "permerror", "i= is \"x@notex.example\""),
        ("v=1", "v=1; t=5; x=5", "permerror", "x= is not later than t="),
        ("v=1", "v=1; x=1699999999", "fail", "the signature expired at 1699999999"),
        ("v=1", "v=1; v=1", "permerror", "tag v= is there twice"),
        ("v=1", "v=1; x", "permerror", "tag \"x\" has no value"),
        ("from:to", "from", "fail", "the signature does not fit the header"),
        ("from:to", "from:to:subject", "fail", "the signature does not fit the header"),
    ];
    for (from, to, word, reason) in edits {
        let (found, said) = only(&table, &forged(&TAGS.replace(from, to)));
        assert!(found == word && said.starts_with(reason), "{from} -> {to}: {found} {said}");
    }
    assert_eq!(only(&table, &with_length(7)).1, "l= is 7, but the canonical body has 6 octets");
    let signed = forged(TAGS);
    let text = String::from_utf8(signed).expect("ASCII");
    for (from, to, reason) in [
        ("line", "lime", "the body does not"),
        ("b@ex", "c@ex", "the signature does not"),
        (" b=", " b=x", "b= is not"),
    ] {
        let (word, said) = only(&table, text.replace(from, to).as_bytes());
        assert!(word != "pass" && said.starts_with(reason), "{from}: {said}");
    }
}

#[test]
fn what_is_wrong_with_a_key_is_said() {
    let record = Forger::new().record();
    let signed = forged(TAGS);
    let with = |text: &str| only(&Table::new().with_txt(PLACE, text), &signed);
    for (text, word, reason) in [
        (record.clone(), "pass", ""),
        (format!("{record}; t=y:s"), "pass", ""),
        (record.replace("DKIM1", "DKIM2"), "permerror", "the key: v= is \"DKIM2\""),
        (format!("{record}; h=sha1"), "permerror", "the key: h= is \"sha1\""),
        (format!("{record}; s=other"), "permerror", "the key: s= is \"other\""),
        ("v=DKIM1; k=ed25519; p=".to_owned(), "permerror", "the key: it is revoked"),
        ("v=DKIM1; k=ed25519; p=AAAA".to_owned(), "permerror", "the key: p= is not base64 of 32 octets"),
        ("nothing".to_owned(), "permerror", "the key: tag \"nothing\" has no value"),
    ] {
        let (found, said) = with(&text);
        assert!(found == word && said.starts_with(reason), "{text}: {found} {said}");
    }
    let strict = Table::new().with_txt(PLACE, &format!("{record}; t=s"));
    let (word, _) = only(&strict, &forged(&TAGS.replace("v=1", "v=1; i=x@sub.ex.example")));
    assert_eq!(word, "permerror");
    assert_eq!(only(&Table::new().with_silence(PLACE), &signed).0, "temperror");
    assert_eq!(only(&Table::new().with_txt(PLACE, "x").with_txt(PLACE, &record), &signed).0, "pass");
    let late = (0..KEY_RECORDS_MAX).fold(Table::new(), |table, _| table.with_txt(PLACE, "x")).with_txt(PLACE, &record);
    assert_eq!(only(&late, &signed).0, "permerror");
}

#[test]
fn small_keys_prove_nothing() {
    let signed = forged(&TAGS.replace("ed25519", "rsa"));
    for (bits, word) in [(1023, "policy"), (1024, "fail"), (512, "policy"), (16384, "permerror")] {
        let mut modulus = vec![0xff; bits / 8 + usize::from(bits % 8 > 0)];
        modulus[0] = if bits % 8 == 0 { 0xff } else { 0x7f };
        let record = format!("v=DKIM1; p={}", STANDARD.encode(rsa_key(&modulus)));
        assert_eq!(only(&Table::new().with_txt(PLACE, &record), &signed).0, word, "{bits}");
    }
}

/// `RSAPublicKey` with exponent 65537.
fn rsa_key(modulus: &[u8]) -> Vec<u8> {
    let element = |tag: u8, content: &[u8]| {
        let length = u32::try_from(content.len()).expect("short").to_be_bytes();
        [&[tag, 0x83], &length[1..], content].concat()
    };
    let modulus = element(0x02, &[&[0], modulus].concat());
    element(0x30, &[modulus, element(0x02, &[1, 0, 1])].concat())
}

#[test]
fn ten_signatures_are_looked_at() {
    let signed = |count: usize| {
        let field = &forged(TAGS)[..forged(TAGS).len() - RAW.len()];
        [field.repeat(count), RAW.to_vec()].concat()
    };
    let table = published();
    assert_eq!(verify(&table, &signed(SIGNATURES_MAX)).len(), SIGNATURES_MAX);
    let before = table.questions();
    let results = verify(&table, &signed(9_000));
    assert_eq!((results.len(), table.questions() - before), (SIGNATURES_MAX, SIGNATURES_MAX));
    assert!(results.iter().all(|result| result.result == "pass"));
    let none = verify(&table, RAW);
    assert_eq!(
        (none.len(), none[0].result.as_str(), none[0].reason.as_deref()),
        (1, "none", Some("message was not signed"))
    );
}

#[test]
fn signed_names_at_the_bound_and_past_it() {
    let with = |count: usize| forged(&TAGS.replace("from:to", &format!("from:to{}", ":x".repeat(count - 2))));
    assert_eq!(only(&published(), &with(SIGNED_NAMES_MAX)).0, "pass");
    assert_eq!(only(&published(), &with(SIGNED_NAMES_MAX + 1)).0, "permerror");
}

#[test]
fn a_signature_of_our_own_is_held_against_its_message() {
    for key in [RSA, ED25519] {
        let (signer, record) = signer(key, &["From", "To", "Subject", "Subject"], (Relaxed, Simple));
        let key = PublicKey::parse(record.as_bytes()).expect("a key");
        let field = with_mail(RAW, |mail| {
            let body = b"line\r\n";
            signer.sign(NOW, mail.headers(), body, &BodyHashes::new(), &mut Scratch::new()).expect("signs")
        });
        let held = |field: &[u8], raw: &[u8], key: &PublicKey| {
            let block = mime::HeaderBlock::parse(field);
            let field = block.view(field).get(0).expect("a field");
            with_mail(raw, |mail| check_own(mail, &field, key, NOW))
        };
        assert_eq!(held(&field, RAW, &key), Ok(()));
        let text = String::from_utf8(field.clone()).expect("text");
        let altered = |from: &str, to: &str| String::from_utf8_lossy(RAW).replace(from, to).into_bytes();
        assert_eq!(held(&field, &altered("line", "lime"), &key).expect_err("body"), "the body does not fit its hash");
        let header = "the signature does not fit the header";
        assert_eq!(held(&field, &altered("Subject: x", "Subject: y"), &key).expect_err("header"), header);
        assert_eq!(held(&field, &altered("Subject: x", "Subject: x\r\nSubject: x"), &key).expect_err("added"), header);
        assert_eq!(held(text.replace("s=s1", "s=s2").as_bytes(), RAW, &key).expect_err("its own tags"), header);
        let other = PublicKey::parse(Forger::new().record().as_bytes()).expect("a key");
        assert_eq!(held(&field, RAW, &other).expect_err("another key"), header);
        assert!(held(text.replace("v=1", "v=2").as_bytes(), RAW, &key).is_err());
    }
}

#[test]
fn claims_are_read_without_believing_them() {
    let claim = |tags: &str| {
        let raw = format!("DKIM-Signature: {tags} b=AAAA\r\n\r\n");
        let block = mime::HeaderBlock::parse(raw.as_bytes());
        Claim::read(&block.view(raw.as_bytes()).get(0).expect("a field"), NOW)
    };
    let read = claim(&TAGS.replace("d=ex", "d=EX")).expect("a claim");
    assert_eq!((read.domain(), read.selector()), ("ex.example", "s"));
    assert!(read.covers("to") && !read.covers("subject"));
    assert_eq!(now(read.find_key(&published())), Ok(()));
    assert!(
        matches!(now(read.find_key(&Table::new())), Err(KeyTrouble::None(why)) if why.contains("there is no key at s._"))
    );
    assert!(matches!(now(read.find_key(&Table::new().with_silence(PLACE))), Err(KeyTrouble::Unknown(_))));
    for bad in ["v=1;", &TAGS.replace("h=from:to", "h=to"), &format!("{TAGS} t=1; x=2;")] {
        assert!(claim(bad).is_err(), "{bad}");
    }
}
