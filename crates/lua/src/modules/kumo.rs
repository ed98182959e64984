//! `require 'kumo'`: start-up, the configuration constructors, and the parts beside this file.
//!
//! KumoMTA's names and semantics. Option tables are strict: an unknown key is an error.

use crate::api::Proof::{Example, Test};
use crate::api::{Function, Module, function};
use crate::context::{Host, REASONS_MAX};
use crate::convert;
use crate::modules::api::administer;
use crate::modules::secrets::{HasKeys, fetch};
use crate::modules::{
    ceilings, invoke, log, memoize, memory, messages, objects, on, reject, serde, submodules, tuning,
};
use crate::startup::StartupEntry;
use crate::types::config_object::ConfigObject;
use crate::types::throttle::LuaThrottle;
use config::{
    BounceClassifier, Contradictions, DmarcReports, EgressPath, EgressPool, EgressSource, EsmtpListener, EventStream,
    FromTable, HttpListener, ListenerDomain, LocalLogs, LogDispositionHook, LogHook, OtlpMetrics, QueueConfig,
    RedisThrottles, SpawnTask, SpoolOptions, ThrottleSpec, TlsReports, contradictions,
};
use mlua::{Lua, Table, Value};

/// The module.
pub(crate) const KUMO: Module = Module {
    name: "kumo",
    doc: "What a policy is written with: `local kumo = require 'kumo'`. `kumo.version` compares as text with KumoMTA's versions.",
    functions: &[
        FUNCTIONS,
        on::FUNCTIONS,
        reject::FUNCTIONS,
        messages::FUNCTIONS,
        log::FUNCTIONS,
        memory::FUNCTIONS,
        ceilings::FUNCTIONS,
        invoke::FUNCTIONS,
        tuning::FUNCTIONS,
    ],
    types: objects::TYPES,
};

