//! What is where: messages, scheduled queues, ready queues, the way that mail would take; and the end of one connection.
//!
//! Owns the options of `inspect-message`, `inspect-sched-q`, `inspect-ready-q`, `resolve-egress-path` and
//! `abort-ready-q-conn`. Out: what the server answered, as JSON, or in blocks of text for people. The answers are described in
//! docs/orders.md and docs/ready-queues.md.

use crate::output::{Column, Out, Table, plain};
use crate::server::Server;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

/// `inspect-message`
#[derive(Debug, Args)]
pub(crate) struct Message {
    /// The message's id, as log records have it.
    id: String,
    /// The content too.
    #[arg(long)]
    want_body: bool,
}

/// `inspect-sched-q`
#[derive(Debug, Args)]
pub(crate) struct Scheduled {
    /// The queue's name: CAMPAIGN:TENANT@DOMAIN!ROUTING_DOMAIN, of which some parts may be absent.
    queue_name: String,
    /// The messages' content too.
    #[arg(long)]
    want_body: bool,
    /// Messages to show.
    #[arg(long, value_name = "N", default_value_t = 5)]
    limit: usize,
    /// Show as many as the server gives.
    #[arg(long, conflicts_with = "limit")]
    no_limit: bool,
}

/// `inspect-ready-q`
#[derive(Debug, Args)]
pub(crate) struct Ready {
    /// The queue's name: SOURCE->SITE@PROTOCOL.
    queue_name: String,
    /// Its connections.
    #[arg(long)]
    connections: bool,
    /// The options of its path.
    #[arg(long)]
    config: bool,
    /// The scheduled queues that feed it.
    #[arg(long)]
    sched_q: bool,
}

/// `resolve-egress-path`
#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// Where the mail would go.
    domain: String,
    /// From which source.
    source: Option<String>,
    /// The options of the path, as TOML.
    #[arg(long)]
    config: bool,
    /// What limits the path.
    #[arg(long, conflicts_with = "config")]
    constraints: bool,
}

/// `abort-ready-q-conn`
#[derive(Debug, Args)]
pub(crate) struct Abort {
    /// The ready queue's name.
    queue_name: String,
    /// The connection, as inspect-ready-q and log records have it.
    session_id: String,
}

pub(crate) const MESSAGE: &str = "/api/admin/inspect-message/v1";
pub(crate) const SCHEDULED: &str = "/api/admin/inspect-sched-q/v1";
pub(crate) const READY: &str = "/api/admin/inspect-ready-q/v1";
pub(crate) const RESOLVE: &str = "/api/admin/resolve-egress-path/v1";

pub(crate) async fn message(server: &Server, out: &mut Out<'_>, given: &Message) -> Result<()> {
    let query = [("id", given.id.as_str()), ("want_body", flag(given.want_body))];
    out.pretty(&server.get(MESSAGE, &query).await?)
}

pub(crate) async fn scheduled(server: &Server, out: &mut Out<'_>, given: &Scheduled) -> Result<()> {
    let limit = if given.no_limit { LISTED_MAX } else { given.limit }.to_string();
    let query =
        [("queue_name", given.queue_name.as_str()), ("want_body", flag(given.want_body)), ("limit", limit.as_str())];
    out.pretty(&server.get(SCHEDULED, &query).await?)
}

pub(crate) async fn ready(server: &Server, out: &mut Out<'_>, given: &Ready) -> Result<()> {
    if out.json && (given.connections || given.config || given.sched_q) {
        bail!("--json shows everything: leave out --connections, --config and --sched-q");
    }
    let feeders = flag(out.json || given.sched_q);
    let query = [("queue_name", given.queue_name.as_str()), ("include_scheduled_queues", feeders)];
    let queue = server.get(READY, &query).await?;
    if out.json {
        return out.pretty(&queue);
    }
    about_ready(out, &queue)?;
    if given.connections {
        out.line("\nConnections:")?;
        out.table(&connections(&queue))?;
    }
    if given.config {
        out.line("\nPath configuration:")?;
        out.line(toml_of(&queue["path_config"])?.trim_end())?;
    }
    if given.sched_q {
        out.line("\nScheduled queues:")?;
        for name in queue["scheduled_queue_names"].as_array().into_iter().flatten() {
            out.line(&plain(name))?;
        }
    }
    Ok(())
}

pub(crate) async fn resolve(server: &Server, out: &mut Out<'_>, given: &Resolve) -> Result<()> {
    if out.json && (given.config || given.constraints) {
        bail!("--json shows everything: leave out --config and --constraints");
    }
    let mut query = vec![("domain", given.domain.as_str())];
    query.extend(given.source.as_deref().map(|source| ("source", source)));
    let way = server.get(RESOLVE, &query).await?;
    match (out.json, given.config, given.constraints) {
        (true, ..) => out.pretty(&way),
        (_, true, _) => out.line(toml_of(&way["path_config"])?.trim_end()),
        (_, _, true) => limits(out, &way["constraints"]),
        _ => {
            pair(out, "domain", &way["domain"])?;
            pair(out, "source", &way["source"])?;
            pair(out, "ready queue", &way["queue_name"])?;
            pool(out, &way)?;
            exchangers(out, &way["mx"])?;
            limits(out, &way["constraints"])
        }
    }
}

