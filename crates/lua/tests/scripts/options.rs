//! Option tables: strictness, error texts, Lua's odd values; configuration objects.

use crate::support::{assert_has, load, load_error};

#[test]
fn what_limits_come_to_can_be_computed_and_shown() {
    load(
        "local path = kumo.make_egress_path { max_message_rate = '1/s' } \
         local queue = kumo.compute_queue_config_constraints(kumo.make_queue_config { max_message_rate = '30/m' }) \
         local all = kumo.compute_egress_path_config_constraints(path, queue) \
         assert(all.max_message_rate.value == 0.5 and all.max_message_rate.source.kind == 'other') \
         assert(all.max_message_rate_declared.display == '1/s' and all.max_concurrent_dispatchers.value == 32) \
         assert(kumo.compute_egress_path_config_constraints { connection_limit = 3 }.max_concurrent_dispatchers.value == 3) \
         assert(kumo.format_egress_path_config_constraints(all):find('^ceilings:\\n.*max_message_rate: 30/m'))",
    );
    let error = load_error("kumo.format_egress_path_config_constraints { max_speed = 1 }");
    assert!(
        error.contains("kumo.format_egress_path_config_constraints: constraints: unknown field `max_speed`"),
        "{error}"
    );
}

#[test]
fn unknown_options_name_field_value_and_expectation() {
    for (call, words) in [
        (
            "kumo.make_egress_path { conection_limit = 5 }",
            &["kumo.make_egress_path:", "unknown field `conection_limit`", "did you mean `connection_limit`"][..],
        ),
        ("kumo.make_egress_path { max_ready = 'many' }", &["max_ready:", "many", "expected"]),
        (
            "kumo.make_egress_path { enable_tls = 'Sometimes' }",
            &["enable_tls:", "unknown variant `Sometimes`", "Opportunistic"],
        ),
        (
            "kumo.make_egress_path { prohibited_hosts = { '10.0.0.1/8' } }",
            &["prohibited_hosts[0]:", "10.0.0.1/8", "10.0.0.0/8"],
        ),
        ("kumo.make_queue_config { max_age = 'soon' }", &["kumo.make_queue_config:", "max_age:", "soon"]),
        (
            "kumo.make_queue_config { protocol = { smtp = { mx_list = { {} } } } }",
            &["protocol.smtp.mx_list[0]", "name"],
        ),
        (
            "kumo.make_egress_pool { name = 'p', entries = { { name = 's', weigth = 2 } } }",
            &["entries[0]", "unknown field `weigth`", "did you mean `weight`"],
        ),
        ("kumo.make_egress_source {}", &["kumo.make_egress_source:", "missing field `name`"]),
        ("kumo.make_listener_domain { relay_too = true }", &["unknown field `relay_too`", "did you mean `relay_to`"]),
        ("kumo.make_egress_path()", &["kumo.make_egress_path:", "nil"]),
        ("kumo.make_egress_path { 'x' }", &["kumo.make_egress_path:", "a table of options"]),
        (
            "kumo.make_egress_path { 'x', max_ready = 1 }",
            &["kumo.make_egress_path:", "list items and the name `max_ready`"],
        ),
        (
            "kumo.make_egress_path { max_ready = print }",
            &[
                "kumo.make_egress_path: max_ready: deserialize error: a function cannot be stored",
                "while processing a table",
            ],
        ),
        (
            "kumo.make_egress_path { ehlo_domain = '\\xff' }",
            &["ehlo_domain: deserialize error: string", "is not UTF-8"],
        ),
        (
            "kumo.dkim.rsa_sha256_signer { domain = 'd.test', selector = 's', headers = { 'From' }, ky = 'x' }",
            &["kumo.dkim.rsa_sha256_signer:", "unknown field `ky`", "did you mean `key`"],
        ),
    ] {
        let error = load_error(call);
        assert_has(&error, words);
        assert_has(&error, &["stack traceback:"]);
    }
    let form = load_error("kumo.make_egress_path { max_ready = 0 }");
    assert_has(&form, &["deserialize error: ", ", while processing {\"max_ready\":0}"]);
}

