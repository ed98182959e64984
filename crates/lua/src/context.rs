//! One Lua state with the whole policy loaded: the handlers it registered, ready to call.

use crate::error::LoadError;
use crate::modules;
use crate::signers::Signers;
use config::{SpoolOptions, EsmtpListener, HttpListener, LocalLogs};
use mlua::{Function, Lua, LuaOptions, StdLib};
use policy::{Event, Interest, Startup};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A policy file, read once at start; every state is loaded from the same text.
pub(crate) struct Source {
    pub path: PathBuf,
    pub text: String,
}

/// A loaded state.
pub(crate) struct Context {
    pub lua: Lua,
    pub uses: u32,
    handlers: HashMap<&'static str, Function>,
}

/// What a state's `kumo` functions share with the program; lives in the state's app data.
pub(crate) struct Host {
    pub signers: Arc<Signers>,
    /// What `kumo.on` registered so far, with the place of registration.
    pub registered: HashMap<String, (Function, String)>,
    /// Collects what `init` asks for; `None` outside of `init`.
    pub startup: Option<Startup>,
    /// The event being handled; `kumo.on` is refused while one is.
    pub current_event: Option<&'static str>,
}

impl Context {
    /// Runs the policy file in a fresh state.
    pub fn load(source: &Source, signers: Arc<Signers>) -> Result<Context, LoadError> {
        let fail = |e: mlua::Error| LoadError::Script { path: source.path.clone(), text: e.to_string() };
        let lua = new_state(&source.path, signers).map_err(fail)?;
        lua.load(&source.text).set_name(format!("@{}", source.path.display())).exec().map_err(fail)?;
        let mut handlers = HashMap::new();
        if let Some(host) = lua.app_data_ref::<Host>() {
            let names = Event::ALL.iter().map(|e| e.name()).chain(LIFECYCLE);
            for name in names {
                if let Some((handler, _)) = host.registered.get(name) {
                    handlers.insert(name, handler.clone());
                }
            }
        }
        Ok(Context { lua, uses: 0, handlers })
    }

    /// Which events have a handler.
    pub fn interest(&self) -> Interest {
        let handled = Event::ALL.into_iter().filter(|e| self.handlers.contains_key(e.name()));
        handled.fold(Interest::NONE, Interest::with)
    }

    /// The handler of an event.
    pub fn handler(&self, event: &'static str) -> Option<&Function> {
        self.handlers.get(event)
    }

    /// Marks the event that is being handled, for `kumo.on` and scripts that ask.
    pub fn enter(&self, event: &'static str) -> mlua::Result<()> {
        if let Some(mut host) = self.lua.app_data_mut::<Host>() {
            host.current_event = Some(event);
        }
        self.lua.globals().raw_set("_KUMO_CURRENT_EVENT", event)
    }

    /// Runs `pre_init` and `init`; returns what they asked to be started.
    pub fn run_init(&self, path: &Path) -> Result<Startup, LoadError> {
        let fail = |e: mlua::Error| LoadError::Script { path: path.to_owned(), text: e.to_string() };
        if let Some(mut host) = self.lua.app_data_mut::<Host>() {
            host.startup = Some(Startup::default());
        }
        for event in LIFECYCLE {
            if let Some(handler) = self.handler(event) {
                self.enter(event).map_err(fail)?;
                handler.call::<()>(()).map_err(fail)?;
            }
        }
        let taken = self.lua.app_data_mut::<Host>().and_then(|mut host| host.startup.take());
        Ok(taken.unwrap_or_default())
    }
}

/// One entry of [`Startup`]; lets the `kumo` functions share their code.
pub(crate) trait StartupEntry: Sized {
    fn add_to(self, startup: &mut Startup);
}

impl StartupEntry for SpoolOptions {
    fn add_to(self, startup: &mut Startup) {
        startup.spools.push(self);
    }
}

impl StartupEntry for EsmtpListener {
    fn add_to(self, startup: &mut Startup) {
        startup.esmtp_listeners.push(self);
    }
}

impl StartupEntry for HttpListener {
    fn add_to(self, startup: &mut Startup) {
        startup.http_listeners.push(self);
    }
}

impl StartupEntry for LocalLogs {
    fn add_to(self, startup: &mut Startup) {
        startup.local_logs.push(self);
    }
}

fn new_state(path: &Path, signers: Arc<Signers>) -> mlua::Result<Lua> {
    let lua = Lua::new_with(StdLib::ALL_SAFE, LuaOptions::default())?;
    lua.set_app_data(Host { signers, registered: HashMap::new(), startup: None, current_event: None });
    let package: mlua::Table = lua.globals().get("package")?;
    let search: String = package.get("path")?;
    let beside = path.parent().map(|dir| format!("{0}/?.lua;{0}/?/init.lua;", dir.display())).unwrap_or_default();
    package.set("path", format!("{KUMOMTA_PATHS}{beside}{search}"))?;
    let loaded: mlua::Table = package.get("loaded")?;
    loaded.set("kumo", modules::kumo::create(&lua)?)?;
    Ok(lua)
}

/// Events run once at start, in this order.
const LIFECYCLE: [&str; 2] = ["pre_init", "init"];
/// Where KumoMTA's packages put policy and helpers.
const KUMOMTA_PATHS: &str = "/opt/kumomta/share/?.lua;/opt/kumomta/share/?/init.lua;\
                             /opt/kumomta/etc/policy/?.lua;/opt/kumomta/etc/policy/?/init.lua;";
