//! Events: arguments, return values, missing handlers, rejections, faults.

use crate::support::{assert_has, draft, load, mailbox, now, received_with};
use config::QueueProtocol;
use policy::{ConnMeta, Disconnect, Event, Policy, PolicyError, QueueParts};
use smtp_wire::ReversePath;

fn parts(domain: &str) -> QueueParts {
    QueueParts { domain: domain.into(), tenant: Some("t".into()), campaign: None, routing_domain: None }
}

fn rejection(body: &str) -> (String, Disconnect) {
    match received_with(body, draft(), ConnMeta::new()) {
        Err(PolicyError::Reject { reply, disconnect }) => (reply.to_single_line(), disconnect),
        other => panic!("{body}\n{other:?}"),
    }
}

#[test]
fn arguments_arrive_in_kumomtas_order() {
    let loaded = load(
        "kumo.on('smtp_server_ehlo', function(domain, conn, extensions)
           assert(domain == 'me' and conn:get_meta 'x' == 1) if extensions then return { extensions[1], 'MORE' } end end)
         kumo.on('smtp_server_mail_from', function(sender, conn) assert(sender.email == '' and conn:get_meta 'x' == 1) end)
         kumo.on('smtp_server_rcpt_to', function(rcpt, conn) assert(rcpt.user == 'u' and rcpt.domain == 'd.test' and conn:get_meta 'x' == 1) end)
         kumo.on('get_listener_domain', function(domain, listener, conn)
           assert(listener == '127.0.0.1:25' and conn:get_meta 'x' == 1)
           if domain == 'd.test' then return kumo.make_listener_domain { relay_to = true } end end)
         kumo.on('get_queue_config', function(domain, tenant, campaign, routing)
           assert(domain == 'd.test' and tenant == 't' and campaign == nil and routing == nil)
           assert(_KUMO_CURRENT_EVENT == 'get_queue_config')
           return kumo.make_queue_config { egress_pool = 'p' } end)
         kumo.on('get_egress_pool', function(name) return kumo.make_egress_pool { name = name, entries = { { name = 's' } } } end)
         kumo.on('get_egress_source', function(name) return kumo.make_egress_source { name = name } end)
         kumo.on('get_egress_path_config', function(domain, source, site)
           assert(domain == 'd' and source == 's' and site == 'site') return kumo.make_egress_path { connection_limit = 7 } end)",
    );
    let (policy, conn) = (&loaded.policy, ConnMeta::new());
    conn.set("x", 1);
    let extensions = now(policy.smtp_server_ehlo("me".into(), conn.clone(), Some(vec!["A".into(), "B".into()])));
    assert_eq!(extensions, Ok(Some(vec!["A".to_owned(), "MORE".to_owned()])));
    assert_eq!(now(policy.smtp_server_ehlo("me".into(), conn.clone(), None)), Ok(None), "HELO");
    assert_eq!(now(policy.smtp_server_mail_from(ReversePath(None), conn.clone())), Ok(()));
    assert_eq!(now(policy.smtp_server_rcpt_to(mailbox("u@d.test"), conn.clone())), Ok(()));
    let listener = "127.0.0.1:25".parse().expect("address");
    let domain = now(policy.get_listener_domain("d.test".into(), listener, conn.clone()));
    assert!(domain.expect("sound").expect("returned").relay_to);
    assert_eq!(now(policy.get_listener_domain("other".into(), listener, conn)), Ok(None));
    assert_eq!(now(policy.get_queue_config(parts("d.test"))).expect("sound").egress_pool(), "p");
    assert_eq!(now(policy.get_egress_pool("p".into())).expect("sound").entries.len(), 1);
    assert_eq!(now(policy.get_egress_source("s".into())).expect("sound").name, "s");
    assert!(now(policy.get_egress_path_config("d".into(), "s".into(), "site".into())).is_ok());
}

#[test]
fn without_a_handler_events_have_kumomtas_defaults() {
    let policy = load("").policy;
    assert!(Event::ALL.iter().all(|e| !policy.interest().has(*e)));
    let conn = ConnMeta::new();
    assert_eq!(now(policy.smtp_server_connection_accepted(conn.clone())), Ok(()));
    assert_eq!(now(policy.smtp_server_ehlo("x".into(), conn.clone(), None)), Ok(None));
    assert_eq!(now(policy.smtp_server_auth_plain("".into(), "u".into(), "p".into(), conn.clone())), Ok(None));
    assert!(now(policy.smtp_server_message_received(draft(), conn)).is_ok());
    assert_eq!(now(policy.get_queue_config(parts("d"))), Ok(config::QueueConfig::default()));
    assert!(now(policy.get_egress_path_config("d".into(), "s".into(), "site".into())).is_ok());
    let text = "event get_egress_pool has not been registered (asked for `p`)";
    assert_has(&now(policy.get_egress_pool("p".into())).expect_err("no default").to_string(), &[text]);
    assert!(now(policy.get_egress_source("s".into())).is_err());
}

