//! `kumo.compute_*_constraints`, `kumo.format_egress_path_config_constraints`: what limits come to, for helpers that show it.

use crate::api::Proof::Test;
use crate::api::{Function, function};
use crate::convert;
use config::{Constraints, EgressPath, QueueConfig};
use mlua::{Lua, Value};
use std::fmt::Display;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    function!(
        "kumo",
        "compute_egress_path_config_constraints",
        "(path, additional or nil) -> table",
        "What the limits of a path come to: the most connections, messages and openings, each with the limit it comes from.",
        Test("crates/lua/tests/scripts/options.rs::what_limits_come_to_can_be_computed_and_shown"),
        of_path
    ),
    function!(
        "kumo",
        "compute_queue_config_constraints",
        "(queue) -> table",
        "The same of a queue.",
        Test("crates/lua/tests/scripts/options.rs::what_limits_come_to_can_be_computed_and_shown"),
        of_queue
    ),
    function!(
        "kumo",
        "format_egress_path_config_constraints",
        "(constraints) -> string",
        "Such a table in lines for people.",
        Test("crates/lua/tests/scripts/options.rs::what_limits_come_to_can_be_computed_and_shown"),
        format
    ),
];

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
