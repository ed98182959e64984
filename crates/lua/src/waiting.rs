//! Waiting inside a handler for something that is not Lua.
//!
//! A handler that was called so that it can wait does; any other holds its thread, which happens until the policy knows
//! that its handlers wait. Outside of the program's runtime nothing is waited for.

use crate::context::Host;
use crate::guard;
use mlua::Lua;
use std::future::Future;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeFlavor};

/// What `wanted` comes to, waited for as this handler may.
///
/// # Errors
/// Names `function`: the program does not serve yet, or `longest` is over.
pub(crate) async fn wait<T>(
    lua: &Lua,
    function: &str,
    longest: Duration,
    wanted: impl Future<Output = T>,
) -> mlua::Result<T> {
    let host = lua.app_data_ref::<Host>().map(|host| (host.throttles.clone(), host.may_wait));
    let (throttles, may_wait) = host.ok_or_else(|| refused(function, "this state belongs to no policy"))?;
    throttles.will_be_waited_for();
    let wanted = tokio::time::timeout(longest, wanted);
    let answer = match Handle::try_current() {
        Ok(_) if may_wait => wanted.await,
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(|| runtime.block_on(wanted))
        }
        _ => return Err(refused(function, "it can be called while the program serves, not before")),
    };
    // Whoever waits takes no processor: the time a handler may run counts from here.
    guard::restart(lua);
    answer.map_err(|_| refused(function, "no answer in time"))
}

fn refused(function: &str, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("{function}: {why}"))
}
