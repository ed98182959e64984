//! `log_disposition_NAME`: what was logged of a message, told to the handler of one hook; and the event that `filter_event` of a
//! logger names, which decides whether it is logged.
//!
//! The handler is always called so that it can wait: what it does about a failure, such as injecting a report, takes time.

use crate::convert;
use crate::error::to_policy_error;
use crate::guard;
use crate::lua_policy::LuaPolicy;
use crate::types::message::LuaMessage;
use crate::waiting::bounded;
use message::Draft;
use mlua::{AnyUserData, IntoLuaMulti, Lua, Value};
use policy::PolicyError;
use serde_json::Value as Json;

impl LuaPolicy {
    /// Calls the handler of `event` with the message and the record. What the handler does to the message is forgotten.
    pub(crate) async fn tell_disposition(&self, event: String, draft: Draft, record: Json) -> Result<(), PolicyError> {
        // That nobody hears was said when the policy was loaded.
        let more = |lua: &Lua| convert::to_lua(lua, &record);
        self.lend_named(KIND, event, draft, more, |_| Ok(())).await.map(|_| ())
    }

    /// Asks the handler of `event` whether a record about a message is to be logged.
    pub(crate) async fn pass_record(&self, event: String, draft: Draft) -> Result<bool, PolicyError> {
        let missing = format!("event {event} has not been registered");
        let wrong = |found: &str| mlua::Error::runtime(format!("{event} returned a {found}: expected a boolean"));
        let read = |answer: Value| answer.as_boolean().ok_or_else(|| wrong(answer.type_name()));
        let answer = self.lend_named(FILTER, event.clone(), draft, |_| Ok(()), read).await?;
        answer.ok_or(PolicyError::Script { event: FILTER, text: missing })
    }

    /// Lends a message to the handler of an event that the script names; `None` when there is no handler.
    async fn lend_named<A: IntoLuaMulti, R>(
        &self,
        kind: &'static str,
        event: String,
        draft: Draft,
        more: impl FnOnce(&Lua) -> mlua::Result<A> + Send,
        read: impl FnOnce(Value) -> mlua::Result<R> + Send,
    ) -> Result<Option<R>, PolicyError> {
        let fail = |text: String| PolicyError::Script { event: kind, text };
        let context = self.state_for_session().map_err(|e| fail(e.to_string()))?;
        let mut lent: Option<AnyUserData> = None;
        let told = async {
            let handlers = context.enter_named(&event, kind)?;
            let Some(handler) = handlers.first() else { return Ok(None) };
            let message = lent.insert(LuaMessage::lend(&context.lua, draft)?).clone();
            let mut arguments = more(&context.lua)?.into_lua_multi(&context.lua)?;
            arguments.push_front(Value::UserData(message));
            read(guard::drive(&context.lua, handler, arguments).await?).map(Some)
        };
        let answer = bounded(told).await.map_err(|e| to_policy_error(kind, &e));
        // Before the state serves anybody else: a script that kept the message has nothing of it.
        drop(lent.and_then(|userdata| userdata.borrow_mut::<LuaMessage>().ok()?.take_back()));
        self.put_back(context, &answer);
        answer
    }
}

/// What the names of these events begin with.
pub(crate) const DISPOSITION: &str = "log_disposition_";
/// What errors are said to come from.
const KIND: &str = "log_disposition";
const FILTER: &str = "filter_event";
