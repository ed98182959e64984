//! `kumo.set_memory_hard_limit` and its sisters, and what becomes of delivery when the spool fails.
//!
//! Limits set before or in `init` hold from the start on; later ones are refused (KumoMTA would take
//! them at once). A getter tells what holds: what the script set, else the
//! environment and the system, else what follows from the limit above.

use crate::api::Proof::Test;
use crate::api::{Function, function};
use crate::context::Host;
use crate::modules::tuning::count;
use crate::task::MAIN;
use config::MemoryLimits;
use mlua::{Lua, Value};

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    function!(
        "kumo",
        "set_memory_hard_limit",
        "(octets)",
        "The memory that is never to be exceeded; mail is refused near it.",
        Test("crates/lua/tests/scripts/memory.rs::limits_set_before_or_in_init_are_what_is_started_with"),
        |lua, octets: Value| set(lua, "set_memory_hard_limit", &octets, |limits| &mut limits.hard)
    ),
    function!(
        "kumo",
        "get_memory_hard_limit",
        "() -> octets or nil",
        "The memory that is never to be exceeded; mail is refused near it: what the script set, else what follows from system and environment.",
        Test("crates/lua/tests/scripts/memory.rs::getters_tell_what_holds"),
        |lua, ()| get(lua, |limits| limits.hard)
    ),
    function!(
        "kumo",
        "set_memory_soft_limit",
        "(octets)",
        "The memory above which no new mail is taken.",
        Test("crates/lua/tests/scripts/memory.rs::limits_set_before_or_in_init_are_what_is_started_with"),
        |lua, octets: Value| set(lua, "set_memory_soft_limit", &octets, |limits| &mut limits.soft)
    ),
    function!(
        "kumo",
        "get_memory_soft_limit",
        "() -> octets or nil",
        "The memory above which no new mail is taken: what the script set, else what follows from system and environment.",
        Test("crates/lua/tests/scripts/memory.rs::getters_tell_what_holds"),
        |lua, ()| get(lua, |limits| limits.soft)
    ),
    function!(
        "kumo",
        "set_memory_low_thresh",
        "(octets)",
        "The memory above which content of waiting messages leaves memory.",
        Test("crates/lua/tests/scripts/memory.rs::limits_set_before_or_in_init_are_what_is_started_with"),
        |lua, octets: Value| set(lua, "set_memory_low_thresh", &octets, |limits| &mut limits.low)
    ),
    function!(
        "kumo",
        "get_memory_low_thresh",
        "() -> octets or nil",
        "The memory above which content of waiting messages leaves memory: what the script set, else what follows from system and environment.",
        Test("crates/lua/tests/scripts/memory.rs::getters_tell_what_holds"),
        |lua, ()| get(lua, |limits| limits.low)
    ),
    function!(
        "kumo",
        "suspend_delivery_when_spool_unhealthy",
        "(enabled = true)",
        "In `init`: deliveries wait while the spool fails.",
        Test(
            "crates/lua/tests/scripts/memory.rs::delivery_is_suspended_when_the_spool_is_unhealthy_unless_the_script_says_otherwise"
        ),
        suspend_delivery
    ),
];

fn set(lua: &Lua, name: &str, octets: &Value, field: fn(&mut MemoryLimits) -> &mut Option<u64>) -> mlua::Result<()> {
    let octets = count(octets, 1, i64::MAX).map_err(mlua::Error::runtime)?;
    if let Some(mut host) = lua.app_data_mut::<Host>() {
        if host.startup.is_none() && host.current_event.is_some_and(|event| event != MAIN) {
            let text = format!("kumo.{name} can only be called before or in the init event: it changes nothing later");
            return Err(mlua::Error::runtime(text));
        }
        *field(&mut host.memory) = Some(octets);
    }
    Ok(())
}

fn get(lua: &Lua, field: fn(&MemoryLimits) -> Option<u64>) -> mlua::Result<Option<i64>> {
    let limits = lua.app_data_ref::<Host>().map(|host| host.memory.or(host.memory_found).in_force());
    let octets = limits.and_then(|limits| field(&limits));
    Ok(octets.map(|octets| i64::try_from(octets).unwrap_or(i64::MAX)))
}

/// `enabled` is true when nothing is said, as in KumoMTA.
fn suspend_delivery(lua: &Lua, enabled: Option<bool>) -> mlua::Result<()> {
    match lua.app_data_mut::<Host>().as_mut().and_then(|host| host.startup.as_mut()) {
        Some(startup) => {
            startup.delivers_when_spool_unhealthy = !enabled.unwrap_or(true);
            Ok(())
        }
        None => {
            let text = "kumo.suspend_delivery_when_spool_unhealthy can only be called from the init event";
            Err(mlua::Error::runtime(text))
        }
    }
}
