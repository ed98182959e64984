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
use config::{EgressPath, EgressSource, EsmtpListener, EventStream, HttpListener, KeySource};
use mlua::{Lua, LuaString, MultiValue, Value};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
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

impl HasKeys for EventStream {
    fn keys(&mut self) -> impl Iterator<Item = &mut KeySource> {
        self.secret.iter_mut()
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
/// What has to be waited for holds the thread: paths are made often, so what Vault said is kept for a minute, and for longer while
/// Vault does not answer. Under `--validate` Vault need not be there.
pub(crate) fn fetch<T: HasKeys>(lua: &Lua, mut options: T) -> mlua::Result<T> {
    if !options.keys().any(|key| is_elsewhere(key)) {
        return Ok(options);
    }
    let could_wait = lua.app_data_mut::<Host>().is_some_and(|mut host| std::mem::take(&mut host.may_wait));
    let fetched = options.keys().filter(|key| is_elsewhere(key)).try_for_each(|key| fetch_one(lua, key));
    if let Some(mut host) = lua.app_data_mut::<Host>() {
        host.may_wait = could_wait;
    }
    fetched.map(|()| options)
}

fn is_elsewhere(key: &KeySource) -> bool {
    matches!(key, KeySource::Vault { .. } | KeySource::Event { .. })
}

fn fetch_one(lua: &Lua, key: &mut KeySource) -> mlua::Result<()> {
    let fetched = &commons(lua)?.fetched;
    // One asks again, and the others take what there is meanwhile; so they do for a minute where that fails.
    if let Some(octets) = fetched.fresh_or_mine(key) {
        *key = KeySource::Data(octets);
        return Ok(());
    }
    let last = fetched.last(key);
    let loaded = match pin!(load(lua, key)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(loaded) => loaded,
        Poll::Pending => Err(mlua::Error::runtime(format!("{key:?} cannot be waited for here"))),
    };
    match (loaded, last) {
        (Ok(octets), _) => {
            fetched.keep(key, &octets);
            *key = KeySource::Data(octets);
        }
        (Err(error), Some(octets)) => {
            tracing::warn!(target: "lua", "{key:?}: {error}: it stays what it was");
            *key = KeySource::Data(octets);
        }
        (Err(error), None) => {
            let validates = lua.globals().raw_get::<Option<bool>>("_VALIDATING_CONFIG")?.unwrap_or_default();
            if !validates || matches!(key, KeySource::Event { .. }) {
                return Err(error);
            }
            tracing::warn!(target: "lua", "{key:?}: {error}");
        }
    }
    Ok(())
}

/// What Vault said last, by what it was asked. Events say it themselves.
#[derive(Default)]
pub(crate) struct Fetched(Mutex<HashMap<String, (Instant, Vec<u8>)>>);

impl Fetched {
    /// What is good still; else nothing, and it counts as good from now on for everybody else.
    fn fresh_or_mine(&self, key: &KeySource) -> Option<Vec<u8>> {
        let mut kept = self.kept();
        let (at, octets) = kept.get_mut(&Self::name(key)?)?;
        if at.elapsed() < FETCHED_FRESH {
            return Some(octets.clone());
        }
        *at = Instant::now();
        None
    }

    fn last(&self, key: &KeySource) -> Option<Vec<u8>> {
        self.kept().get(&Self::name(key)?).map(|(_, octets)| octets.clone())
    }

    fn keep(&self, key: &KeySource, octets: &[u8]) {
        let Some(name) = Self::name(key) else { return };
        let mut kept = self.kept();
        if kept.len() < FETCHED_MAX || kept.contains_key(&name) {
            kept.insert(name, (Instant::now(), octets.to_vec()));
        }
    }

    /// The token is part of it: who may not read it is not told.
    fn name(key: &KeySource) -> Option<String> {
        matches!(key, KeySource::Vault { .. }).then(|| serde_json::to_string(key).ok()).flatten()
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, (Instant, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_environment(given: &Option<String>, field: &str, variable: &str) -> mlua::Result<String> {
    let missing = || mlua::Error::runtime(format!("{field}: absent, and so is the environment's {variable}"));
    given.clone().or_else(|| std::env::var(variable).ok()).ok_or_else(missing)
}

/// How long what Vault said is taken for what it says.
const FETCHED_FRESH: Duration = Duration::from_secs(60);
/// Secrets that are remembered.
const FETCHED_MAX: usize = 1024;
/// How long Vault is waited for.
const VAULT_TIMEOUT: Duration = Duration::from_secs(65);
