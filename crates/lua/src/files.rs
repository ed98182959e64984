//! Reading files for scripts.
//!
//! A handler that may wait lends its thread out meanwhile; any other, and the top level, reads at once: what scripts read is
//! small and warm.

use crate::context::Host;
use crate::guard;
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
    let done = match Handle::try_current() {
        Ok(runtime) if may_wait => runtime.spawn_blocking(work).await.map_err(io::Error::other)?,
        _ => work(),
    };
    // Whoever waits takes no processor: the time a handler may run counts from here.
    guard::restart(lua);
    done
}

/// A file's octets; the error names it.
pub(crate) async fn read(lua: &Lua, path: &str) -> mlua::Result<Vec<u8>> {
    let named = path.to_owned();
    let read = beside(lua, move || std::fs::read(Path::new(&named))).await;
    read.map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))
}
