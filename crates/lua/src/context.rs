//! One Lua state with the whole policy loaded: the handlers it registered, ready to call.
//!
//! In: the policy's text. Out: handlers by event, and what `init` asked for. Fails with the
//! script's error and traceback. Deliberately ignorant of what events mean.

use crate::commons::Commons;
use crate::compiled::Compiled;
use crate::disposition::DISPOSITION;
use crate::error::LoadError;
use crate::globals::{Own, notice_new};
use crate::guard::{self, Budget};
use crate::lua_policy::Shared;
use crate::memos::Memos;
use crate::names::Names;
use crate::pool::Limits;
use crate::registry::Registry;
use crate::required::Required;
use crate::signers::Signers;
use crate::state;
use crate::state_counts::Alive;
use crate::waiting::Waits;
use config::{DnsSettings, MemoryLimits};
use mlua::{Function, Lua, LuaString, Table};
use policy::{Event, Interest, Observer, Program, Startup};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use throttle::Throttles;

/// A policy file, read at start and when a configuration epoch begins; states are loaded from the same bytes until then.
pub(crate) struct Source {
    /// Whose policy it is.
    pub daemon: Daemon,
    pub path: PathBuf,
    pub text: Vec<u8>,
    /// What became of that.
    pub code: Compiled,
    /// What it required.
    pub required: Arc<Required>,
    pub budget: Budget,
    /// How often the file was read before.
    pub epoch: u64,
    /// What system and environment say of memory.
    pub memory: MemoryLimits,
    /// The program that the policy serves in.
    pub program: Arc<Surroundings>,
}

/// The program that a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// The mail server.
    Kumod,
    /// The traffic shaping daemon.
    Tsa,
}

/// The program, from the moment on at which it serves.
#[derive(Default)]
pub(crate) struct Surroundings {
    pub program: OnceLock<Box<dyn Program>>,
    /// Who counts events there.
    pub observer: OnceLock<Arc<dyn Observer>>,
}

/// A loaded state.
pub(crate) struct Context {
    pub lua: Lua,
    /// Events served.
    pub uses: u32,
    pub loaded_at: Instant,
    /// Of the pool, when it was loaded.
    pub generation: u64,
    /// The event that it was taken out of the pool for, and when.
    pub begun: Option<(Event, Instant)>,
    globals: Table,
    /// What the script left in them.
    own: Own,
    _alive: Alive,
    /// Indexed by [`Event`].
    handlers: Box<[Handlers]>,
}

/// The handlers of one event, with its name as a Lua string made once.
struct Handlers {
    name: LuaString,
    functions: Vec<Function>,
}

/// What a state's `kumo` functions share with the program; lives in the state's app data.
pub(crate) struct Host {
    pub signers: Arc<Signers>,
    /// Throttles of all states.
    pub throttles: Arc<Throttles>,
    /// Who is asked for names.
    pub names: Arc<Names>,
    /// What scripts share across states.
    pub commons: Arc<Commons>,
    /// Results that are kept for all states.
    pub memos: Arc<Memos>,
    /// Whose handlers have waited.
    pub waits: Arc<Waits>,
    /// Of the source it was loaded from.
    pub epoch: u64,
    /// The event of the `Policy` trait that is being handled.
    pub event: Option<Event>,
    /// True while the running handler may wait without holding its thread: it was called asynchronously.
    pub may_wait: bool,
    /// The program that the policy serves in.
    pub program: Arc<Surroundings>,
    /// What `kumo.on` registered so far.
    pub registry: Registry,
    /// Collects what `init` asks for; `None` outside of `init`.
    pub startup: Option<Startup>,
    /// The event being handled; `kumo.on` is refused while one is.
    pub current_event: Option<&'static str>,
    /// What the script says about the pool of states.
    pub limits: Limits,
    /// What system and environment say of memory.
    pub memory_found: MemoryLimits,
    /// What the script says of memory.
    pub memory: MemoryLimits,
    /// What the script says of DNS.
    pub dns: DnsSettings,
    /// Whose changes begin a configuration epoch, where the script says so.
    pub globs: Option<Vec<String>>,
    /// What of the diagnostic log is to be written, where the script says so.
    pub diagnostic_filter: Option<String>,
    /// Octets of messages made since the last collection.
    pub made_octets: usize,
    /// Functions that were called and have nothing to do here, and why not.
    pub idle: BTreeMap<&'static str, &'static str>,
    /// Sentences about options that contradict one another, under `--validate` alone; no more than [`CONTRADICTIONS_MAX`].
    pub contradictions: Option<BTreeSet<String>>,
    /// What the script said to `kumo.validation_failed`, once it called that; at most [`REASONS_MAX`].
    pub invalid: Option<Vec<String>>,
    /// Lua's own `next`, whatever the script does to the global.
    pub next: Function,
}

