//! What is in `kumo`: functions and tables, made when a script first names them, so that a state costs what its script uses.

use crate::api::Module;
use crate::modules::counter_series::COUNTER_SERIES;
use crate::modules::digest::DIGEST;
use crate::modules::dkim::DKIM;
use crate::modules::dns::DNS;
use crate::modules::encode::ENCODE;
use crate::modules::fs::FS;
use crate::modules::kumo::KUMO;
use crate::modules::maps::{CIDR, DOMAIN_MAP, REGEX_SET_MAP};
use crate::modules::mpsc::MPSC;
use crate::modules::regex::REGEX;
use crate::modules::secrets::SECRETS;
use crate::modules::serde::SERDE;
use crate::modules::shaping::SHAPING;
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
    &DIGEST,
    &DKIM,
    &DNS,
    &DOMAIN_MAP,
    &ENCODE,
    &FS,
    &MPSC,
    &REGEX,
    &REGEX_SET_MAP,
    &SECRETS,
    &SERDE,
    &SHAPING,
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
    kumo.set_metatable(Some(meta))
}

fn find(lua: &Lua, (kumo, name): (Table, String)) -> mlua::Result<Value> {
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
