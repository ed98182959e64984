//! `POST /api/admin/set_diagnostic_log_filter/v1` and `POST /api/admin/spool-compact/v1`: what operators do to a program that runs.

use crate::answer::{Failed, Json};
use crate::daemon::Daemon;
use axum::extract::State;
use engine::Engine;
use schemars::JsonSchema;
use serde::Deserialize;

/// What of the diagnostic log is written, in the language of `KUMOD_LOG`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "DiagnosticFilter")]
pub(crate) struct Filter {
    /// As `KUMOD_LOG` has it.
    filter: String,
}

/// Which spool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NamedSpool")]
pub(crate) struct Named {
    /// Of the spool.
    name: String,
}

/// 200 and nothing; 422 and what is wrong with it.
pub(crate) async fn filter<D: Daemon>(State(daemon): State<D>, Json(asked): Json<Filter>) -> Result<(), Failed> {
    daemon.filter_diagnostics(&asked.filter).map_err(|fault| Failed::at("/filter", fault))
}

/// 200 and nothing: the log of messages compacts itself as it is written, and message files have nothing to compact. 404 where no
/// spool has that name.
pub(crate) async fn compact(State(engine): State<Engine>, Json(asked): Json<Named>) -> Result<(), Failed> {
    match engine.has_spool(&asked.name) {
        true => Ok(()),
        false => Err(Failed::not_found(format!("no spool is called `{}`", asked.name))),
    }
}
