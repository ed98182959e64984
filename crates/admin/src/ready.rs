//! `GET /api/admin/inspect-ready-q/v1`, `ready-q-states/v1`, `resolve-egress-path/v1` and
//! `POST /api/admin/abort-ready-q-conn/v1`: what ready queues are, do and wait for.
//!
//! KumoMTA's fields; what is not known here is absent. Secrets of a configuration are not told.

use crate::answer::{Failed, Json, civil};
use crate::ceilings::Ceilings;
use crate::forms::{Moment, Span};
use crate::query::Query;
use crate::secrets::without_secrets;
use axum::extract::State;
use clock::WallTime;
use config::{Duration, UNSPECIFIED};
use engine::{DispatcherPhase, DispatcherView, Engine, InspectedReady, NotEnded, protocol_of};
use queue::{Limited, Order};
use route::{MailExchangers, RouteKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use time::OffsetDateTime;
use uuid::Uuid;

/// Which ready queue.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfReady {
    /// The ready queue.
    queue_name: String,
    /// Which scheduled queues feed it too.
    #[serde(default)]
    include_scheduled_queues: bool,
}

/// Which way.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfPath {
    /// Where mail would go.
    #[schemars(length(min = 1))]
    domain: String,
    /// The egress source; `unspecified` without one.
    source: Option<String>,
}

/// Which ready queues.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfStates {
    /// Only these; of several in one, commas stand between.
    #[serde(default)]
    queues: Vec<String>,
}

/// Which connection.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfConnection {
    /// The ready queue.
    queue_name: String,
    /// Of the connection, as `inspect-ready-q` names it.
    session_id: Uuid,
}

/// A ready queue.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReadyQueue")]
pub(crate) struct Ready {
    queue_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mx: Option<Exchangers>,
    egress_source: String,
    egress_pool: Arc<str>,
    protocol: &'static str,
    state: ReadyState,
    path_config: Value,
    constraints: Ceilings,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_queue_names: Option<Vec<Arc<str>>>,
    dispatchers: Vec<Dispatcher>,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    now: OffsetDateTime,
}

#[derive(Serialize, JsonSchema)]
struct Exchangers {
    site_name: String,
    by_preference: BTreeMap<u16, Vec<String>>,
    is_mx: bool,
    is_domain_literal: bool,
    is_secure: bool,
}

#[derive(Serialize, JsonSchema)]
struct ReadyState {
    ready_count: usize,
    connection_count: usize,
    #[serde(flatten)]
    limits: Limits,
    #[serde(skip_serializing_if = "Option::is_none")]
    suspended: Option<Since>,
    #[schemars(with = "Span")]
    watchdog_threshold: Duration,
}

/// What a ready queue waits for with connections it wants.
#[derive(Serialize, JsonSchema)]
struct Limits {
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_rate_throttled: Option<Since>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_limited: Option<Since>,
}

#[derive(Serialize, JsonSchema)]
struct Since {
    context: String,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    since: OffsetDateTime,
}

#[derive(Serialize, JsonSchema)]
struct Dispatcher {
    session_id: Uuid,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    started_at: OffsetDateTime,
    #[schemars(with = "Span")]
    age: Duration,
    phase: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Arc<str>>,
    #[schemars(with = "Span")]
    time_in_current_phase: Duration,
    messages_delivered: u64,
    messages_transfailed: u64,
    messages_failed: u64,
    /// Always 0 (KumoMTA behaviour).
    delivered_this_connection: u64,
    overall_rate_per_sec: f64,
}

