//! Lua values to JSON and back: the form in which options and metadata cross the border.
//!
//! In: any Lua value. Out: JSON in which a table is a list (keys 1 to n) or an object (string
//! keys, sorted, so that two states give the same text). Fails, naming the place inside the
//! value, on what JSON cannot hold: functions, foreign userdata, bytes that are not UTF-8,
//! infinities, tables that are neither list nor map; but for what is only written down, where places become names. Depth and size are bounded, which also
//! ends tables that contain themselves.

use config::FromTable;
use mlua::{AnyUserData, Function, Lua, LuaSerdeExt, MetaMethod, Table, Value};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

/// A Lua value as JSON.
pub(crate) fn to_json(_: &Lua, value: &Value) -> mlua::Result<Json> {
    Reader::new().read(value).map_err(|r| mlua::Error::runtime(r.text("value")))
}

/// The same for what is written down and need not come back: a table whose places are not 1 to n, or that has names besides, is
/// an object with the places as names (KumoMTA behaviour, but that it loses such names).
pub(crate) fn to_text_json(value: &Value) -> mlua::Result<Json> {
    let mut reader = Reader { names_places: true, ..Reader::new() };
    reader.read(value).map_err(|r| mlua::Error::runtime(r.text("value")))
}

/// JSON as a Lua value; null becomes nil.
pub(crate) fn to_lua(lua: &Lua, json: &Json) -> mlua::Result<Value> {
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Boolean(*b),
        Json::Number(n) => match n.as_i64() {
            Some(whole) => Value::Integer(whole),
            None => Value::Number(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(s) => Value::String(lua.create_string(s)?),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            if items.is_empty() {
                table.set_metatable(Some(lua.array_metatable()))?;
            }
            for (place, item) in items.iter().enumerate() {
                table.raw_set(place + 1, to_lua(lua, item)?)?;
            }
            Value::Table(table)
        }
        Json::Object(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for (name, member) in members {
                table.raw_set(name.as_str(), to_lua(lua, member)?)?;
            }
            Value::Table(table)
        }
    })
}

/// An options table as the struct it describes; errors name the constructor, the field, the
/// value and what was expected.
pub(crate) fn options<T: FromTable>(constructor: &'static str, value: &Value) -> mlua::Result<T> {
    T::from_table(constructor, table_of(constructor, value)?).map_err(mlua::Error::external)
}

/// As [`options`], of a type that knows nothing of tables.
pub(crate) fn parsed<T: DeserializeOwned>(function: &'static str, value: &Value) -> mlua::Result<T> {
    config::parse(function, table_of(function, value)?).map_err(mlua::Error::external)
}

/// A table as JSON; an error has the form of an option's that is wrong.
fn table_of(constructor: &'static str, value: &Value) -> mlua::Result<Json> {
    let read = Reader::new().read(value);
    read.map_err(|r| {
        // The form that helpers take apart, as of any other option that is wrong.
        let (place, kind) = (r.place(), value.type_name());
        let within = if place.is_empty() { String::new() } else { place + ": " };
        mlua::Error::runtime(format!("{constructor}: {within}deserialize error: {}, while processing a {kind}", r.what))
    })
}

/// A copy of an options table without the member that is no plain value, and that member.
pub(crate) fn without(lua: &Lua, given: &Table, name: &str) -> mlua::Result<(Table, Value)> {
    let rest = lua.create_table()?;
    for pair in given.pairs::<Value, Value>() {
        let (key, value) = pair?;
        if key.as_string().is_none_or(|key| *key != name) {
            rest.raw_set(key, value)?;
        }
    }
    Ok((rest, given.get(name)?))
}

/// A value as JSON, if it can be that.
pub(crate) fn json_of(value: &Value) -> Option<Json> {
    Reader::new().read(value).ok()
}

/// Walks one value.
struct Reader {
    values_left: usize,
    depth: usize,
    /// Places that make no list are names.
    names_places: bool,
}

/// Why there is no JSON for a value.
struct Refusal {
    /// Member names and places, innermost first.
    path: Vec<String>,
    what: String,
}

impl Refusal {
    fn text(&self, root: &str) -> String {
        let place = self.place();
        format!("{}: {}", if place.is_empty() { root } else { &place }, self.what)
    }

    /// Where in the value; empty for the value itself.
    fn place(&self) -> String {
        self.path.iter().rev().fold(String::new(), |path, step| match path.is_empty() || step.starts_with('[') {
            true => path + step,
            false => path + "." + step,
        })
    }
}

impl From<mlua::Error> for Refusal {
    fn from(error: mlua::Error) -> Refusal {
        refusal(error.to_string())
    }
}

impl Reader {
    fn new() -> Reader {
        Reader { values_left: VALUES_MAX, depth: 0, names_places: false }
    }

