//! `kumo.invoke_get_*`: what the handlers of this policy say, asked by itself; and what `kumo.on` was told.
//!
//! The handlers run in the same state. One that is not registered is answered as the program would be: by defaults, or an
//! error for pools and sources.

use crate::api::Proof::{Example, Test};
use crate::api::{Function, function};
use crate::context::Host;
use crate::types::config_object::ConfigObject;
use config::{EgressPath, EgressPool, EgressSource, QueueConfig, UNSPECIFIED};
use mlua::{IntoLuaMulti, Lua, Table, UserData, Value};
use queue::QueueName;
use serde::Serialize;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo",
        "invoke_get_queue_config",
        "(queue_name) -> table",
        "What the handlers of `get_queue_config` say of a queue, all options included.",
        Test("crates/lua/tests/scripts/asked_again.rs::a_policy_hears_what_its_own_handlers_say"),
        queue_config
    ),
    function!(
        waits
        "kumo",
        "invoke_get_egress_path_config",
        "(routing_domain, egress_source, site_name) -> table",
        "What the handler of `get_egress_path_config` says.",
        Test("crates/lua/tests/scripts/asked_again.rs::a_policy_hears_what_its_own_handlers_say"),
        path_config
    ),
    function!(
        waits
        "kumo",
        "invoke_get_egress_pool",
        "(name or nil) -> table",
        "What the handler of `get_egress_pool` says; an error when it does not know the pool.",
        Test("crates/lua/tests/scripts/asked_again.rs::a_policy_hears_what_its_own_handlers_say"),
        pool
    ),
    function!(
        waits
        "kumo",
        "invoke_get_egress_source",
        "(name) -> table",
        "What the handler of `get_egress_source` says; an error when it does not know the source.",
        Test("crates/lua/tests/scripts/asked_again.rs::a_policy_hears_what_its_own_handlers_say"),
        source
    ),
    function!(
        "kumo",
        "get_event_registrars",
        "(event) -> list or nil",
        "Where each handler of an event was registered: the place of the call to `kumo.on`, then those of its callers.",
        Test("crates/lua/tests/scripts/asked_again.rs::a_policy_hears_where_its_handlers_come_from"),
        registrars
    ),
    function!(
        "kumo",
        "traceback",
        "(level = 1) -> list",
        "The functions that run, from that level on: `name`, `name_what`, `source`, `short_src`, `line_defined`, `last_line_defined`, `what`, `curr_line`, `is_tail_call`, `event`.",
        Example(
            "local function f() return kumo.traceback(1) end local t = f() assert(#t >= 1 and t[1].curr_line > 0 and t[1].short_src:find('policy.lua', 1, true))"
        ),
        traceback
    ),
];

async fn queue_config(lua: Lua, name: String) -> mlua::Result<Table> {
    let parts = QueueName::parse(&name);
    let arguments = (parts.domain.clone(), parts.tenant.clone(), parts.campaign.clone(), parts.routing_domain.clone());
    let found: Option<QueueConfig> = ask(&lua, "get_queue_config", arguments).await?;
    fields(&lua, &found.unwrap_or_default())
}

async fn path_config(lua: Lua, arguments: (String, String, String)) -> mlua::Result<Table> {
    let found: Option<EgressPath> = ask(&lua, "get_egress_path_config", arguments).await?;
    fields(&lua, &found.unwrap_or_default())
}

async fn pool(lua: Lua, name: Option<String>) -> mlua::Result<Table> {
    let name = name.unwrap_or_else(|| UNSPECIFIED.to_owned());
    if name == UNSPECIFIED {
        return fields(&lua, &EgressPool::unspecified());
    }
    let found: Option<EgressPool> = ask(&lua, "get_egress_pool", name.clone()).await?;
    let found = found.ok_or_else(|| not_there("kumo.invoke_get_egress_pool", "pool", &name))?;
    fields(&lua, &found)
}

async fn source(lua: Lua, name: String) -> mlua::Result<Table> {
    if name == UNSPECIFIED {
        return fields(&lua, &EgressSource { name, ..EgressSource::default() });
    }
    let found: Option<EgressSource> = ask(&lua, "get_egress_source", name.clone()).await?;
    let found = found.ok_or_else(|| not_there("kumo.invoke_get_egress_source", "source", &name))?;
    fields(&lua, &found)
}

fn not_there(function: &str, kind: &str, name: &str) -> mlua::Error {
    mlua::Error::runtime(format!("{function}: no handler knows the {kind} `{name}`"))
}

/// The first answer of the handlers of an event.
async fn ask<T: Clone + Send + 'static>(
    lua: &Lua,
    event: &'static str,
    arguments: impl IntoLuaMulti + Clone + Send,
) -> mlua::Result<Option<T>>
where
    ConfigObject<T>: UserData,
{
    let handlers = lua.app_data_ref::<Host>().map(|host| host.registry.handlers(event)).unwrap_or_default();
    for handler in handlers {
        match handler.call_async::<Value>(arguments.clone()).await? {
            Value::Nil => {}
            Value::UserData(data) if data.is::<ConfigObject<T>>() => {
                return Ok(Some(data.borrow::<ConfigObject<T>>()?.0.clone()));
            }
            other => return Err(mlua::Error::runtime(format!("{event} returned a {}", other.type_name()))),
        }
    }
    Ok(None)
}

fn fields<T: Serialize>(lua: &Lua, config: &T) -> mlua::Result<Table> {
    let json = serde_json::to_value(config).map_err(mlua::Error::external)?;
    match crate::convert::to_lua(lua, &json)? {
        Value::Table(table) => Ok(table),
        other => Err(mlua::Error::runtime(format!("a configuration that is a {}", other.type_name()))),
    }
}

/// Where each handler of an event was registered: the places of the call to `kumo.on` and of its callers; nil without any.
fn registrars(lua: &Lua, event: String) -> mlua::Result<Option<Vec<Vec<String>>>> {
    let found = lua.app_data_ref::<Host>().map(|host| host.registry.registrars(&event)).unwrap_or_default();
    Ok((!found.is_empty()).then_some(found))
}

/// The functions that run, from `level` on, each as a table with the names that Lua's own debugging has for these facts.
fn traceback(lua: &Lua, level: Option<usize>) -> mlua::Result<Vec<Table>> {
    let mut frames = Vec::new();
    for level in level.unwrap_or(1)..FRAMES_MAX {
        let frame = lua.inspect_stack(level, |frame| {
            let (source, names) = (frame.source(), frame.names());
            let table = lua.create_table()?;
            table.raw_set("event", "")?;
            table.raw_set("name", names.name.as_deref())?;
            table.raw_set("name_what", names.name_what)?;
            table.raw_set("source", source.source.as_deref())?;
            table.raw_set("short_src", source.short_src.as_deref())?;
            table.raw_set("line_defined", source.line_defined)?;
            table.raw_set("last_line_defined", source.last_line_defined)?;
            table.raw_set("what", source.what)?;
            table.raw_set("curr_line", frame.current_line())?;
            table.raw_set("is_tail_call", frame.is_tail_call())?;
            Ok::<Table, mlua::Error>(table)
        });
        match frame {
            Some(frame) => frames.push(frame?),
            None => break,
        }
    }
    Ok(frames)
}

/// Functions of a call stack that are told.
pub(crate) const FRAMES_MAX: usize = 64;
