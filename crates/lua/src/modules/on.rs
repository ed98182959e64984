//! `kumo.on`: registration of event handlers, at the top level of a policy only.

use crate::context::Host;
use mlua::{Function, Lua, Table};

/// Adds `on` to the module.
pub(crate) fn add_to(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    kumo.set("on", lua.create_function(on)?)
}

fn on(lua: &Lua, (event, handler): (String, Function)) -> mlua::Result<()> {
    let place = super::log::place(lua).unwrap_or_else(|| "?".to_owned());
    let Some(mut host) = lua.app_data_mut::<Host>() else {
        return Err(mlua::Error::runtime("kumo.on: this state belongs to no policy"));
    };
    if let Some(current) = host.current_event {
        let text = format!("kumo.on('{event}') inside the handler of {current}: register handlers at the top level");
        return Err(mlua::Error::runtime(text));
    }
    host.registry.add(event, handler, place).map_err(mlua::Error::external)
}
