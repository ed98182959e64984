//! Functions with which KumoMTA is tuned: what they mean here, one row a function.
//!
//! Three set the limits of the pool of Lua states and are acted on. The others tune parts
//! that this program does not have; production policies call them at the top level or in
//! `pre_init`, so they are taken, their arguments checked, and nothing is done. The table of
//! those is the truth that docs/compat.md repeats.

use crate::api::Proof::{Example, Test};
use crate::api::{Function, call, function, made};
use crate::context::Host;
use mlua::{FromLua, Lua, Value};
use std::time::Duration;

/// What an accepted function takes.
#[derive(Clone, Copy, Debug)]
enum Takes {
    /// A whole number from 1.
    Count,
    /// A whole number from 0 to 100.
    Percent,
    /// `true` or `false`.
    Flag,
    /// A list of strings.
    Texts,
    /// The name of one of KumoMTA's caches and a count.
    CacheAndCount,
    /// `{ name = string, num_threads = count }`.
    Pool,
}

/// A function that is taken, its arguments checked, and does nothing.
macro_rules! accepted {
    ($module:literal, $name:literal, $signature:literal, $takes:expr, $why:expr) => {
        Function {
            name: $name,
            signature: $signature,
            doc: $why,
            proof: Test("crates/lua/tests/scripts/options.rs::tuning_functions_check_their_arguments"),
            make: |lua, name| {
                let body = move |lua: &Lua, (first, second): (Value, Value)| {
                    $takes.check(&first, &second).map_err(mlua::Error::runtime)?;
                    lua.app_data_mut::<Host>().map(|mut host| host.idle.insert(concat!($module, ".", $name), $why));
                    tracing::debug!(target: "lua", "{name}: nothing to do: {}", $why);
                    Ok(())
                };
                made(lua, Box::new(move |lua, given| call(lua, name, given, body)))
            },
            full_name: concat!($module, ".", $name),
        }
    };
}

