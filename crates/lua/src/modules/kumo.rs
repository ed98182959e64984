//! `require 'kumo'`: registration, rejection, start-up and the configuration constructors.
//!
//! KumoMTA's names and semantics. Option tables are strict: an unknown key is an error.

use crate::context::{Host, StartupEntry};
use crate::convert;
use crate::error::Rejection;
use crate::modules::dkim;
use crate::types::config_object::ConfigObject;
use config::{
    SpoolOptions, EgressPath, EgressPool, EgressSource, EsmtpListener, HttpListener, ListenerDomain, LocalLogs, QueueConfig,
};
use mlua::{Function, Lua, Table, Value, Variadic};
use policy::Disconnect;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The module table.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let kumo = lua.create_table()?;
    kumo.set("version", VERSION)?;
    kumo.set("on", lua.create_function(on)?)?;
    kumo.set("reject", lua.create_function(|_, (code, text)| reject(code, text, Disconnect::If421))?)?;
    kumo.set("disconnect", lua.create_function(disconnect)?)?;
    starts::<SpoolOptions>(lua, &kumo, "define_spool", "kumo.define_spool")?;
    starts::<EsmtpListener>(lua, &kumo, "start_esmtp_listener", "kumo.start_esmtp_listener")?;
    starts::<HttpListener>(lua, &kumo, "start_http_listener", "kumo.start_http_listener")?;
    starts::<LocalLogs>(lua, &kumo, "configure_local_logs", "kumo.configure_local_logs")?;
    makes::<QueueConfig>(lua, &kumo, "make_queue_config", "kumo.make_queue_config")?;
    makes::<EgressPath>(lua, &kumo, "make_egress_path", "kumo.make_egress_path")?;
    makes::<EgressSource>(lua, &kumo, "make_egress_source", "kumo.make_egress_source")?;
    makes::<EgressPool>(lua, &kumo, "make_egress_pool", "kumo.make_egress_pool")?;
    makes::<ListenerDomain>(lua, &kumo, "make_listener_domain", "kumo.make_listener_domain")?;
    logs(lua, &kumo)?;
    kumo.set("dkim", dkim::create(lua)?)?;
    Ok(kumo)
}

/// `kumo.on(name, fn)`: one handler per event; a second is an error that names the first.
fn on(lua: &Lua, (event, handler): (String, Function)) -> mlua::Result<()> {
    let place = lua
        .inspect_stack(1, |frame| {
            let source = frame.source();
            format!("{}:{}", source.short_src.as_deref().unwrap_or("?"), frame.current_line().unwrap_or(0))
        })
        .unwrap_or_default();
    let Some(mut host) = lua.app_data_mut::<Host>() else { return Ok(()) };
    if let Some(current) = host.current_event {
        let text = format!("kumo.on('{event}') inside the handler of {current}: register handlers at the top level");
        return Err(mlua::Error::runtime(text));
    }
    if let Some((_, first)) = host.registered.get(&event) {
        return Err(mlua::Error::runtime(format!("{event} event already has a handler defined at {first}")));
    }
    host.registered.insert(event, (handler, place));
    Ok(())
}

fn reject(code: u16, text: String, disconnect: Disconnect) -> mlua::Result<()> {
    if !(400..600).contains(&code) {
        return Err(mlua::Error::runtime(format!("kumo.reject: code {code}: expected 400-599")));
    }
    Err(mlua::Error::external(Rejection { code, text, disconnect }))
}

fn disconnect(_: &Lua, (code, text, mode): (u16, String, Option<String>)) -> mlua::Result<()> {
    let mode = match mode.as_deref() {
        None | Some("ForceDisconnect") => Disconnect::Force,
        Some("FollowWith421") => Disconnect::FollowWith421,
        Some("If421") => Disconnect::If421,
        Some(other) => {
            let expected = "expected ForceDisconnect, FollowWith421 or If421";
            return Err(mlua::Error::runtime(format!("kumo.disconnect: mode `{other}`: {expected}")));
        }
    };
    reject(code, text, mode)
}

/// A function that `init` calls to have something started.
fn starts<T: DeserializeOwned + StartupEntry + 'static>(
    lua: &Lua,
    kumo: &Table,
    name: &str,
    full_name: &'static str,
) -> mlua::Result<()> {
    let function = move |lua: &Lua, options: Value| {
        let entry: T = convert::options(lua, full_name, options)?;
        let mut host = lua.app_data_mut::<Host>();
        match host.as_mut().and_then(|host| host.startup.as_mut()) {
            Some(startup) => {
                entry.add_to(startup);
                Ok(())
            }
            None => Err(mlua::Error::runtime(format!("{full_name} can only be called from the init event"))),
        }
    };
    kumo.set(name, lua.create_function(function)?)
}

/// A constructor of a configuration object.
fn makes<T: DeserializeOwned + Serialize + Send + Sync + Clone + 'static>(
    lua: &Lua,
    kumo: &Table,
    name: &str,
    full_name: &'static str,
) -> mlua::Result<()> {
    let function = move |lua: &Lua, options: Value| {
        let value: T = convert::options(lua, full_name, options)?;
        Ok(ConfigObject(value))
    };
    kumo.set(name, lua.create_function(function)?)
}

fn logs(lua: &Lua, kumo: &Table) -> mlua::Result<()> {
    kumo.set("log_error", lua.create_function(|_, a: Variadic<Value>| text(&a).map(|t| tracing::error!(target: "lua", "{t}")))?)?;
    kumo.set("log_warn", lua.create_function(|_, a: Variadic<Value>| text(&a).map(|t| tracing::warn!(target: "lua", "{t}")))?)?;
    kumo.set("log_info", lua.create_function(|_, a: Variadic<Value>| text(&a).map(|t| tracing::info!(target: "lua", "{t}")))?)?;
    kumo.set("log_debug", lua.create_function(|_, a: Variadic<Value>| text(&a).map(|t| tracing::debug!(target: "lua", "{t}")))?)
}

fn text(arguments: &[Value]) -> mlua::Result<String> {
    let words: Vec<String> = arguments.iter().map(|v| v.to_string()).collect::<Result<_, _>>()?;
    Ok(words.join(" "))
}

/// Compares as text with KumoMTA's versions, which scripts may ask for.
const VERSION: &str = "2026.08.04-postrider";
