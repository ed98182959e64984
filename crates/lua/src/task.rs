//! `kumo.spawn_task`: a handler that runs beside everything else, for as long as it likes; and `main`, beside which there is nothing.
//!
//! In: the name of an event and a list of arguments. It has a state of its own, made for it, and may wait; how long it computes
//! is not limited, since it has a thread of its own too. Fails as its handler does, or because there is none.

use crate::convert;
use crate::error::to_policy_error;
use crate::guard;
use crate::lua_policy::LuaPolicy;
use mlua::Variadic;
use policy::PolicyError;
use serde_json::Value as Json;

impl LuaPolicy {
    /// Runs the handler of `main`, however long it takes (`kumod --script`).
    ///
    /// # Errors
    /// There is none, or it fails.
    pub async fn run_main(&self, arguments: Vec<String>) -> Result<(), PolicyError> {
        let fail = |e: String| PolicyError::Script { event: MAIN, text: e };
        let context = self.state_for_session().map_err(|e| fail(e.to_string()))?;
        guard::lift(&context.lua);
        let run = async {
            let handler = context.enter_named(MAIN, MAIN)?.into_iter().next();
            let missing = || mlua::Error::runtime("the file has no handler of that event");
            handler.ok_or_else(missing)?.call_async::<()>(Variadic::from_iter(arguments)).await
        };
        run.await.map_err(|error| to_policy_error(MAIN, &error))
    }

    /// Runs a task to its end.
    pub(crate) async fn perform(&self, name: String, arguments: Vec<Json>) -> Result<(), PolicyError> {
        let fail = |text: String| PolicyError::Script { event: EVENT, text: format!("task `{name}`: {text}") };
        let context = self.fresh().map_err(|e| fail(e.to_string()))?;
        guard::lift(&context.lua);
        let run = async {
            let handlers = context.enter_named(&name, EVENT)?;
            let unknown = || mlua::Error::runtime(format!("event {name} has not been registered"));
            let handler = handlers.into_iter().next().ok_or_else(unknown)?;
            let list = convert::to_lua(&context.lua, &Json::Array(arguments))?;
            handler.call_async::<()>(list).await
        };
        run.await.map_err(|error| match to_policy_error(EVENT, &error) {
            PolicyError::Script { text, .. } => fail(text),
            rejection => fail(rejection.to_string()),
        })
    }
}

/// The event of a policy file that is a command.
pub(crate) const MAIN: &str = "main";
/// What errors are said to come from.
const EVENT: &str = "kumo.spawn_task";
