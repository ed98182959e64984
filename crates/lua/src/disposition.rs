//! `log_disposition_NAME`: what was logged of a message, told to the handler of one hook.
//!
//! The handler is always called so that it can wait: what it does about a failure, such as injecting a report, takes time.

use crate::convert;
use crate::error::to_policy_error;
use crate::lua_policy::LuaPolicy;
use crate::types::message::LuaMessage;
use message::Draft;
use mlua::AnyUserData;
use policy::PolicyError;
use serde_json::Value as Json;

impl LuaPolicy {
    /// Calls the handler of `event` with the message and the record. What the handler does to the message is forgotten.
    pub(crate) async fn tell_disposition(&self, event: String, draft: Draft, record: Json) -> Result<(), PolicyError> {
        let fail = |text: String| PolicyError::Script { event: KIND, text };
        let context = self.state_for_session().map_err(|e| fail(e.to_string()))?;
        let mut lent: Option<AnyUserData> = None;
        let told = async {
            // That nobody hears was said when the policy was loaded.
            let handlers = context.enter_named(&event, KIND)?;
            let Some(handler) = handlers.first() else { return Ok(()) };
            let message = lent.insert(context.lua.create_userdata(LuaMessage::lend(draft))?).clone();
            handler.call_async::<()>((message, convert::to_lua(&context.lua, &record)?)).await
        };
        let answer = told.await.map_err(|e| to_policy_error(KIND, &e));
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
