//! `require 'sqlite'`: databases in files, or in memory for one connection.
//!
//! In: SQL and what it is about. Out: what it finds. Work is done beside the running handler. Fails with what SQLite says.
//! One statement a call; a result has at most [`ROWS_MAX`] rows.

use crate::api::{Member, Module, Proof::Example, Type, function};
use crate::files::beside;
use mlua::{IntoLua, Lua, Table, UserData, UserDataMethods, Value, Variadic};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, Statement};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The module.
pub(crate) const SQLITE: Module = Module {
    name: "sqlite",
    doc: "SQLite databases: `local sqlite = require 'sqlite'`.",
    functions: &[&[function!(
        waits
        "sqlite",
        "open",
        "(path, busy_timeout_ms = 500) -> connection",
        "Opens a database, which is made if there is none; `:memory:` is one of this connection alone. Who finds it locked waits \
         that long.",
        Example(
            "local sqlite = require 'sqlite' local path = folder .. '/a.db' \
             sqlite.open(path):execute 'create table t (a)' \
             assert(sqlite.open(path, 100):execute \"insert into t values (1)\" == 1) \
             assert(not pcall(sqlite.open, folder .. '/none/a.db'))"
        ),
        open
    )]],
    types: &[TYPE],
};

const TYPE: Type = Type {
    name: "SqliteConnection",
    prefix: "sqlite_conn",
    doc: "What `sqlite.open` returns.",
    members: &[
        Member {
            name: "sqlite_conn:execute",
            signature: "(sql, ...) -> list or integer",
            doc: "Runs one statement. Its parameters (`?`) follow one by one, or in a table by name (`:name`): numbers, strings, nil. \
                  Rows of one column are a list of values, rows of several a list of tables by column; a statement without \
                  columns gives the number of rows it changed. At most 100 000 rows.",
            proof: Example(
                "local db = require('sqlite').open(':memory:') \
                 assert(db:execute 'create table t (a, b)' == 0) \
                 assert(db:execute('insert into t values (?, ?)', 1, 'x') == 1) \
                 assert(db:execute('insert into t values (:a, :b)', { a = 2.5, b = 'y' }) == 1) \
                 assert(db:execute('insert into t values (?, ?)', nil, '\\xff') == 1) \
                 assert(table.concat(db:execute 'select b from t where a is not null order by a', ',') == 'x,y') \
                 assert(db:execute 'create table u (c)' == 0) local row = db:execute('select * from t where b = ?', 'y')[1] assert(row.a == 2.5 and row.b == 'y') \
                 assert(db:execute('select b from t where a is null')[1] == '\\xff') \
                 assert(#db:execute 'select * from t where a = 9' == 0) \
                 assert(db:execute \"update t set a = 0\" == 3) \
                 for _, wrong in ipairs { { 'select' }, { 'select ?', {} , 1 }, { 'select ?', true }, { 'select 1; select 2' }, \
                   { 'select ?' }, { 'select ?', 1, 2 }, { 'select :a', { b = 1 } } } do \
                   assert(not pcall(db.execute, db, table.unpack(wrong)), wrong[1]) end",
            ),
        },
        Member {
            name: "sqlite_conn:close",
            signature: "()",
            doc: "Closes it; it cannot be used any more.",
            proof: Example(
                "local db = require('sqlite').open(':memory:') db:close() assert(not pcall(db.execute, db, 'select 1'))",
            ),
        },
    ],
};

/// The userdata; `None` once it was closed.
struct LuaSqlite(Option<Arc<Mutex<Connection>>>);

async fn open(lua: Lua, (path, busy_timeout_ms): (String, Option<u32>)) -> mlua::Result<LuaSqlite> {
    let patience = Duration::from_millis(u64::from(busy_timeout_ms.unwrap_or(BUSY_TIMEOUT_MS)));
    let opened = run(&lua, move || {
        let connection = Connection::open(&path).map_err(|e| format!("{path}: {e}"))?;
        connection.busy_timeout(patience).map_err(|e| format!("{path}: {e}"))?;
        Ok(connection)
    });
    Ok(LuaSqlite(Some(Arc::new(Mutex::new(opened.await?)))))
}

impl UserData for LuaSqlite {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("execute", |lua, this, (sql, given): (String, Variadic<Value>)| async move {
            let closed = || mlua::Error::runtime("sqlite_conn:execute: the connection was closed");
            let connection = this.0.clone().ok_or_else(closed)?;
            drop(this);
            let named = |e: &dyn std::fmt::Display| mlua::Error::runtime(format!("sqlite_conn:execute: {e}"));
            let given = parameters(&given).map_err(|e| named(&e))?;
            let outcome = run(&lua, move || {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                execute(&connection, &sql, given)
            });
            outcome.await.map_err(|e| named(&e))?.give(&lua)
        });
        methods.add_method_mut("close", |_, this, ()| {
            this.0 = None;
            Ok(())
        });
    }
}

/// Parameters of a statement.
enum Given {
    /// One after the other.
    InOrder(Vec<Sql>),
    /// By name, without the colon.
    ByName(Vec<(String, Sql)>),
}