impl Host {
    /// Nothing registered, nothing asked for.
    pub fn new(shared: &Shared, source: &Source, next: Function) -> Host {
        let registry = Registry::default();
        Host {
            signers: shared.signers.clone(),
            throttles: shared.throttles.clone(),
            names: shared.names.clone(),
            commons: shared.commons.clone(),
            memos: shared.memos.clone(),
            waits: shared.waits.clone(),
            epoch: source.epoch,
            event: None,
            may_wait: false,
            program: source.program.clone(),
            registry,
            startup: None,
            current_event: None,
            limits: Limits::default(),
            memory_found: source.memory,
            memory: MemoryLimits::default(),
            dns: DnsSettings::default(),
            globs: None,
            diagnostic_filter: None,
            made_octets: 0,
            idle: BTreeMap::new(),
            contradictions: None,
            invalid: None,
            next,
        }
    }

    /// Keeps what options say against each other, where somebody wants to know.
    pub fn note_contradictions(&mut self, function: &str, found: Vec<String>) {
        if let Some(known) = &mut self.contradictions {
            let room = CONTRADICTIONS_MAX.saturating_sub(known.len());
            known.extend(found.into_iter().map(|what| format!("{function}: {what}")).take(room));
        }
    }
}

/// Whether the policy is loaded to serve or only to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Serve,
    Validate,
    /// For `main` alone.
    Script,
}

impl Context {
    /// Runs the policy file in a fresh state.
    pub fn load(source: &Source, shared: &Shared, purpose: Purpose) -> Result<Context, LoadError> {
        Context::run(source, shared, purpose).map_err(|e| LoadError::script(&source.path, &e))
    }

    fn run(source: &Source, shared: &Shared, purpose: Purpose) -> mlua::Result<Context> {
        let lua = state::new(source, shared)?;
        let _alive = shared.commons.states.one();
        let globals = lua.globals();
        if purpose == Purpose::Validate {
            globals.set("_VALIDATING_CONFIG", true)?;
            if let Some(mut host) = lua.app_data_mut::<Host>() {
                host.contradictions = Some(BTreeSet::new());
            }
        }
        source.code.function(&lua, &format!("@{}", source.path.display()), &source.text)?.call::<()>(())?;
        let own = Own::of(&globals)?;
        notice_new(&lua, &globals)?;
        let mut handlers = Vec::with_capacity(Event::ALL.len());
        for event in Event::ALL {
            let functions = registered(&lua, event.name());
            handlers.push(Handlers { name: lua.create_string(event.name())?, functions });
        }
        let handlers = handlers.into_boxed_slice();
        Ok(Context {
            lua,
            uses: 0,
            loaded_at: Instant::now(),
            generation: 0,
            begun: None,
            globals,
            own,
            _alive,
            handlers,
        })
    }

    /// A state without a policy, and without what policies are written with.
    #[cfg(test)]
    pub fn bare() -> Context {
        let lua = Lua::new();
        let globals = lua.globals();
        let own = Own::of(&globals).expect("memory");
        let _alive = Arc::new(crate::state_counts::StateCount::default()).one();
        let (loaded_at, handlers) = (Instant::now(), Box::default());
        Context { lua, uses: 0, loaded_at, generation: 0, begun: None, globals, own, _alive, handlers }
    }

