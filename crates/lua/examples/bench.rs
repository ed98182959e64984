//! What one policy event costs: check-out, call, lending the draft and taking it back.
//!
//! `cargo run --release -p lua --example bench [EVENTS [PART-OF-NAME]]`. Prints a line a handler: microseconds
//! a call (best of five rounds) and how much the process grew over all of them. One thread.

use lua::LuaPolicy;
use message::{Draft, Envelope, IdGenerator, Meta, TlsDemand};
use policy::{ConnMeta, Policy, QueueParts};
use smtp_wire::{Mailbox, ReversePath};
use std::future::Future;
use std::io::Write;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Name and body of `smtp_server_message_received`.
const RECEIVED: [(&str, &str); 6] = [
    ("nothing (relay.lua, unsigned)", "if signer then msg:dkim_sign(signer) end"),
    ("set_meta('queue', ...)", "msg:set_meta('queue', 'my.sink.server')"),
    ("four calls", "msg:set_meta('tenant', msg:sender().domain) msg:remove_all_named_headers('X-Tenant')"),
    ("import_x_headers", "msg:import_x_headers()"),
    ("kumo.reject", "kumo.reject(550, '5.7.1 go away')"),
    ("error", "error 'boom'"),
];

fn main() {
    let events: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let draft = draft();
    for (name, body) in RECEIVED {
        let handler = format!("kumo.on('smtp_server_message_received', function(msg) {body} end)");
        let policy = policy(&handler);
        let rounds = if name == "error" { events / 100 } else { events };
        report(name, rounds, || {
            let _ = now(policy.smtp_server_message_received(draft.clone(), ConnMeta::new()));
        });
    }
    for (name, text) in HELPERS {
        let policy = policy(text);
        report(name, events, || {
            let _ = now(policy.smtp_server_message_received(draft.clone(), ConnMeta::new()));
        });
    }
    let all = policy(&format!("{ONE_EVENT}{ALL_HELPERS}"));
    report("a new state of all helpers, from birth to end", 4000, || {
        let _ = now(all.smtp_server_message_received(draft.clone(), ConnMeta::new()));
    });
    let policy = policy(CONFIG);
    report("rcpt_to(recipient, conn_meta)", events, || {
        let _ = now(policy.smtp_server_rcpt_to(draft.envelope.recipients[0].clone(), ConnMeta::new()));
    });
    report("get_queue_config", events, || {
        let parts = QueueParts { domain: "a.test".into(), tenant: None, campaign: None, routing_domain: None };
        let _ = now(policy.get_queue_config(parts));
    });
    report("get_egress_path_config", events, || {
        let _ = now(policy.get_egress_path_config("a.test".into(), "source".into(), "site".into()));
    });
    report("(draft.clone() and ConnMeta::new() alone)", events, || {
        std::hint::black_box((draft.clone(), ConnMeta::new()));
    });
}

fn report(name: &str, calls: u32, mut call: impl FnMut()) {
    if std::env::args().nth(2).is_some_and(|part| !name.contains(&part)) {
        return;
    }
    let before = resident_kb();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        (0..calls / ROUNDS).for_each(|_| call());
        best = best.min(started.elapsed());
    }
    let us = best.as_secs_f64() * 1e6 / f64::from(calls / ROUNDS);
    let grown = resident_kb().saturating_sub(before);
    let _ = writeln!(std::io::stdout(), "{name:<45} {us:>8.2} us   grew {grown} KB in {calls} calls");
}

fn policy(text: &str) -> LuaPolicy {
    let file = tempfile::NamedTempFile::new().expect("scratch file");
    std::fs::write(file.path(), format!("local kumo = require 'kumo'\n{text}")).expect("scratch file");
    LuaPolicy::load(file.path()).expect("sound policy").0
}