fn parameters(given: &[Value]) -> Result<Given, String> {
    if let [Value::Table(table)] = given {
        let pairs = table.pairs::<String, Value>();
        let read = |pair: mlua::Result<(String, Value)>| {
            let (name, value) = pair.map_err(|e| e.to_string())?;
            let value = sql(&value, &format!("parameter `{name}`"))?;
            Ok::<_, String>((name, value))
        };
        return Ok(Given::ByName(pairs.map(read).collect::<Result<_, _>>()?));
    }
    let read = |(at, value): (usize, &Value)| sql(value, &format!("parameter {}", at + 1));
    Ok(Given::InOrder(given.iter().enumerate().map(read).collect::<Result<_, _>>()?))
}

fn sql(value: &Value, what: &str) -> Result<Sql, String> {
    Ok(match value {
        Value::Nil => Sql::Null,
        Value::Integer(whole) => Sql::Integer(*whole),
        Value::Number(number) => Sql::Real(*number),
        Value::String(text) => {
            let octets = text.as_bytes().to_vec();
            String::from_utf8(octets).map_or_else(|e| Sql::Blob(e.into_bytes()), Sql::Text)
        }
        other => return Err(format!("{what}: a {}: expected a number, a string or nil", other.type_name())),
    })
}

/// What a statement comes to.
enum Outcome {
    Changed(usize),
    Rows { columns: Vec<String>, rows: Vec<Vec<Sql>> },
}

fn execute(connection: &Connection, sql: &str, given: Given) -> Result<Outcome, String> {
    let mut statement = connection.prepare(sql).map_err(|e| e.to_string())?;
    bind(&mut statement, given)?;
    if statement.column_count() == 0 {
        let before = connection.total_changes();
        let changed = statement.raw_execute().map_err(|e| e.to_string())?;
        // A statement that changes no rows leaves the count of the one before.
        return Ok(Outcome::Changed(if connection.total_changes() == before { 0 } else { changed }));
    }
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    let mut found = statement.raw_query();
    while let Some(row) = found.next().map_err(|e| e.to_string())? {
        if rows.len() == ROWS_MAX {
            return Err(format!("more than {ROWS_MAX} rows: ask for fewer with `limit`"));
        }
        let row = (0..columns.len()).map(|at| row.get::<_, Sql>(at)).collect::<Result<_, _>>();
        rows.push(row.map_err(|e| e.to_string())?);
    }
    Ok(Outcome::Rows { columns, rows })
}

fn bind(statement: &mut Statement, given: Given) -> Result<(), String> {
    let wanted = statement.parameter_count();
    let values = match given {
        Given::InOrder(values) if values.len() == wanted => {
            values.into_iter().enumerate().map(|(at, v)| (at + 1, v)).collect()
        }
        Given::InOrder(values) => return Err(format!("{} parameters: expected {wanted}", values.len())),
        Given::ByName(values) => {
            let place = |(name, value): (String, Sql)| {
                let place = statement.parameter_index(&format!(":{name}")).map_err(|e| e.to_string())?;
                Ok((place.ok_or_else(|| format!("parameter `{name}`: the statement has none of that name"))?, value))
            };
            values.into_iter().map(place).collect::<Result<Vec<_>, String>>()?
        }
    };
    values
        .into_iter()
        .try_for_each(|(place, value)| statement.raw_bind_parameter(place, value).map_err(|e| e.to_string()))
}

impl Outcome {
    fn give(self, lua: &Lua) -> mlua::Result<Value> {
        let (columns, rows) = match self {
            Outcome::Changed(count) => return count.into_lua(lua),
            Outcome::Rows { columns, rows } => (columns, rows),
        };
        let list = lua.create_table()?;
        for (at, mut row) in rows.into_iter().enumerate() {
            match (row.len(), row.pop()) {
                (1, Some(only)) => list.raw_set(at + 1, value(lua, only)?)?,
                (_, last) => list.raw_set(at + 1, table(lua, &columns, row.into_iter().chain(last))?)?,
            }
        }
        list.into_lua(lua)
    }
}

fn table(lua: &Lua, columns: &[String], row: impl Iterator<Item = Sql>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(0, columns.len())?;
    for (column, found) in columns.iter().zip(row) {
        table.raw_set(column.as_str(), value(lua, found)?)?;
    }
    Ok(table)
}

fn value(lua: &Lua, found: Sql) -> mlua::Result<Value> {
    match found {
        Sql::Null => Ok(Value::Nil),
        Sql::Integer(whole) => Ok(Value::Integer(whole)),
        Sql::Real(number) => Ok(Value::Number(number)),
        Sql::Text(text) => lua.create_string(text).map(Value::String),
        Sql::Blob(octets) => lua.create_string(octets).map(Value::String),
    }
}

/// Does it beside the running handler.
async fn run<T: Send + 'static>(
    lua: &Lua,
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> mlua::Result<T> {
    beside(lua, move || work().map_err(io::Error::other)).await.map_err(mlua::Error::runtime)
}

/// How long a locked database is waited for, in milliseconds (KumoMTA's default).
const BUSY_TIMEOUT_MS: u32 = 500;
/// Rows of one result.
const ROWS_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_bounded() {
        let connection = Connection::open_in_memory().expect("memory");
        let count = |rows: usize| {
            let sql = format!(
                "with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows}) select i from n"
            );
            execute(&connection, &sql, Given::InOrder(Vec::new()))
        };
        assert!(matches!(count(ROWS_MAX), Ok(Outcome::Rows { rows, .. }) if rows.len() == ROWS_MAX));
        assert!(count(ROWS_MAX + 1).is_err_and(|why| why.contains("more than 100000 rows")));
    }
}
