//! `kumo.xfer`: sending messages to another node of the cluster, and bringing them back.
//!
//! They change the message's metadata; whoever lent it does the rest. What steered its queue before is kept under
//! `xfer_queue_info`.

use crate::api::Proof::{Example, Test};
use crate::api::{Function, Module, function};
use crate::types::message::LuaMessage;
use mlua::{Lua, UserDataRefMut, Value};
use queue::xfer::{self, Saved};

type Message = UserDataRefMut<LuaMessage>;

/// The module.
pub(crate) const XFER: Module = Module {
    name: "kumo.xfer",
    doc: "Messages handed to another node, and brought back. What steered a message's queue before is kept with it.",
    functions: &[FUNCTIONS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.xfer",
        "xfer",
        "(msg, target_url, reason or nil)",
        "Has the message go to the node at that URL. With a reason there is an AdminRebind record.",
        Test("testing/e2e/tests/xfer.rs::policy_sends_mail_to_another_node_and_takes_it_back"),
        send
    ),
    function!(
        "kumo.xfer",
        "xfer_in_requeue",
        "(msg, target_url, insert_context, increment_attempts, delay, reason or nil)",
        "As `xfer`, in a handler of `requeue_message`, whose arguments are handed through.",
        Test("testing/e2e/tests/xfer.rs::policy_sends_mail_to_another_node_and_takes_it_back"),
        send_in_requeue
    ),
    function!(
        "kumo.xfer",
        "cancel_xfer",
        "(msg, reason or nil)",
        "Brings a message back into the queue it had; an error once the other node has it.",
        Test("testing/e2e/tests/xfer.rs::policy_sends_mail_to_another_node_and_takes_it_back"),
        cancel
    ),
    function!(
        "kumo.xfer",
        "get_xfer_target",
        "(msg) -> URL or nil",
        "The node the message is on its way to.",
        Example(
            "assert(kumo.xfer.get_xfer_target(msg) == nil) kumo.xfer.xfer(msg, 'http://node2.test:8000') assert(kumo.xfer.get_xfer_target(msg) == 'http://node2.test:8000')"
        ),
        target
    ),
];

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