    /// Which events have a handler.
    pub fn interest(&self) -> Interest {
        let handled = Event::ALL.into_iter().filter(|e| !self.handlers(*e).is_empty());
        handled.fold(Interest::NONE, Interest::with)
    }

    /// The handlers of an event, in the order of their registration.
    pub fn handlers(&self, event: Event) -> &[Function] {
        &self.handlers[event as usize].functions
    }

    /// Marks the event that is being handled, for `kumo.on` and scripts that ask, and whether its handlers may wait.
    pub fn enter(&self, event: Event, may_wait: bool) -> mlua::Result<()> {
        guard::enter(&self.lua);
        self.with_host(|host| (host.may_wait, host.event) = (may_wait, Some(event)));
        if self.changes_event(event.name()) {
            self.globals.raw_set(CURRENT_EVENT, &self.handlers[event as usize].name)?;
        }
        Ok(())
    }

    /// Marks an event of the script's own naming, whose handlers may wait, and returns them; errors call it `kind`.
    pub fn enter_named(&self, name: &str, kind: &'static str) -> mlua::Result<Vec<Function>> {
        self.go_on_waiting();
        self.changes_event(kind);
        self.globals.raw_set(CURRENT_EVENT, name)?;
        Ok(registered(&self.lua, name))
    }

    /// An event was served: its handlers may have written what is no handler's to write.
    pub fn look_at_globals(&self) {
        if !(self.uses + 1).is_power_of_two() {
            return;
        }
        let event = self.with_host(|host| host.current_event).flatten().unwrap_or("a handler");
        if let Err(error) = self.own.compare(&self.lua, &self.globals, event) {
            tracing::error!("globals of a policy: {error}");
        }
    }

    /// The same event is served once more.
    pub fn go_on(&mut self) {
        self.uses = self.uses.saturating_add(1);
        self.go_on_waiting();
    }

    fn go_on_waiting(&self) {
        guard::enter(&self.lua);
        self.with_host(|host| (host.may_wait, host.event) = (true, None));
    }

    /// Runs `pre_init` and `init`, and `validate_config` when judged; returns what they asked
    /// to be started.
    pub fn run_init(&self, source: &Source, purpose: Purpose) -> Result<Startup, LoadError> {
        let fail = |e: mlua::Error| LoadError::script(&source.path, &e);
        self.with_host(|host| host.startup = Some(Startup::default()));
        let events: &[&'static str] = match purpose {
            _ if source.daemon == Daemon::Tsa => &["pre_init", "tsa_init"],
            Purpose::Script => &[],
            Purpose::Serve => &["pre_init", "init"],
            Purpose::Validate => &["pre_init", "init", "validate_config"],
        };
        for event in events {
            for handler in registered(&self.lua, event) {
                guard::restart(&self.lua);
                self.changes_event(event);
                self.globals.raw_set(CURRENT_EVENT, *event).map_err(fail)?;
                handler.call::<()>(()).map_err(fail)?;
            }
        }
        if let Some(why) = self.with_host(|host| host.invalid.take()).flatten() {
            return Err(LoadError::Invalid { path: source.path.clone(), why });
        }
        let complete = |host: &mut Host| {
            let (memory, dns, config_monitor_globs) = (host.memory, host.dns.clone(), host.globs.clone());
            let diagnostic_filter = host.diagnostic_filter.clone();
            let complete = |startup| Startup { memory, dns, config_monitor_globs, diagnostic_filter, ..startup };
            host.startup.take().map(complete)
        };
        let startup = self.with_host(complete);
        Ok(startup.flatten().unwrap_or_default())
    }

    /// What the script says about the pool of states.
    pub fn limits(&self) -> Limits {
        self.with_host(|host| host.limits).unwrap_or_default()
    }

