//! The helpers under `policy-extras`, carried in the program.
//!
//! They are the last place where `require` looks: a file that `package.path` leads to comes first, so that an operator's own
//! copy, or KumoMTA's, is the one that is used.

use crate::compiled::Compiled;
use crate::each_message;
use mlua::{Lua, Table, Value};
use std::sync::Arc;

/// What became of the texts, in the order of [`HELPERS`].
#[derive(Debug, Default)]
pub(crate) struct Helpers {
    texts: [Compiled; HELPERS.len()],
    /// What stands before Lua's functions of patterns.
    pub patterns: Compiled,
}

/// Name and text of each.
const HELPERS: [(&str, &str); 21] = [
    ("policy-extras.compliance", include_str!("../../../share/policy-extras/compliance.lua")),
    ("policy-extras.compliance_files", include_str!("../../../share/policy-extras/compliance_files.lua")),
    ("policy-extras.dkim_files", include_str!("../../../share/policy-extras/dkim_files.lua")),
    ("policy-extras.dkim_sign", include_str!("../../../share/policy-extras/dkim_sign.lua")),
    ("policy-extras.docker_utils", include_str!("../../../share/policy-extras/docker_utils.lua")),
    ("policy-extras.listener_domains", include_str!("../../../share/policy-extras/listener_domains.lua")),
    ("policy-extras.listener_files", include_str!("../../../share/policy-extras/listener_files.lua")),
    ("policy-extras.mail_auth", include_str!("../../../share/policy-extras/mail_auth.lua")),
    ("policy-extras.policy_utils", include_str!("../../../share/policy-extras/policy_utils.lua")),
    ("policy-extras.problems", include_str!("../../../share/policy-extras/problems.lua")),
    ("policy-extras.queue", include_str!("../../../share/policy-extras/queue.lua")),
    ("policy-extras.queue_files", include_str!("../../../share/policy-extras/queue_files.lua")),
    ("policy-extras.rollup", include_str!("../../../share/policy-extras/rollup.lua")),
    ("policy-extras.shaping", include_str!("../../../share/policy-extras/shaping.lua")),
    ("policy-extras.shaping_checks", include_str!("../../../share/policy-extras/shaping_checks.lua")),
    ("policy-extras.log_hooks", include_str!("../../../share/policy-extras/log_hooks.lua")),
    ("policy-extras.sources", include_str!("../../../share/policy-extras/sources.lua")),
    ("policy-extras.sources_files", include_str!("../../../share/policy-extras/sources_files.lua")),
    ("policy-extras.tsa_following", include_str!("../../../share/policy-extras/tsa_following.lua")),
    ("policy-extras.tsa_publishing", include_str!("../../../share/policy-extras/tsa_publishing.lua")),
    ("policy-extras.typing", include_str!("../../../share/policy-extras/typing.lua")),
];

/// Has `require` look here when it found nothing elsewhere.
pub(crate) fn add_searcher(lua: &Lua, package: &Table, helpers: Arc<Helpers>) -> mlua::Result<()> {
    let searchers: Table = package.get("searchers")?;
    searchers.push(lua.create_function(move |lua, name: String| search(lua, &helpers, &name))?)
}

fn search(lua: &Lua, helpers: &Helpers, name: &str) -> mlua::Result<Value> {
    match HELPERS.iter().zip(&helpers.texts).find(|((helper, _), _)| *helper == name) {
        Some(((helper, text), compiled)) => {
            compiled.function(lua, &format!("={helper}"), text.as_bytes()).map(Value::Function)
        }
        None if name == each_message::NAME => {
            lua.create_function(|lua, _: mlua::MultiValue| each_message::table(lua)).map(Value::Function)
        }
        None => Ok(Value::String(lua.create_string(format!("no helper '{name}' in the program"))?)),
    }
}