/// What a connection does: a word, but for one that waits for more messages (KumoMTA behaviour).
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Phase {
    Named(&'static str),
    Gathering {
        #[serde(rename = "AccumulatingBatch")]
        batch: GatheredBatch,
    },
}

/// How many messages a batch has, and how many it waits for.
#[derive(Serialize, JsonSchema)]
struct GatheredBatch {
    have: u32,
    want: u32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct States {
    states_by_ready_queue: BTreeMap<Arc<str>, Limits>,
}

/// A way to a domain.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EgressPath")]
pub(crate) struct Path {
    domain: String,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mx: Option<Exchangers>,
    queue_name: String,
    queue_config: Value,
    path_config: Value,
    constraints: Ceilings,
    /// The queue's pool.
    egress_pool: String,
    /// The sources of that pool: mail goes by these, whatever `source` was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_sources: Option<Vec<String>>,
    /// Why the policy has no such pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_problem: Option<String>,
}

pub(crate) async fn inspect(
    State(engine): State<Engine>,
    Query(OfReady { queue_name, include_scheduled_queues }): Query<OfReady>,
) -> Result<Json<Ready>, Failed> {
    let Some(found) = engine.inspect_ready(&queue_name) else {
        return Err(Failed::not_found(format!("no such ready queue: {queue_name}")));
    };
    let InspectedReady { view, exchangers, dispatchers, now } = found;
    let scheduled_queue_names = match include_scheduled_queues {
        true => Some(engine.feeders(&view, FEEDERS_MAX).await),
        false => None,
    };
    let path = &view.leg.path;
    Ok(Json(Ready {
        protocol: protocol_of(&queue_name),
        queue_name,
        mx: exchangers.as_deref().and_then(Exchangers::of),
        egress_source: view.leg.source.name.clone(),
        egress_pool: view.leg.pool.clone(),
        state: ReadyState {
            ready_count: view.messages,
            connection_count: view.connections.len(),
            limits: view.limits.into(),
            suspended: view.suspended.as_deref().map(suspension),
            watchdog_threshold: path.smtp_progress_timeout().into(),
        },
        path_config: without_secrets(&**path)?,
        constraints: path.constraints().into(),
        scheduled_queue_names,
        dispatchers: dispatchers.into_iter().map(Dispatcher::from).collect(),
        now: civil(now.wall),
    }))
}

/// KumoMTA leaves out the queues that are named; here these alone are shown. Names may hold commas.
pub(crate) async fn states(State(engine): State<Engine>, Query(OfStates { queues }): Query<OfStates>) -> Json<States> {
    let named = |name: &str| queues.iter().any(|list| list == name || list.split(',').any(|one| one == name));
    let all = engine.limited_ready().into_iter();
    let wanted = all.filter(|(name, _)| queues.is_empty() || named(name));
    Json(States { states_by_ready_queue: wanted.map(|(name, limits)| (name, limits.into())).collect() })
}

pub(crate) async fn resolve(
    State(engine): State<Engine>,
    Query(OfPath { domain, source }): Query<OfPath>,
) -> Result<Json<Path>, Failed> {
    if domain.is_empty() {
        return Err(Failed::bad("domain: \"\": expected a domain".to_owned()));
    }
    let source = source.unwrap_or_else(|| UNSPECIFIED.to_owned());
    let found = engine.resolve_path(&domain, &source).await;
    let found = found.map_err(|error| Failed::internal(error.to_string()))?;
    let (pool_sources, pool_problem) = match found.pool_sources {
        Ok(sources) => (Some(sources), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(Json(Path {
        mx: found.exchangers.as_deref().and_then(Exchangers::of),
        queue_name: found.ready_name,
        queue_config: without_secrets(&*found.queue_config)?,
        path_config: without_secrets(&found.path)?,
        constraints: found.path.constraints().into(),
        egress_pool: found.queue_config.egress_pool().to_owned(),
        pool_sources,
        pool_problem,
        domain,
        source,
    }))
}

pub(crate) async fn abort(
    State(engine): State<Engine>,
    Json(OfConnection { queue_name, session_id }): Json<OfConnection>,
) -> Result<String, Failed> {
    match engine.end_connection(&queue_name, session_id) {
        Ok(()) => Ok(format!("aborted {session_id}\n")),
        Err(NotEnded::NoQueue) => Err(Failed::not_found(format!("no such ready queue: {queue_name}"))),
        Err(NotEnded::NoSession) => {
            Err(Failed::not_found(format!("ready queue {queue_name} has no connection {session_id}")))
        }
    }
}

impl Exchangers {
    /// None for an `mx_list`: nobody asked for MX records, and the queue's name has the hosts.
    fn of(exchangers: &MailExchangers) -> Option<Exchangers> {
        let owned = |hosts: Vec<&str>| hosts.into_iter().map(str::to_owned).collect();
        (exchangers.kind() != RouteKind::MxList).then(|| Exchangers {
            site_name: exchangers.site_name().to_owned(),
            by_preference: exchangers.by_pref().into_iter().map(|(pref, hosts)| (pref, owned(hosts))).collect(),
            is_mx: exchangers.is_mx(),
            is_domain_literal: exchangers.is_domain_literal(),
            is_secure: exchangers.is_secure(),
        })
    }
}

impl From<queue::Limits> for Limits {
    fn from(limits: queue::Limits) -> Limits {
        let since = |Limited { context, since }| Since { context, since: civil(since) };
        Limits {
            connection_rate_throttled: limits.connection_rate.map(since),
            connection_limited: limits.connections.map(since),
        }
    }
}

impl From<DispatcherView> for Dispatcher {
    fn from(view: DispatcherView) -> Dispatcher {
        let age_s = view.age.as_secs_f64();
        Dispatcher {
            session_id: view.session_id,
            started_at: civil(view.started_at),
            age: view.age.into(),
            phase: match (view.phase, view.batch) {
                (DispatcherPhase::AccumulatingBatch, (have, want)) => {
                    Phase::Gathering { batch: GatheredBatch { have, want } }
                }
                (phase, _) => Phase::Named(phase.name()),
            },
            detail: view.detail,
            time_in_current_phase: view.time_in_phase.into(),
            messages_delivered: view.delivered,
            messages_transfailed: view.transfailed,
            messages_failed: view.failed,
            delivered_this_connection: 0,
            overall_rate_per_sec: if age_s > 0.0 { view.delivered as f64 / age_s } else { 0.0 },
        }
    }
}

fn suspension(order: &Order) -> Since {
    let given: WallTime = order.given;
    Since { context: order.reason.clone(), since: civil(given) }
}

/// Names of scheduled queues that are told at most.
const FEEDERS_MAX: usize = 10_000;