/// Of `kumo`.
pub(crate) const FUNCTIONS: &[Function] = &[
    accepted!("kumo", "set_smtpsrv_threads", "(n)", Takes::Count, ONE_RUNTIME),
    accepted!("kumo", "set_httpinject_threads", "(n)", Takes::Count, ONE_RUNTIME),
    accepted!("kumo", "set_qmaint_threads", "(n)", Takes::Count, ONE_RUNTIME),
    accepted!("kumo", "set_ready_qmaint_threads", "(n)", Takes::Count, ONE_RUNTIME),
    accepted!("kumo", "set_readyq_threads", "(n)", Takes::Count, ONE_RUNTIME),
    accepted!("kumo", "set_spoolin_threads", "(n)", Takes::Count, ONE_RUNTIME),
    accepted!("kumo", "set_logging_threads", "(n)", Takes::Count, ONE_RUNTIME),
    accepted!("kumo", "spawn_thread_pool", "{name, num_threads}", Takes::Pool, ONE_RUNTIME),
    accepted!("kumo", "set_lruttl_cache_capacity", "(name, n)", Takes::CacheAndCount, "every cache has its own bound"),
    accepted!("kumo", "set_lua_gc_on_put", "(percent)", Takes::Percent, "the collector runs as memory is allocated"),
    accepted!("kumo", "set_timeq_spawn_reinsertion", "(boolean)", Takes::Flag, "deprecated; KumoMTA ignores it too"),
    accepted!("kumo", "enable_memory_callstack_tracking", "(boolean)", Takes::Flag, "there is no such tracking"),
    function!(
        "kumo",
        "set_diagnostic_log_filter",
        "(text)",
        "What of the diagnostic log is written: `kumod=debug,lua=info` and the like, as in `KUMOD_LOG`, which counts before what a policy says at its start.",
        Test("testing/e2e/corpus/log_diagnostic_filter.lua"),
        filter
    ),
    function!(
        "kumo",
        "set_config_monitor_globs",
        "(list)",
        "Files whose content is looked at every 10 s: a change begins a configuration epoch. `/opt/kumomta/etc/**/*.{lua,json,toml,yaml}` \
         by default; the policy file is always among them.",
        Test("testing/e2e/tests/reload.rs::a_changed_file_begins_an_epoch"),
        |lua, globs: Value| {
            Takes::Texts.check(&globs, &Value::Nil).map_err(mlua::Error::runtime)?;
            let globs = Vec::from_lua(globs, lua)?;
            lua.app_data_mut::<Host>()
                .map(|mut host| host.globs = Some(globs))
                .ok_or_else(|| mlua::Error::runtime("the state ends"))
        }
    ),
    function!(
        "kumo",
        "eval_config_monitor_globs",
        "() -> list",
        "The files that `set_config_monitor_globs` stands for now.",
        Example(
            "io.open(folder .. '/a.toml', 'w'):close() kumo.set_config_monitor_globs { folder .. '/*.{toml,lua}', folder .. '/a*' } \
             local names = kumo.eval_config_monitor_globs() assert(#names == 1 and names[1] == folder .. '/a.toml')"
        ),
        |lua, ()| {
            let globs = lua.app_data_ref::<Host>().and_then(|host| host.globs.clone());
            crate::modules::fs::monitored(globs.as_deref()).map_err(mlua::Error::runtime)
        }
    ),
    function!(
        "kumo",
        "set_max_lua_context_use_count",
        "(n)",
        "Events a Lua state serves before it is retired; 1024 by default.",
        Test("crates/lua/tests/scripts/limits.rs::states_are_retired_by_use"),
        |lua, n: Value| limit(lua, &n, |host, n| host.limits.uses_max = u32::try_from(n).unwrap_or(u32::MAX))
    ),
    function!(
        "kumo",
        "set_max_lua_context_age",
        "(seconds)",
        "Age at which a Lua state is retired; 300 s by default.",
        Test("crates/lua/tests/scripts/limits.rs::states_grow_old_as_fast_as_the_policy_says"),
        |lua, n: Value| limit(lua, &n, |host, n| host.limits.age_max = Duration::from_secs(n))
    ),
    function!(
        "kumo",
        "set_max_spare_lua_contexts",
        "(n)",
        "Lua states that are kept for later; 8192 by default.",
        Test("crates/lua/tests/scripts/limits.rs::limits_of_states_follow_the_policy"),
        |lua, n: Value| limit(lua, &n, |host, n| host.limits.spare_max = usize::try_from(n).unwrap_or(usize::MAX))
    ),
    function!(
        "kumo",
        "available_parallelism",
        "() -> integer",
        "Processors this process may use, or what `KUMO_AVAILABLE_PARALLELISM` says.",
        Example("assert(kumo.available_parallelism() >= 1)"),
        |_, ()| Ok(available_parallelism())
    ),
];

/// Of `kumo.dkim`.
pub(crate) const DKIM_FUNCTIONS: &[Function] =
    &[accepted!("kumo.dkim", "set_signing_threads", "(n)", Takes::Count, ONE_RUNTIME)];

/// Sets one limit of the pool.
/// Before the program serves it is kept for the start; then it counts at once.
fn filter(lua: &Lua, text: String) -> mlua::Result<()> {
    let program = lua.app_data_ref::<Host>().map(|host| host.program.clone());
    match program.as_ref().and_then(|program| program.program.get()) {
        Some(program) => program.filter_diagnostics(&text).map_err(mlua::Error::runtime),
        None => {
            if let Some(mut host) = lua.app_data_mut::<Host>() {
                host.diagnostic_filter = Some(text);
            }
            Ok(())
        }
    }
}

fn limit(lua: &Lua, value: &Value, set: fn(&mut Host, u64)) -> mlua::Result<()> {
    let count = count(value, 1, i64::MAX).map_err(mlua::Error::runtime)?;
    if let Some(mut host) = lua.app_data_mut::<Host>() {
        set(&mut host, count);
    }
    Ok(())
}

