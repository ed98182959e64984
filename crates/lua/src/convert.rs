//! Lua values to JSON and back: the form in which options and metadata cross the border.

use mlua::{Lua, LuaSerdeExt, Value};
use mlua::serde::{de::Options as DeserializeOptions, ser::Options as SerializeOptions};
use serde::de::DeserializeOwned;

/// A Lua value as JSON. Functions, threads and foreign userdata are errors.
pub(crate) fn to_json(lua: &Lua, value: Value) -> mlua::Result<serde_json::Value> {
    lua.from_value_with(value, DeserializeOptions::new().sort_keys(true))
}

/// JSON as a Lua value; null becomes nil.
pub(crate) fn to_lua(lua: &Lua, value: &serde_json::Value) -> mlua::Result<Value> {
    let options = SerializeOptions::new()
        .set_array_metatable(false)
        .serialize_none_to_null(false)
        .serialize_unit_to_null(false);
    lua.to_value_with(value, options)
}

/// An options table as the struct it describes; errors name the constructor, the field, the
/// value and what was expected.
pub(crate) fn options<T: DeserializeOwned>(lua: &Lua, constructor: &'static str, value: Value) -> mlua::Result<T> {
    let json = to_json(lua, value).map_err(|e| mlua::Error::runtime(format!("{constructor}: {e}")))?;
    config::parse(constructor, json).map_err(mlua::Error::external)
}
