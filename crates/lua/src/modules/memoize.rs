//! `kumo.memoize`: a function whose results are kept for a time, for all states.
//!
//! A result that is there costs one look-up; what is not there is computed once, while others wait. Scripts cannot tell where
//! a result came from: also the first one comes out of the cache.

use crate::commons::Commons;
use crate::context::Host;
use crate::convert;
use crate::guard;
use crate::memos::{Found, Memo, Memos};
use crate::modules::tuning::CACHES;
use crate::stored::Stored;
use crate::waiting::will_wait;
use config::MemoizeOptions;
use mlua::{Function, Lua, MultiValue, UserData, UserDataRef, Value, Variadic};
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

/// `kumo.memoize(fn, options)`.
pub(crate) fn memoize(lua: &Lua, (function, options): (Function, Value)) -> mlua::Result<Function> {
    let options: MemoizeOptions = convert::options("kumo.memoize", &options)?;
    if CACHES.contains(&&*options.name) {
        let fault = format!("kumo.memoize: name: `{}` is a cache of the program's own: expected another", options.name);
        return Err(mlua::Error::runtime(fault));
    }
    let memo = memos(lua)?.declare(options).map_err(mlua::Error::runtime)?;
    // What a state of an earlier epoch computes counts for states of that epoch only.
    let epoch = lua.app_data_ref::<Host>().map_or(0, |host| host.epoch);
    let look_in = memo.clone();
    let look = lua.create_function(move |lua, arguments: MultiValue| {
        let key = key(lua, &arguments)?;
        match look_in.get(&key, epoch) {
            Some(value) => Ok((true, value.give(lua)?)),
            None => Ok((false, Value::Nil)),
        }
    })?;
    maker(lua)?.call((look, lua.create_userdata(Cached { memo, epoch })?, function))
}

/// The cache of a memoized function, as its state knows it.
struct Cached {
    memo: Arc<Memo>,
    epoch: u64,
}

impl UserData for Cached {}

/// Puts a memoized function together. Made once for each state: Lua compiles a chunk for each function that may wait.
fn maker(lua: &Lua) -> mlua::Result<Function> {
    if let Some(maker) = lua.named_registry_value(MAKER)? {
        return Ok(maker);
    }
    let populate = |lua: Lua, (handle, function, arguments): (UserDataRef<Cached>, Function, Variadic<Value>)| {
        let (memo, epoch) = (handle.memo.clone(), handle.epoch);
        async move { populate(&lua, &memo, epoch, &function, arguments.into_iter().collect()).await }
    };
    let populate = lua.create_async_function(populate)?;
    // Only what is missing goes the way on which one may wait, which costs more than the look-up itself.
    let text = b"local populate = ... \
        return function(look, handle, f) \
        return function(...) local there, value = look(...) if there then return value end return populate(handle, f, ...) end end";
    let maker: Function = memos(lua)?.maker.function(lua, "=kumo.memoize", text)?.call(populate)?;
    lua.set_named_registry_value(MAKER, &maker)?;
    Ok(maker)
}

async fn populate(
    lua: &Lua,
    memo: &Memo,
    epoch: u64,
    function: &Function,
    arguments: MultiValue,
) -> mlua::Result<Value> {
    let key = key(lua, &arguments)?;
    let attempts = if memo.options.retry_on_populate_timeout { ATTEMPTS_MAX } else { 1 };
    let mut found = memo.ask(&key, epoch);
    for _ in 0..attempts {
        if matches!(found, Found::NotYet) {
            found = wait(lua, memo, &key, epoch).await?;
        }
    }
    match found {
        Found::Value(value) => value.give(lua),
        Found::Missing(task) => {
            let value = match (compute(lua, memo, function, arguments).await, task.old(memo, epoch)) {
                (Ok(value), _) => value,
                (Err(error), None) => return Err(error),
                (Err(error), Some(old)) => {
                    let name = &memo.options.name;
                    tracing::error!(target: "lua", "kumo.memoize `{name}`: what it had before counts on: {error}");
                    old
                }
            };
            memo.keep(&key, task, value.clone(), epoch);
            value.give(lua)
        }
        Found::NotYet => Err(mlua::Error::runtime(format!(
            "kumo.memoize `{}`: nothing was computed within {:?} by the one who does",
            memo.options.name,
            memo.options.wait_max()
        ))),
    }
}

async fn compute(lua: &Lua, memo: &Memo, function: &Function, arguments: MultiValue) -> mlua::Result<Stored> {
    let mut results: MultiValue = function.call_async(arguments).await?;
    match results.len() {
        0 => Ok(Stored::Nil),
        1 => stored(memo, &results.pop_front().unwrap_or(Value::Nil)),
        _ => stored(memo, &Value::Table(lua.create_sequence_from(results)?)),
    }
}

fn stored(memo: &Memo, value: &Value) -> mlua::Result<Stored> {
    let named = |e| mlua::Error::runtime(format!("kumo.memoize `{}`: result: {e}", memo.options.name));
    Stored::take(value).map_err(named)
}

/// Waits as this handler may.
async fn wait<'a>(lua: &Lua, memo: &'a Memo, key: &[u8], epoch: u64) -> mlua::Result<Found<'a>> {
    let may_wait = will_wait(lua).unwrap_or_default();
    let found = match Handle::try_current() {
        Ok(_) if may_wait => memo.wait(key, epoch).await,
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            let commons = commons(lua)?;
            let _thread = commons.held_threads.one("kumo.memoize")?;
            tokio::task::block_in_place(|| memo.wait_here(key, epoch))
        }
        _ => memo.wait_here(key, epoch),
    };
    guard::restart(lua);
    Ok(found)
}

/// Arguments as octets that are equal when they are.
fn key(lua: &Lua, arguments: &MultiValue) -> mlua::Result<Vec<u8>> {
    let mut key = Vec::with_capacity(KEY_OCTETS);
    for argument in arguments {
        match argument {
            Value::String(text) => {
                let text = text.as_bytes();
                key.push(b'"');
                key.extend_from_slice(&(text.len() as u64).to_le_bytes());
                key.extend_from_slice(&text);
            }
            Value::Integer(whole) => {
                key.push(b'i');
                key.extend_from_slice(&whole.to_le_bytes());
            }
            other => key.extend_from_slice(convert::to_json(lua, other)?.to_string().as_bytes()),
        }
        key.push(0);
    }
    // A nil at the end is an argument that is not there.
    let end = key.strip_suffix(b"null\0").map_or(key.len(), <[u8]>::len);
    key.truncate(end);
    Ok(key)
}

pub(crate) fn commons(lua: &Lua) -> mlua::Result<Arc<Commons>> {
    let commons = lua.app_data_ref::<Host>().map(|host| host.commons.clone());
    commons.ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))
}

fn memos(lua: &Lua) -> mlua::Result<Arc<Memos>> {
    let memos = lua.app_data_ref::<Host>().map(|host| host.memos.clone());
    memos.ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))
}

/// Where a state keeps what [`maker`] made.
const MAKER: &str = "kumo.memoize";
/// How often a wait for another's result is tried (KumoMTA behaviour).
const ATTEMPTS_MAX: usize = 3;
/// Of usual arguments.
const KEY_OCTETS: usize = 64;