/// The module's table, whose functions are made when a script first names them.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let kumo = lua.create_table()?;
    kumo.set("version", VERSION)?;
    submodules::add_to(lua, &kumo)?;
    Ok(kumo)
}

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo",
        "define_spool",
        "{options}",
        "In `init`: where messages are kept. `data` and `meta` are both wanted.",
        Test("crates/lua/tests/scripts/startup.rs::init_collects_what_is_to_be_started"),
        |lua, options: Value| starts::<SpoolOptions>(lua, "kumo.define_spool", &options)
    ),
    function!(
        "kumo",
        "start_esmtp_listener",
        "{options}",
        "In `init`: a socket on which mail is taken.",
        Test("crates/lua/tests/scripts/startup.rs::init_collects_what_is_to_be_started"),
        |lua, options: Value| starts_with_keys::<EsmtpListener>(lua, "kumo.start_esmtp_listener", &options)
    ),
    function!(
        "kumo",
        "start_http_listener",
        "{options}",
        "In `init`: a socket for the HTTP API.",
        Test("crates/lua/tests/scripts/startup.rs::init_collects_what_is_to_be_started"),
        |lua, options: Value| starts_with_keys::<HttpListener>(lua, "kumo.start_http_listener", &options)
    ),
    function!(
        "kumo",
        "configure_local_logs",
        "{options}",
        "In `init`: where log records are written; may be called several times.",
        Test("crates/lua/tests/scripts/startup.rs::init_collects_what_is_to_be_started"),
        |lua, options: Value| starts::<LocalLogs>(lua, "kumo.configure_local_logs", &options)
    ),
    function!(
        "kumo",
        "spawn_task",
        "{options}",
        "In `init`: a handler that runs once the program serves, beside everything else, on a thread and in a state of its own. An \
         error in it is logged and ends it; the end of the program ends it where it waits.",
        Test("testing/e2e/tests/tasks.rs::tasks_run_beside_the_service"),
        |lua, options: Value| starts::<SpawnTask>(lua, "kumo.spawn_task", &options)
    ),
    function!(
        "kumo",
        "configure_log_hook",
        "{options}",
        "In `pre_init` or `init`: has a message made of each record that is logged, which `should_enqueue_log_record` sends on its \
         way. `policy-extras.log_hooks` does the whole.",
        Test("testing/e2e/tests/log_hooks.rs::records_become_messages"),
        |lua, options: Value| starts::<LogHook>(lua, "kumo.configure_log_hook", &options)
    ),
    function!(
        "kumo",
        "configure_event_stream",
        "{options}",
        "In `pre_init` or `init`: has what a log's segments hold posted to a web server, in order and in batches, with a checkpoint \
         of its own; the delivery path has no part in it.",
        Test("testing/e2e/tests/event_stream.rs::every_record_arrives_in_order_whatever_the_receiver_does"),
        |lua, options: Value| starts_with_keys::<EventStream>(lua, "kumo.configure_event_stream", &options)
    ),
    function!(
        "kumo",
        "configure_otlp_metrics",
        "{options}",
        "In `pre_init` or `init`, once: what `/metrics` tells is sent to a collector of OpenTelemetry too, by OTLP over HTTP with JSON. Off without.",
        Test("testing/e2e/tests/otlp.rs::a_collector_hears_what_the_page_tells"),
        |lua, options: Value| starts::<OtlpMetrics>(lua, "kumo.configure_otlp_metrics", &options)
    ),
    function!(
        "kumo",
        "configure_dmarc_reports",
        "{options}",
        "In `init`, once: what `kumo.dmarc.check_msg` finds is counted, and reported to the domains that ask for it. Off without.",
        Test("testing/e2e/tests/domain_reports.rs::dmarc_reports_go_to_those_who_asked_and_say_what_was_seen"),
        |lua, options: Value| starts::<DmarcReports>(lua, "kumo.configure_dmarc_reports", &options)
    ),
    function!(
        "kumo",
        "configure_tls_reports",
        "{options}",
        "In `init`, once: how TLS went in outbound sessions is counted, and reported to the domains that ask for it. Off without.",
        Test("testing/e2e/tests/domain_reports.rs::tls_reports_say_which_sessions_failed_and_how"),
        |lua, options: Value| starts::<TlsReports>(lua, "kumo.configure_tls_reports", &options)
    ),
    function!(
        "kumo",
        "configure_log_disposition_hook",
        "{options}",
        "In `pre_init` or `init`: has the event `log_disposition_NAME` raised for what is logged of messages.",
        Test("testing/e2e/policies/notices.lua"),
        |lua, options: Value| starts::<LogDispositionHook>(lua, "kumo.configure_log_disposition_hook", &options)
    ),
    function!(
        "kumo",
        "configure_bounce_classifier",
        "{options}",
        "In `init`, once: the files with the rules by which replies are classified.",
        Test("testing/e2e/corpus/classifier.lua"),
        |lua, options: Value| starts::<BounceClassifier>(lua, "kumo.configure_bounce_classifier", &options)
    ),
    function!(
        "kumo",
        "configure_redis_throttles",
        "{options}",
        "In `init`, once: the Redis server that counts for all nodes.",
        Test("testing/e2e/policies/throttles.lua"),
        |lua, options: Value| starts::<RedisThrottles>(lua, "kumo.configure_redis_throttles", &options)
    ),
    function!(
        waits
        "kumo",
        "prometheus_metrics",
        "() -> table",
        "All metrics, as `/metrics.json` has them: name -> `help`, `type`, `value`.",
        Test("testing/e2e/tests/injection.rs::metrics_come_as_json_to_scripts_and_to_others"),
        |lua: Lua, ()| administer(lua, "kumo.prometheus_metrics", ("GET", "/metrics.json"), None)
    ),
    function!(
        "kumo",
        "set_httpinject_recipient_rate_limit",
        "(rate or nil)",
        "In `init` or `pre_init`: how fast recipients of requests over HTTP are taken, by all listeners together; requests wait. \
         `kumo.api.inject.inject_v1` does not.",
        Test("testing/e2e/tests/injection.rs::recipients_are_taken_no_faster_than_they_may"),
        set_injection_rate
    ),
    function!(
        "kumo",
        "make_queue_config",
        "{options} -> QueueConfig",
        "How messages of a queue are tried: what `get_queue_config` returns. It can be read by index, `pairs` and `#`.",
        Test("crates/lua/tests/scripts/options.rs::configuration_objects_can_be_read_and_copied_but_not_written"),
        |lua, options: Value| {
            let config = convert::options::<QueueConfig>("kumo.make_queue_config", &options)?;
            note_contradictions::<QueueConfig>(lua, "kumo.make_queue_config", &options);
            Ok(ConfigObject(config))
        }
    ),
    function!(
        "kumo",
        "format_queue_config_toml",
        "(QueueConfig) -> string",
        "A queue's configuration as TOML, names in order: what a helper or a handler came to.",
        Example(
            "local text = kumo.format_queue_config_toml(kumo.make_queue_config { retry_interval = '10m', max_age = '1 day' }) \
             local read = kumo.serde.toml_parse(text) assert(read.retry_interval == '10m' and text:find('max_age.*retry_interval')) \
             assert(not pcall(kumo.format_queue_config_toml, kumo.make_egress_path {}))"
        ),
        |_, value: Value| format_toml::<QueueConfig>(&value, "kumo.make_queue_config")
    ),
    function!(
        "kumo",
        "format_egress_path_config_toml",
        "(EgressPath) -> string",
        "The configuration of a path as TOML, names in order.",
        Example(
            "local text = kumo.format_egress_path_config_toml(kumo.make_egress_path { connection_limit = 7 }) \
             assert(kumo.serde.toml_parse(text).connection_limit == 7)"
        ),
        |_, value: Value| format_toml::<EgressPath>(&value, "kumo.make_egress_path")
    ),
    function!(
        "kumo",
        "make_egress_path",
        "{options} -> EgressPath",
        "What is allowed between a source and a site: what `get_egress_path_config` returns. It can be read by index, `pairs` and `#`.",
        Test("crates/lua/tests/scripts/options.rs::configuration_objects_can_be_read_and_copied_but_not_written"),
        |lua, options: Value| {
            let path = made::<EgressPath>(lua, "kumo.make_egress_path", &options)?;
            note_contradictions::<EgressPath>(lua, "kumo.make_egress_path", &options);
            Ok(path)
        }
    ),
    function!(
        "kumo",
        "make_egress_source",
        "{options} -> EgressSource",
        "Where mail is sent from: what `get_egress_source` returns. It can be read by index, `pairs` and `#`.",
        Test("crates/lua/tests/scripts/options.rs::configuration_objects_can_be_read_and_copied_but_not_written"),
        |lua, options: Value| made::<EgressSource>(lua, "kumo.make_egress_source", &options)
    ),
    function!(
        "kumo",
        "make_egress_pool",
        "{options} -> EgressPool",
        "Sources with weights: what `get_egress_pool` returns. It can be read by index, `pairs` and `#`.",
        Test("crates/lua/tests/scripts/options.rs::configuration_objects_can_be_read_and_copied_but_not_written"),
        |_, options: Value| Ok(ConfigObject(convert::options::<EgressPool>("kumo.make_egress_pool", &options)?))
    ),
    function!(
        "kumo",
        "make_listener_domain",
        "{options} -> ListenerDomain",
        "What a listener does for a domain: what `get_listener_domain` returns. It can be read by index, `pairs` and `#`.",
        Test("crates/lua/tests/scripts/options.rs::configuration_objects_can_be_read_and_copied_but_not_written"),
        |_, options: Value| Ok(ConfigObject(convert::options::<ListenerDomain>(
            "kumo.make_listener_domain",
            &options
        )?))
    ),
    function!(
        "kumo",
        "make_throttle",
        "(name, spec) -> Throttle",
        "A rate such as `100/min` under a name that all states share.",
        Test("crates/lua/tests/scripts/throttles.rs::all_states_share_a_throttle"),
        LuaThrottle::make
    ),
    function!(
        "kumo",
        "memoize",
        "(fn, {name, ttl, capacity, ...}) -> fn",
        "The same function, whose results are kept for `ttl` and shared by all states: by the name of the cache and the arguments. What is not there is computed once, while others wait. Tables come back as objects that read like tables and copy themselves when written to. The names of `kumo.set_lruttl_cache_capacity` are taken. `invalidate_with_epoch`, `populate_timeout = 120`, `retry_on_populate_timeout`, `allow_stale_reads`: see the options.",
        Example(
            "local calls = 0 local f = kumo.memoize(function(a, b) calls = calls + 1 return { sum = a + b } end, { name = 'doc', ttl = '1 minute', capacity = 10 }) assert(f(1, 2).sum == 3 and f(1, 2).sum == 3 and calls == 1 and f(2, 2).sum == 4 and calls == 2) local t = f(1, 2) t.sum = 9 t.own = t t[2.0] = 'x' assert(t.sum == 9 and t.own.sum == 9 and t[2] == 'x' and f(1, 2).sum == 3) assert(not pcall(kumo.memoize, function() end, { name = 'x' }) and not pcall(kumo.memoize, function() end, { name = 'dkim_key_cache', ttl = 1, capacity = 1 }))"
        ),
        memoize::memoize
    ),
    function!(
        "kumo",
        "bump_config_epoch",
        "()",
        "A new configuration epoch begins: files are read again, Lua states are made anew.",
        Test(
            "crates/lua/tests/scripts/epochs.rs::a_state_in_use_when_an_epoch_begins_is_not_used_again_and_the_script_may_ask_for_one"
        ),
        bump_config_epoch
    ),
    function!(
        "kumo",
        "validation_failed",
        "([reason])",
        "In `validate_config`: the policy is not sound, for this reason, or for those that the handler printed.",
        Test("crates/lua/tests/scripts/startup.rs::validation_runs_the_handlers_that_judge"),
        validation_failed
    ),
];

