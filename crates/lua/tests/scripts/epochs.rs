//! Configuration epochs: the policy file is read again, states of before end, and a script can ask for one.

use crate::support::{file, load, now};
use injection::Injection;
use lua::LuaPolicy;
use message::{Draft, MessageId};
use policy::{Administered, AuthInfo, Event, Injected, Interest, Policy, Program, QueueParts, Requested, Startup};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn parts() -> QueueParts {
    QueueParts { domain: "x.test".to_owned(), tenant: None, campaign: None, routing_domain: None }
}

fn script(pool: &str) -> String {
    format!(
        "local kumo = require 'kumo' local calls = 0 kumo.on('get_queue_config', function() calls = calls + 1 \
         return kumo.make_queue_config {{ egress_pool = '{pool}' .. calls }} end)"
    )
}

#[test]
fn a_policy_is_read_again_and_what_does_not_load_changes_nothing() {
    let loaded = load(&script("a"));
    let pool = || now(loaded.policy.get_queue_config(parts())).expect("an answer").egress_pool;
    let file = loaded.folder.path().join("policy.lua");
    assert_eq!((pool().as_deref(), pool().as_deref()), (Some("a1"), Some("a2")));
    loaded.policy.reload(&mut |_, _| Ok(())).expect("reads again");
    assert_eq!(pool().as_deref(), Some("a1"), "another state");
    std::fs::write(&file, script("b")).expect("writes");
    assert_eq!(pool().as_deref(), Some("a2"), "not by itself");
    loaded.policy.reload(&mut |_, _| Ok(())).expect("reads again");
    assert_eq!(pool().as_deref(), Some("b1"));
    let wrong_init = script("c") + " kumo.on('init', function() kumo.start_http_listener { listen = 7 } end)";
    let invalid = script("c") + " kumo.on('validate_config', function() kumo.validation_failed('x is amiss') end)";
    for (text, says) in [
        ("this is no Lua", "policy.lua"),
        (&wrong_init, "listen"),
        (&invalid, "its own validation failed; x is amiss"),
        (&script("c"), "not this one"),
    ] {
        std::fs::write(&file, text).expect("writes");
        let mut refuse = |_, _| Err("not this one".to_owned());
        let error = loaded.policy.reload(&mut refuse).expect_err("is refused").to_string();
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(pool().as_deref(), Some("b2"));
}

/// With `keep_on_error` a file that was readable once is as it was then while it is not.
#[test]
fn what_cannot_be_read_any_more_counts_on() {
    let (folder, path) = file("");
    let data = folder.path().join("data");
    std::fs::write(&data, "a").expect("writes");
    let text = |option: &str| {
        format!(
            "local kumo = require 'kumo' local read = kumo.memoize(function() local f = assert(io.open '{}') \
             local text = f:read 'a' f:close() return text end, {{ name = 'data', ttl = 0, capacity = 4{option} }}) \
             kumo.on('get_queue_config', function() return kumo.make_queue_config {{ egress_pool = read() }} end)",
            data.display()
        )
    };
    for (option, counts_on) in [(", keep_on_error = true", true), ("", false)] {
        std::fs::write(&data, "a").expect("writes");
        std::fs::write(&path, text(option)).expect("writes");
        let (policy, _) = LuaPolicy::load(&path).expect("sound");
        let pool = || now(policy.get_queue_config(parts())).map(|config| config.egress_pool).ok().flatten();
        assert_eq!(pool().as_deref(), Some("a"));
        std::fs::remove_file(&data).expect("removes");
        assert_eq!(pool().as_deref(), counts_on.then_some("a"), "{option}");
        std::fs::write(&data, "b").expect("writes");
        assert_eq!(pool().as_deref(), Some("b"), "it is looked at again each time");
    }
}

/// What a policy keeps that is only tried out is of no use to the one in force, nor to the next that is tried.
#[test]
fn what_a_refused_policy_has_read_is_in_force_nowhere() {
    let (folder, path) = file("");
    let data = folder.path().join("data");
    let text = format!(
        "local kumo = require 'kumo' local read = kumo.memoize(function() local f = assert(io.open '{}') \
         local text = f:read 'a' f:close() return text end, {{ name = 'data', ttl = '1 hour', capacity = 4, invalidate_with_epoch = true }}) \
         read() kumo.on('get_queue_config', function() return kumo.make_queue_config {{ egress_pool = read() }} end)",
        data.display()
    );
    std::fs::write(&path, text).expect("writes");
    std::fs::write(&data, "a").expect("writes");
    let (policy, _) = LuaPolicy::load(&path).expect("sound");
    let pool = || now(policy.get_queue_config(parts())).expect("an answer").egress_pool;
    assert_eq!(pool().as_deref(), Some("a"));
    std::fs::write(&data, "b").expect("writes");
    policy.reload(&mut |_, _| Err("not this one".to_owned())).expect_err("refused");
    assert_eq!(pool().as_deref(), Some("a"), "as it was");
    std::fs::remove_file(&data).expect("removes");
    policy.reload(&mut |_, _| Ok(())).expect_err("does not load");
    assert_eq!(pool().as_deref(), Some("a"), "what does not load takes nothing away");
    std::fs::write(&data, "c").expect("writes");
    policy.reload(&mut |_, _| Ok(())).expect("reads again");
    assert_eq!(pool().as_deref(), Some("c"), "read when it came into force");
}

#[test]
fn what_a_policy_requires_is_read_again_with_it() {
    let (folder, path) = file(
        "local kumo = require 'kumo' local pool = require 'pool' kumo.set_max_lua_context_use_count(1) \
         kumo.on('get_queue_config', function() return kumo.make_queue_config { egress_pool = pool } end)",
    );
    let module = folder.path().join("pool.lua");
    std::fs::write(&module, "return 'a'").expect("writes");
    let (policy, _) = LuaPolicy::load(&path).expect("sound");
    let pool = || now(policy.get_queue_config(parts())).expect("an answer").egress_pool;
    std::fs::write(&module, "return 'b'").expect("writes");
    assert_eq!((pool().as_deref(), pool().as_deref()), (Some("a"), Some("a")), "in new states too");
    policy.reload(&mut |_, _| Ok(())).expect("reads again");
    assert_eq!(pool().as_deref(), Some("b"));
}

#[test]
fn events_come_and_go_with_the_policy_and_what_it_asks_for_is_shown() {
    let loaded = load(&script("a"));
    let file = loaded.folder.path().join("policy.lua");
    let handled = |event| loaded.policy.interest().has(event);
    assert!(handled(Event::QueueConfig) && !handled(Event::MailFrom));
    let text = "local kumo = require 'kumo' kumo.on('smtp_server_mail_from', function() kumo.reject(450, 'later') end) \
                kumo.on('init', function() kumo.start_esmtp_listener { listen = '127.0.0.1:26' } end)";
    std::fs::write(&file, text).expect("writes");
    let mut shown = None;
    let mut check = |startup: Startup, interest: Interest| {
        shown = Some((startup.esmtp_listeners.len(), interest.has(Event::MailFrom), interest.has(Event::QueueConfig)));
        Ok(())
    };
    loaded.policy.reload(&mut check).expect("reads again");
    assert_eq!(shown, Some((1, true, false)));
    assert!(!handled(Event::QueueConfig) && handled(Event::MailFrom));
    assert_eq!(now(loaded.policy.get_queue_config(parts())).expect("the default").egress_pool, None);
}

#[test]
fn a_state_in_use_when_an_epoch_begins_is_not_used_again_and_the_script_may_ask_for_one() {
    let loaded = load(
        "local calls = 0 kumo.on('get_queue_config', function(domain) calls = calls + 1 kumo.bump_config_epoch() \
         return kumo.make_queue_config { egress_pool = tostring(calls) } end)",
    );
    let policy = Arc::new(loaded.policy);
    let pool = || now(policy.get_queue_config(parts())).expect("an answer").egress_pool;
    assert_eq!((pool().as_deref(), pool().as_deref()), (Some("1"), Some("2")), "nobody listens yet");
    let wishes = Arc::new(AtomicUsize::new(0));
    let (heard, of_wish) = (wishes.clone(), Arc::downgrade(&policy));
    policy.serves_in(Box::new(Desk(move || {
        heard.fetch_add(1, Ordering::SeqCst);
        of_wish.upgrade().into_iter().for_each(|policy| policy.reload(&mut |_, _| Ok(())).expect("reads again"));
    })));
    assert_eq!((pool().as_deref(), pool().as_deref()), (Some("3"), Some("1")));
    assert_eq!(wishes.load(Ordering::SeqCst), 2);
}

/// A program that only hears of epochs.
struct Desk<F>(F);

impl<F: Fn() + Send + Sync> Program for Desk<F> {
    fn bump_config_epoch(&self) {
        self.0();
    }

    fn message_id(&self) -> Option<MessageId> {
        None
    }

    fn inject_request(&self, _injection: Injection, _auth: AuthInfo) -> Requested<'_> {
        Box::pin(async { Err("a desk".to_owned()) })
    }

    fn administer(&self, _method: &'static str, _path: &'static str, _request: serde_json::Value) -> Administered<'_> {
        Box::pin(async { Err("a desk".to_owned()) })
    }

    fn inject(&self, _draft: Draft, _deferred: bool) -> Injected<'_> {
        Box::pin(std::future::ready(Err("not here".to_owned())))
    }
}
