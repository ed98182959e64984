//! The guard against scripts that never end or never stop growing.
//!
//! A handler runs on a thread that also serves sessions, so an endless loop would take that
//! thread for ever. A hook looks at the clock every so many instructions and raises an error
//! once a handler has run too long; a state that asks for too much memory gets an error from
//! the allocator. Cost: nothing at all per event, but a hook makes plain Lua arithmetic about
//! two times slower (7 ns a loop turn became 15 ns), which handlers that call a few methods
//! cannot feel. Deliberately not guarded: time inside C functions (`os.execute`, `io.read`).

use mlua::debug::Debug;
use mlua::{HookTriggers, Lua, Thread, VmState};
use std::time::{Duration, Instant};

/// How long a handler, or the top level of a policy, may run.
pub(crate) const RUN_TIME_MAX: Duration = Duration::from_secs(60);

/// Since when the running handler runs, known only once the hook has looked.
#[derive(Clone, Copy, Debug)]
enum RunTime {
    /// A handler was entered; the clock was not read yet.
    Fresh,
    /// It ran already when the hook first looked, then.
    Since(Instant),
}

/// What the hook needs; lives in the state's app data.
pub(crate) struct Guard {
    run_time: RunTime,
    limit: Duration,
    main_thread: Thread,
}

/// Installs the guard in a new state, for its coroutines too.
pub(crate) fn install(lua: &Lua, limit: Duration) -> mlua::Result<()> {
    lua.set_memory_limit(MEMORY_BYTES_MAX)?;
    lua.set_app_data(Guard { run_time: RunTime::Fresh, limit, main_thread: lua.current_thread() });
    let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK);
    lua.set_global_hook(every, look)
}

/// Called when a handler is entered: the time counts from here.
pub(crate) fn restart(lua: &Lua) {
    if let Some(mut guard) = lua.app_data_mut::<Guard>() {
        guard.run_time = RunTime::Fresh;
    }
}

/// From now on its handlers may run for as long as they like.
pub(crate) fn lift(lua: &Lua) {
    if let Some(mut guard) = lua.app_data_mut::<Guard>() {
        guard.limit = Duration::MAX;
    }
}

fn look(lua: &Lua, frame: &Debug<'_>) -> mlua::Result<VmState> {
    let Some(mut guard) = lua.app_data_mut::<Guard>() else { return Ok(VmState::Continue) };
    let since = match guard.run_time {
        RunTime::Since(since) => since,
        RunTime::Fresh => {
            let now = Instant::now();
            guard.run_time = RunTime::Since(now);
            now
        }
    };
    let (limit, main_thread) = (guard.limit, guard.main_thread.clone());
    drop(guard);
    if since.elapsed() < limit {
        return Ok(VmState::Continue);
    }
    // From now on every instruction fails, here and in the main thread (other coroutines meet
    // their own hook): a loop around pcall or resume must not swallow the error.
    let text = too_long(lua, frame, limit)?;
    let (here, main) = (text.clone(), text.clone());
    let each = HookTriggers::new().every_nth_instruction(1);
    main_thread.set_hook(each, move |_, _| Err(mlua::Error::runtime(&main)))?;
    lua.set_global_hook(each, move |_, _| Err(mlua::Error::runtime(&here)))?;
    Err(mlua::Error::runtime(text))
}

/// The message with the line that was running and the way there: errors of a hook get no
/// traceback from Lua.
fn too_long(lua: &Lua, frame: &Debug<'_>, limit: Duration) -> mlua::Result<String> {
    let (source, line) = (frame.source(), frame.current_line().unwrap_or(0));
    let file = source.short_src.as_deref().unwrap_or("?");
    let text = format!("{file}:{line}: the script ran longer than {limit:?} and was stopped");
    Ok(lua.traceback(Some(&text), 0)?.to_string_lossy())
}

/// Lua instructions between two looks at the clock: some milliseconds.
const INSTRUCTIONS_PER_LOOK: u32 = 1_000_000;
/// Most memory one state may hold, in octets. A policy with tables for a million domains
/// holds about 200 MB.
const MEMORY_BYTES_MAX: usize = 1 << 30;
