//! `conn_meta`: metadata of the connection an event belongs to.

use crate::convert;
use mlua::{UserData, UserDataMethods, Value};
use policy::ConnMeta;

/// A handle to the connection's table, which lives as long as the longest of connection and
/// handle.
#[derive(Clone)]
pub(crate) struct LuaConnMeta(pub ConnMeta);

impl UserData for LuaConnMeta {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get_meta", |lua, this, name: String| match this.0.get(&name) {
            Some(value) => convert::to_lua(lua, &value),
            None => Ok(Value::Nil),
        });
        methods.add_method("auth_info", |lua, this, ()| {
            let json = serde_json::to_value(this.0.auth()).map_err(mlua::Error::external)?;
            convert::to_lua(lua, &json)
        });
        methods.add_method("set_meta", |lua, this, (name, value): (String, Value)| {
            let value = convert::to_json(lua, &value)
                .map_err(|e| mlua::Error::runtime(format!("conn_meta:set_meta `{name}`: {e}")))?;
            this.0.set(name, value);
            Ok(())
        });
    }
}
