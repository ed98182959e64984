//! `require 'tsa'`: what the policy of the traffic shaping daemon sets up.

use crate::api::{Function, Module, Proof::Test, function};
use crate::context::Host;
use crate::modules::kumo::starts_with_keys;
use config::HttpListener;
use mlua::{Lua, Value};

/// The module.
pub(crate) const TSA: Module = Module {
    name: "tsa",
    doc: "The traffic shaping daemon: `local tsa = require 'tsa'`, in the policy of `tsa-daemon` alone.",
    functions: &[FUNCTIONS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        "tsa",
        "start_http_listener",
        "{options}",
        "In `tsa_init`: a socket on which nodes publish log records and ask what came of them. The options are those of \
         `kumo.start_http_listener`.",
        Test("testing/e2e/tests/tsa.rs::what_servers_answer_shapes_what_nodes_do"),
        |lua, options: Value| starts_with_keys::<HttpListener>(lua, "tsa.start_http_listener", &options)
    ),
    function!(
        "tsa",
        "configure_tsa_db_path",
        "(path)",
        "In `tsa_init`: where effects in force are kept over a restart, `/var/spool/kumomta/tsa.db` unless it is said: they are in \
         that file's name with `.json` behind it. `:memory:` keeps nothing.",
        Test("testing/e2e/tests/tsa.rs::effects_outlive_a_restart_and_requests_are_checked"),
        configure_path
    ),
];

fn configure_path(lua: &Lua, path: String) -> mlua::Result<()> {
    if path.is_empty() {
        return Err(mlua::Error::runtime("path is empty: expected a file, or `:memory:`"));
    }
    let mut host = lua.app_data_mut::<Host>();
    let startup = host.as_mut().and_then(|host| host.startup.as_mut());
    let outside = || mlua::Error::runtime("it can only be called from tsa_init");
    startup.ok_or_else(outside)?.tsa_db_path = Some(path);
    Ok(())
}
