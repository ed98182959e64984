//! A policy script, loaded: the way from an event to its handlers and back.
//!
//! Owns the source and the pool of states. In: an event with its arguments; out: what the
//! handler returned, as a Rust value. Each call checks a state out, calls the handlers, and
//! returns the state unless something failed: after a script error nobody knows what the
//! script's variables hold. A rejection is no failure but an answer, and its state stays:
//! a policy that refuses most of its recipients must not load itself anew for each.

use crate::acls::Acls;
use crate::commons::Commons;
use crate::compiled::Compiled;
use crate::context::{Context, Daemon, Purpose, Source, Surroundings};
use crate::courier::COURIER_STATES_MAX;
use crate::error::{LoadError, to_policy_error};
use crate::extras::Helpers;
use crate::guard::{self, Budget};
use crate::memos::Memos;
use crate::names::Names;
use crate::pool::Pool;
use crate::signers::Signers;
use crate::types::config_object::ConfigObject;
use crate::types::message::LuaMessage;
use crate::waiting::{Waits, bounded};
use config::MemoryLimits;
use message::Draft;
use mlua::{AnyUserData, FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Value};
use policy::{Check, Event, Interests, PolicyCounts, PolicyError, Program, Startup, StateCounts};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use throttle::Throttles;
use tokio::sync::Semaphore;

/// A loaded policy script.
pub struct LuaPolicy {
    source: Mutex<Arc<Source>>,
    program: Arc<Surroundings>,
    pub(crate) shared: Shared,
    pub(crate) pool: Arc<Pool>,
    /// Who may hold a state for a session.
    pub(crate) courier_states: Arc<Semaphore>,
    pub(crate) interest: Interests,
}

/// What all states of a policy have in common.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub signers: Arc<Signers>,
    pub throttles: Arc<Throttles>,
    pub names: Arc<Names>,
    pub commons: Arc<Commons>,
    /// Of `kumo.memoize`. A policy that is tried out has others: what it reads from files does not count yet.
    pub memos: Arc<Memos>,
    pub waits: Arc<Waits>,
    pub helpers: Arc<Helpers>,
    pub acls: Arc<Acls>,
}

impl LuaPolicy {
    /// Reads and runs a policy file, `pre_init` and `init` included. Warns of handlers that
    /// will never be called.
    ///
    /// # Errors
    /// The file cannot be read, or the script fails.
    pub fn load(path: &Path) -> Result<(LuaPolicy, Startup), LoadError> {
        LuaPolicy::load_on(path, MemoryLimits::default())
    }

    /// As [`LuaPolicy::load`], on a system whose memory is limited so: what `kumo.get_memory_*` tell
    /// when the script sets nothing else.
    ///
    /// # Errors
    /// As [`LuaPolicy::load`].
    pub fn load_on(path: &Path, memory: MemoryLimits) -> Result<(LuaPolicy, Startup), LoadError> {
        LuaPolicy::load_for(path, Daemon::Kumod, Purpose::Serve, Budget::default(), memory)
    }

    /// As [`LuaPolicy::load_on`], for the traffic shaping daemon: `tsa_init` in place of `init`, and the module `tsa`.
    ///
    /// # Errors
    /// As [`LuaPolicy::load`].
    pub fn load_tsa(path: &Path, memory: MemoryLimits) -> Result<(LuaPolicy, Startup), LoadError> {
        LuaPolicy::load_for(path, Daemon::Tsa, Purpose::Serve, Budget::default(), memory)
    }

    /// As [`LuaPolicy::load`], with other limits of how much its top level and its handlers may run: so many million
    /// instructions.
    ///
    /// # Errors
    /// As [`LuaPolicy::load`].
    pub fn load_with_budget(path: &Path, millions: u64) -> Result<(LuaPolicy, Startup), LoadError> {
        let budget = Budget { start: millions, handler: millions };
        LuaPolicy::load_for(path, Daemon::Kumod, Purpose::Serve, budget, MemoryLimits::default())
    }

