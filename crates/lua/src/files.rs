//! Reading files for scripts.
//!
//! A handler that may wait lends its thread out meanwhile; any other holds its own, beside which the runtime puts another. The
//! top level reads at once.

use crate::context::Host;
use crate::{guard, waiting};
use mlua::Lua;
use std::io;
use std::path::Path;
use tokio::runtime::Handle;

/// What `work` comes to, done beside the running handler where that may wait.
pub(crate) async fn beside<T: Send + 'static>(
    lua: &Lua,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let may_wait = lua.app_data_ref::<Host>().is_some_and(|host| host.may_wait);
    match Handle::try_current() {
        Ok(runtime) if may_wait => {
            let done = runtime.spawn_blocking(work).await.map_err(io::Error::other)?;
            // Whoever waits takes no processor: the time a handler may run counts from here.
            guard::restart(lua);
            done
        }
        _ => waiting::apart(work),
    }
}

/// A file's octets; the error names it.
pub(crate) async fn read(lua: &Lua, path: &str) -> mlua::Result<Vec<u8>> {
    let named = path.to_owned();
    let read = beside(lua, move || std::fs::read(Path::new(&named))).await;
    read.map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))
}
