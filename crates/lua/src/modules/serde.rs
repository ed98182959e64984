//! `kumo.serde`: JSON, TOML and YAML to tables and back.
//!
//! JSON null is nil; comments in JSON (`//`, `/* */`, `#`) are skipped. What does not parse is an error with its place.

use crate::api::{Function, Module, Proof::Example, function};
use crate::convert;
use crate::files;
use crate::modules::json_comments;
use mlua::{Lua, Value};
use serde_json::Value as Json;

/// The module.
pub(crate) const SERDE: Module = Module {
    name: "kumo.serde",
    doc: "JSON, TOML and YAML to tables and back. JSON null is nil. An empty table is written as a map.",
    functions: &[FUNCTIONS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.serde",
        "json_load",
        "(path) -> value",
        "The content of a JSON file; errors name it.",
        Example(
            "local f = io.open(folder .. '/a.json', 'w') f:write('{\"a\": [1, null]} // end') f:close() \
             assert(kumo.serde.json_load(folder .. '/a.json').a[1] == 1) \
             local ok, why = pcall(kumo.serde.json_load, folder .. '/none.json') assert(not ok and tostring(why):find('none.json', 1, true))"
        ),
        |lua: Lua, path: String| async move { load(&lua, &path, json).await }
    ),
    function!(
        "kumo.serde",
        "json_parse",
        "(text) -> value",
        "A JSON text as value.",
        Example(
            "local v = kumo.serde.json_parse('{\"a\": [1, 2.5], \"b\": null, /* c */ \"d\": \"x // y\"}') \
             assert(v.a[2] == 2.5 and v.b == nil and v.d == 'x // y' and not pcall(kumo.serde.json_parse, '{'))"
        ),
        |lua, text: String| convert::to_lua(lua, &json(&text).map_err(mlua::Error::runtime)?)
    ),
    function!(
        "kumo.serde",
        "json_encode",
        "(value) -> string",
        "A value as JSON in one line. Tables with the keys 1 to n are lists; other numbers as keys are names.",
        Example(
            "assert(kumo.serde.json_encode { a = { 1, true } } == '{\"a\":[1,true]}' and kumo.serde.json_encode {} == '{}')"
        ),
        |_, value: Value| Ok(convert::to_text_json(&value)?.to_string())
    ),
    function!(
        "kumo.serde",
        "json_encode_pretty",
        "(value) -> string",
        "A value as JSON in lines, members in the order of their names.",
        Example("assert(kumo.serde.json_encode_pretty { b = 1, a = 2 } == '{\\n  \"a\": 2,\\n  \"b\": 1\\n}')"),
        |_, value: Value| serde_json::to_string_pretty(&convert::to_text_json(&value)?)
            .map_err(|e| mlua::Error::runtime(e.to_string()))
    ),
    function!(
        waits
        "kumo.serde",
        "toml_load",
        "(path) -> table",
        "The content of a TOML file; errors name it.",
        Example(
            "local f = io.open(folder .. '/a.toml', 'w') f:write('[a]\\nb = 1\\n') f:close() \
             assert(kumo.serde.toml_load(folder .. '/a.toml').a.b == 1)"
        ),
        |lua: Lua, path: String| async move { load(&lua, &path, toml).await }
    ),
    function!(
        "kumo.serde",
        "toml_parse",
        "(text) -> table",
        "A TOML text as table; dates become strings.",
        Example(
            "local t = kumo.serde.toml_parse('a = [1, 2]\\nd = 2000-01-02\\n') assert(t.a[2] == 2 and t.d == '2000-01-02' and not pcall(kumo.serde.toml_parse, 'a = inf'))"
        ),
        |lua, text: String| convert::to_lua(lua, &toml(&text).map_err(mlua::Error::runtime)?)
    ),
    function!(
        "kumo.serde",
        "toml_encode",
        "(table) -> string",
        "A table as TOML.",
        Example("assert(kumo.serde.toml_parse(kumo.serde.toml_encode { a = { b = 'x' } }).a.b == 'x')"),
        |_, value: Value| toml::to_string(&written(&value)?).map_err(|e| mlua::Error::runtime(e.to_string()))
    ),
    function!(
        "kumo.serde",
        "toml_encode_pretty",
        "(table) -> string",
        "A table as TOML, lists an item a line.",
        Example("assert(kumo.serde.toml_encode_pretty { a = { 1, 2 } } == 'a = [\\n    1,\\n    2,\\n]\\n')"),
        |_, value: Value| toml::to_string_pretty(&written(&value)?).map_err(|e| mlua::Error::runtime(e.to_string()))
    ),
    function!(
        "kumo.serde",
        "toml_encode_pretty_compact",
        "(table) -> string",
        "A table as TOML, names in order, a list in one line.",
        Example("assert(kumo.serde.toml_encode_pretty_compact { b = 2, a = { 1, 2 } } == 'a = [1, 2]\\nb = 2\\n')"),
        |_, value: Value| toml_of(&value)
    ),
    function!(
        waits
        "kumo.serde",
        "yaml_load",
        "(path) -> value",
        "The content of a YAML file; errors name it.",
        Example(
            "local f = io.open(folder .. '/a.yaml', 'w') f:write('a:\\n- 1\\n') f:close() \
             assert(kumo.serde.yaml_load(folder .. '/a.yaml').a[1] == 1)"
        ),
        |lua: Lua, path: String| async move { load(&lua, &path, yaml).await }
    ),
    function!(
        "kumo.serde",
        "yaml_parse",
        "(text) -> value",
        "A YAML text as value.",
        Example(
            "assert(kumo.serde.yaml_parse('a: {b: [x, 1]}').a.b[1] == 'x' and not pcall(kumo.serde.yaml_parse, 'a: ['))"
        ),
        |lua, text: String| convert::to_lua(lua, &yaml(&text).map_err(mlua::Error::runtime)?)
    ),
    function!(
        "kumo.serde",
        "yaml_encode",
        "(value) -> string",
        "A value as YAML.",
        Example("assert(kumo.serde.yaml_encode { a = { 1 } } == 'a:\\n- 1\\n')"),
        |_, value: Value| serde_yaml_ng::to_string(&convert::to_text_json(&value)?)
            .map_err(|e| mlua::Error::runtime(e.to_string()))
    ),
];

