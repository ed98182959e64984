//! `conn_meta`: metadata of the connection an event belongs to.

use crate::convert;
use mlua::{UserData, UserDataMethods, Value};
use policy::ConnMeta;

/// A handle to the connection's table.
pub(crate) struct LuaConnMeta(pub ConnMeta);

impl UserData for LuaConnMeta {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get_meta", |lua, this, name: String| match this.0.get(&name) {
            Some(value) => convert::to_lua(lua, &value),
            None => Ok(Value::Nil),
        });
        methods.add_method("set_meta", |lua, this, (name, value): (String, Value)| {
            this.0.set(name, convert::to_json(lua, value)?);
            Ok(())
        });
    }
}
