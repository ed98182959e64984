//! Functions with which KumoMTA is tuned: what they mean here, one row a function.
//!
//! Three set the limits of the pool of Lua states and are acted on. The others tune parts
//! that this program does not have; production policies call them at the top level or in
//! `pre_init`, so they are taken, their arguments checked, and nothing is done. The table of
//! those is the truth that docs/compat.md repeats.

use crate::context::Host;
use mlua::{Lua, Table, Value};
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
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// The name of one of KumoMTA's caches and a count.
    CacheAndCount,
}

/// A function that is taken and does nothing.
struct Accepted {
    name: &'static str,
    takes: Takes,
    /// Why there is nothing to do.
    why: &'static str,
}

/// Of `kumo`.
const ACCEPTED: [Accepted; 13] = [
    Accepted { name: "set_smtpsrv_threads", takes: Takes::Count, why: ONE_RUNTIME },
    Accepted { name: "set_httpinject_threads", takes: Takes::Count, why: ONE_RUNTIME },
    Accepted { name: "set_qmaint_threads", takes: Takes::Count, why: ONE_RUNTIME },
    Accepted { name: "set_ready_qmaint_threads", takes: Takes::Count, why: ONE_RUNTIME },
    Accepted { name: "set_readyq_threads", takes: Takes::Count, why: ONE_RUNTIME },
    Accepted { name: "set_spoolin_threads", takes: Takes::Count, why: ONE_RUNTIME },
    Accepted { name: "set_logging_threads", takes: Takes::Count, why: ONE_RUNTIME },
    Accepted { name: "set_lruttl_cache_capacity", takes: Takes::CacheAndCount, why: "every cache has its own bound" },
    Accepted { name: "set_lua_gc_on_put", takes: Takes::Percent, why: "the collector runs as memory is allocated" },
    Accepted { name: "set_timeq_spawn_reinsertion", takes: Takes::Flag, why: "deprecated; KumoMTA ignores it too" },
    Accepted { name: "enable_memory_callstack_tracking", takes: Takes::Flag, why: "there is no such tracking" },
    Accepted { name: "set_diagnostic_log_filter", takes: Takes::Text, why: "KUMOD_LOG alone sets the filter" },
    Accepted { name: "set_config_monitor_globs", takes: Takes::Texts, why: "files are not watched; bump_config_epoch" },
];

/// Of `kumo.dkim`.
const ACCEPTED_DKIM: [Accepted; 1] = [Accepted { name: "set_signing_threads", takes: Takes::Count, why: ONE_RUNTIME }];

/// Adds the functions to the `kumo` module.
pub(crate) fn add_to(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    add_accepted(lua, kumo, "kumo", &ACCEPTED)?;
    limit(lua, kumo, "set_max_lua_context_use_count", |host, n| {
        host.limits.uses_max = u32::try_from(n).unwrap_or(u32::MAX)
    })?;
    limit(lua, kumo, "set_max_lua_context_age", |host, n| host.limits.age_max = Duration::from_secs(n))?;
    limit(lua, kumo, "set_max_spare_lua_contexts", |host, n| {
        host.limits.spare_max = usize::try_from(n).unwrap_or(usize::MAX)
    })?;
    kumo.set("available_parallelism", lua.create_function(|_, ()| Ok(available_parallelism()))?)
}

/// Adds the functions to the `kumo.dkim` module.
pub(crate) fn add_to_dkim(lua: &Lua, dkim: &Table) -> mlua::Result<()> {
    add_accepted(lua, dkim, "kumo.dkim", &ACCEPTED_DKIM)
}

fn add_accepted(lua: &Lua, module: &Table, prefix: &'static str, table: &'static [Accepted]) -> mlua::Result<()> {
    for Accepted { name, takes, why } in table {
        let function = move |_: &Lua, (first, second): (Value, Value)| {
            takes.check(&first, &second).map_err(|e| mlua::Error::runtime(format!("{prefix}.{name}: {e}")))?;
            tracing::debug!(target: "lua", "{prefix}.{name}: nothing to do: {why}");
            Ok(())
        };
        module.set(*name, lua.create_function(function)?)?;
    }
    Ok(())
}

/// A function that sets one limit of the pool.
fn limit(lua: &Lua, kumo: &Table, name: &'static str, set: fn(&mut Host, u64)) -> mlua::Result<()> {
    let function = move |lua: &Lua, value: Value| {
        let count = count(&value, 1, i64::MAX).map_err(|e| mlua::Error::runtime(format!("kumo.{name}: {e}")))?;
        if let Some(mut host) = lua.app_data_mut::<Host>() {
            set(&mut host, count);
        }
        Ok(())
    };
    kumo.set(name, lua.create_function(function)?)
}

impl Takes {
    fn check(self, first: &Value, second: &Value) -> Result<(), String> {
        match self {
            Takes::Count => count(first, 1, i64::MAX).map(|_| ()),
            Takes::Percent => count(first, 0, 100).map(|_| ()),
            Takes::Flag => is(first.is_boolean(), first, "true or false"),
            Takes::Text => is(first.is_string(), first, "a string"),
            Takes::Texts => is(is_list_of_strings(first), first, "a list of strings"),
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

const ONE_RUNTIME: &str = "one runtime with a thread per processor does all work";

/// KumoMTA's caches that have a name.
const CACHES: [&str; 17] = [
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
