//! Waiting for a condition that nobody announces: a file that grows, a counter that rises.
//!
//! In: a probe and a deadline. Out: what the probe found. Panics with the thing waited for when the deadline passes.
//! Whatever announces itself by a line is awaited in `process` instead.

use std::time::{Duration, Instant};

/// Calls `probe` until it finds something; panics with `what` after `within`.
pub fn until<T>(within: Duration, what: &str, probe: impl FnMut() -> Option<T>) -> T {
    eventually(within, probe).unwrap_or_else(|| panic!("{what}: not within {within:?}"))
}

/// Calls `probe` until it finds something; nothing after `within`.
pub fn eventually<T>(within: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + within;
    loop {
        let found = probe();
        if found.is_some() || Instant::now() >= deadline {
            return found;
        }
        std::thread::sleep(POLL);
    }
}

/// Patience for things that normally take milliseconds, on a machine with other work to do.
pub const SOON: Duration = Duration::from_secs(20);
/// Patience for a batch of mail.
pub const LATER: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(5);
