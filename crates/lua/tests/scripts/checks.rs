//! What scripts are told of who made a message: SPF, DKIM, DMARC, ARC and iprev, by test zones.

use crate::gate::Counts;
use crate::support::{Loaded, assert_has, draft_of, load};
use lua::Resolvers;
use message::Draft;
use net::dns::{MxCache, MxCacheLimits, build};
use policy::{ConnMeta, Policy, Program};
use std::collections::BTreeMap;
use std::sync::Arc;

const MESSAGE: &[u8] = b"From: One <one@from.test>\r\nTo: a@x.test\r\nSubject: x\r\n\r\nbody\r\n";

/// The domain of the sender lets one address send, publishes a key, and wants everything else refused; the address has a name.
const ZONES: &str = "kumo.on('init', function() kumo.dns.configure_test_resolver { zones = {
  '$ORIGIN from.test.\\n@ 60 IN TXT \"v=spf1 ip4:192.0.2.5 -all\"\\n' ..
    's._domainkey 60 IN TXT \"v=DKIM1; k=ed25519; p=PUBLIC\"\\n_dmarc 60 IN TXT \"v=DMARC1; p=reject\"\\n' ..
    '_dmarc.b 60 IN TXT \"v=DMARC1; p=quarantine; psd=n\"\\n',
  '$ORIGIN 2.0.192.in-addr.arpa.\\n5 60 IN PTR mx.from.test.\\n17 60 IN PTR NXDOMAIN.from.test.\\n18 60 IN PTR mx.from.test.\\n',
  '$ORIGIN mx.from.test.\\n@ 60 IN A 192.0.2.5\\n',
}, servfail = { 'NXDOMAIN.from.test' } } end)
local KEY = '-----BEGIN PRIVATE KEY-----\\nMC4CAQAwBQYDK2VwBCIEILCJGDWOhHS6clpcNd64BBD7jmJ9gx16f7gzxdf39dWG\\n-----END PRIVATE KEY-----\\n'
local function signer()
  return kumo.dkim.ed25519_signer { domain = 'from.test', selector = 's', headers = { 'From', 'To', 'Subject' }, key = { key_data = KEY },
    self_check = true }
end
";

/// Runs `body` as a handler, for a message from that client.
fn run(body: &str, client: &str) -> Result<Draft, String> {
    run_on(MESSAGE, "", body, client, None)
}

