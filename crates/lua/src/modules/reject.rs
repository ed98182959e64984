//! `kumo.reject` and `kumo.disconnect`: the operator's no, raised as an error of its own type.

use crate::api::Proof::Test;
use crate::api::{Function, function};
use crate::error::Rejection;
use mlua::Lua;
use policy::Disconnect;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    function!(
        "kumo",
        "reject",
        "(code, message)",
        "Ends the handler with this reply, 400 to 599; the connection closes if the code is 421. It can be caught with `pcall`, and raised again.",
        Test("crates/lua/tests/scripts/answers.rs::rejections"),
        |_, (code, text)| raise("kumo.reject", code, text, Disconnect::If421)
    ),
    function!(
        "kumo",
        "disconnect",
        "(code, message, mode = 'ForceDisconnect')",
        "As `reject`; the connection closes, `FollowWith421` after a 421 of its own, `If421` only if the code is 421.",
        Test("crates/lua/tests/scripts/answers.rs::rejections"),
        disconnect
    ),
];

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
