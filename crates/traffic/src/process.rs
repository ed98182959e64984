//! What both tools need from the operating system: a runtime, room for open sockets, and the signals that end a run.
//!
//! In: numbers from the command line. Out: a runtime, a limit, a future. Nothing here knows SMTP.

use std::io;
use std::time::Duration;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeValLike as _;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// Builds a runtime of `threads` workers; a single one runs on the calling thread, which is the cheapest form.
pub(crate) fn runtime(threads: usize) -> io::Result<Runtime> {
    if threads <= 1 {
        return Builder::new_current_thread().enable_all().build();
    }
    Builder::new_multi_thread().worker_threads(threads).enable_all().build()
}

/// The number of cores this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// User and system time this process has used; none where the kernel does not tell.
pub(crate) fn cpu_time() -> Duration {
    let used = getrusage(UsageWho::RUSAGE_SELF);
    let microseconds = used.map_or(0, |used| (used.user_time() + used.system_time()).num_microseconds());
    Duration::from_micros(u64::try_from(microseconds).unwrap_or_default())
}

/// Raises the soft limit of open files to the hard one, and the hard one too when `sockets` need it and we may.
/// Returns the number of sockets that can be open at once.
pub(crate) fn make_room_for_sockets(sockets: u64) -> u64 {
    let wanted = sockets.saturating_add(FILES_BESIDE_SOCKETS);
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return sockets;
    };
    let raised = wanted > hard && setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted).is_ok();
    let soft_now = if raised {
        wanted
    } else if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        hard
    } else {
        soft
    };
    soft_now.saturating_sub(FILES_BESIDE_SOCKETS)
}

/// Completes at each SIGINT or SIGTERM; made before the work starts so that no early signal is missed.
pub(crate) struct Termination {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Termination {
    /// Takes over both signals. Must be called inside a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next of the two signals.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Files open beside the sockets: standard streams, ledgers, the event queue, the listener.
const FILES_BESIDE_SOCKETS: u64 = 64;
