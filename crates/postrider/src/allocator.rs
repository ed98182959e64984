//! The allocator's habit: how long it holds back pages that are free.
//!
//! Mail comes and goes in surges. By jemalloc's own habit a server gives pages back that it wants again a moment later, and each has
//! to be cleared by the kernel. A setting that the allocator refuses is no more than a warning: its own habit stays.

use tikv_jemalloc_ctl::{Access, AsName};

/// Holds free pages back for longer than is jemalloc's own habit, in this process, from now on. When memory is short, [`give_back`]
/// does not wait for that. What somebody set to another time stays, as that of arenas with a reason of their own (huge blocks).
pub fn hold_back() {
    // For arenas to come, and those there are; one that was never used cannot be asked, and begins as those to come.
    for name in decay_times().chain(["arenas.dirty_decay_ms\0".to_owned()]) {
        if let Ok(JEMALLOC_HABIT_MS) = name.as_str().name().read() {
            warn_of(&name, name.as_str().name().write(HELD_BACK_MS));
        }
    }
}

/// Gives back what is held back: a time of nothing makes the allocator drop it; then its habit returns.
pub fn give_back() {
    for name in decay_times() {
        // One that was never used cannot be asked, and has nothing to give.
        let habit: Result<isize, _> = name.as_str().name().update(0);
        if let Ok(habit) = habit {
            warn_of(&name, name.as_str().name().write(habit));
        }
    }
}

/// How many arenas there may be.
pub fn arenas() -> Option<u32> {
    b"arenas.narenas\0"[..].name().read().ok()
}

/// The setting of each arena.
fn decay_times() -> impl Iterator<Item = String> {
    (0..arenas().unwrap_or(0)).map(|arena| format!("arena.{arena}.dirty_decay_ms\0"))
}

fn warn_of(setting: &str, done: tikv_jemalloc_ctl::Result<()>) {
    if let Err(error) = done {
        tracing::warn!("the allocator's {}: {error}", setting.trim_end_matches('\0'));
    }
}

/// Milliseconds: jemalloc's own.
const JEMALLOC_HABIT_MS: isize = 10_000;
/// Milliseconds: ours.
const HELD_BACK_MS: isize = 60_000;

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Settings are the process's: to be asked by the one test that changes them.
    pub fn assert_held_back() {
        for name in ["arenas.dirty_decay_ms\0", "arena.0.dirty_decay_ms\0"] {
            let held: isize = name.name().read().expect("a setting");
            assert_eq!(held, HELD_BACK_MS, "{name}");
        }
    }
}
