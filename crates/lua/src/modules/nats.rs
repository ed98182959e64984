//! `kumo.nats`: messages to NATS, and to streams of its JetStream. In: options, messages. Out: where a stream put them. What
//! happens on the wire is the brokers crate's.

use crate::api::{Module, Proof::Test, function};
use crate::convert;
use crate::modules::memoize::commons;
use crate::modules::secrets::{certificates, text};
use crate::types::nats::{self, GRACE, LuaNats};
use crate::waiting::wait;
use brokers::{Nats, NatsLogin};
use config::{NatsAuth, NatsOptions};
use mlua::{Lua, Value};

/// The module.
pub(crate) const NATS: Module = Module {
    name: "kumo.nats",
    doc: "Messages to NATS, and to streams of its JetStream. Certificates are verified as for `kumo.http`, unless `certificate` \
          says by whom.",
    functions: &[&[function!(
        waits
        "kumo.nats",
        "connect",
        "{options} -> client",
        "Connects to one of the servers, and waits until that is done. A connection that breaks later is made again by itself; what \
         is published meanwhile waits for it. A client is there to be kept: make it at the top level, not for each message.",
        Test("testing/e2e/tests/nats.rs::scripts_publish_to_streams"),
        connect
    )]],
    types: &[nats::TYPE],
};

async fn connect(lua: Lua, options: Value) -> mlua::Result<LuaNats> {
    let options: NatsOptions = convert::options(CONNECT, &options)?;
    let login = login(&lua, options.auth.as_ref()).await?;
    let certificates = certificates(&lua, &options.certificate, &options.client_cert, &options.client_key).await?;
    let commons = commons(&lua)?;
    let connectors = commons.web.connectors().map_err(mlua::Error::runtime)?;
    let patience = Nats::connect_patience(&options).saturating_add(GRACE);
    let connecting = Nats::connect(&options, login, &certificates, connectors);
    let client = wait(&lua, CONNECT, patience, connecting).await?.map_err(mlua::Error::runtime)?;
    Ok(LuaNats::new(client))
}

async fn login(lua: &Lua, auth: Option<&NatsAuth>) -> mlua::Result<NatsLogin> {
    match auth {
        Some(NatsAuth { username: Some(name), password: Some(password), .. }) => Ok(NatsLogin::User {
            name: text(lua, "auth.username", name).await?,
            password: text(lua, "auth.password", password).await?,
        }),
        Some(NatsAuth { token: Some(token), .. }) => text(lua, "auth.token", token).await.map(NatsLogin::Token),
        _ => Ok(NatsLogin::Nobody),
    }
}

const CONNECT: &str = "kumo.nats.connect";
