//! Tests of the client's configurations: what is shared, what is read again, what is refused.

use super::*;
use std::path::Path;

fn at(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000)
}

fn same(a: &TlsConnector, b: &TlsConnector) -> bool {
    Arc::ptr_eq(a.config(), b.config())
}

/// Writes a fresh pair into `folder`; returns the identity that names the files.
fn pair(folder: &Path) -> Identity {
    let made = rcgen::generate_simple_self_signed(vec!["client.test".to_owned()]).expect("made up");
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let file = |path: &Path| KeySource::File(path.display().to_string());
    Identity { certificate: file(&certificate), key: file(&key) }
}

fn wanting(identity: Identity) -> ClientTls {
    ClientTls { identity: Some(identity), ..ClientTls::default() }
}

async fn refusal(connectors: &Connectors, wanted: &ClientTls) -> String {
    connectors.get(at(0), wanted).await.err().map(|e| e.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn equal_choices_share_a_configuration_and_others_do_not() {
    let connectors = Connectors::new(None).expect("roots");
    let folder = tempfile::tempdir().expect("a folder");
    let choices = [
        ClientTls::default(),
        ClientTls { verification: Verification::Roots, ..ClientTls::default() },
        ClientTls { suites: vec!["TLS13_AES_128_GCM_SHA256"], ..ClientTls::default() },
        ClientTls { suites: vec!["TLS13_AES_256_GCM_SHA384"], ..ClientTls::default() },
        wanting(pair(folder.path())),
    ];
    let mut made: Vec<TlsConnector> = Vec::new();
    for wanted in &choices {
        let connector = connectors.get(at(0), wanted).await.expect("usable");
        assert!(made.iter().all(|other| !same(other, &connector)), "{wanted:?}");
        made.push(connector);
    }
    for (wanted, first) in choices.iter().zip(&made) {
        assert!(same(first, &connectors.get(at(59), wanted).await.expect("usable")), "{wanted:?}");
    }
}

#[tokio::test]
async fn files_are_read_again_after_a_minute_and_kept_when_unchanged() {
    let connectors = Connectors::new(None).expect("roots");
    let folder = tempfile::tempdir().expect("a folder");
    let wanted = wanting(pair(folder.path()));
    let first = connectors.get(at(0), &wanted).await.expect("usable");
    assert!(same(&first, &connectors.get(at(60), &wanted).await.expect("usable")), "nothing changed");
    assert_eq!(wanting(pair(folder.path())), wanted, "the same file names");
    assert!(same(&first, &connectors.get(at(119), &wanted).await.expect("usable")), "not looked at yet");
    let second = connectors.get(at(120), &wanted).await.expect("usable");
    assert!(!same(&first, &second), "another certificate");
    std::fs::remove_file(folder.path().join("key.pem")).expect("removed");
    let error = connectors.get(at(180), &wanted).await.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(error.starts_with("tls_private_key: cannot read `"), "{error}");
}

#[tokio::test]
async fn the_number_kept_is_bounded_and_the_least_used_goes() {
    let connectors = Connectors::new(None).expect("roots");
    let wanted = |number: usize| {
        // Which suites, as the bits of a number: as many choices as wanted without a certificate.
        let suites = connectors.0.provider.cipher_suites.iter().map(|s| format!("{:?}", s.suite()).leak());
        let chosen = suites.enumerate().filter(|(bit, _)| number >> bit & 1 == 1).map(|(_, name)| &*name);
        ClientTls { suites: chosen.collect(), ..ClientTls::default() }
    };
    let first = connectors.get(at(0), &wanted(1)).await.expect("usable");
    let second = connectors.get(at(0), &wanted(2)).await.expect("usable");
    for number in 3..=CONFIGS_MAX {
        connectors.get(at(0), &wanted(number)).await.expect("usable");
    }
    assert_eq!(connectors.kept().len(), CONFIGS_MAX, "at the bound");
    assert!(same(&first, &connectors.get(at(0), &wanted(1)).await.expect("usable")), "all are kept");
    connectors.get(at(0), &wanted(CONFIGS_MAX + 1)).await.expect("usable");
    assert_eq!(connectors.kept().len(), CONFIGS_MAX, "one more");
    assert!(same(&first, &connectors.get(at(0), &wanted(1)).await.expect("usable")), "used a moment ago");
    assert!(!same(&second, &connectors.get(at(0), &wanted(2)).await.expect("usable")), "it was the one to go");
}

#[tokio::test]
async fn refusals_name_the_option() {
    let connectors = Connectors::new(None).expect("roots");
    let folder = tempfile::tempdir().expect("a folder");
    let good = pair(folder.path());
    let data = |text: &str| KeySource::Data(text.as_bytes().to_vec());
    let vault = KeySource::Vault {
        address: None,
        token: Some("s3cret".into()),
        mount: "m".into(),
        path: "p".into(),
        key: "k".into(),
    };
    let big = folder.path().join("big.pem");
    std::fs::write(&big, vec![b'x'; PEM_BYTES_MAX as usize + 1]).expect("written");
    let other = rcgen::generate_simple_self_signed(vec!["other.test".to_owned()]).expect("made up");
    let other_key = data(&other.signing_key.serialize_pem());
    for (certificate, key, expected) in [
        (KeySource::File("/nowhere/c.pem".into()), good.key.clone(), "tls_certificate: cannot read `/nowhere/c.pem`: "),
        (KeySource::File(big.display().to_string()), good.key.clone(), "tls_certificate: `"),
        (data("no PEM"), good.key.clone(), "tls_certificate: no certificate found"),
        (good.certificate.clone(), data("no PEM"), "tls_private_key: "),
        (vault.clone(), good.key.clone(), "tls_certificate: Vault {"),
        (good.certificate.clone(), KeySource::Event { name: "e".into(), args: vec![] }, "tls_private_key: Event {"),
        (good.certificate.clone(), other_key, "tls_certificate and tls_private_key: "),
    ] {
        let error = refusal(&connectors, &wanting(Identity { certificate, key })).await;
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    assert!(connectors.kept().is_empty(), "what fails is not kept");
    assert_eq!(refusal(&connectors, &wanting(good)).await, "");
}

#[tokio::test]
async fn suites_that_do_not_exist_leave_nothing_to_offer() {
    let connectors = Connectors::new(None).expect("roots");
    let wanted = ClientTls { suites: vec!["TLS_RSA_WITH_NULL_MD5"], ..ClientTls::default() };
    let error = refusal(&connectors, &wanted).await;
    assert_eq!(error, "rustls_cipher_suites: none of TLS_RSA_WITH_NULL_MD5 is usable with TLS 1.2 or 1.3");
}

/// Every suite a policy may name can be offered: config's list and the library's are the same.
#[test]
fn suites_come_in_the_order_named_and_once() {
    let provider = aws_lc_rs::default_provider();
    let names =
        ["TLS13_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS13_CHACHA20_POLY1305_SHA256"];
    let left = restricted(&provider, &names).expect("usable");
    let left: Vec<String> = left.cipher_suites.iter().map(|s| format!("{:?}", s.suite())).collect();
    assert_eq!(left, names[..2]);
    for suite in &provider.cipher_suites {
        let name = format!("{:?}", suite.suite());
        assert!(name.parse::<config::RustlsCipherSuite>().is_ok(), "{name}");
        assert!(restricted(&provider, &[&name]).is_ok(), "{name}");
    }
}

#[test]
fn half_an_identity_is_refused() {
    let path = EgressPath { tls_certificate: Some(KeySource::File("c.pem".into())), ..EgressPath::default() };
    let error = ClientTls::of(&path).err().map(|e| e.to_string()).unwrap_or_default();
    assert_eq!(error, "tls_certificate and tls_private_key: expected both or neither");
    assert!(
        ClientTls::of(&EgressPath::default())
            .is_ok_and(|tls| tls.verification == Verification::Roots && tls.identity.is_none())
    );
}
