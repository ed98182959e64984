//! Tests of the signer: the example of RFC 8463, the tags, over-signing, refusals, bounds.

use super::*;
use crate::dkim::headers::push_field;
use mime::HeaderBlock;

const RFC_MESSAGE: &[u8] = b"From: Joe SixPack <joe@football.example.com>\r\n\
To: Suzie Q <suzie@shopping.example.net>\r\n\
Subject: Is dinner ready?\r\n\
Date: Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
Message-ID: <20030712040037.46341.5F8J@football.example.com>\r\n\
\r\n\
Hi.\r\n\
\r\n\
We lost the game.  Are you hungry yet?\r\n\
\r\n\
Joe.\r\n";

/// The PKCS#8 form of the seed in RFC 8463 appendix A.2.
fn rfc_key() -> SigningKey {
    let mut der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20".to_vec();
    let seed = STANDARD.decode("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=");
    der.extend(seed.expect("base64"));
    SigningKey::from_pem_or_der(&der).expect("an Ed25519 key without its public half")
}

fn signer(headers: &[&str], change: impl FnOnce(&mut SignerParams)) -> Signer {
    let mut params = SignerParams::new("example.com", "s1", headers, Arc::new(rfc_key()));
    change(&mut params);
    Signer::new(params).expect("valid options")
}

fn signed(signer: &Signer, raw: &[u8]) -> String {
    let block = HeaderBlock::parse(raw);
    let body = &raw[block.body_start()..];
    let field = signer.sign(1_528_637_909, block.view(raw), body, &BodyHashes::new(), &mut Scratch::new());
    String::from_utf8(field.expect("signs")).expect("ASCII")
}

fn refused(headers: &[&str], change: impl FnOnce(&mut SignerParams)) -> SignerError {
    let mut params = SignerParams::new("example.com", "s1", headers, Arc::new(rfc_key()));
    change(&mut params);
    Signer::new(params).expect_err("must be refused")
}

#[test]
fn the_example_of_rfc_8463_appendix_a() {
    assert_eq!(
        rfc_key().dns_record().as_deref(),
        Some("v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")
    );
    let field = [
        "DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;",
        " d=football.example.com; i=@football.example.com;",
        " q=dns/txt; s=brisbane; t=1528637909; h=from : to :",
        " subject : date : message-id : from : subject : date;",
        " bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=;",
        " b=",
    ]
    .join("\r\n");
    let block = HeaderBlock::parse(RFC_MESSAGE);
    let view = block.view(RFC_MESSAGE);
    let body = &RFC_MESSAGE[block.body_start()..];
    let hash = BodyHashes::new().get(Canonicalization::Relaxed, body);
    assert_eq!(STANDARD.encode(hash), "2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=");

    let mut data = Vec::new();
    for name in ["from", "to", "subject", "date", "message-id"] {
        push_field(Canonicalization::Relaxed, &view.first(name).expect("present"), &mut data);
    }
    let signature = signer(&["from"], |_| {}).sign_field(field.as_bytes(), &mut data).expect("signs");
    assert_eq!(
        STANDARD.encode(signature),
        "/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw=="
    );
}

#[test]
fn tags_and_their_order() {
    let signer = signer(&["From", "To", "Absent"], |p| {
        p.body_canonicalization = Canonicalization::Simple;
        p.expiration_secs = Some(60);
    });
    let field = signed(&signer, RFC_MESSAGE).replace("\r\n\t", " ");
    let expect = "DKIM-Signature: v=1; a=ed25519-sha256; d=example.com; s=s1; c=relaxed/simple; t=1528637909; x=1528637969; h=From:To:Absent; bh=";
    assert!(field.starts_with(expect), "{field}");
    assert!(field.ends_with("\r\n"));
    assert!(signed(&signer, RFC_MESSAGE).lines().all(|line| line.len() <= 76));
}

#[test]
fn expiration_does_not_overflow() {
    let signer = signer(&["From"], |p| p.expiration_secs = Some(u64::MAX));
    assert!(signed(&signer, RFC_MESSAGE).contains(&format!("x={};", u64::MAX)));
}

