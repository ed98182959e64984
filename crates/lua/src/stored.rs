//! A Lua value that outlives its state: what caches, maps and queues shared by all states hold.
//!
//! In: scalars, strings, tables with strings and whole numbers as keys, and the objects that are made to be shared. Out: the
//! same in any other state; a table comes back as [`LuaTable`], which reads like a table and copies itself when it is written
//! to (KumoMTA behaviour), so that handing out a large one costs nothing. Functions and coroutines are refused, by name of
//! the place. Depth and size are bounded, which also ends tables that contain themselves.

use crate::context::Host;
use crate::types::shared::Shareable;
use mlua::{AnyUserData, Function, IntoLua, Lua, MetaMethod, Table, UserData, UserDataMethods, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value that belongs to no state.
#[derive(Clone)]
pub(crate) enum Stored {
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(Arc<[u8]>),
    Table(Arc<Fields>),
    Object(Shareable),
}

/// A table's content.
#[derive(Clone, Default)]
pub(crate) struct Fields {
    /// Those of 1 to n.
    items: Vec<Stored>,
    /// Those of other whole numbers.
    places: BTreeMap<i64, Stored>,
    names: BTreeMap<Box<[u8]>, Stored>,
}

impl Stored {
    /// Takes a value out of its state; the error says what cannot be taken, and where it stands.
    pub fn take(value: &Value) -> mlua::Result<Stored> {
        Taker { values_left: VALUES_MAX, depth: 0 }.take(value)
    }

    /// The value in a state.
    pub fn give(&self, lua: &Lua) -> mlua::Result<Value> {
        Ok(match self {
            Stored::Nil => Value::Nil,
            Stored::Boolean(b) => Value::Boolean(*b),
            Stored::Integer(i) => Value::Integer(*i),
            Stored::Number(n) => Value::Number(*n),
            Stored::Text(octets) => Value::String(lua.create_string(octets)?),
            Stored::Table(fields) => Value::UserData(lua.create_userdata(LuaTable(fields.clone()))?),
            Stored::Object(object) => object.clone().into_lua(lua)?,
        })
    }
}

impl Fields {
    /// The string of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.names.get(name.as_bytes()) {
            Some(Stored::Text(text)) => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }

    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<&Fields> {
        match self.names.get(name.as_bytes()) {
            Some(Stored::Table(fields)) => Some(fields),
            _ => None,
        }
    }

    /// Whether there is something of that name, and not `false`.
    pub fn is_set(&self, name: &str) -> bool {
        !matches!(self.names.get(name.as_bytes()), None | Some(Stored::Boolean(false)))
    }

    /// Whether the domain map of that name says something about a domain.
    pub fn has_domain(&self, name: &str, domain: &str) -> bool {
        match self.names.get(name.as_bytes()) {
            Some(Stored::Object(Shareable::DomainMap(map))) => map.has(domain),
            _ => false,
        }
    }

    fn get(&self, key: &Value) -> Option<&Stored> {
        match key {
            Value::Integer(place) => self.at(*place),
            Value::String(name) => self.names.get(&*name.as_bytes()),
            _ => None,
        }
    }

    fn at(&self, place: i64) -> Option<&Stored> {
        let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        index.and_then(|index| self.items.get(index)).or_else(|| self.places.get(&place))
    }

    fn set(&mut self, key: &Value, value: Stored) -> mlua::Result<()> {
        match key {
            Value::Integer(place) => self.set_at(*place, value),
            Value::String(name) => match value {
                Stored::Nil => _ = self.names.remove(&*name.as_bytes()),
                value => _ = self.names.insert((&*name.as_bytes()).into(), value),
            },
            other => return Err(wrong_key(other)),
        }
        Ok(())
    }

    /// Items end before the first that is not there.
    fn set_at(&mut self, place: i64, value: Stored) {
        let index = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
        match (index.filter(|index| *index <= self.items.len()), value) {
            (Some(index), Stored::Nil) => {
                let behind = self.items.split_off(index.min(self.items.len()));
                let behind = behind.into_iter().enumerate().skip(1);
                self.places.extend(behind.map(|(number, item)| (place.saturating_add(number as i64), item)));
            }
            (Some(index), value) if index < self.items.len() => self.items[index] = value,
            (Some(_), value) => {
                self.items.push(value);
                while let Some(next) = self.places.remove(&(self.items.len() as i64 + 1)) {
                    self.items.push(next);
                }
            }
            (None, Stored::Nil) => _ = self.places.remove(&place),
            (None, value) => _ = self.places.insert(place, value),
        }
    }

    /// A plain table; tables in it are [`LuaTable`]s.
    fn copy(&self, lua: &Lua) -> mlua::Result<Table> {
        let table = lua.create_table_with_capacity(self.items.len(), self.places.len() + self.names.len())?;
        for (number, item) in self.items.iter().enumerate() {
            table.raw_set(number + 1, item.give(lua)?)?;
        }
        for (place, value) in &self.places {
            table.raw_set(*place, value.give(lua)?)?;
        }
        for (name, value) in &self.names {
            table.raw_set(lua.create_string(name)?, value.give(lua)?)?;
        }
        Ok(table)
    }
}

