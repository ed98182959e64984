//! Waiting inside a handler for something that is not Lua.
//!
//! A handler that was called so that it can wait does; any other waits for its thread, while another takes that one's place, which
//! happens once for each event: from then on handlers of that event are called so that they can wait, at twice the price of a call
//! ([`Waits`]). Outside of the program's runtime, before it serves, there is another ([`crate::commons::Early`]).

use crate::context::Host;
use crate::guard;
use crate::modules::memoize::commons;
use mlua::Lua;
use policy::Event;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};

/// What `wanted` comes to, waited for as this handler may.
///
/// # Errors
/// Names `function`: nothing can be waited for, or `longest` is over.
pub(crate) async fn wait<T: Send>(
    lua: &Lua,
    function: &str,
    longest: Duration,
    wanted: impl Future<Output = T> + Send,
) -> mlua::Result<T> {
    let mut answer = None;
    wait_for(lua, function, longest, Box::pin(async { answer = Some(wanted.await) })).await?;
    answer.ok_or_else(|| refused(function, "no answer"))
}

/// Without a type, so that the compiler makes the ways to wait, which are long, once and not for each that waits.
async fn wait_for(
    lua: &Lua,
    function: &str,
    longest: Duration,
    wanted: Pin<Box<dyn Future<Output = ()> + Send + '_>>,
) -> mlua::Result<()> {
    let may_wait = will_wait(lua).ok_or_else(|| refused(function, "this state belongs to no policy"))?;
    // Made where there is a runtime: it is what measures the time.
    let wanted = async { tokio::time::timeout(longest, wanted).await };
    let since = Instant::now();
    let answer = match Handle::try_current() {
        Ok(_) if may_wait => wanted.await,
        // Others wait for the thread: not for ever, as nobody can end this.
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => {
            let wanted = async { tokio::time::timeout(HANDLER_MAX, wanted).await.unwrap_or_else(Err) };
            let commons = commons(lua)?;
            let _thread = commons.held_threads.one(function)?;
            tokio::task::block_in_place(|| runtime.block_on(wanted))
        }
        Ok(_) => return Err(refused(function, "nothing can be waited for here")),
        // The top level and `init`, before the program serves.
        Err(_) => {
            let commons = commons(lua)?;
            let runtime = commons.early.runtime().map_err(|why| refused(function, &why))?;
            runtime.block_on(wanted)
        }
    };
    // Whoever waits takes no processor: the time a handler may run counts from here.
    match may_wait {
        true => guard::restart(lua),
        false => guard::held(lua, since)?,
    }
    answer.map_err(|_| refused(function, "no answer in time"))
}

/// Threads that are held by handlers which wait and could not be left. The runtime puts another beside each, up to some hundred: where
/// all were held, nobody would be left who reads what they wait for.
pub(crate) struct HeldThreads(Semaphore);

impl HeldThreads {
    /// One more, for a while.
    ///
    /// # Errors
    /// Names `function`: there are too many.
    pub fn one(&self, function: &str) -> mlua::Result<SemaphorePermit<'_>> {
        self.0
            .try_acquire()
            .map_err(|_| refused(function, "too many handlers wait at once that cannot be left meanwhile"))
    }
}

impl Default for HeldThreads {
    fn default() -> HeldThreads {
        HeldThreads(Semaphore::new(HELD_MAX))
    }
}

/// Does what takes long and cannot be left; where the program serves, the runtime puts another thread beside this one meanwhile.
pub(crate) fn apart<T>(work: impl FnOnce() -> T) -> T {
    match with_other_threads() {
        Some(_) => tokio::task::block_in_place(work),
        None => work(),
    }
}

/// For who computes for long and cannot be left: another thread takes this one's place, if none has, and something that came behind
/// has had its turn. There are some hundred such threads at most; beyond them it holds its own.
pub(crate) fn let_others_go_first() {
    let Some(runtime) = with_other_threads() else { return };
    let (begun, has_begun) = mpsc::channel();
    tokio::task::block_in_place(|| {
        // Who waits no longer need not know.
        let behind = runtime.spawn(async move { begun.send(()).ok() });
        if has_begun.recv_timeout(OTHERS_MAX).is_err() {
            behind.abort();
        }
    });
}

/// The runtime of this thread, where another can take the thread's place.
fn with_other_threads() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// What a handler comes to that may wait, all its waits together, unless it takes longer than any should.
pub(crate) async fn bounded<T>(run: impl Future<Output = mlua::Result<T>>) -> mlua::Result<T> {
    // Without a runtime nothing is waited for.
    if Handle::try_current().is_err() {
        return run.await;
    }
    tokio::time::timeout(HANDLER_MAX, run).await.unwrap_or_else(|_| Err(too_long()))
}

/// What a handler hears that is not waited for any longer.
pub(crate) fn too_long() -> mlua::Error {
    mlua::Error::runtime(format!("the handler took longer than {HANDLER_MAX:?} and was stopped"))
}

/// The running handler is about to wait; whether it may.
pub(crate) fn will_wait(lua: &Lua) -> Option<bool> {
    let host = lua.app_data_ref::<Host>()?;
    host.event.iter().for_each(|event| host.waits.mark(*event));
    Some(host.may_wait)
}

/// The events of which a handler has waited, in any state.
#[derive(Default)]
pub(crate) struct Waits(AtomicU32);

impl Waits {
    /// True when a handler of this event has waited.
    pub fn has(&self, event: Event) -> bool {
        self.0.load(Ordering::Relaxed) & (1 << event as u32) != 0
    }

    fn mark(&self, event: Event) {
        self.0.fetch_or(1 << event as u32, Ordering::Relaxed);
    }
}

/// Threads held at once: the runtime has 512 beside its own, of which files and the like want some.
const HELD_MAX: usize = 256;
/// How long others may take to begin: not to be waited for where they are stuck themselves.
const OTHERS_MAX: Duration = Duration::from_millis(10);
/// Time beyond a library's own limit, so that its error is the one that is seen.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// How long a handler may take, with all that it waits for; most of those who ask wait for less.
pub(crate) const HANDLER_MAX: Duration = Duration::from_secs(300);
/// Longer than any process lives.
pub(crate) const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

fn refused(function: &str, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("{function}: {why}"))
}
