//! Signals that come while the program starts: what asks for a hot restart or a reload must not end a program that does not hear it yet.
//!
//! They wait from [`hold`] on, which comes before other threads begin, until [`hear`], once there is somebody to hear them. Both are called
//! on the thread the program begins with: a signal that waits for the process comes where it is let through. Fails when the kernel
//! refuses.

use nix::sys::signal::{SigSet, Signal};

/// They wait from now on, in this thread and those it begins.
///
/// # Errors
/// The kernel refuses.
pub fn hold() -> nix::Result<()> {
    all().thread_block()
}

/// They are heard, by this thread.
///
/// # Errors
/// The kernel refuses.
pub fn hear() -> nix::Result<()> {
    all().thread_unblock()
}

fn all() -> SigSet {
    [Signal::SIGUSR2, Signal::SIGHUP].into_iter().collect()
}
