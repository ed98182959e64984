//! What is in `kumo`: functions and tables, made when a script first names them, so that a state costs what its script uses.

use crate::api::Module;
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
use crate::modules::kumo::KUMO;
use crate::modules::maps::{CIDR, DOMAIN_MAP, REGEX_SET_MAP};
use crate::modules::mimepart::MIMEPART;
use crate::modules::mpsc::MPSC;
use crate::modules::redis::REDIS;
use crate::modules::regex::REGEX;
use crate::modules::secrets::SECRETS;
use crate::modules::serde::SERDE;
use crate::modules::shaping::SHAPING;
use crate::modules::sqlite::SQLITE;
use crate::modules::string::STRING;
use crate::modules::time::TIME;
use crate::modules::uuid::UUID;
use crate::modules::xfer::XFER;
use mlua::{Lua, Table, Value};

/// Every module that is whole in one struct.
pub(crate) const MODULES: &[&Module] = &[
    &KUMO,
    &CIDR,
    &COUNTER_SERIES,
    &CRYPTO,
    &DIGEST,
    &DKIM,
    &DNS,
    &DOMAIN_MAP,
    &ENCODE,
    &FILE_TYPE,
    &FS,
    &HTTP,
    &JSONL,
    &MIMEPART,
    &MPSC,
    &REDIS,
    &REGEX,
    &REGEX_SET_MAP,
    &SECRETS,
    &SERDE,
    &SHAPING,
    &SQLITE,
    &STRING,
    &TIME,
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
    let names = names.chain(MODULES.iter().filter_map(|module| module.name.strip_prefix("kumo.")));
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
        None => Ok(Value::Nil),
    }
}