/// The same for another message, behind `top`, in a program.
pub(crate) fn run_on(
    raw: &[u8],
    top: &str,
    body: &str,
    client: &str,
    program: Option<Box<dyn Program>>,
) -> Result<Draft, String> {
    let zones = ZONES.replace("PUBLIC", "r0Q5YcAujXANGGmTn7ZPCC9Ycn7fvnq9ZJcVVNWsgag=");
    let script = format!("{zones} {top} kumo.on('smtp_server_message_received', function(msg, conn_meta) {body}\nend)");
    let Loaded { policy, startup, folder: _folder } = load(&script);
    program.into_iter().for_each(|program| policy.serves_in(program));
    let form = startup.dns.resolver.expect("test zones");
    let mail = Arc::new(MxCache::new(build(&form).expect("zones"), MxCacheLimits::default()));
    policy.names().set(Resolvers { mail, named: BTreeMap::new() });
    let (mut draft, conn) = (draft_of(raw), ConnMeta::new());
    for (name, value) in [("received_from", client), ("ehlo_domain", "mx.from.test"), ("hostname", "here.test")] {
        draft.meta.set(name, value);
        conn.set(name, value);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let answer = runtime.block_on(async {
        let policy = Arc::new(policy);
        let task = tokio::spawn(async move { policy.smtp_server_message_received(draft, conn).await });
        task.await.expect("no panic")
    });
    answer.map_err(|error| error.to_string())
}

fn sound(body: &str, client: &str) -> String {
    let mut draft = run(body, client).unwrap_or_else(|error| panic!("{body}\n{error}"));
    String::from_utf8(draft.data().to_vec()).expect("text")
}

#[test]
fn spf_checks_clients_and_messages() {
    sound(
        "local host = kumo.spf.check_host('from.test', conn_meta, 'one@from.test')
         assert(host.disposition == 'pass' and host.result.method == 'spf' and host.result.result == 'pass')
         assert(host.result.props['smtp.mailfrom'] == 'one@from.test')
         local helo = kumo.spf.check_host('mx.from.test', conn_meta)
         assert(helo.disposition == 'none' and helo.result.props['smtp.helo'] == 'mx.from.test')
         assert(kumo.spf.check_msg(msg).disposition == 'pass')
         msg:set_sender('')
         assert(kumo.spf.check_msg(msg).result.props['smtp.helo'] == 'mx.from.test')",
        "192.0.2.5:2525",
    );
    sound("assert(kumo.spf.check_msg(msg).disposition == 'fail')", "192.0.2.6");
    let error = run("kumo.spf.check_msg(msg)", "nowhere").expect_err("no address");
    assert_has(&error, &["kumo.spf.check_msg: received_from of msg is \"nowhere\": expected the address of a client"]);
    let error = run("kumo.spf.check_msg(msg, 'other')", "192.0.2.5").expect_err("no resolver");
    assert_has(&error, &["kumo.spf.check_msg: no resolver `other` is defined"]);
}

#[test]
fn signatures_are_verified_by_the_keys_of_dns() {
    sound(
        "local none = msg:dkim_verify()
         assert(#none == 1 and none[1].result == 'none' and none[1].method == 'dkim')
         msg:dkim_sign(signer())
         local found = msg:dkim_verify()
         assert(#found == 1 and found[1].result == 'pass', found[1].reason)
         local props = found[1].props
         assert(props['header.d'] == 'from.test' and props['header.s'] == 's' and props['header.a'] == 'ed25519-sha256')
         msg:set_data((msg:get_data():gsub('body', 'buddy')))
         assert(msg:dkim_verify()[1].result == 'fail')",
        "192.0.2.5",
    );
}

#[test]
fn chains_are_checked_and_continued() {
    let text = sound(
        "assert(msg:arc_verify().result == 'none')
         local results = { { method = 'spf', result = 'pass' } }
         msg:arc_seal(signer(), 'here.test', results)
         assert(msg:arc_verify().result == 'pass', msg:arc_verify().reason)
         msg:arc_seal(signer(), 'here.test', results)
         assert(msg:arc_verify().result == 'pass', msg:arc_verify().reason)
         msg:set_data((msg:get_data():gsub('body', 'buddy')))
         assert(msg:arc_verify().result == 'fail')
         local broken = msg:get_data()
         msg:arc_seal(signer(), 'here.test', results)
         assert(msg:get_data() == broken, 'nothing mends it')
         assert(not pcall(msg.arc_seal, msg, signer(), 'here.test', { { method = 'spf' } }))",
        "192.0.2.5",
    );
    assert_eq!(text.matches("\r\nARC-Seal: ").count() + usize::from(text.starts_with("ARC-Seal: ")), 2, "{text}");
    assert!(text.starts_with("ARC-Seal: i=2;") || text.starts_with("ARC-Seal:i=2;"), "{text}");
}

/// A seal that no receiver would believe does not leave: what is sealed is not what is sent, as a bare LF leaves as CRLF. Without the
/// check it does.
#[test]
fn a_set_that_does_not_hold_is_not_used() {
    for (check, data, holds) in [
        (true, "From: a@b.test\\r\\n\\r\\nbody\\r\\n", true),
        (true, "From: a@b.test\\r\\n\\r\\none\\ntwo\\r\\n", false),
        (true, "From: a@b.test\\n\\none\\ntwo\\n", false),
        (false, "From: a@b.test\\r\\n\\r\\none\\ntwo\\r\\n", true),
    ] {
        let body = format!(
            "msg:set_data('{data}')
             local sealer = {check} and signer() or kumo.dkim.ed25519_signer {{ domain = 'from.test', selector = 's',
               headers = {{ 'From' }}, key = {{ key_data = KEY }} }}
             local ok, why = pcall(msg.arc_seal, msg, sealer, 'here.test', {{ {{ method = 'spf', result = 'pass' }} }})
             msg:set_meta('why', ok and '' or tostring(why))"
        );
        let counts = Counts::default();
        let mut draft = run_on(MESSAGE, "", &body, "192.0.2.5", Some(Box::new(counts.clone()))).expect("handled");
        let fields = ["ARC-Seal", "ARC-Message-Signature", "ARC-Authentication-Results"];
        let fields = fields.map(|name| draft.headers().all_values(name).len());
        let why = draft.meta.string("why").expect("text").unwrap_or_default().to_owned();
        assert_eq!((fields, why.is_empty()), ([usize::from(holds); 3], holds), "{data}: {why}");
        assert_eq!(counts.taken(), if holds { vec![] } else { vec!["signature failed".to_owned()] });
        if !holds {
            assert_has(&why, &["msg:arc_seal: the set that was made does not hold", "a bare CR or LF"]);
        }
    }
}

#[test]
fn all_checks_together_make_the_header() {
    let text = sound(
        "msg:dkim_sign(signer())
         local found = require('policy-extras.mail_auth').check(msg, { server_id = 'mx.here.test' })
         assert(found.spf.disposition == 'pass' and found.dkim[1].result == 'pass' and found.iprev.result == 'pass', found.iprev.reason)
         assert(found.dmarc.disposition == 'pass' and found.arc.result == 'none' and found.smtp_auth.result == 'none')
         assert(#found.auth_results == 6)
         assert(require('policy-extras.mail_auth').iprev_msg(msg).props['smtp.remote-ip'] == '192.0.2.5')",
        "192.0.2.5:2525",
    );
    let field = text.split("\r\nDKIM-Signature").next().expect("a field").to_owned();
    assert_has(
        &field,
        &["Authentication-Results: mx.here.test", "dkim=pass", "spf=pass", "iprev=pass", "dmarc=pass", "arc=none"],
    );
    sound(
        "local found = require('policy-extras.mail_auth').check(msg, { add_auth_results_header = false, arc = false })
         assert(found.spf.disposition == 'fail' and found.dkim[1].result == 'none' and found.arc == nil)
         assert(found.dmarc.disposition == 'reject' and found.dmarc.result.props['header.from'] == 'from.test')
         assert(found.iprev.result == 'permerror' and not msg:get_first_named_header_value 'Authentication-Results')
         local _, why = pcall(require('policy-extras.mail_auth').check, msg, { dmark = true })
         assert(tostring(why):find('unknown option `dmark`', 1, true), why)",
        "192.0.2.6:25",
    );
}

/// A name that reads like an error is a name: nobody knows where it leads while its server fails.
#[test]
fn clients_are_known_by_names_that_lead_back() {
    sound(
        "local iprev = require('policy-extras.mail_auth').iprev
         for ip, word in pairs { ['192.0.2.5'] = 'pass', ['::ffff:192.0.2.5'] = 'pass', ['192.0.2.6'] = 'permerror',
                                 ['192.0.2.17'] = 'temperror', ['192.0.2.18'] = 'fail' } do
           local found = iprev(ip)
           assert(found.method == 'iprev' and found.result == word, ip .. ' ' .. found.result .. ' ' .. found.reason)
         end
         local _, why = pcall(iprev, 'x')
         assert(tostring(why):find('kumo.dns.iprev: \"x\": expected an IP address', 1, true), why)",
        "192.0.2.5:2525",
    );
}

/// `from.test` is an organisation for the list; for who walks up the tree `b.from.test` says that it is one of its own.
#[test]
fn organisations_are_found_by_list_or_by_walk() {
    let body = "local dkim = { { method = 'dkim', result = 'pass', props = { ['header.d'] = 'from.test' } } }
         local spf = { method = 'spf', result = 'none' }
         local function said(walk) return kumo.dmarc.check_msg(msg, dkim, nil, spf, false, nil, walk).disposition end
         assert(said() == 'pass' and said(false) == 'pass', said())
         assert(said(true) == 'quarantine', said(true))
         local check = require('policy-extras.mail_auth').check
         local function checked(walk)
           return check(msg, { dmarc_tree_walk = walk, add_auth_results_header = false }).dmarc.disposition
         end
         assert(checked() == 'pass' and checked(false) == 'pass', checked())
         assert(checked(true) == 'quarantine', checked(true))
         assert(not pcall(check, msg, { dmarc_tree_walk = 'yes' }))";
    run_on(b"From: <a@c.b.from.test>\r\n\r\nx\r\n", "", body, "192.0.2.5:25", None).expect("sound");
}
