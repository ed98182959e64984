//! `kumo.dkim`: signers. Both constructors are one: the algorithm follows the key.

use crate::context::Host;
use crate::convert;
use crate::modules::tuning;
use crate::types::signer::LuaSigner;
use mlua::{Lua, Table, Value};

/// The module table.
pub(crate) fn create(lua: &Lua) -> mlua::Result<Table> {
    let dkim = lua.create_table()?;
    dkim.set("rsa_sha256_signer", lua.create_function(|lua, v| signer(lua, "kumo.dkim.rsa_sha256_signer", &v))?)?;
    dkim.set("ed25519_signer", lua.create_function(|lua, v| signer(lua, "kumo.dkim.ed25519_signer", &v))?)?;
    tuning::add_to_dkim(lua, &dkim)?;
    Ok(dkim)
}

fn signer(lua: &Lua, constructor: &'static str, options: &Value) -> mlua::Result<LuaSigner> {
    let params: config::SignerOptions = convert::options(constructor, options)?;
    let signers = lua.app_data_ref::<Host>().map(|host| host.signers.clone());
    let signers =
        signers.ok_or_else(|| mlua::Error::runtime(format!("{constructor}: this state belongs to no policy")))?;
    let signer = signers.get(&params).map_err(|e| mlua::Error::runtime(format!("{constructor}: {e}")))?;
    Ok(LuaSigner(signer))
}
