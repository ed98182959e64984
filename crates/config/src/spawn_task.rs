//! The options of `kumo.spawn_task`.
//!
//! Owns [`SpawnTask`]. Running it is the lua crate's, starting it the program's.

use crate::options::options;
use serde_json::Value;

options! {
    /// `kumo.spawn_task`
    pub struct SpawnTask {
        /// The event whose handler is the task.
        event_name: String;
        /// What the handler is given, in one list.
        args: Vec<Value> = Vec::new();
    }
}