fn draft() -> Draft {
    let id = IdGenerator::new([0; 6], 0).next(clock::WallTime::EPOCH);
    let mailbox = |text: &str| Mailbox::parse(text).expect("sound address");
    let envelope = Envelope {
        sender: ReversePath(Some(mailbox("a@b.test"))),
        recipients: vec![mailbox("c@d.test")],
        dsn: None,
        tls: TlsDemand::Usual,
    };
    let mut raw = b"From: a@b.test\r\nTo: c@d.test\r\nSubject: hello\r\nX-Tenant: t\r\nDate: today\r\n\r\n".to_vec();
    raw.resize(10 * 1024, b'x');
    Draft::new(id, envelope, Meta::new(), raw.into(), clock::WallTime::EPOCH)
}

fn now<T>(answer: impl Future<Output = T>) -> T {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a synchronous handler does not wait"),
    }
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

const ROUNDS: u32 = 5;

/// What helpers do about each message.
const HELPERS: [(&str, &str); 4] = [
    (
        "ten calls of msg",
        "kumo.on('smtp_server_message_received', function(msg) msg:set_meta('tenant', 't') msg:set_meta('campaign', 'c') \
         msg:get_meta('tenant') msg:id() msg:get_first_named_header_value('X-Tenant') msg:set_meta('x', 1) msg:get_meta('x') \
         msg:num_attempts() msg:sender() msg:recipient() end)",
    ),
    (
        "a memoized table",
        "local f = kumo.memoize(function() return { a = 1 } end, { name = 'm', ttl = 600, capacity = 1 }) \
         kumo.on('smtp_server_message_received', function(msg) return f().a == nil end)",
    ),
    (
        "policy-extras.queue: apply",
        "local q = require('policy-extras.queue'):setup { { tenant_header = 'X-Tenant', remove_tenant_header = true, \
         campaign_header = 'X-Campaign', tenant = { t = { max_message_rate = '5000/s' } }, \
         queue = { default = { retry_interval = '10m' }, ['vip.test'] = { max_age = '1 day' } } } } \
         kumo.on('smtp_server_message_received', function(msg) q:apply(msg) end)",
    ),
    (
        "policy-extras.dkim_sign: no signature",
        "local sign = require('policy-extras.dkim_sign'):setup { { base = { selector = 's', headers = { 'From' } }, \
         domain = { ['other.test'] = {} } } } kumo.on('smtp_server_message_received', function(msg) sign(msg) end)",
    ),
];

/// As production policies begin.
/// A state serves one event.
const ONE_EVENT: &str = "kumo.on('pre_init', function() kumo.set_max_lua_context_use_count(1) end)";

const ALL_HELPERS: &str = "
require('policy-extras.sources'):setup { { source = { s = { source_address = '127.0.0.1' } }, pool = { p = { s = {} } } } }
local sign = require('policy-extras.dkim_sign'):setup { { base = { selector = 's', headers = { 'From' } }, domain = { ['other.test'] = {} } } }
local shaper = require('policy-extras.shaping'):setup_with_automation { no_default_files = true, extra_files = {} }
local queues = require('policy-extras.queue'):setup { { queue = { default = { retry_interval = '10m' } } } }
kumo.on('get_listener_domain', require('policy-extras.listener_domains'):setup { { ['*'] = { relay_to = false } } })
kumo.on('get_egress_path_config', shaper.get_egress_path_config)
kumo.on('smtp_server_message_received', function(msg) queues:apply(msg) sign(msg) end)
";

const CONFIG: &str = "
kumo.on('smtp_server_rcpt_to', function(recipient, conn_meta) end)
kumo.on('get_queue_config', function(domain, tenant, campaign, routing_domain)
  return kumo.make_queue_config { protocol = { smtp = { mx_list = { { name = 'sink.test', addr = '127.0.0.1:2026' } } } } }
end)
kumo.on('get_egress_path_config', function(routing_domain, egress_source, site_name)
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {}, connection_limit = 100, max_ready = 100000 }
end)";
