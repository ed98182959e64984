//! Every task has an owner: spawn here, drain here.

use std::future::{Future, poll_fn};
use std::sync::{Mutex, PoisonError};
use std::task::Context;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// A set of running tasks. A task that panics is reported, never swallowed.
pub(crate) struct Tasks {
    running: Mutex<JoinSet<()>>,
    /// Who carries them, unless said otherwise.
    home: Handle,
}

impl Tasks {
    /// None yet; `home` will carry them, whoever spawns them.
    pub fn on(home: &Handle) -> Tasks {
        Tasks { running: Mutex::default(), home: home.clone() }
    }

    /// Starts a task; reaps those that have ended.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn_on(&self.home, task);
    }

    /// The same, carried by another runtime, which must not end before this set is drained.
    pub fn spawn_on(&self, runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) {
        let mut set = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = set.try_join_next() {
            report(ended);
        }
        set.spawn_on(task, runtime);
    }

    /// How many there are that have not been reaped yet.
    pub fn len(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until every task has ended; tasks started meanwhile are waited for as well. Who stops waiting leaves them running.
    pub async fn drain(&self) {
        let next =
            |cx: &mut Context<'_>| self.running.lock().unwrap_or_else(PoisonError::into_inner).poll_join_next(cx);
        while let Some(ended) = poll_fn(next).await {
            report(ended);
        }
    }

    /// Ends every task where it waits next; those started meanwhile are waited for. They are gone when this returns, but for those
    /// that did not come to wait, or to their end, within [`ABORT_MAX`].
    pub async fn abort(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        if tokio::time::timeout(ABORT_MAX, self.drain()).await.is_err() {
            tracing::warn!("{} tasks are still at work {ABORT_MAX:?} after they were to end", self.len());
        }
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a task panicked: {error}");
    }
}

/// Longest wait for a task that is at work and was to end.
const ABORT_MAX: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::task::Poll;
    use tokio::sync::oneshot;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_abort_behind_a_drain_that_was_given_up_waits_until_they_are_gone() {
        let tasks = Tasks::on(&Handle::current());
        let gone = Arc::new(AtomicBool::new(false));
        let (begun, begins) = oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let flag = Arc::clone(&gone);
        // Cannot be ended while it is here.
        tasks.spawn(async move {
            begun.send(()).expect("somebody waits");
            released.recv().expect("the test lives");
            flag.store(true, Ordering::SeqCst);
        });
        begins.await.expect("it runs");
        assert!(futures_poll(&mut Box::pin(tasks.drain())).is_pending(), "given up at once");
        assert_eq!(tasks.len(), 1, "it is still owned");
        let mut abort = Box::pin(tasks.abort());
        assert!(futures_poll(&mut abort).is_pending(), "it is still here");
        release.send(()).expect("it waits");
        abort.await;
        assert!(gone.load(Ordering::SeqCst) && tasks.len() == 0);
    }

    /// Looks at a future once.
    fn futures_poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        std::pin::Pin::new(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
