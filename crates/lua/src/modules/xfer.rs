//! `kumo.xfer`: sending messages to another node of the cluster, and bringing them back.
//!
//! They change the message's metadata; whoever lent it does the rest. What steered its queue before is kept under
//! `xfer_queue_info`.

use crate::types::message::LuaMessage;
use mlua::{Lua, Table, UserDataRefMut, Value};
use queue::xfer::{self, Saved};

type Message = UserDataRefMut<LuaMessage>;

/// The module table.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("xfer", lua.create_function(send)?)?;
    table.set("xfer_in_requeue", lua.create_function(send_in_requeue)?)?;
    table.set("cancel_xfer", lua.create_function(cancel)?)?;
    table.set("get_xfer_target", lua.create_function(target)?)?;
    Ok(table)
}

fn send(_: &Lua, (mut message, to, reason): (Message, String, Option<String>)) -> mlua::Result<()> {
    send_off(&mut message, "kumo.xfer.xfer", &to, reason.as_deref())
}

/// The arguments of `requeue_message` are handed through; what they say holds anyway.
fn send_in_requeue(
    _: &Lua,
    (mut message, to, _, _, _, reason): (Message, String, Value, Value, Value, Option<String>),
) -> mlua::Result<()> {
    send_off(&mut message, "kumo.xfer.xfer_in_requeue", &to, reason.as_deref())
}

fn send_off(message: &mut LuaMessage, function: &str, to: &str, reason: Option<&str>) -> mlua::Result<()> {
    let to = xfer::check_target(to).map_err(|e| mlua::Error::runtime(format!("{function}: {e}")))?;
    let draft = message.draft()?;
    if xfer::target(&draft.meta) == Some(to) {
        return Ok(());
    }
    let saved = Saved { attempts: draft.attempts, due: draft.due };
    xfer::send_off(&mut draft.meta, saved, to);
    draft.attempts = 0;
    reason.into_iter().for_each(|reason| xfer::set_reason(&mut draft.meta, reason));
    Ok(())
}

fn cancel(_: &Lua, (mut message, reason): (Message, Option<String>)) -> mlua::Result<()> {
    let draft = message.draft()?;
    if xfer::handed_over(&draft.meta).is_some() {
        return Err(mlua::Error::runtime("kumo.xfer.cancel_xfer: the other node has the message already"));
    }
    let Some(Saved { attempts, due }) = xfer::bring_back(&mut draft.meta) else {
        return Err(mlua::Error::runtime("kumo.xfer.cancel_xfer: the message is not on its way to another node"));
    };
    (draft.attempts, draft.due) = (attempts, due);
    reason.into_iter().for_each(|reason| xfer::set_reason(&mut draft.meta, &reason));
    Ok(())
}

fn target(_: &Lua, mut message: Message) -> mlua::Result<Option<String>> {
    Ok(xfer::target(&message.draft()?.meta).map(str::to_owned))
}