impl Takes {
    fn check(self, first: &Value, second: &Value) -> Result<(), String> {
        match self {
            Takes::Count => count(first, 1, i64::MAX).map(|_| ()),
            Takes::Percent => count(first, 0, 100).map(|_| ()),
            Takes::Flag => is(first.is_boolean(), first, "true or false"),
            Takes::Texts => is(is_list_of_strings(first), first, "a list of strings"),
            Takes::Pool => {
                let table = first.as_table().ok_or_else(|| format!("{}: expected a table", shown(first)))?;
                for pair in table.pairs::<Value, Value>() {
                    let (name, value) = pair.map_err(|error| error.to_string())?;
                    match name.as_string().map(|name| name.to_string_lossy()).as_deref() {
                        Some("name") => is(value.is_string(), &value, "name to be a string")?,
                        Some("num_threads") => count(&value, 1, i64::MAX).map(|_| ())?,
                        _ => return Err(format!("unknown option {}: expected name, num_threads", shown(&name))),
                    }
                }
                let is_named = table.contains_key("name").unwrap_or(false);
                is(is_named, &Value::Nil, "a name")
            }
            Takes::CacheAndCount => {
                let known = first.as_string().is_some_and(|s| CACHES.iter().any(|c| s.as_bytes() == c.as_bytes()));
                is(known, first, &format!("one of {}", CACHES.join(", ")))?;
                count(second, 1, i64::MAX).map(|_| ())
            }
        }
    }
}

fn is(sound: bool, value: &Value, expected: &str) -> Result<(), String> {
    if sound { Ok(()) } else { Err(format!("{}: expected {expected}", shown(value))) }
}

fn is_list_of_strings(value: &Value) -> bool {
    value.as_table().is_some_and(|table| table.sequence_values::<Value>().all(|v| v.is_ok_and(|v| v.is_string())))
}

/// A whole number from `min` to `max`, or what is wrong with it.
pub(crate) fn count(value: &Value, min: i64, max: i64) -> Result<u64, String> {
    let whole =
        value.as_i64().or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 1e15).map(|f| f as i64));
    let whole = whole.filter(|n| (min..=max).contains(n)).and_then(|n| u64::try_from(n).ok());
    let expected = if max == i64::MAX { format!("a whole number from {min}") } else { format!("{min} to {max}") };
    whole.ok_or_else(|| format!("{}: expected {expected}", shown(value)))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(s) => format!("{:?}", s.to_string_lossy()),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) => n.to_string(),
        Value::Boolean(b) => b.to_string(),
        other => other.type_name().to_owned(),
    }
}

/// Processors this process may use (affinity and cgroup count), or what `KUMO_AVAILABLE_PARALLELISM` says there are.
#[must_use]
pub fn available_parallelism() -> usize {
    let said = std::env::var("KUMO_AVAILABLE_PARALLELISM").ok().and_then(|text| text.parse().ok());
    let said = said.filter(|count| (1..=CORES_MAX).contains(count));
    said.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// More than any machine has.
const CORES_MAX: usize = 4096;

/// Why thread pools have nothing to set.
const ONE_RUNTIME: &str = "a thread per processor does all work, and as many again carry sessions while there are many";

/// KumoMTA's caches that have a name.
pub(super) const CACHES: [&str; 17] = [
    "acl_check",
    "acl_definition",
    "dkim_key_cache",
    "dkim_signer_cache",
    "dns_resolver_ip",
    "dns_resolver_ipv4",
    "dns_resolver_ipv6",
    "dns_resolver_mx",
    "egress_source_pools",
    "egress_source_sources",
    "http_server_auth",
    "mod_filesystem_glob_cache",
    "mta_sts_policy",
    "rustls_client_config",
    "smtp_dispatcher_broken_tls",
    "smtp_dispatcher_client_certificate",
    "smtp_server_tls_config",
];
