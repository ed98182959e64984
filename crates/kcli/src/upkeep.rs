//! What operators do to a running server that is about no mail: whether it is ready, its diagnostic log, its spool, its memory and tasks.
//!
//! Owns the options of `set-log-filter`, `spool-compact`, `memory-stats` and `task-dump`. Out: what the server says, often nothing.

use crate::output::Out;
use crate::server::Server;
use anyhow::Result;
use clap::Args;
use serde_json::json;

/// `set-log-filter`
#[derive(Debug, Args)]
pub(crate) struct LogFilter {
    /// As KUMOD_LOG: `info`, or `info,engine=debug`.
    filter: String,
}

/// `spool-compact`
#[derive(Debug, Args)]
pub(crate) struct Compact {
    /// The spool, as define_spool calls it.
    #[arg(long)]
    name: String,
}

/// `task-dump`
#[derive(Debug, Args)]
pub(crate) struct TaskDump {
    /// Seconds that it may take.
    #[arg(long, value_name = "SECONDS", default_value = "5")]
    timeout: u64,
}

pub(crate) async fn check_readiness(server: &Server, out: &mut Out<'_>) -> Result<()> {
    let said = server.get_text("/api/check-readiness/v1", &[]).await?;
    out.said(&said)
}

pub(crate) async fn memory_stats(server: &Server, out: &mut Out<'_>) -> Result<()> {
    let said = server.get_text("/api/admin/memory/stats", &[]).await?;
    out.said(&said)
}

pub(crate) async fn task_dump(server: &Server, out: &mut Out<'_>, given: &TaskDump) -> Result<()> {
    let said = server.get_text("/api/admin/task-dump", &[("timeout", &given.timeout.to_string())]).await?;
    out.said(&said)
}

pub(crate) async fn set_log_filter(server: &Server, out: &mut Out<'_>, given: &LogFilter) -> Result<()> {
    let said =
        server.post_for_text("/api/admin/set_diagnostic_log_filter/v1", &json!({"filter": given.filter})).await?;
    out.said(&said)
}

pub(crate) async fn compact(server: &Server, out: &mut Out<'_>, given: &Compact) -> Result<()> {
    let said = server.post_for_text("/api/admin/spool-compact/v1", &json!({"name": given.name})).await?;
    out.said(&said)
}