/// Reads a text in one of the three languages.
type Reader = fn(&str) -> Result<Json, String>;

/// The content of a file.
pub(crate) async fn load(lua: &Lua, path: &str, reader: Reader) -> mlua::Result<Value> {
    let octets = files::read(lua, path).await?;
    let text = String::from_utf8(octets).map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))?;
    let content = reader(&text).map_err(|e| mlua::Error::runtime(format!("{path}: {e}")))?;
    convert::to_lua(lua, &content)
}

pub(crate) fn json(text: &str) -> Result<Json, String> {
    serde_json::from_str(&json_comments::blanked(text)).map_err(|e| e.to_string())
}

pub(crate) fn toml(text: &str) -> Result<Json, String> {
    let table: toml::Table = toml::from_str(text).map_err(|e| e.to_string())?;
    plain(toml::Value::Table(table))
}

fn yaml(text: &str) -> Result<Json, String> {
    serde_yaml_ng::from_str(text).map_err(|e| e.to_string())
}

/// Dates as the text they are written as; JSON has no infinities.
fn plain(value: toml::Value) -> Result<Json, String> {
    Ok(match value {
        toml::Value::String(text) => Json::String(text),
        toml::Value::Integer(whole) => Json::from(whole),
        toml::Value::Float(number) if number.is_finite() => Json::from(number),
        toml::Value::Float(number) => return Err(format!("number {number}: expected a finite number")),
        toml::Value::Boolean(flag) => Json::Bool(flag),
        toml::Value::Datetime(date) => Json::String(date.to_string()),
        toml::Value::Array(items) => Json::Array(items.into_iter().map(plain).collect::<Result<_, _>>()?),
        toml::Value::Table(table) => {
            let members = table.into_iter().map(|(name, value)| {
                let value = plain(value).map_err(|why| format!("{name}: {why}"))?;
                Ok((name, value))
            });
            Json::Object(members.collect::<Result<_, String>>()?)
        }
    })
}

/// A table or a configuration object as TOML, names in order.
pub(super) fn toml_of(value: &Value) -> mlua::Result<String> {
    toml::to_string(&written(value)?).map_err(|e| mlua::Error::runtime(e.to_string()))
}

/// TOML has no null: what is nil is left out.
fn written(value: &Value) -> mlua::Result<toml::Table> {
    let json = convert::to_text_json(value)?;
    toml::Table::try_from(json).map_err(|e| mlua::Error::runtime(e.to_string()))
}
