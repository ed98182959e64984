//! `msg:dkim_sign` and the signer constructors. Whether signatures verify is proven in
//! `sender-auth`; here: that scripts reach them.

use crate::support::{assert_has, draft, error_of, load, load_error, now, received};
use policy::{ConnMeta, Policy};

/// A test key, used nowhere else.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEILCJGDWOhHS6clpcNd64BBD7jmJ9gx16f7gzxdf39dWG\\n-----END PRIVATE KEY-----\\n";

fn signer(more: &str) -> String {
    format!(
        "require('kumo').dkim.ed25519_signer {{ domain = 'd.test', selector = 's', headers = {{ 'From', 'To' }}, {more} }}"
    )
}

#[test]
fn signatures_are_prepended() {
    let signer = signer(&format!("key = {{ key_data = '{KEY}' }}"));
    let mut draft = received(&format!("local signer = {signer} msg:dkim_sign(signer) msg:dkim_sign(signer)"));
    let head = String::from_utf8(draft.head()).expect("text");
    assert!(head.starts_with("DKIM-Signature: v=1;"), "{head}");
    assert_has(&head, &["a=ed25519-sha256", "d=d.test", "s=s"]);
    assert_eq!(draft.headers().all_values("DKIM-Signature").len(), 2);
}

#[test]
fn the_body_hash_follows_the_body() {
    let signer = signer(&format!("key = {{ key_data = '{KEY}' }}"));
    let body_hash = |body: &str| {
        let mut draft = received(&format!("local signer = {signer} {body} msg:dkim_sign(signer)"));
        let value = draft.headers().first_value("DKIM-Signature").expect("signed").replace(' ', "");
        value.split(';').find(|tag| tag.starts_with("bh=")).expect("a body hash").to_owned()
    };
    let changed = "msg:dkim_sign(signer) msg:set_data('From: a@b.test\\r\\n\\r\\nanother\\r\\n')";
    assert_eq!(body_hash(""), body_hash("msg:dkim_sign(signer)"));
    assert_ne!(body_hash(""), body_hash(changed));
}

#[test]
fn keys_are_read_from_files_and_from_der() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let path = folder.path().join("key.pem");
    std::fs::write(&path, KEY.replace("\\n", "\n")).expect("key file");
    load(&format!("return {}", signer(&format!("key = '{}'", path.display()))));
    let der = "\\x30\\x2e\\x02\\x01\\x00\\x30\\x05\\x06\\x03\\x2b\\x65\\x70\\x04\\x22\\x04\\x20\\xb0\\x89\\x18\\x35\\x8e\\x84\\x74\\xba\\x72\\x5a\\x5c\\x35\\xde\\xb8\\x04\\x10\\xfb\\x8e\\x62\\x7d\\x83\\x1d\\x7a\\x7f\\xb8\\x33\\xc5\\xd7\\xf7\\xf5\\xd5\\x86";
    load(&format!("return {}", signer(&format!("key = {{ key_data = '{der}' }}"))));
}

#[test]
fn keys_come_from_events() {
    let by_event = signer("key = { event_name = 'a.key', event_args = { 'KE', 'Y-' } }");
    let text = format!(
        "kumo.on('a.key', function(one, two) assert(one .. two == 'KEY-') return '{KEY}' end) \
         local signer = {by_event} kumo.on('smtp_server_message_received', function(msg) msg:dkim_sign(signer) end)"
    );
    let loaded = load(&text);
    let mut draft = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("signed");
    assert_has(&draft.headers().first_value("DKIM-Signature").expect("signed"), &["d=d.test"]);
}

#[test]
fn bad_signers_are_named() {
    let error = |more: &str| load_error(&format!("return {}", signer(more)));
    assert_has(&error("key = '/absent/key.pem'"), &["kumo.dkim.ed25519_signer: key: /absent/key.pem", "No such file"]);
    assert_has(&error("key = { key_data = 'nonsense' }"), &["kumo.dkim.ed25519_signer: key:"]);
    assert_has(
        &error("key = { vault_mount = 'm', vault_path = 'p', vault_token = 't', vault_address = 'nowhere' }"),
        &["key: ", "Vault"],
    );
    assert_has(
        &error("key = { event_name = 'e', event_args = {} }"),
        &["kumo.dkim.ed25519_signer: key:", "event e has not been registered"],
    );
    assert_has(&error(""), &["missing field `key`"]);
    assert_has(&error_of("msg:dkim_sign('x')"), &["bad argument"]);
    assert_has(&error_of("msg:dkim_sign(conn_meta)"), &["bad argument"]);
}