/// A shared table as scripts see it: reads as a table, and what is written to it is written to a copy.
pub(crate) struct LuaTable(pub Arc<Fields>);

impl UserData for LuaTable {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, key: Value| {
            this.0.get(&whole(key)).map_or(Ok(Value::Nil), |value| value.give(lua))
        });
        // The value may be this very table: it is taken before the table is written to.
        methods.add_meta_function(MetaMethod::NewIndex, |_, (this, key, value): (AnyUserData, Value, Value)| {
            let value = Stored::take(&value)?;
            Arc::make_mut(&mut this.borrow_mut::<LuaTable>()?.0).set(&whole(key), value)
        });
        methods.add_meta_method(MetaMethod::Len, |_, this, ()| Ok(this.0.items.len()));
        methods.add_meta_method(MetaMethod::Pairs, |lua, this, ()| {
            let next = lua.app_data_ref::<Host>().map(|host| host.next.clone());
            let next = next.ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))?;
            Ok((next, this.0.copy(lua)?, Value::Nil))
        });
    }
}

/// Lua's own tables take `2.0` for `2`.
fn whole(key: Value) -> Value {
    match key {
        Value::Number(number) if number.fract() == 0.0 && number.abs() < WHOLE_MAX => Value::Integer(number as i64),
        other => other,
    }
}

/// Walks one value.
struct Taker {
    values_left: usize,
    depth: usize,
}

impl Taker {
    fn take(&mut self, value: &Value) -> mlua::Result<Stored> {
        self.values_left = self
            .values_left
            .checked_sub(1)
            .ok_or_else(|| mlua::Error::runtime(format!("more than {VALUES_MAX} values")))?;
        match value {
            Value::Nil => Ok(Stored::Nil),
            Value::LightUserData(data) if data.0.is_null() => Ok(Stored::Nil),
            Value::Boolean(b) => Ok(Stored::Boolean(*b)),
            Value::Integer(i) => Ok(Stored::Integer(*i)),
            Value::Number(n) => Ok(Stored::Number(*n)),
            Value::String(text) => Ok(Stored::Text((&*text.as_bytes()).into())),
            Value::Table(table) => self.nested(|this| this.fields(table.pairs())),
            Value::UserData(data) => self.object(data),
            other => Err(refused(other.type_name())),
        }
    }

    fn object(&mut self, data: &AnyUserData) -> mlua::Result<Stored> {
        if let Ok(table) = data.borrow::<LuaTable>() {
            return Ok(Stored::Table(table.0.clone()));
        }
        if let Some(object) = Shareable::of(data) {
            return Ok(Stored::Object(object));
        }
        let pairs = data.metatable().and_then(|meta| meta.get::<Function>(MetaMethod::Pairs));
        let (next, state, mut key) = match pairs {
            Ok(pairs) => pairs.call::<(Function, Table, Value)>(data)?,
            Err(_) => return Err(refused("userdata")),
        };
        let walk = std::iter::from_fn(|| match next.call::<(Value, Value)>((&state, &key)) {
            Ok((Value::Nil, _)) => None,
            Ok((name, value)) => {
                key = name.clone();
                Some(Ok((name, value)))
            }
            Err(error) => Some(Err(error)),
        });
        self.nested(|this| this.fields(walk))
    }

    fn nested(&mut self, take: impl FnOnce(&mut Self) -> mlua::Result<Stored>) -> mlua::Result<Stored> {
        if self.depth == DEPTH_MAX {
            return Err(mlua::Error::runtime(format!("tables are nested deeper than {DEPTH_MAX} levels")));
        }
        self.depth += 1;
        let taken = take(self);
        self.depth -= 1;
        taken
    }

    fn fields(&mut self, pairs: impl Iterator<Item = mlua::Result<(Value, Value)>>) -> mlua::Result<Stored> {
        let mut fields = Fields::default();
        for pair in pairs {
            let (key, value) = pair?;
            if !matches!(key, Value::Integer(_) | Value::String(_)) {
                return Err(wrong_key(&key));
            }
            let value = self.take(&value).map_err(|error| within(&key, error))?;
            fields.set(&key, value)?;
        }
        Ok(Stored::Table(Arc::new(fields)))
    }
}

/// The place of what was refused, outermost first.
fn within(key: &Value, error: mlua::Error) -> mlua::Error {
    match (key.to_string(), error) {
        (Ok(key), mlua::Error::RuntimeError(text)) => mlua::Error::RuntimeError(format!("[{key}] {text}")),
        (_, other) => other,
    }
}

fn refused(kind: &str) -> mlua::Error {
    let expected = "expected nil, boolean, number, string, table or an object made to be shared";
    mlua::Error::runtime(format!("a {kind} cannot be shared: {expected}"))
}

fn wrong_key(key: &Value) -> mlua::Error {
    mlua::Error::runtime(format!("a {} as key: expected a string or a whole number", key.type_name()))
}

/// Below it every whole number is an integer and the other way round.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
/// Deepest nesting of tables (levels).
const DEPTH_MAX: usize = 64;
/// Most values in one table, those in its tables included.
const VALUES_MAX: usize = 4_000_000;
