//! The guard against scripts that never end or never stop growing.
//!
//! A handler runs on a thread that also serves sessions. A hook counts its instructions by the million: beyond its budget the
//! handler is stopped, and until then, where it was called so that it can wait ([`drive`]), it lets others have the thread
//! between two looks. A handler that runs so long is called like that from then on ([`crate::waiting::Waits`]); only the first
//! of its kind holds its thread. A state that asks for too much memory gets an error from the allocator. Cost: nothing at all
//! per event, but a hook makes plain Lua arithmetic about two times slower (7 ns a loop turn became 15 ns), which handlers that
//! call a few methods cannot feel. Deliberately not guarded: time inside C functions (`os.execute`, `io.read`, a search with a
//! hostile pattern).

use crate::waiting;
use config::MemoryLimits;
use mlua::debug::Debug;
use mlua::{FromLuaMulti, Function, HookTriggers, IntoLuaMulti, Lua, Thread, VmState};
use std::time::{Duration, Instant};

/// How much a script may run, in millions of instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The top level of a policy, and what runs before it serves: about a minute.
    pub start: u32,
    /// A handler, from one wait to the next: some seconds.
    pub handler: u32,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { start: 15_000, handler: 500 }
    }
}

/// What the hook needs; lives in the state's app data.
pub(crate) struct Guard {
    budget: Budget,
    /// Looks that the running function has left.
    left: u32,
    /// What it began with, for what is said when nothing is left.
    begun_with: u32,
    /// How long it has waited and held its thread.
    held: Duration,
    main_thread: Thread,
    /// The coroutine that the program itself resumes: it may be left between any two instructions.
    driven: Option<Thread>,
}

/// Installs the guard in a new state, for its coroutines too.
pub(crate) fn install(lua: &Lua, budget: Budget, memory: MemoryLimits) -> mlua::Result<()> {
    lua.set_memory_limit(memory_bytes_max(memory))?;
    let (left, main_thread) = (budget.start, lua.current_thread());
    lua.set_app_data(Guard { budget, left, begun_with: left, held: Duration::ZERO, main_thread, driven: None });
    let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK);
    lua.set_global_hook(every, look)
}

/// Called when a handler of an event is entered.
pub(crate) fn enter(lua: &Lua) {
    if let Some(mut guard) = lua.app_data_mut::<Guard>() {
        guard.begun_with = guard.budget.handler;
        guard.left = guard.begun_with;
        guard.held = Duration::ZERO;
    }
}

/// Called when the running function has waited since then and held its thread, which nobody can take from it.
///
/// # Errors
/// That was enough.
pub(crate) fn held(lua: &Lua, since: Instant) -> mlua::Result<()> {
    restart(lua);
    let Some(mut guard) = lua.app_data_mut::<Guard>() else { return Ok(()) };
    guard.held = guard.held.saturating_add(since.elapsed());
    if guard.held > waiting::HANDLER_MAX && guard.begun_with == guard.budget.handler && guard.begun_with != UNLIMITED {
        return Err(waiting::too_long());
    }
    Ok(())
}

/// Called when the running function has waited, and before each of those that run at the start: its budget is whole again.
pub(crate) fn restart(lua: &Lua) {
    if let Some(mut guard) = lua.app_data_mut::<Guard>() {
        guard.left = guard.begun_with;
    }
}

/// From now on its handlers may run for as long as they like.
pub(crate) fn lift(lua: &Lua) {
    if let Some(mut guard) = lua.app_data_mut::<Guard>() {
        guard.budget.handler = UNLIMITED;
    }
}

/// Calls a handler so that it can wait, and so that others have the thread while it computes.
pub(crate) async fn drive<R: FromLuaMulti>(
    lua: &Lua,
    handler: &Function,
    arguments: impl IntoLuaMulti,
) -> mlua::Result<R> {
    let thread = lua.create_thread(handler.clone())?;
    if let Some(mut guard) = lua.app_data_mut::<Guard>() {
        guard.driven = Some(thread.clone());
    }
    thread.into_async(arguments)?.await
}

fn look(lua: &Lua, frame: &Debug<'_>) -> mlua::Result<VmState> {
    let Some(mut guard) = lua.app_data_mut::<Guard>() else { return Ok(VmState::Continue) };
    if guard.left > 0 {
        if guard.begun_with != UNLIMITED {
            guard.left -= 1;
        }
        let is_driven = guard.driven.as_ref().is_some_and(|driven| *driven == lua.current_thread());
        drop(guard);
        // From the next time on it is called so that it can be left.
        let may_wait = waiting::will_wait(lua) == Some(true);
        return Ok(if may_wait && is_driven { VmState::Yield } else { VmState::Continue });
    }
    let (begun_with, main_thread) = (guard.begun_with, guard.main_thread.clone());
    drop(guard);
    // From now on every instruction fails, here and in the main thread (other coroutines meet
    // their own hook): a loop around pcall or resume must not swallow the error.
    let text = too_long(lua, frame, begun_with)?;
    let (here, main) = (text.clone(), text.clone());
    let each = HookTriggers::new().every_nth_instruction(1);
    main_thread.set_hook(each, move |_, _| Err(mlua::Error::runtime(&main)))?;
    lua.set_global_hook(each, move |_, _| Err(mlua::Error::runtime(&here)))?;
    Err(mlua::Error::runtime(text))
}

/// The message with the line that was running and the way there: errors of a hook get no
/// traceback from Lua.
fn too_long(lua: &Lua, frame: &Debug<'_>, millions: u32) -> mlua::Result<String> {
    let (source, line) = (frame.source(), frame.current_line().unwrap_or(0));
    let file = source.short_src.as_deref().unwrap_or("?");
    let text = format!("{file}:{line}: the script ran for more than {millions} million instructions and was stopped");
    Ok(lua.traceback(Some(&text), 0)?.to_string_lossy())
}

/// Most memory one state may hold, in octets: a small part of what the program may have, so that a few states that grow without
/// end do not take it from the mail.
fn memory_bytes_max(limits: MemoryLimits) -> usize {
    let part =
        limits.hard.map_or(MEMORY_BYTES_MAX, |hard| usize::try_from(hard / STATES_IN_HARD_LIMIT).unwrap_or(usize::MAX));
    part.clamp(MEMORY_BYTES_MIN, MEMORY_BYTES_MAX)
}

/// Lua instructions between two looks: some milliseconds.
const INSTRUCTIONS_PER_LOOK: u32 = 1_000_000;
/// A budget that is not counted.
const UNLIMITED: u32 = u32::MAX;
/// Most memory one state may hold, in octets. A policy with tables for a million domains
/// holds about 200 MB.
const MEMORY_BYTES_MAX: usize = 1 << 30;
/// What any state may hold: some hundred times what a usual one does.
const MEMORY_BYTES_MIN: usize = 64 << 20;
/// States at their limit that go into the program's hard limit of memory.
const STATES_IN_HARD_LIMIT: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_a_part_of_what_the_program_may_have() {
        let max = |hard| memory_bytes_max(MemoryLimits { hard, ..MemoryLimits::default() });
        assert_eq!(max(None), 1 << 30);
        assert_eq!(max(Some(64 << 30)), 1 << 30);
        assert_eq!(max(Some(4 << 30)), 256 << 20);
        assert_eq!(max(Some(1 << 28)), 64 << 20);
    }
}