/// By what mail for the domain goes; nothing from a server that does not tell.
fn pool(out: &mut Out<'_>, way: &Value) -> Result<()> {
    if way["egress_pool"].is_null() {
        return Ok(());
    }
    pair(out, "pool", &way["egress_pool"])?;
    match &way["pool_problem"] {
        Value::Null => pair(out, "sources of the pool", &way["pool_sources"]),
        problem => pair(out, "sources of the pool", &json!(format!("not known: {}", plain(problem)))),
    }
}

pub(crate) async fn abort(server: &Server, out: &mut Out<'_>, given: &Abort) -> Result<()> {
    let body = json!({"queue_name": given.queue_name, "session_id": given.session_id});
    let said = server.post_for_text("/api/admin/abort-ready-q-conn/v1", &body).await?;
    out.said(&said)
}

fn about_ready(out: &mut Out<'_>, queue: &Value) -> Result<()> {
    pair(out, "queue", &queue["queue_name"])?;
    pair(out, "source", &queue["egress_source"])?;
    pair(out, "pool", &queue["egress_pool"])?;
    pair(out, "protocol", &queue["protocol"])?;
    exchangers(out, &queue["mx"])?;
    let state = &queue["state"];
    pair(out, "ready messages", &state["ready_count"])?;
    pair(out, "connections", &state["connection_count"])?;
    for (name, field) in
        [("suspended", "suspended"), ("limited", "connection_limited"), ("throttled", "connection_rate_throttled")]
    {
        if let Some(obstacle) = state.get(field) {
            let text = format!("{}, since {}", plain(&obstacle["context"]), plain(&obstacle["since"]));
            pair(out, name, &Value::String(text))?;
        }
    }
    limits(out, &queue["constraints"])
}

/// The hosts of a site, by preference; nothing where nobody asked for any.
fn exchangers(out: &mut Out<'_>, mx: &Value) -> Result<()> {
    let Some(by_preference) = mx["by_preference"].as_object() else { return Ok(()) };
    pair(out, "site", &mx["site_name"])?;
    for (preference, hosts) in by_preference {
        pair(out, &format!("mx {preference}"), hosts)?;
    }
    Ok(())
}

fn limits(out: &mut Out<'_>, constraints: &Value) -> Result<()> {
    for (name, constraint) in constraints.as_object().into_iter().flatten() {
        // The rate that is declared is told by the one that binds.
        let (Some(display), false) = (constraint.get("display"), name.ends_with("_declared")) else { continue };
        let source = &constraint["source"];
        let from = match plain(&source["kind"]).as_str() {
            "primary" | "" => String::new(),
            kind => format!(" ({kind} {})", plain(&source["name"])),
        };
        pair(out, name, &Value::String(plain(display) + from.trim_end()))?;
    }
    Ok(())
}

fn connections(queue: &Value) -> Table {
    let headings = [
        Column::Left("SESSION"),
        Column::Left("PHASE"),
        Column::Left("FOR"),
        Column::Left("AGE"),
        Column::Right("D"),
        Column::Right("T"),
        Column::Right("F"),
        Column::Left("HOST"),
    ];
    let mut table = Table::new(&headings);
    for one in queue["dispatchers"].as_array().into_iter().flatten() {
        let phase = match &one["phase"] {
            Value::Object(phase) => phase.iter().map(|(name, detail)| format!("{name} {detail}")).collect(),
            name => plain(name),
        };
        let lengths = ["time_in_current_phase", "age"].map(|name| crate::times::rounded(&plain(&one[name])));
        let counts = ["messages_delivered", "messages_transfailed", "messages_failed"].map(|name| plain(&one[name]));
        let first = [plain(&one["session_id"]), phase];
        table.row(first.into_iter().chain(lengths).chain(counts).chain([plain(&one["detail"])]));
    }
    table
}

fn pair(out: &mut Out<'_>, name: &str, value: &Value) -> Result<()> {
    out.line(format!("{name:<PAIR_CHARS$} {}", plain(value)).trim_end())
}

/// As TOML, which has no null: what is null is absent.
fn toml_of(value: &Value) -> Result<String> {
    toml::to_string_pretty(&without_nulls(value)).context("the configuration has no form as TOML")
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect::<Map<_, _>>())
        }
        Value::Array(all) => all.iter().filter(|one| !one.is_null()).map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn flag(is_set: bool) -> &'static str {
    if is_set { "true" } else { "false" }
}

/// What a server gives at most.
const LISTED_MAX: usize = 10_000;
/// The first column of what is told line by line.
const PAIR_CHARS: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_toml_without_what_is_absent() {
        let config = json!({"connection_limit": 5, "tls": null, "rates": {"a": "5/s", "b": null}, "list": [1, null]});
        assert_eq!(toml_of(&config).expect("a form"), "connection_limit = 5\nlist = [1]\n\n[rates]\na = \"5/s\"\n");
    }

    #[test]
    fn a_connection_has_a_row() {
        let queue = json!({"dispatchers": [{"session_id": "s1", "phase": {"AccumulatingBatch": {"have": 1, "want": 2}},
            "time_in_current_phase": "1s 234ms", "age": "2m 3s 4ms", "messages_delivered": 5, "messages_transfailed": 0,
            "messages_failed": 1, "detail": "mx.a.test (127.0.0.1:25)"}]});
        assert_eq!(
            connections(&queue).lines()[1],
            "s1       AccumulatingBatch {\"have\":1,\"want\":2}  1s   2m 3s  5  0  1  mx.a.test (127.0.0.1:25)"
        );
    }
}
