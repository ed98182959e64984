//! The guard against scripts that never end or never stop growing.
//!
//! A handler runs on a thread that also serves sessions. A hook counts its instructions by the million: beyond its budget the
//! handler is stopped. Until then, where it was called so that it can wait ([`drive`]), it is left between two looks, for others to
//! have the thread ([`crate::slices`]). A handler that runs so long is called like that from then on ([`crate::waiting::Waits`]).
//! The first of its kind, and one that computes where it cannot be left, has another thread take the place of its own instead
//! ([`waiting::let_others_go_first`]). A state that asks for too much memory gets an error from the allocator. Cost: nothing at
//! all per event, but a hook makes plain Lua arithmetic about two times slower (7 ns a loop turn became 15 ns), which handlers that
//! call a few methods cannot feel. A search with a pattern counts its own steps ([`crate::patterns`]). Deliberately not guarded:
//! time inside C functions (`os.execute`, `io.read`, `table.move` over a range without end).

use crate::{slices, waiting};
use config::MemoryLimits;
use mlua::debug::Debug;
use mlua::{FromLuaMulti, Function, HookTriggers, IntoLuaMulti, Lua, Thread, Value, VmState};
use std::time::{Duration, Instant};

/// How much a script may run, in millions of instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// The top level of a policy, and what runs before it serves: about a minute.
    pub start: u64,
    /// A handler, from one wait to the next: some seconds.
    pub handler: u64,
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
    left: u64,
    /// What it began with, for what is said when nothing is left.
    begun_with: u64,
    /// How long it has waited and held its thread.
    held: Duration,
    main_thread: Thread,
    /// Steps of searches since the function began or waited.
    searched: u64,
    /// Most memory the state may hold, in octets.
    memory_max: usize,
    /// Where the coroutine is that the program itself resumes: it may be left between any two instructions. Not the coroutine: it
    /// must go, with all that it waits for, when whoever drives it is dropped.
    driven: usize,
    /// It wants to be left, and who drives it has not asked yet.
    is_leaving: bool,
}

/// Installs the guard in a new state, for its coroutines too.
pub(crate) fn install(lua: &Lua, budget: Budget, memory: MemoryLimits) -> mlua::Result<()> {
    let memory_max = memory_bytes_max(memory);
    lua.set_memory_limit(memory_max)?;
    let (left, main_thread) = (budget.start, lua.current_thread());
    lua.set_app_data(Guard {
        budget,
        left,
        begun_with: left,
        held: Duration::ZERO,
        main_thread,
        searched: 0,
        memory_max,
        driven: NOBODY,
        is_leaving: false,
    });
    let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK);
    lua.set_global_hook(every, look)
}

/// Called when a handler of an event is entered.
pub(crate) fn enter(lua: &Lua) {
    if let Some(mut guard) = lua.app_data_mut::<Guard>() {
        guard.begun_with = guard.budget.handler;
        guard.searched = 0;
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
        guard.searched = 0;
    }
}

/// Steps that the running function has left, where something counts for itself.
pub(crate) fn steps(lua: &Lua) -> u64 {
    let guard = lua.app_data_ref::<Guard>();
    guard.map_or(UNLIMITED, |guard| guard.left.saturating_mul(STEPS_PER_LOOK))
}

/// The running function took so many steps; how many since it began or waited.
pub(crate) fn took(lua: &Lua, steps: u64) -> u64 {
    let Some(mut guard) = lua.app_data_mut::<Guard>() else { return 0 };
    let before = guard.searched / STEPS_PER_LOOK;
    guard.searched = guard.searched.saturating_add(steps);
    guard.left = guard.left.saturating_sub(guard.searched / STEPS_PER_LOOK - before);
    guard.searched
}

/// Whether something of so many octets, which is not in the state yet, has room in it.
///
/// # Errors
/// The state would hold more than it may.
pub(crate) fn room(lua: &Lua, octets: usize) -> mlua::Result<()> {
    let most = lua.app_data_ref::<Guard>().map_or(usize::MAX, |guard| guard.memory_max);
    if lua.used_memory().saturating_add(octets) > most {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    Ok(())
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
    let _driving = Driving { lua, before: set_driven(lua, place_of(thread.clone())) };
    let answer = slices::run(lua, thread.clone().into_async(arguments)?).await;
    if answer.is_err() {
        // What the script left to be closed is closed now, not when the collector comes by. Lua reports the coroutine's state, which is
        // this error once more, with what is left of its value: the answer has it whole.
        let _: mlua::Result<()> = thread.reset(handler.clone());
    }
    answer
}

/// While it lives a coroutine is driven; then the one of before is, also when the call is dropped half-way.
struct Driving<'a> {
    lua: &'a Lua,
    before: usize,
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        set_driven(self.lua, self.before);
    }
}

/// Notes which coroutine is driven; which was.
fn set_driven(lua: &Lua, place: usize) -> usize {
    let guard = lua.try_app_data_mut::<Guard>();
    guard.ok().flatten().map_or(NOBODY, |mut guard| {
        guard.is_leaving = false;
        std::mem::replace(&mut guard.driven, place)
    })
}

/// Whether the coroutine that is driven wants to be left, which is told once.
pub(crate) fn takes_leave(lua: &Lua) -> bool {
    set_leaving(lua, false)
}

/// Notes whether it wants to be left; whether it did.
fn set_leaving(lua: &Lua, is_leaving: bool) -> bool {
    let guard = lua.try_app_data_mut::<Guard>();
    guard.ok().flatten().is_some_and(|mut guard| std::mem::replace(&mut guard.is_leaving, is_leaving))
}

/// Where a coroutine is in memory: another has another place while this one lives.
fn place_of(thread: Thread) -> usize {
    Value::Thread(thread).to_pointer() as usize
}

fn look(lua: &Lua, frame: &Debug<'_>) -> mlua::Result<VmState> {
    let Some(mut guard) = lua.app_data_mut::<Guard>() else { return Ok(VmState::Continue) };
    if guard.left > 0 {
        let is_long = guard.left < guard.begun_with;
        guard.left -= 1;
        let (driven, is_bounded) = (guard.driven, guard.begun_with != UNLIMITED);
        drop(guard);
        let is_driven = driven != NOBODY && driven == place_of(lua.current_thread());
        // Instructions are counted on from call to call, but for a coroutine that is driven: elsewhere the first look says nothing about
        // how long this one takes.
        if !is_long && !is_driven {
            return Ok(VmState::Continue);
        }
        // From the next time on it is called so that it can be left.
        let may_wait = waiting::will_wait(lua) == Some(true);
        // Lua leaves none below a function of C, and does not say so: then it still wants to be since the last look.
        if may_wait && is_driven && !takes_leave(lua) {
            set_leaving(lua, true);
            return Ok(VmState::Yield);
        }
        // Tasks are not, and have a thread of their own.
        if is_bounded {
            waiting::let_others_go_first();
        }
        return Ok(VmState::Continue);
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
fn too_long(lua: &Lua, frame: &Debug<'_>, millions: u64) -> mlua::Result<String> {
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
/// Steps of a search that take as long.
const STEPS_PER_LOOK: u64 = 1_000_000;
/// A budget that lasts longer than any process.
const UNLIMITED: u64 = u64::MAX;
/// The place of no coroutine.
const NOBODY: usize = 0;
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