/// What `init` asks to have started.
pub(crate) fn starts<T: FromTable + StartupEntry>(lua: &Lua, name: &'static str, options: &Value) -> mlua::Result<()> {
    start(lua, name, convert::options::<T>(name, options)?)
}

/// As [`starts`], with the keys that its options name.
pub(crate) fn starts_with_keys<T: FromTable + StartupEntry + HasKeys>(
    lua: &Lua,
    name: &'static str,
    options: &Value,
) -> mlua::Result<()> {
    start(lua, name, fetch::<T>(lua, convert::options(name, options)?)?)
}

fn start<T: StartupEntry>(lua: &Lua, name: &'static str, entry: T) -> mlua::Result<()> {
    let mut host = lua.app_data_mut::<Host>();
    match host.as_mut().and_then(|host| host.startup.as_mut()) {
        Some(startup) => entry.add_to(startup).map_err(|why| mlua::Error::runtime(format!("{name}: {why}"))),
        None => Err(mlua::Error::runtime(format!("{name} can only be called from the init event"))),
    }
}

/// A configuration object, with the keys that its options name.
fn made<T: FromTable + HasKeys>(lua: &Lua, name: &'static str, options: &Value) -> mlua::Result<ConfigObject<T>> {
    Ok(ConfigObject(fetch(lua, convert::options::<T>(name, options)?)?))
}

