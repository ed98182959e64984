//! Configuration made by `kumo.make_*`: readable by index, `pairs` and `#`, not writable.

use crate::context::Host;
use crate::convert;
use mlua::{Function, Lua, MetaMethod, UserData, UserDataMethods, Value};
use serde::Serialize;

/// The typed value; scripts see its fields.
#[derive(Clone)]
pub(crate) struct ConfigObject<T>(pub T);

impl<T: Serialize + Send + Sync + 'static> UserData for ConfigObject<T> {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, field: String| {
            let json = json(&this.0)?;
            json.get(&field).map_or(Ok(Value::Nil), |value| convert::to_lua(lua, value))
        });
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(json(&this.0)?.as_object().map_or(0, |o| o.len())));
        methods.add_meta_method(MetaMethod::Pairs, |lua, this, ()| pairs(lua, &json(&this.0)?));
    }
}

/// What the generic `for` takes: `next`, a table copy, nil.
fn pairs(lua: &Lua, json: &serde_json::Value) -> mlua::Result<(Function, Value, Value)> {
    let table = convert::to_lua(lua, json)?;
    let next = lua.app_data_ref::<Host>().map(|host| host.next.clone());
    Ok((next.ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))?, table, Value::Nil))
}

fn json<T: Serialize>(value: &T) -> mlua::Result<serde_json::Value> {
    serde_json::to_value(value).map_err(mlua::Error::external)
}
