//! `kumo.dkim`: signers. Both constructors are one: the algorithm follows the key.

use crate::api::Proof::Test;
use crate::api::{Function, Module, function};
use crate::context::Host;
use crate::convert;
use crate::modules::{secrets, tuning};
use crate::types::signer::LuaSigner;
use config::KeySource;
use mlua::{Lua, Value};
use std::time::Instant;

/// The module.
pub(crate) const DKIM: Module = Module {
    name: "kumo.dkim",
    doc: "Signers of mail. Options are those of `dkim.rsa_sha256_signer`.",
    functions: &[FUNCTIONS, tuning::DKIM_FUNCTIONS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.dkim",
        "rsa_sha256_signer",
        "{options} -> Signer",
        "A signer for `msg:dkim_sign`. The algorithm follows the key, whatever the name of the function. All states share signers with equal options for their `ttl`.",
        Test("testing/e2e/tests/dkim.rs::rsa"),
        |lua: Lua, options: Value| signer(lua, "kumo.dkim.rsa_sha256_signer", options)
    ),
    function!(
        waits
        "kumo.dkim",
        "ed25519_signer",
        "{options} -> Signer",
        "The same.",
        Test("crates/lua/tests/scripts/checks.rs::signatures_are_verified_by_the_keys_of_dns"),
        |lua: Lua, options: Value| signer(lua, "kumo.dkim.ed25519_signer", options)
    ),
];

async fn signer(lua: Lua, constructor: &'static str, options: Value) -> mlua::Result<LuaSigner> {
    let options: config::SignerOptions = convert::options(constructor, &options)?;
    let signers = lua.app_data_ref::<Host>().map(|host| host.signers.clone());
    let signers = signers.ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))?;
    if let Some(signer) = signers.find(&options) {
        return Ok(LuaSigner(signer));
    }
    let begun = Instant::now();
    // A file is read here and now: who waits for it could not be called where a module is loaded.
    let key = match &options.key {
        KeySource::File(path) => std::fs::read(path).map_err(|e| mlua::Error::runtime(format!("{path}: {e}"))),
        other => secrets::load(&lua, other).await,
    };
    let key = key.map_err(of_key)?;
    signers.times().key_fetch.took(begun.elapsed());
    signers.make(&options, &key).map(LuaSigner).map_err(mlua::Error::runtime)
}

fn of_key(error: mlua::Error) -> mlua::Error {
    match error {
        mlua::Error::RuntimeError(text) => mlua::Error::RuntimeError(format!("key: {text}")),
        other => other,
    }
}
