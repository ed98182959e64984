//! `msg:dkim_sign` and the signer constructors. Whether signatures verify is proven in
//! `sender-auth`; here: that scripts reach them.

use crate::gate::Counts;
use crate::support::{Loaded, assert_has, draft, error_of, load, load_error, now, received};
use policy::{ConnMeta, Policy};
use std::sync::Arc;

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

#[test]
fn signatures_are_checked_before_they_leave() {
    let signer = signer(&format!("self_check = true, key = {{ key_data = '{KEY}' }}"));
    let mut draft = received(&format!("local signer = {signer} msg:dkim_sign(signer) msg:dkim_sign(signer)"));
    assert_eq!(draft.headers().all_values("DKIM-Signature").len(), 2);
}

/// A signature that is over before it is made is one that no receiver would take: the only kind our signer makes on purpose.
#[test]
fn a_signature_that_does_not_hold_is_not_used() {
    let signer =
        |checked: bool| signer(&format!("expiration = 0, self_check = {checked}, key = {{ key_data = '{KEY}' }}"));
    let sign = |checked: bool| {
        let text = format!(
            "local signer = {} kumo.on('smtp_server_message_received', function(msg)
               local ok, why = pcall(msg.dkim_sign, msg, signer) msg:set_meta('why', ok and '' or tostring(why)) end)",
            signer(checked)
        );
        let loaded = load(&text);
        let counts = Counts::default();
        loaded.policy.serves_in(Box::new(counts.clone()));
        let mut draft = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("handled");
        let why = draft.meta.string("why").expect("text").unwrap_or_default().to_owned();
        (draft.headers().all_values("DKIM-Signature").len(), why, counts.taken())
    };
    assert_eq!(sign(false), (1, String::new(), vec![]));
    let (signatures, why, counted) = sign(true);
    assert_has(&why, &["msg:dkim_sign: the signature that was made does not hold: x= is not later than t="]);
    assert_eq!((signatures, counted), (0, vec!["signature failed".to_owned()]));
}

/// What is signed is not what is sent: bare CR and LF leave as CRLF.
#[test]
fn a_signature_over_bare_line_ends_is_not_used() {
    let signer = signer(&format!("self_check = true, key = {{ key_data = '{KEY}' }}"));
    let sign = |data: &str| {
        let text = format!(
            "local signer = {signer} kumo.on('smtp_server_message_received', function(msg)
               msg:set_data('{data}')
               local ok, why = pcall(msg.dkim_sign, msg, signer) msg:set_meta('why', ok and '' or tostring(why)) end)"
        );
        let loaded = load(&text);
        let counts = Counts::default();
        loaded.policy.serves_in(Box::new(counts.clone()));
        let mut draft = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("handled");
        let why = draft.meta.string("why").expect("text").unwrap_or_default().to_owned();
        (draft.headers().all_values("DKIM-Signature").len(), why, counts.taken())
    };
    assert_eq!(sign("From: a@b.test\\r\\n\\r\\nbody\\r\\n"), (1, String::new(), vec![]));
    for data in ["From: a@b.test\\n\\none\\ntwo\\n", "From: a@b.test\\r\\n\\r\\none\\rtwo\\r\\n"] {
        let (signatures, why, counted) = sign(data);
        assert_has(&why, &["the signature that was made does not hold: ", "a bare CR or LF, which is sent as CRLF"]);
        assert_eq!((signatures, counted), (0, vec!["signature failed".to_owned()]), "{data}");
    }
}

#[test]
fn one_switch_signs_with_both_kinds_of_keys() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("rsa"), include_bytes!("../../../sender-auth/tests/keys/rsa2048-pkcs8.pem")).expect("a key");
    std::fs::write(at("ed"), KEY.replace("\\n", "\n")).expect("a key");
    let signed = |block: &str| {
        let data = format!(
            "{{ {{ base = {{ selector = 's1', headers = {{ 'From' }}, dual = true, self_check = true }}, \
             domain = {{ ['from.test'] = {{ filename = '{}', {block} }} }} }} }}",
            at("rsa")
        );
        let text = format!(
            "local sign = require('policy-extras.dkim_sign'):setup {data}
             kumo.on('smtp_server_message_received', function(msg) sign(msg) end)"
        );
        let loaded = load(&text);
        let signed = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new()));
        signed.map_err(|error| error.to_string()).map(|mut draft| draft.headers().all_values("DKIM-Signature"))
    };
    let both = signed(&format!("ed25519_filename = '{}'", at("ed"))).expect("signed");
    assert_eq!(both.len(), 2);
    // The one that everybody knows stands on top.
    assert_has(&both[0], &["a=rsa-sha256", "s=s1;"]);
    assert_has(&both[1], &["a=ed25519-sha256", "s=s1-ed25519;"]);
    let named = signed(&format!("ed25519_filename = '{}', ed25519_selector = 'e'", at("ed"))).expect("signed");
    assert_has(&named[1], &["a=ed25519-sha256", "s=e;"]);
    assert_eq!(signed("dual = false").expect("signed").len(), 1);
    // The block's own key is an Ed25519 one: there is nothing to add, and `dual` of the block itself would be a mistake.
    let alone = signed("algo = 'ed25519'").expect("signed");
    assert_eq!(alone.len(), 1);
    assert_has(&signed("").expect_err("no key"), &["s1-ed25519.key", "No such file"]);
    assert_has(
        &signed("algo = 'ed25519', dual = true").expect_err("which key?"),
        &["with `dual` the key of the block is the RSA key"],
    );
}

/// Nothing is handed over: whoever has a message signs it, and two do so at the same time. Each waits for the other between its
/// two signatures, without letting go of its thread.
#[test]
fn messages_are_signed_on_all_cores_at_once() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let signer = signer(&format!("key = {{ key_data = '{KEY}' }}"));
    let text = format!(
        "local signer, folder = {signer}, '{}/'
         kumo.on('smtp_server_message_received', function(msg)
           msg:dkim_sign(signer)
           io.open(folder .. msg:get_meta 'own', 'w'):close()
           local till = os.time() + 20
           while not io.open(folder .. msg:get_meta 'other') do assert(os.time() < till, 'alone') end
           msg:dkim_sign(signer)
         end)",
        folder.path().display()
    );
    let Loaded { policy, .. } = load(&text);
    let policy = Arc::new(policy);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let signed = |own: &'static str, other: &'static str| {
        let (policy, mut draft) = (policy.clone(), draft());
        draft.meta.set("own", own);
        draft.meta.set("other", other);
        runtime.spawn(async move { policy.smtp_server_message_received(draft, ConnMeta::new()).await })
    };
    let both = [signed("one", "two"), signed("two", "one")];
    for message in both {
        let mut draft = runtime.block_on(message).expect("no panic").expect("not alone");
        assert_eq!(draft.headers().all_values("DKIM-Signature").len(), 2);
    }
}