    /// What should be said about its registrations, and about hooks that nobody answers.
    pub fn warnings(&self, startup: &Startup) -> Vec<String> {
        let mut lines = self.with_host(|host| host.registry.warnings()).unwrap_or_default();
        let events = startup.log_disposition_hooks.iter().map(|hook| format!("{DISPOSITION}{}", hook.name));
        let unheard = events.filter(|event| registered(&self.lua, event).is_empty());
        let tasks = startup.tasks.iter().filter(|task| registered(&self.lua, &task.event_name).is_empty());
        if !startup.log_hooks.is_empty() && self.handlers(Event::ShouldEnqueueLogRecord).is_empty() {
            let event = Event::ShouldEnqueueLogRecord.name();
            lines.push(format!("kumo.configure_log_hook: no handler of {event}, so nothing comes of it"));
        }
        let filters = startup.local_logs.iter().filter_map(|logs| logs.filter_event.as_ref());
        let unfiltered = filters.filter(|event| registered(&self.lua, event).is_empty());
        lines.extend(unfiltered.map(|event| {
            format!(
                "kumo.configure_local_logs: no handler of the filter_event {event}, so nothing about messages is logged"
            )
        }));
        lines.extend(self.of_listeners(startup));
        let idle = self.with_host(|host| host.idle.clone()).unwrap_or_default();
        lines.extend(idle.iter().map(|(function, why)| format!("{function} has no effect: {why}")));
        lines.extend(self.with_host(|host| host.contradictions.clone()).flatten().unwrap_or_default());
        lines.extend(tasks.map(|task| format!("kumo.spawn_task: no handler of {}", task.event_name)));
        lines.extend(unheard.map(|event| format!("kumo.configure_log_disposition_hook: no handler of {event}")));
        lines
    }

    /// Listeners that need a handler there is not, and a handler that needs a listener.
    fn of_listeners(&self, startup: &Startup) -> Vec<String> {
        let has = |event: Event| !self.handlers(event).is_empty();
        let name = Event::MessageDeferredInject.name();
        let mut lines = Vec::new();
        for listener in &startup.esmtp_listeners {
            let (params, blocks) = (&listener.params, !listener.peer.is_empty() || !listener.via.is_empty());
            let mut say = |what: String| lines.push(format!("kumo.start_esmtp_listener {}: {what}", listener.listen));
            if params.deferred_queue && !has(Event::MessageDeferredInject) {
                say(format!("deferred_queue, and no handler of {name}: messages go on as they came"));
            }
            let asks = [Event::ListenerDomain, Event::DynamicParameters].map(has);
            if params.relay_hosts.blocks().is_empty() && !blocks && asks == [false, false] {
                let event = Event::ListenerDomain.name();
                say(format!("relay_hosts is empty, and no handler of {event}: nobody may send anything"));
            }
        }
        let deferred = startup
            .esmtp_listeners
            .iter()
            .any(|listener| listener.params.deferred_queue || !listener.peer.is_empty() || !listener.via.is_empty());
        let listens = !startup.esmtp_listeners.is_empty();
        if has(Event::MessageDeferredInject) && listens && !deferred && !has(Event::DynamicParameters) {
            lines.push(format!("{name} is never called: no listener has deferred_queue"));
        }
        lines
    }

    /// Notes the event; true when it is another than before.
    fn changes_event(&self, event: &'static str) -> bool {
        self.with_host(|host| host.current_event.replace(event) != Some(event)).unwrap_or(true)
    }

    fn with_host<T>(&self, look: impl FnOnce(&mut Host) -> T) -> Option<T> {
        self.lua.app_data_mut::<Host>().map(|mut host| look(&mut host))
    }
}

fn registered(lua: &Lua, event: &str) -> Vec<Function> {
    lua.app_data_ref::<Host>().map(|host| host.registry.handlers(event)).unwrap_or_default()
}

/// Sentences about options that are kept for `--validate`.
const CONTRADICTIONS_MAX: usize = 100;
/// Reasons of a policy against itself that are kept.
pub(crate) const REASONS_MAX: usize = 100;
/// The global by which KumoMTA's helpers learn which event runs.
const CURRENT_EVENT: &str = "_KUMO_CURRENT_EVENT";
