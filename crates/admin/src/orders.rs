//! `/api/admin/bounce/v1`, `suspend/v1`, `suspend-ready-q/v1`, `hold/v1`, `flush/v1` and `rebind/v1`: orders about queued mail.
//!
//! POST gives one, GET lists those in force with what they have done, DELETE takes one back. Requests and answers have
//! KumoMTA's fields; `hold`, `flush`, and the fields
//! `messages`, `survives_restart`, `pending` and `under_way` are additions.

use crate::answer::{Failed, Id, Json, civil};
use axum::extract::State;
use clock::WallTime;
use config::Duration;
use engine::{Engine, Lasts, NewOrder, OrderError};
use message::MessageId;
use queue::{Action, Criteria, OrderId, OrderState, Rebinding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use uuid::Uuid;

/// What gives an order about scheduled queues.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    campaign: Option<String>,
    tenant: Option<String>,
    domain: Option<String>,
    routing_domain: Option<String>,
    #[serde(default)]
    queue_names: Vec<String>,
    /// Only these messages.
    #[serde(default)]
    messages: Vec<Id>,
    reason: String,
    duration: Option<Duration>,
    #[serde(default, with = "time::serde::rfc3339::option")]
    expires: Option<OffsetDateTime>,
    #[serde(default)]
    suppress_logging: bool,
    #[serde(default = "yes")]
    survives_restart: bool,
}

/// What moves messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebindRequest {
    campaign: Option<String>,
    tenant: Option<String>,
    domain: Option<String>,
    routing_domain: Option<String>,
    #[serde(default)]
    queue_names: Vec<String>,
    /// Only these messages.
    #[serde(default)]
    messages: Vec<Id>,
    reason: String,
    /// Metadata to set.
    data: BTreeMap<String, String>,
    #[serde(default)]
    suppress_logging: bool,
    #[serde(default)]
    always_flush: bool,
    #[serde(default)]
    trigger_rebind_event: bool,
    #[serde(default = "yes")]
    survives_restart: bool,
}

/// What suspends a ready queue.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadyRequest {
    name: String,
    reason: String,
    duration: Option<Duration>,
    #[serde(default, with = "time::serde::rfc3339::option")]
    expires: Option<OffsetDateTime>,
    #[serde(default = "yes")]
    survives_restart: bool,
}

/// What takes an order back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Withdrawal {
    id: Uuid,
}

/// What became of a request.
#[derive(Serialize)]
pub(crate) struct Given {
    id: Uuid,
    /// Messages it is about now.
    messages: usize,
    /// KumoMTA's answer to a bounce has these, always empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounced: Option<BTreeMap<String, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bounced: Option<u64>,
}

/// An order in force.
#[derive(Serialize)]
pub(crate) struct Entry {
    id: Uuid,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    campaign: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    routing_domain: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queue_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<String>,
    reason: String,
    #[serde(flatten)]
    bounce: Option<Bounced>,
    /// What is left of it.
    duration: Duration,
    #[serde(with = "time::serde::rfc3339")]
    expires: OffsetDateTime,
    survives_restart: bool,
}

#[derive(Serialize)]
struct Bounced {
    bounced: BTreeMap<String, u64>,
    total_bounced: u64,
    /// Of these, those whose end is not written yet: DELETE brings them back.
    pending: usize,
    /// Messages that were there when it was given are still looked for.
    under_way: bool,
}

pub(crate) async fn bounce(State(engine): State<Engine>, Json(body): Json<Request>) -> Result<Json<Given>, Failed> {
    let mut given = give(engine, body, Action::Bounce).await?;
    (given.bounced, given.total_bounced) = (Some(BTreeMap::new()), Some(0));
    Ok(Json(given))
}

pub(crate) async fn suspend(State(engine): State<Engine>, Json(body): Json<Request>) -> Result<Json<Given>, Failed> {
    // KumoMTA has no such criterion here.
    give(engine, body, Action::Suspend).await.map(Json)
}

pub(crate) async fn flush(State(engine): State<Engine>, Json(mut body): Json<Request>) -> Result<Json<Given>, Failed> {
    // It is about what waits now.
    (body.duration, body.expires) = (Some(Duration::default()), None);
    give(engine, body, Action::Flush).await.map(Json)
}

pub(crate) async fn hold(State(engine): State<Engine>, Json(body): Json<Request>) -> Result<Json<Given>, Failed> {
    let forever = body.duration.is_none() && body.expires.is_none();
    let lasts = if forever { Lasts::Until(NEVER) } else { lasts(body.duration, body.expires) };
    give_for(engine, body, Action::Hold, lasts).await.map(Json)
}

pub(crate) async fn rebind(
    State(engine): State<Engine>,
    Json(body): Json<RebindRequest>,
) -> Result<Json<Given>, Failed> {
    let RebindRequest { campaign, tenant, domain, routing_domain, queue_names, messages, .. } = body;
    let RebindRequest { reason, data, suppress_logging, always_flush, trigger_rebind_event, survives_restart, .. } =
        body;
    if trigger_rebind_event {
        return Err(Failed::bad(
            "trigger_rebind_event is true: expected false, the event rebind_message is not built yet".to_owned(),
        ));
    }
    let request = Request {
        campaign,
        tenant,
        domain,
        routing_domain,
        queue_names,
        messages,
        reason,
        // It is about what is there now.
        duration: Some(Duration::default()),
        expires: None,
        suppress_logging,
        survives_restart,
    };
    let action = |criteria| Action::Rebind(Rebinding { criteria, data, always_flush });
    give(engine, request, action).await.map(Json)
}

