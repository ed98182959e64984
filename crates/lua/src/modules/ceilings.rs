//! `kumo.compute_*_constraints`, `kumo.format_egress_path_config_constraints`: what limits come to, for helpers that show it.

use crate::convert;
use config::{Constraints, EgressPath, QueueConfig};
use mlua::{Lua, Table, Value};
use std::fmt::Display;

/// Adds the functions to `kumo`.
pub(crate) fn add_to(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    kumo.set("compute_egress_path_config_constraints", lua.create_function(of_path)?)?;
    kumo.set("compute_queue_config_constraints", lua.create_function(of_queue)?)?;
    kumo.set("format_egress_path_config_constraints", lua.create_function(format)?)
}

fn of_path(lua: &Lua, (path, additional): (Value, Value)) -> mlua::Result<Value> {
    let name = "kumo.compute_egress_path_config_constraints";
    let path: EgressPath = convert::options(name, &path)?;
    let found = match additional {
        Value::Nil => path.constraints(),
        other => path.constraints().and(read(lua, name, &other)?),
    };
    table(lua, name, &found)
}

fn of_queue(lua: &Lua, queue: Value) -> mlua::Result<Value> {
    let name = "kumo.compute_queue_config_constraints";
    let queue: QueueConfig = convert::options(name, &queue)?;
    table(lua, name, &queue.constraints())
}

fn format(lua: &Lua, constraints: Value) -> mlua::Result<String> {
    read(lua, "kumo.format_egress_path_config_constraints", &constraints).map(|found| found.to_string())
}

fn read(lua: &Lua, function: &str, value: &Value) -> mlua::Result<Constraints> {
    let refused = |e: &dyn Display| mlua::Error::runtime(format!("{function}: constraints: {e}"));
    let json = convert::to_json(lua, value).map_err(|e| refused(&e))?;
    serde_json::from_value(json).map_err(|e| refused(&e))
}

fn table(lua: &Lua, function: &str, constraints: &Constraints) -> mlua::Result<Value> {
    let json = serde_json::to_value(constraints).map_err(|e| mlua::Error::runtime(format!("{function}: {e}")))?;
    convert::to_lua(lua, &json)
}
