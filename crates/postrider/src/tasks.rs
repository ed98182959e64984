//! The policy's own tasks: each on a thread of its own, so that one that computes holds nobody up.
//!
//! What a task waits for is driven by the program's runtime. An error is logged and ends the task; a drain ends it where it
//! waits, and the end of the process wherever it is: one that computes cannot be ended otherwise.

use config::SpawnTask;
use engine::Engine;
use policy::Policy;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::runtime::Handle;

/// Tasks that were started.
pub struct Tasks(Vec<(String, JoinHandle<()>)>);

/// Starts them. One that cannot be started is said; the service goes on.
pub fn start(policy: &Arc<dyn Policy>, engine: &Engine, tasks: Vec<SpawnTask>) -> Tasks {
    let start = |task: SpawnTask| {
        let (policy, engine, runtime) = (policy.clone(), engine.clone(), Handle::current());
        let name = task.event_name.clone();
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        let started = thread.spawn(move || runtime.block_on(perform(&*policy, &engine, task)));
        started
            .map_err(|error| tracing::error!("kumo.spawn_task: task `{name}` cannot be started: {error}"))
            .ok()
            .map(|h| (name, h))
    };
    Tasks(tasks.into_iter().filter_map(start).collect())
}

impl Tasks {
    /// Says which have panicked. Those that still compute end with the process.
    pub fn end(self) {
        for (name, thread) in self.0.into_iter().filter(|(_, thread)| thread.is_finished()) {
            if thread.join().is_err() {
                tracing::error!("kumo.spawn_task: task `{name}` has panicked");
            }
        }
    }
}

async fn perform(policy: &dyn Policy, engine: &Engine, task: SpawnTask) {
    tokio::select! {
        () = engine.draining() => {}
        ended = policy.run_task(task.event_name, task.args) => {
            if let Err(error) = ended {
                tracing::error!("{error}");
            }
        }
    }
}

/// As the system shows the threads of tasks.
const THREAD: &str = "policy task";
