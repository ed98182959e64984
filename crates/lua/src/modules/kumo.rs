//! `require 'kumo'`: start-up, the configuration constructors, and the parts beside this file.
//!
//! KumoMTA's names and semantics. Option tables are strict: an unknown key is an error.

use crate::context::Host;
use crate::convert;
use crate::modules::{ceilings, dkim, dns, log, memory, messages, on, reject, tuning, xfer};
use crate::startup::StartupEntry;
use crate::types::config_object::ConfigObject;
use crate::types::throttle::{LuaThrottle, sleep_seconds};
use config::{
    BounceClassifier, EgressPath, EgressPool, EgressSource, EsmtpListener, HttpListener, ListenerDomain, LocalLogs,
    LogDispositionHook, QueueConfig, RedisThrottles, SpoolOptions,
};
use mlua::{Lua, Table, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The module table.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let kumo = lua.create_table()?;
    kumo.set("version", VERSION)?;
    on::add_to(lua, &kumo)?;
    reject::add_to(lua, &kumo)?;
    log::add_to(lua, &kumo)?;
    tuning::add_to(lua, &kumo)?;
    memory::add_to(lua, &kumo)?;
    messages::add_to(lua, &kumo)?;
    ceilings::add_to(lua, &kumo)?;
    starts::<SpoolOptions>(lua, &kumo, "define_spool", "kumo.define_spool")?;
    starts::<EsmtpListener>(lua, &kumo, "start_esmtp_listener", "kumo.start_esmtp_listener")?;
    starts::<HttpListener>(lua, &kumo, "start_http_listener", "kumo.start_http_listener")?;
    starts::<LocalLogs>(lua, &kumo, "configure_local_logs", "kumo.configure_local_logs")?;
    let name = "configure_log_disposition_hook";
    starts::<LogDispositionHook>(lua, &kumo, name, "kumo.configure_log_disposition_hook")?;
    starts::<BounceClassifier>(lua, &kumo, "configure_bounce_classifier", "kumo.configure_bounce_classifier")?;
    starts::<RedisThrottles>(lua, &kumo, "configure_redis_throttles", "kumo.configure_redis_throttles")?;
    makes::<QueueConfig>(lua, &kumo, "make_queue_config", "kumo.make_queue_config")?;
    makes::<EgressPath>(lua, &kumo, "make_egress_path", "kumo.make_egress_path")?;
    makes::<EgressSource>(lua, &kumo, "make_egress_source", "kumo.make_egress_source")?;
    makes::<EgressPool>(lua, &kumo, "make_egress_pool", "kumo.make_egress_pool")?;
    makes::<ListenerDomain>(lua, &kumo, "make_listener_domain", "kumo.make_listener_domain")?;
    kumo.set("make_throttle", lua.create_function(LuaThrottle::make)?)?;
    kumo.set("sleep", lua.create_async_function(sleep_seconds)?)?;
    kumo.set("bump_config_epoch", lua.create_function(bump_config_epoch)?)?;
    kumo.set("validation_failed", lua.create_function(validation_failed)?)?;
    kumo.set("dkim", dkim::create(lua)?)?;
    kumo.set("dns", dns::create(lua)?)?;
    kumo.set("xfer", xfer::create(lua)?)?;
    Ok(kumo)
}

/// A function that `init` calls to have something started.
fn starts<T: DeserializeOwned + StartupEntry + 'static>(
    lua: &Lua,
    kumo: &Table,
    name: &str,
    full_name: &'static str,
) -> mlua::Result<()> {
    let function = move |lua: &Lua, options: Value| {
        let entry: T = convert::options(full_name, &options)?;
        let mut host = lua.app_data_mut::<Host>();
        match host.as_mut().and_then(|host| host.startup.as_mut()) {
            Some(startup) => entry.add_to(startup).map_err(|why| mlua::Error::runtime(format!("{full_name}: {why}"))),
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
    let function = move |_: &Lua, options: Value| Ok(ConfigObject(convert::options::<T>(full_name, &options)?));
    kumo.set(name, lua.create_function(function)?)
}

/// Does nothing before the program serves: everything is new then.
fn bump_config_epoch(lua: &Lua, _: ()) -> mlua::Result<()> {
    let program = lua.app_data_ref::<Host>().map(|host| host.program.clone());
    if let Some(program) = program.as_ref().and_then(|program| program.0.get()) {
        program.bump_config_epoch();
    }
    Ok(())
}

fn validation_failed(lua: &Lua, _: ()) -> mlua::Result<()> {
    if let Some(mut host) = lua.app_data_mut::<Host>() {
        host.is_invalid = true;
    }
    Ok(())
}

/// Compares as text with KumoMTA's versions, which scripts may ask for.
const VERSION: &str = "2026.08.04-postrider";