    /// Reads and runs a policy file as a command: no `init`, and nothing is to be started. See [`LuaPolicy::run_main`].
    ///
    /// # Errors
    /// As [`LuaPolicy::load`].
    pub fn load_script(path: &Path, memory: MemoryLimits) -> Result<LuaPolicy, LoadError> {
        LuaPolicy::load_for(path, Daemon::Kumod, Purpose::Script, Budget::default(), memory).map(|(policy, _)| policy)
    }

    /// Runs a policy file to see whether it is sound: `pre_init`, `init` and the
    /// `validate_config` handlers, with the global `_VALIDATING_CONFIG` set (KumoMTA's
    /// `--validate`). Also what should be said about its handlers.
    ///
    /// # Errors
    /// As [`LuaPolicy::load`]; [`LoadError::Invalid`] when a handler called
    /// `kumo.validation_failed`.
    pub fn validate(path: &Path) -> Result<(Startup, Vec<String>), LoadError> {
        LuaPolicy::validate_on(path, MemoryLimits::default())
    }

    /// As [`LuaPolicy::validate`], on a system whose memory is limited so.
    ///
    /// # Errors
    /// As [`LuaPolicy::validate`].
    pub fn validate_on(path: &Path, memory: MemoryLimits) -> Result<(Startup, Vec<String>), LoadError> {
        let daemon = Daemon::Kumod;
        let (policy, startup) = LuaPolicy::load_for(path, daemon, Purpose::Validate, Budget::default(), memory)?;
        let warnings = policy.state_for_session()?.warnings(&startup);
        Ok((startup, warnings))
    }

    fn load_for(
        path: &Path,
        daemon: Daemon,
        purpose: Purpose,
        budget: Budget,
        memory: MemoryLimits,
    ) -> Result<(LuaPolicy, Startup), LoadError> {
        let text = std::fs::read(path).map_err(|cause| LoadError::Read { path: path.to_owned(), cause })?;
        let program = Arc::new(Surroundings::default());
        let path = path.to_owned();
        let (code, required) = (Compiled::default(), Arc::default());
        let program_of = program.clone();
        let source = Source { daemon, path, text, code, required, budget, epoch: 0, memory, program: program_of };
        let shared = Shared::default();
        let context = Context::load(&source, &shared, purpose)?;
        let startup = context.run_init(&source, purpose)?;
        shared.acls.begin(startup.acls.clone());
        context.warnings(&startup).iter().for_each(|line| tracing::warn!(target: "lua", "{line}"));
        let pool = Arc::new(Pool::new(context.limits()));
        let courier_states = Arc::new(Semaphore::new(COURIER_STATES_MAX));
        let source = Mutex::new(Arc::new(source));
        let policy =
            LuaPolicy { interest: Interests::new(context.interest()), source, program, shared, pool, courier_states };
        policy.pool.put_back(context);
        Ok((policy, startup))
    }

    /// Loads the policy once more, as the process stands now: after privileges were dropped
    /// this shows whether the files it needs can still be read.
    ///
    /// # Errors
    /// As [`LuaPolicy::load`].
    pub fn check(&self) -> Result<(), LoadError> {
        while self.pool.take_spare().is_some() {}
        self.source().required.forget();
        self.pool.put_back(self.fresh()?);
        Ok(())
    }

    /// The throttles its scripts make, for who shares them with other nodes.
    pub fn throttles(&self) -> Arc<Throttles> {
        self.shared.throttles.clone()
    }

    /// The resolvers its scripts ask, for who makes them.
    pub fn names(&self) -> Arc<Names> {
        self.shared.names.clone()
    }

