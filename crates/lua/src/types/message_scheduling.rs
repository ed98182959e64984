//! The methods of `msg` that say when it may be tried.

use crate::convert;
use crate::types::message::{LuaMessage, now};
use clock::WallTime;
use config::{FromTable, Scheduling};
use mlua::{Lua, UserDataMethods, Value};
use queue::schedule;
use record::Timestamp;

/// Adds them.
pub(crate) fn add_to<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("num_attempts", |_, this, ()| Ok(this.draft()?.attempts));
    methods.add_method_mut("set_due", |_, this, when: Option<String>| {
        let due = match &when {
            None => now(),
            Some(text) => Timestamp::parse_rfc3339(text).ok_or_else(|| {
                mlua::Error::runtime(format!(
                    "msg:set_due {text:?}: expected a date such as 2026-08-04T12:00:00Z (RFC 3339) or nil"
                ))
            })?,
        };
        this.draft()?.due = WallTime::from_unix_micros(due.unix_micros());
        Ok(due.rfc3339().as_str().to_owned())
    });
    methods.add_method_mut("set_scheduling", |lua, this, constraints: Value| {
        if constraints.is_nil() {
            schedule::set(&mut this.draft()?.meta, None);
            return Ok(Value::Nil);
        }
        let wrong = |e: &dyn std::fmt::Display| mlua::Error::runtime(format!("msg:set_scheduling: {e}"));
        let value = convert::to_json(lua, &constraints).map_err(|e| wrong(&e))?;
        schedule(lua, this, "msg:set_scheduling", value)
    });
    methods.add_method_mut("import_scheduling_header", |lua, this, (name, remove): (String, bool)| {
        let draft = this.draft()?;
        let Some(text) = draft.headers().first_value(&name) else { return Ok(Value::Nil) };
        let wrong =
            |e| mlua::Error::runtime(format!("msg:import_scheduling_header {name:?}: {text:?} is not JSON: {e}"));
        let value = serde_json::from_str(&text).map_err(wrong)?;
        if remove {
            let (block, raw) = draft.edit_headers();
            block.remove_all(raw, &name);
        }
        schedule(lua, this, "msg:import_scheduling_header", value)
    });
}

/// Puts the constraints of a table on the message; they come back as they are understood.
fn schedule(lua: &Lua, this: &mut LuaMessage, what: &'static str, table: serde_json::Value) -> mlua::Result<Value> {
    let scheduling = Scheduling::from_table(what, table).map_err(|e| mlua::Error::runtime(e.to_string()))?;
    let some = Some(&scheduling).filter(|scheduling| !scheduling.is_empty());
    schedule::set(&mut this.draft()?.meta, some);
    let understood = serde_json::to_value(&scheduling).map_err(mlua::Error::external)?;
    convert::to_lua(lua, &understood)
}
