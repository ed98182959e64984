//! `custom_lua`: a connection object of the script, with the state it lives in.
//!
//! Owns a state from the constructor to `close`, so that the object's variables stay (KumoMTA behaviour). Everything is
//! called so that it can wait; whoever drops a call half-way ends the state with it, as does a script error. The number
//! of states held like this is bounded, and apart from those that serve other events: these are made as they are wanted.

use crate::context::Context;
use crate::error::to_policy_error;
use crate::guard;
use crate::lua_policy::LuaPolicy;
use crate::pool::Pool;
use crate::types::message::LuaMessage;
use message::Draft;
use mlua::{AnyUserData, Function, IntoLuaMulti, Table, Value};
use policy::{Answer, Courier, PolicyError, QueueParts};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// The connection object and its state.
struct LuaCourier {
    connection: Table,
    context: Context,
    /// Nothing was cut short and no script error has happened: others may use the state afterwards.
    is_sound: bool,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl LuaPolicy {
    /// Calls a constructor in a state of its own.
    pub(crate) async fn construct(&self, name: String, parts: QueueParts) -> Result<Box<dyn Courier>, PolicyError> {
        let fail = |text: String| PolicyError::Script { event: EVENT, text: format!("constructor `{name}`: {text}") };
        let permit = self.courier_states.clone().acquire_owned().await.map_err(|e| fail(e.to_string()))?;
        let context = self.state_for_session().map_err(|e| fail(e.to_string()))?;
        let made = call_constructor(&context, &name, parts).await;
        match made {
            Ok(connection) => {
                let pool = self.pool.clone();
                Ok(Box::new(LuaCourier { connection, context, is_sound: true, pool, _permit: permit }))
            }
            Err(error) => match to_policy_error(EVENT, &error) {
                PolicyError::Script { text, .. } => Err(fail(text)),
                rejection => {
                    self.pool.put_back(context);
                    Err(rejection)
                }
            },
        }
    }
}

impl Courier for LuaCourier {
    fn send(&mut self, draft: Draft) -> Answer<'_, String> {
        Box::pin(async move {
            let lent = LuaMessage::lend(&self.context.lua, draft).map_err(|e| script(&e))?;
            let answer = self.deliver("send", lent.clone()).await;
            take_back(&lent);
            answer
        })
    }

    fn send_batch(&mut self, drafts: Vec<Draft>) -> Answer<'_, String> {
        Box::pin(async move {
            let lend = |draft| LuaMessage::lend(&self.context.lua, draft);
            let lent: Vec<AnyUserData> =
                drafts.into_iter().map(lend).collect::<mlua::Result<_>>().map_err(|e| script(&e))?;
            let answer = self.deliver("send_batch", lent.clone()).await;
            lent.iter().for_each(take_back);
            answer
        })
    }

    fn close(mut self: Box<Self>) -> Answer<'static, ()> {
        Box::pin(async move {
            let closed = match self.method("close") {
                Ok(None) => Ok(()),
                Ok(Some(close)) => self.call(close, ()).await.map(|_| ()),
                Err(error) => Err(error),
            };
            let LuaCourier { context, is_sound, pool, .. } = *self;
            match closed {
                Ok(()) if is_sound => {
                    pool.put_back(context);
                    Ok(())
                }
                Ok(()) => Ok(()),
                Err(error) => Err(script(&error)),
            }
        })
    }
}

impl LuaCourier {
    async fn deliver(&mut self, name: &'static str, message: impl IntoLuaMulti + Send) -> Result<String, PolicyError> {
        let missing = || mlua::Error::runtime(format!("the connection object has no function `{name}`"));
        let sent = match self.method(name).and_then(|method| method.ok_or_else(missing)) {
            Ok(method) => self.call(method, message).await.and_then(|value| answer(name, &value)),
            Err(error) => Err(error),
        };
        let sent = sent.map_err(|error| script(&error));
        self.is_sound &= !matches!(sent, Err(PolicyError::Script { .. }));
        sent
    }

    fn method(&self, name: &str) -> mlua::Result<Option<Function>> {
        match self.connection.get(name)? {
            Value::Nil => Ok(None),
            Value::Function(function) => Ok(Some(function)),
            other => Err(mlua::Error::runtime(format!("`{name}` is a {}: expected a function", other.type_name()))),
        }
    }

    /// Calls a method; a call that is dropped half-way leaves the state unsound.
    async fn call(&mut self, method: Function, arguments: impl IntoLuaMulti + Send) -> mlua::Result<Value> {
        self.context.go_on();
        let was_sound = std::mem::replace(&mut self.is_sound, false);
        let mut all = arguments.into_lua_multi(&self.context.lua)?;
        all.push_front(Value::Table(self.connection.clone()));
        let value = guard::drive(&self.context.lua, &method, all).await;
        self.is_sound = was_sound;
        value
    }
}

async fn call_constructor(context: &Context, name: &str, parts: QueueParts) -> mlua::Result<Table> {
    let handlers = context.enter_named(name, EVENT)?;
    let unknown = || mlua::Error::runtime(format!("event {name} has not been registered"));
    let handler = handlers.first().ok_or_else(unknown)?;
    let parts = (parts.domain, parts.tenant, parts.campaign);
    match guard::drive(&context.lua, handler, parts).await? {
        Value::Table(connection) => Ok(connection),
        other => Err(mlua::Error::runtime(format!(
            "returned a {}: expected a table with the function send or send_batch",
            other.type_name()
        ))),
    }
}

/// What a delivery is logged with.
fn answer(name: &str, value: &Value) -> mlua::Result<String> {
    match value {
        Value::String(text) => Ok(shorten(text.to_string_lossy())),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        other => Err(mlua::Error::runtime(format!("{name} returned a {}: expected a string", other.type_name()))),
    }
}

fn shorten(mut text: String) -> String {
    if text.len() > ANSWER_OCTETS_MAX {
        let end = (0..=ANSWER_OCTETS_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
    }
    text
}

/// After its call a message is no longer the script's, whoever keeps it.
fn take_back(lent: &AnyUserData) {
    if let Ok(mut message) = lent.borrow_mut::<LuaMessage>() {
        drop(message.take_back());
    }
}

fn script(error: &mlua::Error) -> PolicyError {
    to_policy_error(EVENT, error)
}

/// States that sessions may hold at the same time; more sessions wait.
pub(crate) const COURIER_STATES_MAX: usize = 512;
/// Octets of a script's answer that are logged.
const ANSWER_OCTETS_MAX: usize = 4096;
/// What errors are said to come from.
const EVENT: &str = "custom_lua";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_cut_between_characters() {
        for (text, expected) in [
            ("x".repeat(ANSWER_OCTETS_MAX), ANSWER_OCTETS_MAX),
            ("x".repeat(ANSWER_OCTETS_MAX + 1), ANSWER_OCTETS_MAX),
            (format!("{}\u{e4}", "x".repeat(ANSWER_OCTETS_MAX - 1)), ANSWER_OCTETS_MAX - 1),
        ] {
            assert_eq!(shorten(text).len(), expected);
        }
    }
}
