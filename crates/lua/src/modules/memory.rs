//! `kumo.set_memory_hard_limit` and its sisters, and what becomes of delivery when the spool fails.
//!
//! Limits set before or in `init` hold from the start on; limits set later change nothing (KumoMTA
//! would take them at once). A getter tells what holds: what the script set, else the
//! environment and the system, else what follows from the limit above.

use crate::context::Host;
use crate::modules::tuning::count;
use config::MemoryLimits;
use mlua::{Lua, Table, Value};

/// One of the three limits.
struct Limit {
    setter: &'static str,
    getter: &'static str,
    field: fn(&mut MemoryLimits) -> &mut Option<u64>,
}

const LIMITS: [Limit; 3] = [
    Limit { setter: "set_memory_hard_limit", getter: "get_memory_hard_limit", field: |limits| &mut limits.hard },
    Limit { setter: "set_memory_soft_limit", getter: "get_memory_soft_limit", field: |limits| &mut limits.soft },
    Limit { setter: "set_memory_low_thresh", getter: "get_memory_low_thresh", field: |limits| &mut limits.low },
];

/// Adds the functions to the `kumo` module.
pub(crate) fn add_to(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    for Limit { setter, getter, field } in LIMITS {
        let set = move |lua: &Lua, octets: Value| {
            let octets =
                count(&octets, 1, i64::MAX).map_err(|e| mlua::Error::runtime(format!("kumo.{setter}: {e}")))?;
            if let Some(mut host) = lua.app_data_mut::<Host>() {
                *field(&mut host.memory) = Some(octets);
            }
            Ok(())
        };
        let get = move |lua: &Lua, ()| {
            let limits = lua.app_data_ref::<Host>().map(|host| host.memory.or(host.memory_found).in_force());
            let octets = limits.and_then(|mut limits| *field(&mut limits));
            Ok(octets.map(|octets| i64::try_from(octets).unwrap_or(i64::MAX)))
        };
        kumo.set(setter, lua.create_function(set)?)?;
        kumo.set(getter, lua.create_function(get)?)?;
    }
    kumo.set("suspend_delivery_when_spool_unhealthy", lua.create_function(suspend_delivery)?)
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