pub(crate) async fn suspend_ready(
    State(engine): State<Engine>,
    Json(body): Json<ReadyRequest>,
) -> Result<Json<Given>, Failed> {
    let ReadyRequest { name, reason, duration, expires, survives_restart } = body;
    let lasts = lasts(duration, expires);
    let action = Action::SuspendReady(name);
    let new = NewOrder { action, reason, lasts, suppress_logging: false, survives_restart };
    order(engine, new).await.map(Json)
}

pub(crate) async fn bounces(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    list(&engine, |action| matches!(action, Action::Bounce(_)))
}

pub(crate) async fn suspensions(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    list(&engine, |action| matches!(action, Action::Suspend(_)))
}

pub(crate) async fn holds(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    list(&engine, |action| matches!(action, Action::Hold(_)))
}

pub(crate) async fn flushes(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    list(&engine, |action| matches!(action, Action::Flush(_)))
}

pub(crate) async fn rebindings(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    list(&engine, |action| matches!(action, Action::Rebind(_)))
}

pub(crate) async fn ready_suspensions(State(engine): State<Engine>) -> Json<Vec<Entry>> {
    list(&engine, |action| matches!(action, Action::SuspendReady(_)))
}

pub(crate) async fn withdraw(
    State(engine): State<Engine>,
    Json(Withdrawal { id }): Json<Withdrawal>,
) -> Result<String, Failed> {
    match engine.withdraw_order(OrderId(*id.as_bytes())).await? {
        Some(_) => Ok(format!("removed {id}\n")),
        None => Err(Failed::not_found(format!("no such entry: {id}"))),
    }
}

async fn give(engine: Engine, body: Request, action: impl FnOnce(Criteria) -> Action) -> Result<Given, Failed> {
    let lasts = lasts(body.duration, body.expires);
    give_for(engine, body, action, lasts).await
}

async fn give_for(
    engine: Engine,
    body: Request,
    action: impl FnOnce(Criteria) -> Action,
    lasts: Lasts,
) -> Result<Given, Failed> {
    let Request { campaign, tenant, domain, routing_domain, queue_names, messages, .. } = body;
    let messages: Vec<MessageId> = messages.into_iter().map(|id| id.0).collect();
    if messages.len() > MESSAGES_MAX {
        let count = messages.len();
        return Err(Failed::bad(format!("messages has {count} ids: expected at most {MESSAGES_MAX}")));
    }
    let action = action(Criteria { campaign, tenant, domain, routing_domain, queue_names, messages });
    let Request { reason, suppress_logging, survives_restart, .. } = body;
    order(engine, NewOrder { action, reason, lasts, suppress_logging, survives_restart }).await
}

async fn order(engine: Engine, new: NewOrder) -> Result<Given, Failed> {
    let (OrderId(id), messages) = engine.order(new).await?;
    Ok(Given { id: Uuid::from_bytes(id), messages, bounced: None, total_bounced: None })
}

fn lasts(duration: Option<Duration>, expires: Option<OffsetDateTime>) -> Lasts {
    match (expires, duration) {
        (Some(at), _) => Lasts::Until(crate::answer::wall(at)),
        (None, duration) => Lasts::For(duration.unwrap_or(DURATION).get()),
    }
}

fn list(engine: &Engine, wanted: impl Fn(&Action) -> bool) -> Json<Vec<Entry>> {
    let now = engine.wall_time();
    let states = engine.orders();
    Json(states.into_iter().filter(|s| wanted(&s.order.action)).map(|s| entry(s, now)).collect())
}

fn entry(state: OrderState, now: WallTime) -> Entry {
    let order = &*state.order;
    let criteria = order.criteria().cloned().unwrap_or_default();
    let counted = !matches!(order.action, Action::Suspend(_) | Action::SuspendReady(_));
    Entry {
        id: Uuid::from_bytes(order.id.0),
        name: match &order.action {
            Action::SuspendReady(name) => Some(name.clone()),
            _ => None,
        },
        campaign: criteria.campaign,
        tenant: criteria.tenant,
        domain: criteria.domain,
        routing_domain: criteria.routing_domain,
        queue_names: criteria.queue_names,
        messages: criteria.messages.iter().map(MessageId::to_string).collect(),
        reason: order.reason.clone(),
        bounce: counted.then(|| Bounced {
            bounced: state.queues.iter().map(|(name, count)| (name.to_string(), *count)).collect(),
            total_bounced: state.total,
            pending: state.pending,
            under_way: state.under_way,
        }),
        duration: order.expires.saturating_since(now).into(),
        expires: civil(order.expires),
        survives_restart: order.survives_restart,
    }
}

fn yes() -> bool {
    true
}

impl From<OrderError> for Failed {
    fn from(error: OrderError) -> Failed {
        match error {
            OrderError::TooMany => Failed::conflict(error.to_string()),
            OrderError::Disk(_) | OrderError::Stopping => Failed::unavailable(error.to_string()),
        }
    }
}

/// Messages that one order names at most.
const MESSAGES_MAX: usize = 1000;
/// When an order without an end expires.
const NEVER: WallTime = WallTime::from_unix_micros(i64::MAX);
/// How long an order without a duration is in force (KumoMTA behaviour).
const DURATION: Duration = Duration::from_minutes(5);
