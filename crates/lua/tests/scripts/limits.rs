//! Runaway scripts end, states are retired, memory stays flat.

use crate::support::{assert_has, draft, file, load, now};
use lua::LuaPolicy;
use policy::{ConnMeta, Policy};
use smtp_wire::ReversePath;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

/// Million instructions.
const SHORT: u64 = 5;

fn runaway(body: &str) -> String {
    let text = format!("local kumo = require 'kumo' kumo.on('smtp_server_message_received', function(msg) {body} end)");
    let (_folder, path) = file(&text);
    let (policy, _) = LuaPolicy::load_with_budget(&path, SHORT).expect("sound");
    let started = Instant::now();
    let error = now(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect_err("stopped").to_string();
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
    error
}

#[test]
fn endless_loops_end() {
    let stopped = "ran for more than 5 million instructions and was stopped";
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
    let error = LuaPolicy::load_with_budget(&path, SHORT).map(|_| ()).expect_err("stopped");
    assert_has(&error.to_string(), &["ran for more than 5 million instructions", "policy.lua:1"]);
}

#[test]
fn instructions_count_anew_for_each_event() {
    let body = "local t = 0 for i = 1, 1000000 do t = t + i end";
    let text = format!("local kumo = require 'kumo' kumo.on('smtp_server_message_received', function(msg) {body} end)");
    let (_folder, path) = file(&text);
    let (policy, _) = LuaPolicy::load_with_budget(&path, SHORT).expect("sound");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for _ in 0..10 {
        // From the second on it is called so that others can have the thread.
        let answer = policy.smtp_server_message_received(draft(), ConnMeta::new());
        runtime.block_on(answer).expect("each is short");
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

/// The clock of a state is the machine's, so what is looked at is which limit the pool has.
#[test]
fn states_grow_old_as_fast_as_the_policy_says() {
    let text = "kumo.on('pre_init', function() kumo.set_max_lua_context_age(AGE)
                 kumo.set_max_lua_context_use_count(1000000000) end)
                kumo.on('smtp_server_message_received', function(msg) seen = (seen or 0) + 1 msg:set_meta('seen', seen) end)";
    let loaded = load(&text.replace("AGE", "1"));
    let ask = || {
        let draft = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
        draft.meta.get("seen").and_then(serde_json::Value::as_i64).unwrap_or_default()
    };
    let begun = Instant::now();
    let mut last = ask();
    let again = loop {
        let seen = ask();
        if seen <= last {
            break begun.elapsed();
        }
        last = seen;
        assert!(begun.elapsed() < Duration::from_secs(20), "still the first state");
    };
    assert!(again >= Duration::from_millis(900), "a new state after {again:?}");
}

#[test]
fn limits_of_states_follow_the_policy() {
    let text = "kumo.on('pre_init', function() kumo.set_max_lua_context_use_count(USES)
                 kumo.set_max_spare_lua_contexts(SPARE) end)
                kumo.on('smtp_server_message_received', function(msg) seen = (seen or 0) + 1 msg:set_meta('seen', seen) end)";
    let text = |uses: &str, spare: &str| text.replace("USES", uses).replace("SPARE", spare);
    let (_folder, path) = file(&format!("local kumo = require 'kumo' {}", text("100", "8")));
    let (policy, _) = LuaPolicy::load(&path).expect("sound");
    let ask = || {
        let draft = now(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
        draft.meta.get("seen").and_then(serde_json::Value::as_i64).unwrap_or_default()
    };
    assert_eq!([ask(), ask(), ask()], [1, 2, 3]);
    for (uses, spare, expected) in [("2", "8", [1, 2, 1]), ("100", "1", [1, 2, 3])] {
        std::fs::write(&path, format!("local kumo = require 'kumo' {}", text(uses, spare))).expect("written");
        policy.reload(&mut |_, _| Ok(())).expect("sound");
        assert_eq!([ask(), ask(), ask()], expected, "{uses} uses, {spare} spare");
    }
}

/// The first that runs so long holds its thread where there is no other; from then on the others have it between any two million
/// instructions.
#[test]
fn a_handler_that_computes_lets_others_have_the_thread() {
    let text = "local kumo = require 'kumo'
                kumo.on('smtp_server_message_received', function(msg)
                  local t = 0 for i = 1, msg:sender().user == 'long' and 3000000 or 10 do t = t + i end msg:set_meta('t', t)
                end)";
    let (_folder, path) = file(text);
    let (policy, _) = LuaPolicy::load_with_budget(&path, 100).expect("sound");
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let turns = || {
        let over = std::cell::Cell::new(false);
        let long = async {
            let mut long = draft();
            long.envelope.sender = smtp_wire::ReversePath::parse("long@a.test").expect("sound");
            let computed = policy.smtp_server_message_received(long, ConnMeta::new()).await.expect("sound");
            over.set(true);
            computed.meta.get("t").and_then(serde_json::Value::as_i64)
        };
        let others = async {
            let mut turns = 0;
            while !over.get() {
                policy.smtp_server_message_received(draft(), ConnMeta::new()).await.expect("sound");
                turns += 1;
                tokio::task::yield_now().await;
            }
            turns
        };
        runtime.block_on(async { tokio::join!(long, others) })
    };
    assert_eq!(turns(), (Some(4_500_001_500_000), 0), "the first of its kind");
    let (sum, others) = turns();
    assert_eq!(sum, Some(4_500_001_500_000));
    assert!(others >= 5, "others had {others} turns");
}

/// A policy whose handler of MAIL takes `slices` million instructions, and may be left.
fn computes(slices: u64) -> crate::support::Loaded {
    // A turn of the loop is one instruction, and another for the sum.
    let turns = slices * 500_000;
    let loaded = load(&format!(
        "kumo.on('smtp_server_mail_from', function() local t = 0 for i = 1, {turns} do t = t + i end end)"
    ));
    is_first(&loaded.policy);
    loaded
}

/// Behind a call that took long it is known that handlers of MAIL do.
fn is_first(policy: &LuaPolicy) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(called(policy, "first@a.test"));
}

async fn called(policy: &LuaPolicy, sender: &str) {
    let sender = ReversePath::parse(sender).expect("sound");
    policy.smtp_server_mail_from(sender, ConnMeta::new()).await.expect("sound");
}

/// A runtime looks at sockets after 61 tasks, or when nothing is ready.
#[test]
fn sockets_are_looked_at_between_two_slices() {
    let policy = computes(60).policy;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let echo = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        std::io::copy(&mut socket.try_clone().expect("a handle"), &mut socket).expect("echoed");
    });
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let answers = runtime.block_on(async {
        let mut socket = tokio::net::TcpStream::connect(address).await.expect("connected");
        let long = tokio::spawn(async move { called(&policy, "long@a.test").await });
        let mut answers = 0;
        while !long.is_finished() {
            socket.write_all(b"x").await.expect("sent");
            socket.read_u8().await.expect("answered");
            answers += 1;
        }
        long.await.expect("sound");
        answers
    });
    echo.join().expect("echoed");
    // An answer may come behind the look, so each takes two at most.
    assert!(answers >= 20, "{answers} answers in 60 slices");
}