    /// What is counted of it.
    pub(crate) fn counted(&self) -> PolicyCounts {
        let Shared { commons, memos, signers, throttles, .. } = &self.shared;
        let [alive, loaded] = commons.states.so_far();
        let redis = [("throttles", throttles.question_times()), ("scripts", commons.redis.question_times())];
        let redis = redis.into_iter().filter_map(|(who, times)| Some((who, times?))).flat_map(|(who, [good, bad])| {
            [([who, "ok"], good), ([who, "error"], bad)].into_iter().filter(|(_, times)| times.count() > 0)
        });
        PolicyCounts {
            states: Some(StateCounts { alive, spare: self.pool.len() as u64, loaded }),
            memos: memos.counts(),
            signers: signers.counts(),
            signing: signers.times().so_far(),
            redis: redis.collect(),
        }
    }

    /// Calls the handlers of `event` until one returns something; `result` reads it.
    pub(crate) async fn call<A: IntoLuaMulti + Clone + Send, R>(
        &self,
        event: Event,
        arguments: impl FnOnce(&Lua) -> mlua::Result<A> + Send,
        result: impl FnOnce(&Lua, Value) -> mlua::Result<R> + Send,
    ) -> Result<R, PolicyError> {
        let context = self.check_out(event)?;
        let answer = call_in(&context, event, self.may_wait(event), arguments, result).await;
        self.put_back(context, &answer);
        answer
    }

    /// Calls the handler of an event that may have one only, for two values that it returns.
    pub(crate) async fn call_for_two<A: IntoLuaMulti + Send, R>(
        &self,
        event: Event,
        arguments: A,
        result: impl FnOnce(&Lua, Value, Value) -> mlua::Result<R> + Send,
    ) -> Result<R, PolicyError> {
        let context = self.check_out(event)?;
        let may_wait = self.may_wait(event);
        let run = async {
            context.enter(event, may_wait)?;
            let handler = context.handlers(event).last().ok_or_else(handler_gone)?;
            let (first, second) = call_one(&context, handler, may_wait, arguments).await?;
            result(&context.lua, first, second)
        };
        let answer = bounded(run).await.map_err(|e: mlua::Error| to_policy_error(event.name(), &e));
        self.put_back(context, &answer);
        answer
    }

    /// Calls a handler whose return value does not matter.
    pub(crate) async fn notify<A: IntoLuaMulti + Clone + Send>(
        &self,
        event: Event,
        arguments: A,
    ) -> Result<(), PolicyError> {
        if !self.interest.has(event) {
            return Ok(());
        }
        self.call(event, |_| Ok(arguments), |_, _| Ok(())).await
    }

    /// Lends a draft to a handler, with further arguments, and takes it back.
    pub(crate) async fn lend<A: IntoLuaMulti + Clone + Send>(
        &self,
        event: Event,
        draft: Draft,
        more: impl FnOnce(&Lua) -> mlua::Result<A> + Send,
    ) -> Result<Draft, PolicyError> {
        if !self.interest.has(event) {
            return Ok(draft);
        }
        self.lend_for(event, draft, more, |_, _| Ok(())).await.map(|(draft, ())| draft)
    }

    /// As [`LuaPolicy::lend`] to an event that has handlers, for something they return.
    pub(crate) async fn lend_for<A: IntoLuaMulti + Clone + Send, R>(
        &self,
        event: Event,
        draft: Draft,
        more: impl FnOnce(&Lua) -> mlua::Result<A> + Send,
        result: impl FnOnce(&Lua, Value) -> mlua::Result<R> + Send,
    ) -> Result<(Draft, R), PolicyError> {
        let mut lent: Option<AnyUserData> = None;
        let lend = |lua: &Lua| {
            let userdata = LuaMessage::lend(lua, draft)?;
            Ok((lent.insert(userdata).clone(), more(lua)?))
        };
        let context = self.check_out(event)?;
        let answer = call_in(&context, event, self.may_wait(event), lend, result).await;
        // Before the state serves anybody else, and also when the draft goes down with an error.
        let back = lent.and_then(|userdata| userdata.borrow_mut::<LuaMessage>().ok()?.take_back());
        self.put_back(context, &answer);
        let answer = answer?;
        let gone = || PolicyError::Script { event: event.name(), text: "the message did not come back".to_owned() };
        Ok((back.ok_or_else(gone)?, answer))
    }

