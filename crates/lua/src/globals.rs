//! Globals that a handler writes: they stay in its Lua state, where the next message sees them and those in other states do not.
//! That is hardly ever meant, so it is said, once for each name; the write is carried out.
//!
//! A new name is noticed when it is written. What the script itself left there is compared when a state has served its first
//! event, its second, fourth and so on ([`Own`]), so that reading and writing costs nothing.

use crate::context::Host;
use crate::modules::log::place;
use crate::modules::memoize::commons;
use mlua::{Lua, LuaString, Table, Value};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The names that were spoken of, over all states.
#[derive(Default)]
pub(crate) struct Spoken(Mutex<HashSet<String>>);

impl Spoken {
    /// True for the first time. Beyond so many names nothing more is said.
    fn is_first(&self, name: &str) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.len() < NAMES_MAX && !names.contains(name) && names.insert(name.to_owned())
    }
}

/// Numbers, texts and truth values that the script left in globals.
pub(crate) struct Own(Vec<(LuaString, Value)>);

impl Own {
    /// What is there now.
    pub fn of(globals: &Table) -> mlua::Result<Own> {
        let mut own = Vec::new();
        globals.for_each(|name: Value, value: Value| {
            if let (Value::String(name), Value::Boolean(_) | Value::Integer(_) | Value::Number(_) | Value::String(_)) =
                (name, &value)
                && !name.as_bytes().starts_with(b"_")
                // What is not equal to itself was not written either.
                && !value.as_number().is_some_and(f64::is_nan)
            {
                own.push((name, value));
            }
            Ok(())
        })?;
        Ok(Own(own))
    }

    /// Says which of them a handler has written since.
    pub fn compare(&self, lua: &Lua, globals: &Table, event: &str) -> mlua::Result<()> {
        for (name, value) in &self.0 {
            let text = name.to_string_lossy();
            if globals.raw_get::<Value>(name)? != *value && commons(lua)?.globals.is_first(&text) {
                say(&format!("{event}, or a handler before it,"), &text);
            }
        }
        Ok(())
    }
}

fn say(who: &str, name: &str) {
    tracing::warn!(
        target: "lua",
        "{who} writes the global `{name}`: it stays in one Lua state, where later messages find it; expected `local {name}`"
    );
}

/// From now on new globals are noticed, unless the script has its own ways with them.
pub(crate) fn notice_new(lua: &Lua, globals: &Table) -> mlua::Result<()> {
    if globals.metatable().is_some() {
        return Ok(());
    }
    let meta = lua.create_table()?;
    meta.raw_set("__newindex", lua.create_function(written)?)?;
    globals.set_metatable(Some(meta))
}

fn written(lua: &Lua, (globals, name, value): (Table, Value, Value)) -> mlua::Result<()> {
    let text = name.to_string()?;
    globals.raw_set(name, value)?;
    if commons(lua)?.globals.is_first(&text) {
        let event = lua.app_data_ref::<Host>().and_then(|host| host.current_event).unwrap_or("a function");
        say(&format!("{}: {event}", place(lua).unwrap_or_default()), &text);
    }
    Ok(())
}

/// Names that are remembered.
const NAMES_MAX: usize = 1000;