fn header_list(field: &str) -> String {
    let unfolded = field.replace("\r\n\t", "");
    let list = unfolded.split("h=").nth(1).and_then(|rest| rest.split(';').next());
    list.expect("h= is there").to_owned()
}

#[test]
fn over_signing_lists_each_name_once_more_than_it_occurs() {
    let raw = b"From: a\r\nTo: b\r\nto: c\r\n\r\nbody\r\n";
    let over = signer(&["From", "To", "to", "Cc"], |p| p.over_sign = true);
    assert_eq!(header_list(&signed(&over, raw)), "From:From:To:To:To:Cc");
    let plain = signer(&["From", "To", "to", "Cc"], |_| {});
    assert_eq!(header_list(&signed(&plain, raw)), "From:To:To:Cc");
}

#[test]
fn over_signing_at_the_bound_and_past_it() {
    let over = signer(&["From"], |p| p.over_sign = true);
    let raw = |count: usize| [b"From: a\r\n".repeat(count), b"\r\n".to_vec()].concat();
    let entries = header_list(&signed(&over, &raw(SIGNED_FIELDS_MAX - 1)));
    assert_eq!(entries.split(':').count(), SIGNED_FIELDS_MAX);
    let raw = raw(SIGNED_FIELDS_MAX);
    let block = HeaderBlock::parse(&raw);
    let result = over.sign(0, block.view(&raw), b"", &BodyHashes::new(), &mut Scratch::new());
    let (found, max) = (SIGNED_FIELDS_MAX + 1, SIGNED_FIELDS_MAX);
    assert_eq!(result, Err(SignError::TooManyFields { found, max }));
}

#[test]
fn options_refused() {
    let from: &[&str] = &["From"];
    assert_eq!(refused(&["To"], |_| {}), SignerError::FromNotSigned);
    assert_eq!(refused(&[], |_| {}), SignerError::FromNotSigned);
    for name in ["", "a b", "a:", "a;", "\u{fc}"] {
        assert!(matches!(refused(&["From", name], |_| {}), SignerError::HeaderName { .. }));
    }
    for domain in ["", "a..b", ".a", "a.", "b\u{fc}.de", "a b", "a;b"] {
        let error = refused(from, |p| p.domain = domain.into());
        assert!(matches!(error, SignerError::DnsName { option: "domain", .. }), "{domain}");
        let error = refused(from, |p| p.selector = domain.into());
        assert!(matches!(error, SignerError::DnsName { option: "selector", .. }), "{domain}");
    }
    let unsupported = |option| SignerError::NotSupported { option };
    assert_eq!(refused(from, |p| p.atps = Some("x".into())), unsupported("atps"));
    assert_eq!(refused(from, |p| p.atpsh = Some("x".into())), unsupported("atpsh"));
    let error = refused(from, |p| p.agent_user_identifier = Some("x".into()));
    assert_eq!(error, unsupported("agent_user_identifier"));
    assert_eq!(refused(from, |p| p.body_length = true), unsupported("body_length"));
    assert_eq!(refused(from, |p| p.reporting = true), unsupported("reporting"));
    assert!(unsupported("atps").to_string().contains("not currently supported"));
    assert!("relaxed".parse::<Canonicalization>().is_err());
    assert_eq!("Simple".parse(), Ok(Canonicalization::Simple));
}

#[test]
fn bounds_of_names() {
    let label = |len: usize| "a".repeat(len);
    assert!(matches!(refused(&["From"], |p| p.domain = label(64)), SignerError::DnsName { .. }));
    signer(&["From"], |p| p.domain = label(63));
    signer(&["From"], |p| p.domain = format!("{0}.{0}.{0}.{1}", label(63), label(61)));
    let error = refused(&["From"], |p| p.domain = format!("{0}.{0}.{0}.{1}", label(63), label(62)));
    assert!(matches!(error, SignerError::DnsName { max: 253, .. }));
    let max = crate::dkim::HEADERS_MAX;
    signer(&vec!["From"; max], |_| {});
    assert_eq!(refused(&vec!["From"; max + 1], |_| {}), SignerError::TooManyHeaders { found: max + 1, max });
}
