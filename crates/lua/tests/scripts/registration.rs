//! `kumo.on`: single and multiple events, places, refusals, warnings.

use crate::support::{assert_has, draft, file, load, load_error, now};
use lua::LuaPolicy;
use policy::{ConnMeta, Event, Policy, QueueParts};
use std::io::Write;
use std::sync::{Arc, Mutex};

fn egress_pool(loaded: &crate::support::Loaded, domain: &str) -> Result<String, String> {
    let parts = QueueParts { domain: domain.into(), tenant: None, campaign: None, routing_domain: None };
    now(loaded.policy.get_queue_config(parts)).map(|c| c.egress_pool().to_owned()).map_err(|e| e.to_string())
}

#[test]
fn a_second_handler_names_the_place_of_the_first() {
    let error = load_error("\nkumo.on('smtp_server_data', print)\n\nkumo.on('smtp_server_data', print)");
    assert_has(
        &error,
        &["smtp_server_data event already has a handler defined at ", "policy.lua:2", "policy.lua:4: in"],
    );
    assert_has(&load_error("kumo.on('init', print) kumo.on('init', print)"), &["init event already has a handler"]);
    assert_has(&load_error("kumo.on('own_event', print) kumo.on('own_event', print)"), &["own_event event already"]);
    assert_has(&load_error("kumo.on('init', nil)"), &["bad argument #2", "function"]);
    assert_has(&load_error("kumo.on(print)"), &["bad argument #1"]);
}

#[test]
fn several_handlers_are_asked_in_turn() {
    let loaded = load(
        "kumo.on('get_queue_config', function(d) if d == 'a' then return kumo.make_queue_config { egress_pool = 'first' } end end)
         kumo.on('get_queue_config', function(d) if d == 'b' then return nil end if d == 'e' then error 'no' end end)
         kumo.on('get_queue_config', function(d) if d ~= 'c' then return kumo.make_queue_config { egress_pool = 'third' } end end)",
    );
    assert_eq!(egress_pool(&loaded, "a"), Ok("first".into()));
    assert_eq!(egress_pool(&loaded, "b"), Ok("third".into()), "an explicit nil asks on");
    assert_eq!(egress_pool(&loaded, "c"), Ok("unspecified".into()), "nobody answered");
    assert_has(&egress_pool(&loaded, "e").expect_err("a fault ends the chain"), &["no"]);
}

#[test]
fn registration_inside_a_handler_is_refused() {
    let late = "kumo.on('smtp_server_ehlo', print)";
    assert_has(
        &load_error(&format!("kumo.on('init', function() {late} end)")),
        &["inside the handler of init", "top level"],
    );
    let loaded = load(&format!("kumo.on('smtp_server_data', function() {late} end)"));
    let error = now(loaded.policy.smtp_server_data(draft(), ConnMeta::new())).expect_err("refused").to_string();
    assert_has(&error, &["kumo.on('smtp_server_ehlo') inside the handler of smtp_server_data"]);
}

#[test]
fn modules_register_too_and_interest_tells() {
    let (folder, path) = file("require 'part'");
    std::fs::write(folder.path().join("part.lua"), "require('kumo').on('smtp_server_data', function() end)")
        .expect("module");
    let (policy, _) = LuaPolicy::load(&path).expect("sound");
    assert!(policy.interest().has(Event::Data));
    assert!(!policy.interest().has(Event::MessageReceived));
}

/// Collects what the diagnostic log would show.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged while `work` runs.
pub fn logged(work: impl FnOnce()) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, work);
    String::from_utf8(lines.0.lock().expect("not poisoned").clone()).expect("text")
}

#[test]
fn handlers_nobody_will_call_are_warned_of() {
    let text = logged(|| {
        load("\nkumo.on('proxy_init', print)\nkumo.on('smtp_server_mesage_received', print)\nkumo.on('my_own', print)");
    });
    assert_has(&text, &["WARN lua:", "policy.lua:2: the handler of proxy_init is accepted, but"]);
    assert_has(
        &text,
        &["policy.lua:3: no event is named smtp_server_mesage_received (did you mean `smtp_server_message_received`?)"],
    );
    assert!(!text.contains("my_own"), "{text}");
}

#[test]
fn globals_that_a_handler_writes_are_warned_of_once() {
    let text = logged(|| {
        let loaded = load(
            "known = 1 same = 'x' kumo.on('smtp_server_data', function(msg)\n same = 'x' known = known + 1\n new = known local mine = new\n end)
             kumo.on('get_egress_pool', function(name) return kumo.make_egress_pool { name = name .. new, entries = {} } end)",
        );
        for _ in 0..3 {
            now(loaded.policy.smtp_server_data(draft(), ConnMeta::new())).expect("carried out");
        }
        let pool = now(loaded.policy.get_egress_pool("p".to_owned())).expect("the same state");
        assert_eq!(pool.name, "p4");
    });
    assert_has(&text, &["WARN lua:", "policy.lua:3: smtp_server_data writes the global `new`", "`local new`"]);
    assert_has(&text, &["smtp_server_data, or a handler before it, writes the global `known`", "`local known`"]);
    assert_eq!(text.matches("writes the global").count(), 2, "{text}");
}

#[test]
fn log_lines_name_their_place() {
    let text = logged(|| {
        load(
            "\nkumo.log_info('a', 1, nil, { 1 } ~= nil, 'gr\\xffn')\nkumo.log_warn(2.5) kumo.log_error('e') kumo.log_debug('hidden')",
        );
    });
    assert_has(
        &text,
        &["INFO lua: ", "policy.lua:2: a 1 nil true gr\\xFFn", "WARN lua: ", "policy.lua:3: 2.5", "ERROR lua: "],
    );
    assert!(!text.contains("hidden"), "{text}");
}
