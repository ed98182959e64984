//! The policy's own tasks: each on a thread of its own, so that one that computes holds nobody up.
//!
//! What a task waits for is driven by the program's runtime. An error is logged and ends the task; a drain ends it where it
//! waits, and the end of the process wherever it is.

use anyhow::Context;
use config::SpawnTask;
use engine::Engine;
use policy::Policy;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Starts them.
pub fn start(policy: &Arc<dyn Policy>, engine: &Engine, tasks: Vec<SpawnTask>) -> anyhow::Result<()> {
    for task in tasks {
        let (policy, engine, runtime) = (policy.clone(), engine.clone(), Handle::current());
        let thread = std::thread::Builder::new().name(THREAD.to_owned());
        let run = move || runtime.block_on(perform(&*policy, &engine, task));
        thread.spawn(run).context("kumo.spawn_task")?;
    }
    Ok(())
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
