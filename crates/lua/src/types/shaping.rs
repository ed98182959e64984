//! `Shaping`: shaping files put together, as scripts ask them.

use crate::convert;
use mlua::{Lua, UserData, UserDataMethods, Value};
use record::Response;
use serde::Deserialize;
use shaping::{LogRecordView, Problem, Shaping, site_of_ready_queue};
use std::sync::Arc;

/// The userdata; clones share one.
#[derive(Clone)]
pub(crate) struct LuaShaping(pub Arc<Shaping>);

/// What a rule looks at in a log record.
#[derive(Deserialize)]
struct Seen {
    #[serde(default)]
    queue: String,
    #[serde(default)]
    site: String,
    response: Response,
}

impl UserData for LuaShaping {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get_egress_path_config", |lua, this, (domain, source, site): (String, String, String)| {
            convert::to_lua(lua, &serde_json::Value::Object(this.0.path_config(&domain, &source, &site)))
        });
        methods.add_method("get_errors", |_, this, ()| Ok(lines(this.0.errors())));
        methods.add_method("get_warnings", |_, this, ()| Ok(lines(this.0.warnings())));
        methods.add_method("get_contradictions", |_, this, ()| Ok(this.0.contradictions()));
        methods.add_method("get_referenced_sources", |_, this, ()| Ok(this.0.referenced_sources()));
        methods.add_method("match_rules", |lua, this, record: Value| match_rules(lua, this, &record));
        methods.add_method("hash", |_, this, ()| Ok(this.0.hash().to_owned()));
    }
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn match_rules(lua: &Lua, this: &LuaShaping, record: &Value) -> mlua::Result<Value> {
    let wrong = |e: &dyn std::fmt::Display| mlua::Error::runtime(format!("shaping:match_rules: log record: {e}"));
    let json = convert::to_json(lua, record).map_err(|e| wrong(&e))?;
    let seen: Seen = serde_json::from_value(json).map_err(|e| wrong(&e))?;
    // The domain of `campaign:tenant@domain!routing`.
    let domain = seen.queue.rsplit('@').next().unwrap_or_default();
    let (domain, routing) = domain.split_once('!').unwrap_or((domain, domain));
    let domain = if routing.is_empty() { domain } else { routing };
    let view = LogRecordView { domain, site: site_of_ready_queue(&seen.site), response: &seen.response };
    let found = this.0.match_rules(&view);
    for failure in &found.failures {
        tracing::warn!(target: "lua", "shaping: {:?} was given up on {} octets: {}", failure.pattern, failure.octets, failure.what);
    }
    let rules: Vec<_> = found.rules.iter().map(|matched| matched.rule).collect();
    convert::to_lua(lua, &serde_json::to_value(&rules).map_err(|e| wrong(&e))?)
}
