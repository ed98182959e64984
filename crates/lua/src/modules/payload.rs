//! Octets among options: options are text, a payload may be anything.

use crate::convert;
use mlua::{Lua, Table, Value};

/// Options without the member `name`, and its octets.
pub(crate) fn beside(lua: &Lua, given: &Table, name: &str) -> mlua::Result<(Table, Option<Vec<u8>>)> {
    let (rest, member) = convert::without(lua, given, name)?;
    let octets = if member.is_nil() { None } else { Some(octets(name, &member)?) };
    Ok((rest, octets))
}

/// The same of `payload`, which must be there.
pub(crate) fn beside_payload(lua: &Lua, given: &Table) -> mlua::Result<(Value, Vec<u8>)> {
    let (rest, payload) = beside(lua, given, "payload")?;
    let payload = payload.ok_or_else(|| mlua::Error::runtime("missing field `payload`"))?;
    Ok((Value::Table(rest), payload))
}

/// The octets of a string, or of a number as text.
pub(crate) fn octets(name: &str, value: &Value) -> mlua::Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) => Ok(value.to_string()?.into_bytes()),
        other => Err(mlua::Error::runtime(format!("{name}: a {}: expected a string", other.type_name()))),
    }
}