    fn read(&mut self, value: &Value) -> Result<Json, Refusal> {
        self.values_left =
            self.values_left.checked_sub(1).ok_or_else(|| refusal(format!("more than {VALUES_MAX} values")))?;
        match value {
            Value::Nil => Ok(Json::Null),
            Value::Boolean(b) => Ok(Json::Bool(*b)),
            Value::Integer(i) => Ok(Json::from(*i)),
            Value::Number(n) => match serde_json::Number::from_f64(*n) {
                Some(number) => Ok(Json::Number(number)),
                None => Err(refusal(format!("number {n}: expected a finite number"))),
            },
            Value::String(s) => match s.to_str() {
                Ok(text) => Ok(Json::String(text.to_owned())),
                Err(_) => Err(refusal(format!("string {:?} is not UTF-8", s.to_string_lossy()))),
            },
            Value::LightUserData(data) if data.0.is_null() => Ok(Json::Null),
            Value::Table(table) if table.is_empty() && is_made_of_list(table) => Ok(Json::Array(Vec::new())),
            Value::Table(table) => self.nested(|this| this.table(table.pairs().map(|p| p.map_err(Refusal::from)))),
            Value::UserData(data) => self.nested(|this| this.userdata(data)),
            other => Err(unsupported(other.type_name())),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<Json, Refusal>) -> Result<Json, Refusal> {
        if self.depth == DEPTH_MAX {
            return Err(refusal(format!("tables are nested deeper than {DEPTH_MAX} levels")));
        }
        self.depth += 1;
        let json = read(self);
        self.depth -= 1;
        json
    }

    /// Userdata that can be walked with `pairs`, such as a configuration object.
    fn userdata(&mut self, data: &AnyUserData) -> Result<Json, Refusal> {
        let pairs = data.metatable().and_then(|meta| meta.get::<Function>(MetaMethod::Pairs));
        let (next, state, mut key) = match pairs {
            Ok(pairs) => pairs.call::<(Function, Table, Value)>(data)?,
            Err(_) => return Err(unsupported("userdata")),
        };
        let walk = std::iter::from_fn(|| match next.call::<(Value, Value)>((&state, &key)) {
            Ok((Value::Nil, _)) => None,
            Ok((name, value)) => {
                key = name.clone();
                Some(Ok((name, value)))
            }
            Err(error) => Some(Err(Refusal::from(error))),
        });
        self.table(walk)
    }

    fn table(&mut self, pairs: impl Iterator<Item = Result<(Value, Value), Refusal>>) -> Result<Json, Refusal> {
        let mut items: Vec<(i64, Json)> = Vec::new();
        let mut members: Vec<(String, Json)> = Vec::new();
        for pair in pairs {
            match pair? {
                (Value::Integer(place), value) => {
                    let item = self.read(&value).map_err(|r| inside(r, format!("[{place}]")))?;
                    items.push((place, item));
                }
                (Value::String(name), value) => {
                    let name = name.to_str().map_err(|_| refusal("a member's name is not UTF-8"))?.to_owned();
                    let member = self.member(&name, &value).map_err(|r| inside(r, name.clone()))?;
                    members.push((name, member));
                }
                (key, _) => return Err(refusal(format!("a {} as key: expected a string or integer", key.type_name()))),
            }
        }
        if self.names_places && !(members.is_empty() && is_list(&items)) {
            members.extend(items.drain(..).map(|(place, item)| (place.to_string(), item)));
        }
        match (items.is_empty(), members.is_empty()) {
            (true, _) => {
                members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
                Ok(Json::Object(members.into_iter().collect()))
            }
            (false, true) => list(items),
            (false, false) => {
                Err(refusal(format!("a table with list items and the name `{}`: expected one kind", members[0].0)))
            }
        }
    }

    /// Key material may be any bytes; `config` takes such a string as a list of numbers.
    fn member(&mut self, name: &str, value: &Value) -> Result<Json, Refusal> {
        match value {
            Value::String(s) if name == KEY_DATA && s.to_str().is_err() => {
                Ok(s.as_bytes().iter().map(|b| Json::from(*b)).collect())
            }
            other => self.read(other),
        }
    }
}

/// Whether a table without members came of a list: [`to_lua`] has marked it, with a metatable that scripts can neither see nor change
/// (KumoMTA behaviour).
fn is_made_of_list(table: &Table) -> bool {
    let mark = |metatable: Table| {
        metatable.raw_get::<Value>("__metatable").is_ok_and(|hidden| hidden == Value::Boolean(false))
    };
    table.metatable().is_some_and(mark)
}

/// Whether the places are 1 to n: each is there once.
fn is_list(items: &[(i64, Json)]) -> bool {
    let last = i64::try_from(items.len()).unwrap_or(i64::MAX);
    items.iter().all(|(place, _)| (1..=last).contains(place))
}

/// Items in order, when their places are 1 to n.
fn list(mut items: Vec<(i64, Json)>) -> Result<Json, Refusal> {
    items.sort_unstable_by_key(|(place, _)| *place);
    let mut places = items.iter().map(|(place, _)| *place);
    match (1..).zip(&mut places).find(|(expected, found)| expected != found) {
        None => Ok(items.into_iter().map(|(_, item)| item).collect()),
        Some((missing, next)) => {
            Err(refusal(format!("a list without item {missing} (it has item {next}): expected no gaps")))
        }
    }
}

fn inside(mut refusal: Refusal, step: String) -> Refusal {
    refusal.path.push(step);
    refusal
}

fn refusal(what: impl Into<String>) -> Refusal {
    Refusal { path: Vec::new(), what: what.into() }
}

fn unsupported(kind: &str) -> Refusal {
    refusal(format!("a {kind} cannot be stored: expected nil, boolean, number, string or table"))
}

/// Deepest nesting of tables (levels).
const DEPTH_MAX: usize = 64;
/// Most values in one table, those in its tables included.
const VALUES_MAX: usize = 1_000_000;
/// The member of a key source that holds the key itself.
const KEY_DATA: &str = "key_data";

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
