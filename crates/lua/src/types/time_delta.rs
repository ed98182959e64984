//! A span of time as scripts see it (KumoMTA's TimeDelta).

use jiff::SignedDuration;
use mlua::{FromLua, Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, Value};
use std::time::Duration;

/// The userdata: read-only fields, `==`, `+`, `-`, and a text such as `20m`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct LuaTimeDelta(pub SignedDuration);

impl From<Duration> for LuaTimeDelta {
    fn from(span: Duration) -> LuaTimeDelta {
        LuaTimeDelta(SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX))
    }
}

impl LuaTimeDelta {
    fn human(self) -> String {
        let sign = if self.0.is_negative() { "-" } else { "" };
        format!("{sign}{}", config::Duration::from(self.0.unsigned_abs()))
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
        methods.add_meta_method(MetaMethod::Lt, |_, this, other: LuaTimeDelta| Ok(*this < other));
        methods.add_meta_method(MetaMethod::Le, |_, this, other: LuaTimeDelta| Ok(*this <= other));
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
