//! `kumo.reject` and `kumo.disconnect`: the operator's no, raised as an error of its own type.

use crate::error::Rejection;
use mlua::{Lua, Table};
use policy::Disconnect;

/// Adds both functions to the module.
pub(crate) fn add_to(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    kumo.set("reject", lua.create_function(|_, (code, text)| raise("kumo.reject", code, text, Disconnect::If421))?)?;
    kumo.set("disconnect", lua.create_function(disconnect)?)
}

fn disconnect(_: &Lua, (code, text, mode): (i64, String, Option<String>)) -> mlua::Result<()> {
    let mode = match mode.as_deref() {
        None | Some("ForceDisconnect") => Disconnect::Force,
        Some("FollowWith421") => Disconnect::FollowWith421,
        Some("If421") => Disconnect::If421,
        Some(other) => {
            let expected = "expected ForceDisconnect, FollowWith421 or If421";
            return Err(mlua::Error::runtime(format!("kumo.disconnect: mode `{other}`: {expected}")));
        }
    };
    raise("kumo.disconnect", code, text, mode)
}

fn raise(function: &str, code: i64, text: String, disconnect: Disconnect) -> mlua::Result<()> {
    match u16::try_from(code) {
        Ok(code @ 400..600) => Err(mlua::Error::external(Rejection { code, text, disconnect })),
        _ => Err(mlua::Error::runtime(format!("{function}: code {code}: expected 400 to 599"))),
    }
}
