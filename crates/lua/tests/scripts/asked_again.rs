//! What a policy hears of itself: its own handlers, asked by it, and where they come from.

use crate::support::{error_of, load, now};
use policy::{ConnMeta, Policy};

#[test]
fn a_policy_hears_what_its_own_handlers_say() {
    let loaded = load(
        "kumo.on('get_queue_config', function(domain, tenant, campaign, routing) \
            if domain == 'a.test' then return kumo.make_queue_config { retry_interval = tenant == 't' and '7m' or '8m' } end end) \
         kumo.on('get_egress_path_config', function(domain, source, site) \
            return kumo.make_egress_path { connection_limit = #domain + #source + #site } end) \
         kumo.on('get_egress_pool', function(name) \
            if name == 'p' then return kumo.make_egress_pool { name = name, entries = { { name = 's' } } } end end) \
         kumo.on('get_egress_source', function(name) return kumo.make_egress_source { name = name, ehlo_domain = 'e.test' } end) \
         kumo.on('smtp_server_message_received', function(msg) \
            assert(kumo.invoke_get_queue_config('c:t@a.test').retry_interval == '7m') \
            assert(kumo.invoke_get_queue_config('a.test').retry_interval == '8m') \
            assert(kumo.invoke_get_queue_config('b.test').retry_interval == '20m', 'the default') \
            assert(kumo.invoke_get_egress_path_config('ab', 'cd', 'e').connection_limit == 5) \
            assert(kumo.invoke_get_egress_pool('p').entries[1].name == 's') \
            assert(kumo.invoke_get_egress_pool(nil).name == 'unspecified') \
            assert(kumo.invoke_get_egress_source('x').ehlo_domain == 'e.test') \
            local ok, why = pcall(kumo.invoke_get_egress_pool, 'q') \
            assert(not ok and tostring(why):find('no handler knows the pool `q`', 1, true)) end)",
    );
    now(loaded.policy.smtp_server_message_received(crate::support::draft(), ConnMeta::new())).expect("sound");
    let error = error_of("kumo.invoke_get_egress_source('none')");
    assert!(error.contains("kumo.invoke_get_egress_source: no handler knows the source `none`"), "{error}");
}

#[test]
fn a_policy_hears_where_its_handlers_come_from() {
    let loaded = load(
        "\nlocal function register() kumo.on('get_queue_config', function() end) end\nregister()\nregister()\n\
         kumo.on('smtp_server_message_received', function(msg) \
            local all = kumo.get_event_registrars 'get_queue_config' \
            assert(#all == 2 and all[1][1]:find('policy.lua:2$') and all[1][2]:find('policy.lua:3$')) \
            assert(all[2][2]:find('policy.lua:4$') and kumo.get_event_registrars 'never' == nil) end)",
    );
    now(loaded.policy.smtp_server_message_received(crate::support::draft(), ConnMeta::new())).expect("sound");
}
