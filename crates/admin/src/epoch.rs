//! `POST /api/admin/bump-config-epoch`: configuration files have changed.
//!
//! No body; 200 and nothing when it is done, 500 with the script's error when the policy that is there now does not load: then
//! the one in force stays.

use crate::answer::Failed;
use crate::daemon::Daemon;
use axum::extract::State;

pub(crate) async fn bump<D: Daemon>(State(daemon): State<D>) -> Result<(), Failed> {
    daemon.read_again("POST /api/admin/bump-config-epoch").await.map_err(Failed::internal)
}