/// Other work waits for a slice on its thread, however many handlers compute.
#[test]
fn handlers_that_compute_wait_for_one_another() {
    let policy = std::sync::Arc::new(computes(4).policy);
    let at_once = lua::available_parallelism();
    // Others have a turn when nothing is ready, and not for the number of tasks.
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().event_interval(u32::MAX).build().expect("a runtime");
    let turns = runtime.block_on(async {
        let mut long = tokio::task::JoinSet::new();
        for _ in 0..4 * at_once {
            let policy = policy.clone();
            long.spawn(async move { called(&policy, "long@a.test").await });
        }
        let mut turns = 0;
        while !long.is_empty() {
            tokio::task::yield_now().await;
            turns += 1;
            while let Some(ended) = long.try_join_next() {
                ended.expect("sound");
            }
        }
        turns
    });
    // Each goes on three times at least, and so many at a time.
    assert!(turns >= 4 * 3, "others had {turns} turns");
}

/// Handlers that are not known to take long, and those that compute where they cannot be left, do so on a thread beside the others.
#[test]
fn who_cannot_be_left_holds_nobody_up() {
    let one = || Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    assert_others_go_on("compute()", false, &one());
    assert_others_go_on("coroutine.wrap(compute)()", true, &one());
    assert_others_go_on("table.sort({ 2, 1 }, function(a, b) compute() return a < b end)", true, &one());
}

/// What memoized functions call is part of the coroutine that is driven: no other thread is needed.
#[test]
fn memoized_functions_can_be_left() {
    let here = Builder::new_current_thread().enable_all().build().expect("a runtime");
    assert_others_go_on("kumo.memoize(compute, { name = 'm', ttl = '1m', capacity = 2 })(sender.user)", true, &here);
}

