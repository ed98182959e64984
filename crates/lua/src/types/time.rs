//! `Time`: a moment as scripts see it (KumoMTA's), always UTC.

use crate::types::time_delta::LuaTimeDelta;
use chrono::DateTime;
use chrono::format::StrftimeItems;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use mlua::{FromLua, IntoLua, Lua, MetaMethod, UserData, UserDataFields, UserDataMethods, UserDataRef, Value};
use std::fmt::Write;

/// The userdata: read-only fields, `==`, `<`, `+` and `-` with spans, and a text such as `2026-01-02 03:04:05 UTC`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct LuaTime(pub Timestamp);

impl LuaTime {
    /// This moment.
    pub fn now() -> LuaTime {
        LuaTime(Timestamp::now())
    }

    fn utc(self) -> jiff::Zoned {
        self.0.to_zoned(TimeZone::UTC)
    }

    fn moved(self, span: LuaTimeDelta, back: bool) -> mlua::Result<LuaTime> {
        let moved = if back { self.0.checked_sub(span.0) } else { self.0.checked_add(span.0) };
        moved.map(LuaTime).map_err(|e| mlua::Error::runtime(e.to_string()))
    }
}

/// `subsec` of the text only where there is any.
fn text(time: LuaTime) -> String {
    let form = if time.0.subsec_nanosecond() == 0 { "%Y-%m-%d %H:%M:%S UTC" } else { "%Y-%m-%d %H:%M:%S%.f UTC" };
    time.utc().strftime(form).to_string()
}

/// In a form of chrono's (KumoMTA behaviour).
fn formatted(LuaTime(at): LuaTime, form: &str) -> mlua::Result<String> {
    let wrong = |why: &str| mlua::Error::runtime(format!("time:format {form:?}: {why}"));
    let items = StrftimeItems::new(form).parse().map_err(|error| wrong(&error.to_string()))?;
    // jiff counts below the second with the sign of the whole.
    let (seconds, nanos) = (at.as_nanosecond().div_euclid(NANOS), at.as_nanosecond().rem_euclid(NANOS));
    let parts = i64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
    let at = parts.and_then(|(seconds, nanos)| DateTime::from_timestamp(seconds, nanos));
    let at = at.ok_or_else(|| wrong("this moment has no such form"))?;
    let mut text = String::new();
    // Some forms can be read only.
    write!(text, "{}", at.format_with_items(items.iter())).map_err(|_| wrong("cannot be written"))?;
    Ok(text)
}

impl UserData for LuaTime {
    fn add_fields<F: UserDataFields<Self>>(fields: &mut F) {
        fields.add_field_method_get("year", |_, this| Ok(this.utc().year()));
        fields.add_field_method_get("month", |_, this| Ok(this.utc().month()));
        fields.add_field_method_get("day", |_, this| Ok(this.utc().day()));
        fields.add_field_method_get("hour", |_, this| Ok(this.utc().hour()));
        fields.add_field_method_get("minute", |_, this| Ok(this.utc().minute()));
        fields.add_field_method_get("second", |_, this| Ok(this.utc().second()));
        fields.add_field_method_get("unix_timestamp", |_, this| Ok(this.0.as_second()));
        fields.add_field_method_get("unix_timestamp_millis", |_, this| Ok(this.0.as_millisecond()));
        fields.add_field_method_get("rfc2822", |_, this| {
            rfc2822::to_string(&this.utc()).map_err(|e| mlua::Error::runtime(e.to_string()))
        });
        fields
            .add_field_method_get("rfc3339", |_, this| Ok(this.utc().strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string()));
        fields.add_field_method_get("elapsed", |_, this| Ok(LuaTimeDelta(Timestamp::now().duration_since(this.0))));
    }

    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("format", |_, this, form: String| formatted(*this, &form));
        methods.add_meta_method(MetaMethod::ToString, |_, this, ()| Ok(text(*this)));
        methods.add_meta_method(MetaMethod::Eq, |_, this, other: UserDataRef<LuaTime>| Ok(*this == *other));
        methods.add_meta_method(MetaMethod::Lt, |_, this, other: UserDataRef<LuaTime>| Ok(*this < *other));
        methods.add_meta_method(MetaMethod::Le, |_, this, other: UserDataRef<LuaTime>| Ok(*this <= *other));
        methods.add_meta_method(MetaMethod::Add, |_, this, span: LuaTimeDelta| this.moved(span, false));
        methods.add_meta_method(MetaMethod::Sub, |lua, this, other: Value| difference(lua, *this, other));
    }
}

/// A moment less a span is a moment; less a moment it is a span.
fn difference(lua: &Lua, this: LuaTime, other: Value) -> mlua::Result<Value> {
    if let Value::UserData(data) = &other
        && let Ok(since) = data.borrow::<LuaTime>()
    {
        return LuaTimeDelta(this.0.duration_since(since.0)).into_lua(lua);
    }
    this.moved(LuaTimeDelta::from_lua(other, lua)?, true)?.into_lua(lua)
}

/// Nanoseconds of a second.
const NANOS: i128 = 1_000_000_000;
