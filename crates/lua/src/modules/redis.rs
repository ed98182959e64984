//! `require 'redis'`: any command of Redis.
//!
//! Clients with equal options are one, shared by all states; their number is bounded.

use crate::api::{Member, Module, Proof::Test, Type, function};
use crate::convert;
use crate::modules::memoize::commons;
use crate::waiting::wait;
use config::RedisClientOptions;
use mlua::{IntoLua, Lua, UserData, UserDataMethods, Value, Variadic};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use throttle::{RedisClient, Reply};
use watched::Times;

/// The module.
pub(crate) const REDIS: Module = Module {
    name: "redis",
    doc: "Redis, one server or a cluster, in clear or over TLS: `local redis = require 'redis'`.",
    functions: &[&[function!(
        "redis",
        "open",
        "{options} -> connection",
        "A client of the server or cluster that `node` names. It connects with the first question, and again when the \
         connection broke.",
        Test("testing/e2e/tests/redis_scripts.rs::scripts_talk_to_redis"),
        open
    )]],
    types: &[Type {
        name: "RedisConnection",
        prefix: "redis_conn",
        doc: "What `redis.open` returns.",
        members: &[Member {
            name: "redis_conn:query",
            signature: "(command, ...) -> value",
            doc: "Says a command with its arguments, strings, numbers or booleans; the answer as a value, lists and maps as tables. What Redis \
                  refuses is an error.",
            proof: Test("testing/e2e/tests/redis_scripts.rs::scripts_talk_to_redis"),
        }],
    }],
};

/// Clients by their options.
#[derive(Default)]
pub(crate) struct RedisClients(Mutex<HashMap<String, Arc<RedisClient>>>);

impl RedisClients {
    fn get(&self, options: &RedisClientOptions) -> Result<Arc<RedisClient>, String> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{options:?}");
        if let Some(client) = clients.get(&name) {
            return Ok(client.clone());
        }
        if clients.len() >= CLIENTS_MAX {
            return Err(format!("one client too many: expected at most {CLIENTS_MAX} with different options"));
        }
        let client = Arc::new(RedisClient::new(options)?);
        clients.insert(name, client.clone());
        Ok(client)
    }

    /// How long questions of all of them took that were answered, and those that failed.
    pub fn question_times(&self) -> Option<[Times; 2]> {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = clients.values().map(|client| client.question_times());
        times.reduce(|[answered, failed], more| [answered.with(&more[0]), failed.with(&more[1])])
    }
}

fn open(lua: &Lua, options: Value) -> mlua::Result<LuaRedis> {
    let options: RedisClientOptions = convert::options("redis.open", &options)?;
    commons(lua)?.redis.get(&options).map(LuaRedis).map_err(mlua::Error::runtime)
}

/// The userdata.
struct LuaRedis(Arc<RedisClient>);

impl UserData for LuaRedis {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_async_method("query", |lua, this, words: Variadic<Value>| async move {
            let client = this.0.clone();
            drop(this);
            let words =
                words.iter().enumerate().map(|(at, word)| octets(at, word)).collect::<mlua::Result<Vec<_>>>()?;
            let answer = wait(&lua, "redis_conn:query", client.patience(), client.query(&words)).await?;
            let command = words.first().map(|word| String::from_utf8_lossy(word).into_owned()).unwrap_or_default();
            value(&lua, answer.map_err(|e| mlua::Error::runtime(format!("redis_conn:query {command:?}: {e}")))?)
        });
    }
}

fn octets(at: usize, word: &Value) -> mlua::Result<Vec<u8>> {
    match word {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(_) | Value::Number(_) | Value::Boolean(_) => Ok(word.to_string()?.into_bytes()),
        other => {
            let expected = "expected a string, a number or a boolean";
            Err(mlua::Error::runtime(format!(
                "redis_conn:query: argument {}: a {}: {expected}",
                at + 1,
                other.type_name()
            )))
        }
    }
}

fn value(lua: &Lua, reply: Reply) -> mlua::Result<Value> {
    match reply {
        Reply::Nil => Ok(Value::Nil),
        Reply::Boolean(flag) => Ok(Value::Boolean(flag)),
        Reply::Integer(whole) => Ok(Value::Integer(whole)),
        Reply::Number(number) => Ok(Value::Number(number)),
        Reply::Text(octets) => lua.create_string(octets).map(Value::String),
        Reply::List(items) => {
            let items = items.into_iter().map(|item| value(lua, item)).collect::<mlua::Result<Vec<_>>>()?;
            items.into_lua(lua)
        }
        Reply::Map(members) => {
            let table = lua.create_table()?;
            for (name, member) in members {
                table.raw_set(value(lua, name)?, value(lua, member)?)?;
            }
            table.into_lua(lua)
        }
    }
}

/// Clients a policy may have: each is a connection.
const CLIENTS_MAX: usize = 256;