/// Beside a handler that does this for some 60 million instructions, known to wait or not.
fn assert_others_go_on(body: &str, is_known: bool, runtime: &Runtime) {
    let policy = load(&format!(
        "local function compute() local t = 0 for i = 1, 30000000 do t = t + i end return t end
         kumo.on('smtp_server_mail_from', function(sender)
           {body}
         end)"
    ))
    .policy;
    if is_known {
        is_first(&policy);
    }
    let turns = runtime.spawn(async {
        let long = tokio::spawn(async move { called(&policy, "long@a.test").await });
        let mut turns = 0;
        while !long.is_finished() {
            tokio::task::yield_now().await;
            turns += 1;
        }
        long.await.expect("sound");
        turns
    });
    let turns = runtime.block_on(turns).expect("sound");
    assert!(turns > 20, "others had {turns} turns beside {body}");
}

/// A script's own coroutine is not left: whoever resumed it would take that for its end.
#[test]
fn coroutines_of_scripts_are_resumed_by_scripts_alone() {
    let text = "local kumo = require 'kumo'
                kumo.on('smtp_server_message_received', function(msg)
                  kumo.sleep(0.001)
                  local count = coroutine.wrap(function() local t = 0 for i = 1, 3000000 do t = t + 1 end coroutine.yield(t) return -1 end)
                  msg:set_meta('t', count() + count())
                end)";
    let (_folder, path) = file(text);
    let (policy, _) = LuaPolicy::load_with_budget(&path, 100).expect("sound");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    for _ in 0..2 {
        let counted = runtime.block_on(policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("sound");
        assert_eq!(counted.meta.get("t").and_then(serde_json::Value::as_i64), Some(2_999_999));
    }
}

/// Thousands of them come to a million instructions together, and none of them takes long.
#[test]
fn many_short_handlers_are_no_long_one() {
    let text = "kumo.on('smtp_server_mail_from', function(sender)
          local t = 0 for i = 1, 500 do t = t + i end
          if sender.user == 'ask' then kumo.reject(450, 'may wait: ' .. tostring(coroutine.isyieldable())) end
        end)";
    let policy = load(text).policy;
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    for _ in 0..5000 {
        let asked = policy.smtp_server_mail_from(ReversePath(None), ConnMeta::new());
        runtime.block_on(asked).expect("sound");
    }
    let asked = policy.smtp_server_mail_from(ReversePath::parse("ask@b.test").expect("sound"), ConnMeta::new());
    let told = runtime.block_on(asked).expect_err("refused").to_string();
    assert!(told.contains("may wait: false"), "{told}");
}

/// Whoever waits for a handler may give it up; what it held goes with it, so that others can have that.
#[test]
fn a_handler_that_is_given_up_lets_go_of_what_it_held() {
    let text = "local queue = kumo.mpsc.define 'q'
        kumo.on('smtp_server_mail_from', function(sender)
          if sender.user == 'put' then queue:send 'word' return end
          kumo.sleep(0.001)
          queue:recv()
        end)";
    let policy = load(text).policy;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let by = |sender: &str| policy.smtp_server_mail_from(ReversePath::parse(sender).expect("sound"), ConnMeta::new());
    let (receive, send) = (|| by("get@b.test"), || by("put@b.test"));
    runtime.block_on(async {
        // The first holds its thread, and finds a word; from then on it is known that they wait.
        send().await.expect("sent");
        receive().await.expect("received");
        assert!(tokio::time::timeout(Duration::from_millis(20), receive()).await.is_err(), "there is none");
        send().await.expect("sent");
        // Another receives: the one that was given up is in nobody's way.
        tokio::time::timeout(Duration::from_secs(10), receive()).await.expect("in time").expect("received");
    });
}

/// A handler that may wait fails as any other does: with its own error, and with what it left to be closed closed.
#[test]
fn a_failed_handler_closes_what_it_left_open() {
    let text = "local closed = 0
        kumo.on('smtp_server_mail_from', function(sender)
          if sender.user == 'count' then kumo.reject(450, 'closed ' .. closed) end
          local open <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
          kumo.sleep(0.001)
          kumo.reject(550, 'my own words')
        end)";
    let policy = load(text).policy;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let refused = |sender: &str| {
        let asked = policy.smtp_server_mail_from(ReversePath::parse(sender).expect("sound"), ConnMeta::new());
        runtime.block_on(asked).expect_err("refused").to_string()
    };
    for times in 1..4 {
        assert!(refused("a@b.test").contains("my own words"));
        assert!(refused("count@b.test").contains(&format!("closed {times}")), "after {times}");
    }
}