#[test]
fn values_of_the_wrong_kind_are_named() {
    let loaded = load(
        "kumo.on('get_queue_config', function() return { egress_pool = 'p' } end)
         kumo.on('get_egress_path_config', function() return kumo.make_queue_config {} end)
         kumo.on('get_egress_pool', function() return nil end)
         kumo.on('smtp_server_ehlo', function(_, conn) return conn:get_meta 'answer' end)",
    );
    let error = now(loaded.policy.get_queue_config(parts("d"))).expect_err("a table").to_string();
    assert_has(&error, &["get_queue_config returned a table: expected the result of kumo.make_queue_config"]);
    let error =
        now(loaded.policy.get_egress_path_config("d".into(), "s".into(), "x".into())).expect_err("another").to_string();
    assert_has(&error, &["get_egress_path_config returned a userdata: expected the result of kumo.make_egress_path"]);
    let error = now(loaded.policy.get_egress_pool("p".into())).expect_err("nil").to_string();
    assert_has(&error, &["the handler returned nothing for `p`"]);
    for wrong in [serde_json::json!(5), serde_json::json!([["x"]]), serde_json::json!("A")] {
        let conn = ConnMeta::new();
        conn.set("answer", wrong);
        let error = now(loaded.policy.smtp_server_ehlo("d".into(), conn, None)).expect_err("no list").to_string();
        assert_has(&error, &["smtp_server_ehlo returned a", "expected a list of strings or nil"]);
    }
}

#[test]
fn credentials() {
    let loaded = load(
        "kumo.on('smtp_server_auth_plain', function(authz, authc, password, conn_meta)
           if password == 'table' then return { identities = { { identity = 'first' } } } end
           if password == 'contexts' then return { identities = {
             { identity = 'c', context = 'SmtpAuthPlainAuthentication' }, { identity = 'z', context = 'SmtpAuthPlainAuthorization' } } } end
           if password == 'empty' then return { identities = {} } end
           if password == 'nil' then return end
           if password == 'number' then return 1 end
           return authc == 'user' and password == 'secret' end)",
    );
    let ask = |password: &str| {
        now(loaded.policy.smtp_server_auth_plain("as".into(), "user".into(), password.into(), ConnMeta::new()))
    };
    let ids = |password: &str| ask(password).map(|found| found.map(|found| (found.authz_id, found.authn_id)));
    let these = |z: &str, n: &str| Ok(Some((z.to_owned(), n.to_owned())));
    assert_eq!(ids("secret"), these("as", "user"));
    assert_eq!(ids("wrong"), Ok(None));
    assert_eq!(ids("nil"), Ok(None));
    assert_eq!(ids("table"), these("first", "first"));
    assert_eq!(ids("contexts"), these("z", "c"));
    let info = ask("table").expect("an answer").expect("somebody").info;
    assert_eq!((info.identities[0].identity.as_str(), info.identities[0].context.as_str()), ("first", "GenericAuth"));
    assert_has(&ask("empty").expect_err("nobody").to_string(), &["at least one entry in identities"]);
    assert_has(&ask("number").expect_err("a number").to_string(), &["expected a boolean or AuthInfo"]);
}

#[test]
fn rejections() {
    let reply = |code: &str| (code.to_owned(), Disconnect::If421);
    assert_eq!(rejection("kumo.reject(550, '5.7.1 no')"), reply("550 5.7.1 no"));
    assert_eq!(rejection("kumo.reject(451.0, 'later')"), reply("451 later"));
    assert_eq!(rejection("kumo.disconnect(421, 'bye')"), ("421 bye".to_owned(), Disconnect::Force));
    assert_eq!(rejection("kumo.disconnect(550, 'x', 'FollowWith421')").1, Disconnect::FollowWith421);
    assert_eq!(rejection("kumo.disconnect(550, 'x', 'If421')").1, Disconnect::If421);
    assert_eq!(rejection("kumo.disconnect(550, 'x', 'ForceDisconnect')").1, Disconnect::Force);
}

