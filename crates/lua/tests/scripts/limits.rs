//! Runaway scripts end, states are retired, memory stays flat.

use crate::support::{assert_has, draft, file, load, now};
use lua::LuaPolicy;
use policy::{ConnMeta, Policy};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(50);

fn runaway(body: &str) -> String {
    let text = format!("local kumo = require 'kumo' kumo.on('smtp_server_message_received', function(msg) {body} end)");
    let (_folder, path) = file(&text);
    let (policy, _) = LuaPolicy::load_with_run_time_max(&path, SHORT).expect("sound");
    let started = Instant::now();
    let error = now(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect_err("stopped").to_string();
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    error
}

#[test]
fn endless_loops_end() {
    let stopped = "ran longer than 50ms and was stopped";
    assert_has(&runaway("while true do end"), &[stopped, "stack traceback:", "policy.lua:1"]);
    assert_has(&runaway("while true do pcall(function() while true do end end) end"), &[stopped]);
    assert_has(&runaway("coroutine.wrap(function() while true do end end)()"), &[stopped]);
    assert_has(
        &runaway("while true do coroutine.resume(coroutine.create(function() while true do end end)) end"),
        &[stopped],
    );
    assert_has(&runaway("local function f() return f() end f()"), &[stopped]);
    assert_has(&runaway("local function f() return 1 + f() end f()"), &["stack overflow"]);
}

#[test]
fn an_endless_top_level_ends() {
    let (_folder, path) = file("while true do end");
    let error = LuaPolicy::load_with_run_time_max(&path, SHORT).map(|_| ()).expect_err("stopped");
    assert_has(&error.to_string(), &["ran longer than 50ms", "policy.lua:1"]);
}

#[test]
fn time_counts_anew_for_each_event() {
    let body = "local t = 0 for i = 1, 3000000 do t = t + i end";
    let text = format!("local kumo = require 'kumo' kumo.on('smtp_server_message_received', function(msg) {body} end)");
    let (_folder, path) = file(&text);
    let (policy, _) = LuaPolicy::load_with_run_time_max(&path, Duration::from_secs(1)).expect("sound");
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(1300) {
        now(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("each is short");
    }
}

#[test]
fn endless_growth_ends() {
    let loaded = load(
        "kumo.on('smtp_server_message_received', function() local s = ('x'):rep(1e6) while true do s = s .. s end end)",
    );
    let error = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect_err("stopped");
    assert_has(&error.to_string(), &["not enough memory"]);
}

#[test]
fn states_are_retired_by_use() {
    let text = "kumo.on('pre_init', function() kumo.set_max_lua_context_use_count(3) end)
                kumo.on('smtp_server_message_received', function(msg) seen = (seen or 0) + 1 msg:set_meta('seen', seen) end)";
    let loaded = load(text);
    let seen = || {
        let draft = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
        draft.meta.get("seen").and_then(serde_json::Value::as_i64)
    };
    // The state that ran init counts init as a use.
    assert_eq!([seen(), seen(), seen(), seen(), seen(), seen()].map(Option::unwrap_or_default), [1, 2, 1, 2, 3, 1]);
}

#[test]
fn memory_stays_flat_over_many_events() {
    let loaded = load(
        "kumo.on('pre_init', function() kumo.set_max_lua_context_use_count(1000000) end)
         kumo.on('smtp_server_message_received', function(msg, conn)
           msg:set_meta('x', { msg:sender().domain, msg:get_first_named_header_value 'Subject' })
           local kb = collectgarbage 'count' if kb > (conn:get_meta 'kb' or 0) then conn:set_meta('kb', kb) end
         end)",
    );
    let peak_kb = |events: usize| {
        let conn = ConnMeta::new();
        for _ in 0..events {
            now(loaded.policy.smtp_server_message_received(draft(), conn.clone())).expect("sound");
        }
        conn.get("kb").and_then(|kb| kb.as_f64()).unwrap_or_default()
    };
    let (first, rest) = (peak_kb(2_000), peak_kb(50_000));
    assert!(rest < first * 1.5 + 100.0, "peak grew from {first} KB to {rest} KB");
}
