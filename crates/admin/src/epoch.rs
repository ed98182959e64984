//! `POST /api/admin/bump-config-epoch`: configuration files have changed.
//!
//! No body; 200 and nothing when it is done, 500 with the script's error when the policy that is there now does not load: then
//! the one in force stays.

use crate::answer::Failed;
use axum::extract::State;
use engine::Engine;

pub(crate) async fn bump(State(engine): State<Engine>) -> Result<(), Failed> {
    engine
        .bump_config_epoch("POST /api/admin/bump-config-epoch")
        .await
        .map_err(|error| Failed::internal(error.to_string()))
}
