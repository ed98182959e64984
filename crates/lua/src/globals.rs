//! Globals that a handler writes: they stay in its Lua state, where the next message sees them and those in other states do not.
//! That is hardly ever meant, so it is said, once for each name; the write is carried out.
//!
//! Only names that were no globals when the script was loaded are noticed, so reading and writing what is there costs nothing.

use crate::context::Host;
use crate::modules::log::place;
use crate::modules::memoize::commons;
use mlua::{Lua, Table, Value};
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
        let place = place(lua).unwrap_or_default();
        tracing::warn!(
            target: "lua",
            "{place}: {event} writes the global `{text}`: it stays in one Lua state, where later messages find it; expected `local {text}`"
        );
    }
    Ok(())
}

/// Names that are remembered.
const NAMES_MAX: usize = 1000;