fn note_contradictions<T: Contradictions>(lua: &Lua, function: &str, options: &Value) {
    if lua.app_data_ref::<Host>().is_none_or(|host| host.contradictions.is_none()) {
        return;
    }
    // Before the host is taken: objects that are read as options ask it, too.
    let json = convert::json_of(options);
    let found = json.as_ref().and_then(|json| json.as_object()).map(contradictions::<T>).unwrap_or_default();
    if let Some(mut host) = lua.app_data_mut::<Host>() {
        host.note_contradictions(function, found);
    }
}

/// An object made by `made_by` as TOML.
fn format_toml<T: 'static>(value: &Value, made_by: &str) -> mlua::Result<String>
where
    ConfigObject<T>: mlua::UserData,
{
    match value.as_userdata().is_some_and(|data| data.is::<ConfigObject<T>>()) {
        true => serde::toml_of(value),
        false => Err(mlua::Error::runtime(format!("a {}: expected the result of {made_by}", value.type_name()))),
    }
}

fn set_injection_rate(lua: &Lua, rate: Option<String>) -> mlua::Result<()> {
    let name = "kumo.set_httpinject_recipient_rate_limit";
    let wrong = |why: &dyn std::fmt::Display| mlua::Error::runtime(format!("{name}: {why}"));
    let rate = rate.map(|text| text.parse::<ThrottleSpec>()).transpose().map_err(|why| wrong(&why))?;
    let mut host = lua.app_data_mut::<Host>();
    let startup = host.as_mut().and_then(|host| host.startup.as_mut());
    startup.ok_or_else(|| wrong(&"it can only be called from init or pre_init"))?.injection_rate = rate;
    Ok(())
}

/// Does nothing before the program serves: everything is new then.
fn bump_config_epoch(lua: &Lua, _: ()) -> mlua::Result<()> {
    let program = lua.app_data_ref::<Host>().map(|host| host.program.clone());
    if let Some(program) = program.as_ref().and_then(|program| program.program.get()) {
        program.bump_config_epoch();
    }
    Ok(())
}

fn validation_failed(lua: &Lua, reason: Option<String>) -> mlua::Result<()> {
    if let Some(mut host) = lua.app_data_mut::<Host>() {
        let said = host.invalid.get_or_insert_default();
        said.extend(reason.filter(|_| said.len() < REASONS_MAX));
    }
    Ok(())
}

/// Compares as text with KumoMTA's versions, which scripts may ask for.
const VERSION: &str = "2026.08.04-postrider";