    /// Asks a handler for an object made by one of the `kumo.make_*` constructors; `None` when
    /// there is no handler or it returns nothing.
    pub(crate) async fn object<T: Clone + Send + 'static, A: IntoLuaMulti + Clone + Send>(
        &self,
        event: Event,
        made_by: &'static str,
        arguments: A,
    ) -> Result<Option<T>, PolicyError>
    where
        ConfigObject<T>: mlua::UserData,
    {
        if !self.interest.has(event) {
            return Ok(None);
        }
        let read = |_: &Lua, value: Value| match &value {
            Value::Nil => Ok(None),
            Value::UserData(data) if data.is::<ConfigObject<T>>() => {
                Ok(Some(data.borrow::<ConfigObject<T>>()?.0.clone()))
            }
            other => Err(unexpected(event, other, &format!("the result of {made_by}"))),
        };
        self.call(event, |_| Ok(arguments), read).await
    }

    /// True when handlers of this event are called so that they can wait, which costs twice the price of a call: once one
    /// has, and always while throttles are in Redis.
    fn may_wait(&self, event: Event) -> bool {
        self.shared.waits.has(event) || self.shared.throttles.are_waited_for()
    }

    fn check_out(&self, event: Event) -> Result<Context, PolicyError> {
        let loaded = self.state_for_session();
        let mut context = loaded.map_err(|e| PolicyError::Script { event: event.name(), text: e.to_string() })?;
        if let Some(observer) = self.program.observer.get() {
            observer.started(event);
            context.begun = Some((event, Instant::now()));
        }
        Ok(context)
    }

    /// A state that one session keeps to its end.
    pub(crate) fn state_for_session(&self) -> Result<Context, LoadError> {
        self.pool.check_out(|| self.fresh())
    }

    /// A state made now.
    pub(crate) fn fresh(&self) -> Result<Context, LoadError> {
        // Before the source is looked at: a state of an old one must not pass for new.
        let generation = self.pool.generation();
        let begun = Instant::now();
        let mut context = Context::load(&self.source(), &self.shared, Purpose::Serve)?;
        context.generation = generation;
        if let Some(observer) = self.program.observer.get() {
            observer.made_state(begun.elapsed());
        }
        Ok(context)
    }

    fn source(&self) -> Arc<Source> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the policy file again; states made from now on are made from what it says, and those there are end. It is tried
    /// out first, as for `--validate`: nothing that `init` asks for is started. What does not load, is found wrong by its own
    /// `validate_config`, or is refused by `check` changes nothing.
    pub(crate) fn read_again(&self, check: &mut Check<'_>) -> Result<(), LoadError> {
        let before = self.source();
        let text = std::fs::read(&before.path).map_err(|cause| LoadError::Read { path: before.path.clone(), cause })?;
        let (path, program) = (before.path.clone(), before.program.clone());
        let (epoch, code, required) = (before.epoch + 1, Compiled::default(), Arc::default());
        let source = Source { path, text, code, required, epoch, program, ..*before };
        let tried = Shared { memos: Arc::default(), ..self.shared.clone() };
        let trial = Context::load(&source, &tried, Purpose::Validate)?;
        let startup = trial.run_init(&source, Purpose::Validate)?;
        let limits = trial.limits();
        let interest = Context::load(&source, &tried, Purpose::Serve)?.interest();
        let acls = startup.acls.clone();
        let refused = |why| LoadError::Refused { path: source.path.clone(), why };
        if !self.shared.memos.has_room_for(&tried.memos) {
            return Err(refused("its caches (kumo.memoize) are too many beside those there were".to_owned()));
        }
        check(startup, interest).map_err(refused)?;
        // Nobody is asked for a handler that is gone.
        self.interest.set(self.interest.now().and(interest));
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(source);
        self.pool.retire_all();
        self.pool.limit(limits);
        self.shared.acls.begin(acls);
        self.interest.set(interest);
        Ok(())
    }

    /// The policy as it is now. It has the states that nobody uses: what these once read from files may read differently now.
    pub(crate) fn snapshot(&self) -> LuaPolicy {
        LuaPolicy {
            source: Mutex::new(self.source()),
            program: self.program.clone(),
            shared: self.shared.clone(),
            pool: Arc::new(self.pool.parted()),
            courier_states: self.courier_states.clone(),
            interest: Interests::new(self.interest.now()),
        }
    }

    /// Takes what scripts may ask of the program; the first counts.
    pub(crate) fn set_program(&self, program: Box<dyn Program>) {
        if let Some(observer) = program.observer() {
            let _: Result<(), _> = self.program.observer.set(observer);
        }
        let _: Result<(), _> = self.program.program.set(program);
    }

    pub(crate) fn put_back<R>(&self, mut context: Context, answer: &Result<R, PolicyError>) {
        if let (Some(observer), Some((event, begun))) = (self.program.observer.get(), context.begun.take()) {
            observer.took(event, begun.elapsed());
        }
        if !matches!(answer, Err(PolicyError::Script { .. })) {
            context.look_at_globals();
            self.pool.put_back(context);
        }
    }
}