#[test]
fn lua_s_ways_to_write_values_are_understood() {
    load(
        "local path = kumo.make_egress_path { max_ready = 1e3, prohibited_hosts = {}, skip_hosts = {}, connection_limit = 2^4,
           max_connection_rate = nil, additional_connection_limits = {}, idle_timeout = 2.5 }
         assert(path.max_ready == 1000 and path.connection_limit == 16 and path.max_connection_rate == nil)
         kumo.make_queue_config { max_age = 3600, retry_interval = '10 mins', protocol = { smtp = { mx_list = {} } } }",
    );
    assert_has(&load_error("kumo.make_egress_path { max_ready = 1.5 }"), &["max_ready", "1.5"]);
}

#[test]
fn configuration_objects_can_be_read_and_copied_but_not_written() {
    load(
        "local path = kumo.make_egress_path { max_ready = 7 }
         local fields = 0 for name, value in pairs(path) do fields = fields + 1 if name == 'max_ready' then assert(value == 7) end end
         assert(fields > 10 and #path >= fields and path.nonsense == nil)
         assert(not pcall(function() path.max_ready = 8 end))
         next = nil for _ in pairs(path) do break end
         assert(kumo.make_egress_path(path).max_ready == 7)
         local queue = kumo.make_queue_config { egress_pool = 'p' }
         assert(queue.egress_pool == 'p' and kumo.make_listener_domain({ relay_to = true }).relay_to == true)",
    );
}

#[test]
fn tuning_functions_check_their_arguments() {
    load(
        "kumo.set_smtpsrv_threads(4) kumo.set_httpinject_threads(4) kumo.set_qmaint_threads(4) kumo.set_ready_qmaint_threads(4)
         kumo.set_readyq_threads(4) kumo.set_spoolin_threads(4) kumo.set_logging_threads(4)
         kumo.dkim.set_signing_threads(2) kumo.set_lruttl_cache_capacity('dns_resolver_mx', 1000) kumo.set_lua_gc_on_put(10)
         kumo.set_config_monitor_globs { '/etc/*.lua' } kumo.set_diagnostic_log_filter 'kumod=debug' kumo.set_timeq_spawn_reinsertion(true)
         kumo.enable_memory_callstack_tracking(false) kumo.spawn_thread_pool { name = 'more', num_threads = 4 }
         kumo.set_max_lua_context_age(60) kumo.set_max_lua_context_use_count(1000.0) kumo.set_max_spare_lua_contexts(8)
         assert(math.type(kumo.available_parallelism()) == 'integer' and kumo.available_parallelism() >= 1)
         assert(kumo.version >= '2023')",
    );
    for (call, words) in [
        ("kumo.set_readyq_threads(0)", ["kumo.set_readyq_threads: 0:", "expected a whole number from 1"]),
        ("kumo.set_readyq_threads()", ["kumo.set_readyq_threads: nil:", "expected a whole number"]),
        ("kumo.set_lua_gc_on_put(101)", ["kumo.set_lua_gc_on_put: 101:", "expected 0 to 100"]),
        ("kumo.set_lruttl_cache_capacity('mx', 1)", ["\"mx\": expected one of", "dns_resolver_mx"]),
        (
            "kumo.set_config_monitor_globs { 1 }",
            ["kumo.set_config_monitor_globs: table:", "expected a list of strings"],
        ),
        ("kumo.spawn_thread_pool { num_threads = 4 }", ["kumo.spawn_thread_pool: nil:", "expected a name"]),
        ("kumo.spawn_thread_pool { name = 'x', threads = 4 }", ["unknown option \"threads\":", "name, num_threads"]),
        ("kumo.set_max_lua_context_use_count(1.5)", ["kumo.set_max_lua_context_use_count: 1.5:", "whole number"]),
    ] {
        assert_has(&load_error(call), &words);
    }
}

#[test]
fn sizes_are_numbers_of_octets() {
    let listener = |size: &str| {
        format!(
            "kumo.on('init', function() kumo.start_esmtp_listener {{ listen = '127.0.0.1:0', max_message_size = {size} }} end)"
        )
    };
    let startup = load(&listener("20 * 1024 * 1024")).startup;
    assert_eq!(startup.esmtp_listeners[0].params.max_message_size, 20 << 20);
    assert_has(&load_error(&listener("'10MB'")), &["max_message_size", "\"10MB\"", "expected u64"]);
}
