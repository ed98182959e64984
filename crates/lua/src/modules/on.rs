//! `kumo.on`: registration of event handlers, at the top level of a policy only.

use crate::api::Proof::Test;
use crate::api::{Function, function};
use crate::context::Host;
use crate::modules::invoke::FRAMES_MAX;
use crate::task::MAIN;
use mlua::{Function as Handler, Lua};

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[function!(
    "kumo",
    "on",
    "(event, handler)",
    "Registers a handler, at the top level of a policy. Events of class Multiple take several, which are asked in turn; any other a second time is an error that names the first.",
    Test("crates/lua/tests/scripts/registration.rs::several_handlers_are_asked_in_turn"),
    on
)];

fn on(lua: &Lua, (event, handler): (String, Handler)) -> mlua::Result<()> {
    let places = (1..FRAMES_MAX).map_while(|level| super::log::place_at(lua, level)).flatten().collect();
    let Some(mut host) = lua.app_data_mut::<Host>() else {
        return Err(mlua::Error::runtime("kumo.on: this state belongs to no policy"));
    };
    // A command may do so as it runs (KumoMTA behaviour).
    if let Some(current) = host.current_event.filter(|current| *current != MAIN) {
        let text = format!("kumo.on('{event}') inside the handler of {current}: register handlers at the top level");
        return Err(mlua::Error::runtime(text));
    }
    host.registry.add(event, handler, places).map_err(mlua::Error::external)
}