#[test]
fn a_rejection_survives_pcall() {
    let text = "local ok, e = pcall(kumo.reject, 550, 'no') assert(not ok) assert(tostring(e):match '^550 no\\n?')";
    assert_eq!(rejection(&format!("{text} error(e)")).0, "550 no");
    assert_eq!(rejection(&format!("{text} error(e, 0)")).0, "550 no");
    assert_eq!(rejection(&format!("local ok, e = pcall(function() {text} error(e) end) error(e)")).0, "550 no");
    assert_eq!(
        rejection("local co = coroutine.wrap(function() kumo.reject(450, 'in a coroutine') end) co()").0,
        "450 in a coroutine"
    );
    assert_eq!(
        rejection("for _ in pairs(setmetatable({}, { __pairs = function() kumo.reject(451, 'meta') end })) do end").0,
        "451 meta"
    );
    assert!(received_with("pcall(kumo.reject, 550, 'no')", draft(), ConnMeta::new()).is_ok(), "caught is caught");
}

#[test]
fn bad_rejections_are_faults() {
    for (call, words) in [
        ("kumo.reject(250, 'fine')", ["kumo.reject: code 250", "expected 400 to 599"]),
        ("kumo.reject(-1, 'x')", ["kumo.reject: code -1", "expected 400 to 599"]),
        ("kumo.disconnect(600, 'x')", ["kumo.disconnect: code 600", "expected 400 to 599"]),
        ("kumo.disconnect(421, 'x', 'Now')", ["mode `Now`", "expected ForceDisconnect, FollowWith421 or If421"]),
        ("kumo.reject('x', 'x')", ["bad argument #1", "i64"]),
        ("kumo.reject(550)", ["bad argument #2", "String"]),
    ] {
        assert_has(&crate::support::error_of(call), &words);
    }
}

#[test]
fn faults_carry_their_traceback() {
    let loaded = load("local function deep() error 'boom' end\nkumo.on('smtp_server_data', function() deep() end)");
    match now(loaded.policy.smtp_server_data(draft(), ConnMeta::new())) {
        Err(PolicyError::Script { event, text }) => {
            assert_eq!(event, "smtp_server_data");
            assert_has(
                &text,
                &["policy.lua:1: boom", "stack traceback:", "upvalue 'deep'", "policy.lua:2: in function"],
            );
        }
        other => panic!("{other:?}"),
    }
    let rust = crate::support::error_of("local function deep() msg:set_due('x') end deep()");
    assert_has(&rust, &["RFC 3339", "stack traceback:", "policy.lua:1: in", "'deep'"]);
}

#[test]
fn a_state_survives_a_rejection_and_not_a_fault() {
    let body = "seen = (seen or 0) + 1 if seen == 2 then kumo.reject(550, 'two') end if seen == 4 then error 'four' end msg:set_meta('seen', seen)";
    let loaded = load(&format!("kumo.on('smtp_server_message_received', function(msg) {body} end)"));
    let seen = || {
        let answer = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new()));
        answer.map(|d| d.meta.get("seen").and_then(serde_json::Value::as_i64))
    };
    assert_eq!(seen(), Ok(Some(1)));
    assert!(matches!(seen(), Err(PolicyError::Reject { .. })));
    assert_eq!(seen(), Ok(Some(3)));
    assert!(matches!(seen(), Err(PolicyError::Script { .. })));
    assert_eq!(seen(), Ok(Some(1)), "a fresh state");
}

#[test]
fn the_classic_routing_example() {
    let loaded = load(
        "kumo.on('smtp_server_message_received', function(msg) msg:set_meta('queue', 'my.sink.server') end)
         kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
           if domain == 'my.sink.server' then
             return kumo.make_queue_config { protocol = { smtp = { mx_list = { '127.0.0.1:2026' } } } }
           end
           return kumo.make_queue_config {} end)",
    );
    let draft = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
    let queue = queue::QueueName::text_for(&draft.envelope, &draft.meta).expect("a name");
    assert_eq!(queue, "my.sink.server");
    let mut parts = parts(&queue);
    parts.tenant = None;
    match now(loaded.policy.get_queue_config(parts.clone())).expect("sound").protocol {
        QueueProtocol::Smtp(smtp) => assert_eq!(smtp.mx_list.len(), 1),
        other => panic!("{other:?}"),
    }
    parts.domain = "elsewhere.test".into();
    assert_eq!(now(loaded.policy.get_queue_config(parts)), Ok(config::QueueConfig::default()));
}
