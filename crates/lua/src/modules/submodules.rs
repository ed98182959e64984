//! What is in `kumo`: functions and tables, made when a script first names them, so that a state costs what its script uses.

use crate::api::Module;
use crate::modules::aaa::AAA;
use crate::modules::amqp::AMQP;
use crate::modules::api::{API_BOUNCE, API_INJECT, API_SUSPEND, API_SUSPEND_READY_Q};
use crate::modules::compliance::COMPLIANCE;
use crate::modules::counter_series::COUNTER_SERIES;
use crate::modules::crypto::CRYPTO;
use crate::modules::digest::DIGEST;
use crate::modules::dkim::DKIM;
use crate::modules::dns::DNS;
use crate::modules::encode::ENCODE;
use crate::modules::file_type::FILE_TYPE;
use crate::modules::fs::FS;
use crate::modules::http::HTTP;
use crate::modules::jsonl::JSONL;
use crate::modules::kafka::KAFKA;
use crate::modules::kumo::KUMO;
use crate::modules::maps::{CIDR, DOMAIN_MAP, REGEX_SET_MAP};
use crate::modules::mimepart::MIMEPART;
use crate::modules::mpsc::MPSC;
use crate::modules::nats::NATS;
use crate::modules::redis::REDIS;
use crate::modules::regex::REGEX;
use crate::modules::secrets::SECRETS;
use crate::modules::sender_checks::{DMARC, SPF};
use crate::modules::serde::SERDE;
use crate::modules::shaping::SHAPING;
use crate::modules::sqlite::SQLITE;
use crate::modules::string::STRING;
use crate::modules::time::TIME;
use crate::modules::tsa::TSA;
use crate::modules::uuid::UUID;
use crate::modules::xfer::XFER;
use mlua::{Lua, Table, Value};

/// Every module that is whole in one struct.
pub(crate) const MODULES: &[&Module] = &[
    &KUMO,
    &AAA,
    &AMQP,
    &API_BOUNCE,
    &API_INJECT,
    &API_SUSPEND,
    &API_SUSPEND_READY_Q,
    &CIDR,
    &COMPLIANCE,
    &COUNTER_SERIES,
    &CRYPTO,
    &DIGEST,
    &DKIM,
    &DMARC,
    &DNS,
    &DOMAIN_MAP,
    &ENCODE,
    &FILE_TYPE,
    &FS,
    &HTTP,
    &JSONL,
    &KAFKA,
    &MIMEPART,
    &MPSC,
    &NATS,
    &REDIS,
    &REGEX,
    &REGEX_SET_MAP,
    &SECRETS,
    &SERDE,
    &SHAPING,
    &SPF,
    &SQLITE,
    &STRING,
    &TIME,
    &TSA,
    &UUID,
    &XFER,
];

/// Functions that KumoMTA moved: the name in `kumo`, the module, the name there.
pub(crate) const ALIASES: &[(&str, &str, &str)] = &[
    ("json_load", "serde", "json_load"),
    ("json_parse", "serde", "json_parse"),
    ("json_encode", "serde", "json_encode"),
    ("json_encode_pretty", "serde", "json_encode_pretty"),
    ("toml_load", "serde", "toml_load"),
    ("toml_parse", "serde", "toml_parse"),
    ("toml_encode", "serde", "toml_encode"),
    ("toml_encode_pretty", "serde", "toml_encode_pretty"),
    ("sleep", "time", "sleep"),
    ("glob", "fs", "glob"),
    ("uncached_glob", "fs", "uncached_glob"),
    ("read_dir", "fs", "read_dir"),
];

/// Has `kumo` make what is in it when it is asked for.
pub(crate) fn add_to(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    let meta = lua.create_table()?;
    meta.raw_set("__index", lua.create_function(find)?)?;
    meta.raw_set("__pairs", lua.create_function(pairs)?)?;
    kumo.set_metatable(Some(meta))
}

/// Who walks `kumo` sees all of it.
fn pairs(lua: &Lua, kumo: Table) -> mlua::Result<(Value, Table, Value)> {
    let names = KUMO.functions().map(|function| function.name);
    let first = |name: &'static str| name.split('.').next().unwrap_or(name);
    let names = names.chain(MODULES.iter().filter_map(|module| module.name.strip_prefix("kumo.")).map(first));
    for name in names.chain(ALIASES.iter().map(|(alias, ..)| *alias)) {
        kumo.get::<Value>(name)?;
    }
    Ok((lua.globals().get("next")?, kumo, Value::Nil))
}

fn find(lua: &Lua, (kumo, name): (Table, Value)) -> mlua::Result<Value> {
    let Value::String(name) = name else { return Ok(Value::Nil) };
    let name = name.to_string_lossy();
    let found = match ALIASES.iter().find(|(alias, ..)| *alias == name) {
        Some((_, module, function)) => kumo.get::<Table>(*module)?.get(*function)?,
        None => make(lua, &name)?,
    };
    if !found.is_nil() {
        kumo.raw_set(name, &found)?;
    }
    Ok(found)
}

fn make(lua: &Lua, name: &str) -> mlua::Result<Value> {
    if let Some(function) = KUMO.functions().find(|function| function.name == name) {
        return function.create(lua).map(Value::Function);
    }
    match MODULES.iter().find(|module| module.name.strip_prefix("kumo.") == Some(name)) {
        Some(module) => module.table(lua).map(Value::Table),
        None => nested(lua, name),
    }
}

/// A table of tables, down to modules: `kumo.api.admin.bounce`.
fn nested(lua: &Lua, name: &str) -> mlua::Result<Value> {
    let below = |module: &&&'static Module| {
        let rest = module.name.strip_prefix("kumo.")?.strip_prefix(name)?.strip_prefix('.')?;
        Some((rest, **module))
    };
    let mut found = MODULES.iter().filter_map(|module| below(&module)).peekable();
    if found.peek().is_none() {
        return Ok(Value::Nil);
    }
    let top = lua.create_table()?;
    for (rest, module) in found {
        let (path, last) = rest.rsplit_once('.').unwrap_or(("", rest));
        let mut table = top.clone();
        for step in path.split('.').filter(|step| !step.is_empty()) {
            let inner: Option<Table> = table.raw_get(step)?;
            let inner = inner.map_or_else(|| lua.create_table(), Ok)?;
            table.raw_set(step, &inner)?;
            table = inner;
        }
        table.raw_set(last, module.table(lua)?)?;
    }
    Ok(Value::Table(top))
}
