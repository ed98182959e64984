//! `kumo.secrets`: what a KeySource leads to.
//!
//! In: a KeySource. Out: its octets. Fails with the file or the event it names, never with what is in there.

use crate::api::{Module, Proof::Example, function};
use crate::context::Host;
use crate::convert;
use crate::files;
use crate::modules::memoize::commons;
use crate::waiting::wait;
use brokers::Certificates;
use config::{EgressPath, EgressSource, EsmtpListener, HttpListener, KeySource};
use mlua::{Lua, LuaString, MultiValue, Value};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use web::vault::{self, Secret};

/// The module.
pub(crate) const SECRETS: Module = Module {
    name: "kumo.secrets",
    doc: "Passwords and keys from where they are kept.",
    functions: &[&[function!(
        waits
        "kumo.secrets",
        "load",
        "(KeySource) -> string",
        "The secret: the content of a file, of `key_data`, of a secret in HashiCorp Vault, or what the handler of an event returns.",
        Example(
            "local f = io.open(folder .. '/secret', 'w') f:write('s3cret') f:close() \
             assert(kumo.secrets.load(folder .. '/secret') == 's3cret' and kumo.secrets.load { key_data = 'x' } == 'x') \
             assert(not pcall(kumo.secrets.load, folder .. '/none'))"
        ),
        |lua: Lua, source: Value| async move {
            let octets = key_octets(&lua, &source).await?;
            lua.create_string(octets)
        }
    )]],
    types: &[],
};

/// The octets behind a KeySource as a script wrote it.
pub(crate) async fn key_octets(lua: &Lua, source: &Value) -> mlua::Result<Vec<u8>> {
    let source: KeySource = convert::options("KeySource", source)?;
    load(lua, &source).await
}

/// The octets behind a KeySource.
pub(crate) async fn load(lua: &Lua, source: &KeySource) -> mlua::Result<Vec<u8>> {
    match source {
        KeySource::File(path) => files::read(lua, path).await,
        KeySource::Data(octets) => Ok(octets.clone()),
        KeySource::Event { name, args } => {
            let handlers = lua.app_data_ref::<Host>().map(|host| host.registry.handlers(name)).unwrap_or_default();
            let handler = handlers.into_iter().next();
            let handler =
                handler.ok_or_else(|| mlua::Error::runtime(format!("event {name} has not been registered")))?;
            let args = args.iter().map(|arg| convert::to_lua(lua, arg)).collect::<mlua::Result<MultiValue>>()?;
            let secret: LuaString = handler.call_async(args).await?;
            Ok(secret.as_bytes().to_vec())
        }
        KeySource::Vault { address, token, mount, path, key } => {
            let address = of_environment(address, "vault_address", "VAULT_ADDR")?;
            let token = of_environment(token, "vault_token", "VAULT_TOKEN")?;
            let client = commons(lua)?.web.secrets().map_err(mlua::Error::runtime)?;
            let secret = Secret { address: &address, token: &token, mount, path, key };
            let asked = wait(lua, "Vault", VAULT_TIMEOUT, vault::read(&client, &secret));
            asked.await?.map_err(mlua::Error::runtime)
        }
    }
}

/// The text behind a KeySource, without the end of its line; `field` is the option it was given for.
pub(crate) async fn text(lua: &Lua, field: &str, source: &KeySource) -> mlua::Result<String> {
    let octets = load(lua, source).await?;
    let text = String::from_utf8(octets).map_err(|_| mlua::Error::runtime(format!("{field}: expected text")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// What a script says of TLS with a broker: who may vouch for the server, who we are.
pub(crate) async fn certificates(
    lua: &Lua,
    roots: &Option<KeySource>,
    certificate: &Option<KeySource>,
    key: &Option<KeySource>,
) -> mlua::Result<Certificates> {
    let mut certificates = Certificates::default();
    if let Some(roots) = roots {
        certificates.roots = Some(load(lua, roots).await?);
    }
    if let (Some(certificate), Some(key)) = (certificate, key) {
        certificates.identity = Some((load(lua, certificate).await?, load(lua, key).await?));
    }
    Ok(certificates)
}

/// Options among which there are keys or passwords.
pub(crate) trait HasKeys {
    /// Those that are given.
    fn keys(&mut self) -> impl Iterator<Item = &mut KeySource>;
}

impl HasKeys for EgressPath {
    fn keys(&mut self) -> impl Iterator<Item = &mut KeySource> {
        [&mut self.tls_certificate, &mut self.tls_private_key, &mut self.smtp_auth_plain_password].into_iter().flatten()
    }
}

impl HasKeys for EgressSource {
    fn keys(&mut self) -> impl Iterator<Item = &mut KeySource> {
        self.socks5_proxy_password.iter_mut()
    }
}

impl HasKeys for HttpListener {
    fn keys(&mut self) -> impl Iterator<Item = &mut KeySource> {
        [&mut self.tls_certificate, &mut self.tls_private_key].into_iter().flatten()
    }
}

impl HasKeys for EsmtpListener {
    fn keys(&mut self) -> impl Iterator<Item = &mut KeySource> {
        let params = &mut self.params;
        [&mut params.tls_certificate, &mut params.tls_private_key, &mut params.tls_required_client_ca]
            .into_iter()
            .flatten()
    }
}

/// Puts keys that are in Vault or come from an event in their places. Files are read by those who use them, when they do.
/// What has to be waited for holds the thread: it is rare.
pub(crate) fn fetch<T: HasKeys>(lua: &Lua, mut options: T) -> mlua::Result<T> {
    let is_elsewhere = |key: &KeySource| matches!(key, KeySource::Vault { .. } | KeySource::Event { .. });
    if !options.keys().any(|key| is_elsewhere(key)) {
        return Ok(options);
    }
    let could_wait = lua.app_data_mut::<Host>().is_some_and(|mut host| std::mem::take(&mut host.may_wait));
    for key in options.keys().filter(|key| is_elsewhere(key)) {
        let octets = pin!(load(lua, key)).poll(&mut Context::from_waker(Waker::noop()));
        *key = match octets {
            Poll::Ready(octets) => KeySource::Data(octets?),
            Poll::Pending => return Err(mlua::Error::runtime(format!("{key:?} cannot be waited for here"))),
        };
    }
    if let Some(mut host) = lua.app_data_mut::<Host>() {
        host.may_wait = could_wait;
    }
    Ok(options)
}

fn of_environment(given: &Option<String>, field: &str, variable: &str) -> mlua::Result<String> {
    let missing = || mlua::Error::runtime(format!("{field}: absent, and so is the environment's {variable}"));
    given.clone().or_else(|| std::env::var(variable).ok()).ok_or_else(missing)
}

/// How long Vault is waited for.
const VAULT_TIMEOUT: Duration = Duration::from_secs(65);