/// The error for a handler that returned something else than it should.
pub(crate) fn unexpected(event: Event, found: &Value, expected: &str) -> mlua::Error {
    mlua::Error::runtime(format!("{} returned a {}: expected {expected}", event.name(), found.type_name()))
}

async fn call_in<A: IntoLuaMulti + Clone + Send, R>(
    context: &Context,
    event: Event,
    may_wait: bool,
    arguments: impl FnOnce(&Lua) -> mlua::Result<A> + Send,
    result: impl FnOnce(&Lua, Value) -> mlua::Result<R> + Send,
) -> Result<R, PolicyError> {
    let run = async {
        context.enter(event, may_wait)?;
        let arguments = arguments(&context.lua)?;
        let Some((last, earlier)) = context.handlers(event).split_last() else {
            return if MAY_BE_GONE.contains(&event) { result(&context.lua, Value::Nil) } else { Err(handler_gone()) };
        };
        for handler in earlier {
            let mut returned: MultiValue = call_one(context, handler, may_wait, arguments.clone()).await?;
            // KumoMTA ends every chain at an explicit nil. Where a value is due it then fails for want of one; here the next is asked.
            let is_answer = |value: &Value| !value.is_nil() || ENDED_BY_NIL.contains(&event);
            if let Some(answer) = returned.pop_front().filter(is_answer) {
                return result(&context.lua, answer);
            }
        }
        result(&context.lua, call_one(context, last, may_wait, arguments).await?)
    };
    let answer = match may_wait {
        true => bounded(run).await,
        false => run.await,
    };
    answer.map_err(|e: mlua::Error| to_policy_error(event.name(), &e))
}

async fn call_one<A: IntoLuaMulti + Send, R: FromLuaMulti>(
    context: &Context,
    handler: &Function,
    may_wait: bool,
    arguments: A,
) -> mlua::Result<R> {
    match may_wait {
        true => guard::drive(&context.lua, handler, arguments).await,
        false => handler.call(arguments),
    }
}

fn handler_gone() -> mlua::Error {
    mlua::Error::runtime("no handler any more: registration depends on something that changed since the start")
}

/// Events whose handlers may come and go with what a script finds in its data, as those of the queue helper do: that nobody says
/// anything is an answer, and each message would wait for another for as long as there is none.
const MAY_BE_GONE: [Event; 1] = [Event::ThrottleInsertReadyQueue];
/// Events whose chain an explicit nil ends too (KumoMTA behaviour): no value is due from them.
const ENDED_BY_NIL: [Event; 2] = [Event::RequeueMessage, Event::ThrottleInsertReadyQueue];
