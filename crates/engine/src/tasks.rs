//! Every task has an owner: spawn here, drain here.

use std::future::Future;
use std::sync::{Mutex, PoisonError};
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

    /// Waits until every task has ended; tasks started meanwhile are waited for as well.
    pub async fn drain(&self) {
        loop {
            let mut set = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
            if set.is_empty() {
                return;
            }
            while let Some(ended) = set.join_next().await {
                report(ended);
            }
        }
    }

    /// Ends every task where it stands; they are gone when this returns.
    pub async fn abort(&self) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
        self.drain().await;
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!("a task panicked: {error}");
    }
}
