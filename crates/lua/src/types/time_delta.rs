//! A span of time as scripts see it (KumoMTA's TimeDelta).

use mlua::{FromLua, Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, Value};
use std::time::Duration;

/// The userdata: read-only fields, `==`, `+`, `-`, and a text such as `20m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LuaTimeDelta(pub Duration);

impl LuaTimeDelta {
    fn human(self) -> String {
        config::Duration::from(self.0).to_string()
    }
}

impl UserData for LuaTimeDelta {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("seconds", |_, this| Ok(this.0.as_secs_f64()));
        fields.add_field_method_get("milliseconds", |_, this| Ok(this.0.as_millis() as i64));
        fields.add_field_method_get("microseconds", |_, this| Ok(this.0.as_micros() as i64));
        fields.add_field_method_get("nanoseconds", |_, this| Ok(this.0.as_nanos() as i64));
        fields.add_field_method_get("human", |_, this| Ok(this.human()));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(this.human()));
        methods.add_meta_method(MetaMethod::Eq, |_, this, other: LuaTimeDelta| Ok(*this == other));
        methods.add_meta_method(MetaMethod::Add, |_, this, other: LuaTimeDelta| {
            Ok(LuaTimeDelta(this.0.saturating_add(other.0)))
        });
        methods.add_meta_method(MetaMethod::Sub, |_, this, other: LuaTimeDelta| {
            Ok(LuaTimeDelta(this.0.saturating_sub(other.0)))
        });
    }
}

impl FromLua for LuaTimeDelta {
    fn from_lua(value: Value, _: &Lua) -> mlua::Result<LuaTimeDelta> {
        match &value {
            Value::UserData(data) if data.is::<LuaTimeDelta>() => Ok(*data.borrow::<LuaTimeDelta>()?),
            other => Err(mlua::Error::runtime(format!("a {}: expected a TimeDelta", other.type_name()))),
        }
    }
}
