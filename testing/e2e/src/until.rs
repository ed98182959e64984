//! Waiting for a condition that nobody announces: a file that grows, a counter that rises.
//!
//! In: a probe and a deadline. Out: what the probe found. Panics with the thing waited for when the deadline passes.
//! Whatever announces itself by a line is awaited in `process` instead.

use std::time::{Duration, Instant};

/// Calls `probe` until it finds something; panics with `what` after `within`.
pub fn until<T>(within: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        std::thread::sleep(POLL);
    }
}

/// Patience for things that normally take milliseconds, on a machine with other work to do.
pub const SOON: Duration = Duration::from_secs(20);
/// Patience for a batch of mail.
pub const LATER: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_millis(5);
