//! A fresh Lua state: standard libraries, search path, the `kumo` module, the guard.
//!
//! KumoMTA behaviour: the safe standard libraries without `debug`, no C modules, `kumo` only
//! by `require`, KumoMTA's policy folders first in `package.path`.

use crate::context::{Daemon, Host, Source};
use crate::extras;
use crate::guard;
use crate::lua_policy::Shared;
use crate::modules;
use crate::patterns;
use crate::required;
use mlua::{Function, Lua, LuaOptions, StdLib, Table};
use sender_auth::Scratch;

/// A state in which the policy can be run.
pub(crate) fn new(source: &Source, shared: &Shared) -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::default())?;
    // Nothing of what is made here is garbage: there is no point in looking for some.
    lua.gc_stop();
    guard::install(&lua, source.budget, source.memory)?;
    let next: Function = lua.globals().get("next")?;
    patterns::replace(&lua, &shared.helpers.patterns)?;
    lua.set_app_data(Host::new(shared, source, next));
    lua.set_app_data(Scratch::new());
    let package: Table = lua.globals().get("package")?;
    let search: String = package.get("path")?;
    // Beside the policy too, so that a policy and its modules can be tried out anywhere.
    let beside =
        source.path.parent().map(|dir| format!("{0}/?.lua;{0}/?/init.lua;", dir.display())).unwrap_or_default();
    package.set("path", format!("{KUMOMTA_PATHS}{beside}{search}"))?;
    required::replace_searcher(&lua, &package, source.required.clone())?;
    extras::add_searcher(&lua, &package, shared.helpers.clone())?;
    let loaded: Table = package.get("loaded")?;
    loaded.set("kumo", modules::kumo::create(&lua)?)?;
    let preload: Table = package.get("preload")?;
    let of_daemon = (source.daemon == Daemon::Tsa).then_some(&modules::tsa::TSA);
    for module in [&modules::redis::REDIS, &modules::sqlite::SQLITE].into_iter().chain(of_daemon) {
        let make = |lua: &Lua, _: mlua::MultiValue| module.table(lua);
        preload.set(module.name, lua.create_function(make)?)?;
    }
    lua.gc_restart();
    Ok(lua)
}

/// Where KumoMTA's packages put policy and helpers.
const KUMOMTA_PATHS: &str = "/opt/kumomta/share/?.lua;/opt/kumomta/share/?/init.lua;\
                             /opt/kumomta/etc/policy/?.lua;/opt/kumomta/etc/policy/?/init.lua;";
