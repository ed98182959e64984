//! `/api/admin/bounce/v1`, `suspend/v1`, `suspend-ready-q/v1`, `hold/v1`, `flush/v1`, `rebind/v1` and `xfer/v1`: orders about
//! queued mail.
//!
//! POST gives one, GET lists those in force with what they have done, DELETE takes one back. Requests and answers have
//! KumoMTA's fields; `hold`, `flush`, and the fields
//! `messages`, `survives_restart`, `replaces`, `pending` and `under_way` are additions.

use crate::answer::{Both, Common, Failed, Id, Json, civil};
use crate::forms::{Moment, Span};
use crate::instead_of::Replaces;
use axum::extract::State;
use clock::WallTime;
use config::Duration;
use engine::{Engine, GivenOrder, Lasts, NewOrder, OrderError};
use message::MessageId;
use policy::Event;
use queue::{Action, Change, Criteria, OrderId, OrderState, Rebinding, xfer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use time::OffsetDateTime;
use uuid::Uuid;

/// Which messages an order is about, and why: what all orders about scheduled queues have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct About {
    /// Only messages of this campaign.
    campaign: Option<String>,
    /// Only messages of this tenant.
    tenant: Option<String>,
    /// Only messages for this domain.
    domain: Option<String>,
    /// Only messages that are routed to this domain.
    routing_domain: Option<String>,
    /// Only these scheduled queues; campaign, tenant and domain are not looked at then.
    #[serde(default)]
    queue_names: Vec<String>,
    /// Only these messages, one at least.
    #[serde(default)]
    #[schemars(with = "Vec<Id>", length(min = 1, max = MESSAGES_MAX))]
    messages: Option<Vec<Id>>,
    /// For people, and for the log.
    reason: String,
    /// It is in force after a restart too.
    #[serde(default = "yes")]
    survives_restart: bool,
}

impl Common for About {
    const FIELDS: &'static [&'static str] =
        &["campaign", "tenant", "domain", "routing_domain", "queue_names", "messages", "reason", "survives_restart"];
    // What became of a list that was not there must not become an order about all.
    const NEVER_NULL: &'static [&'static str] = &["messages"];
}

/// How long it lasts.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lasting {
    /// How long it is in force.
    #[schemars(with = "Option<Span>")]
    duration: Option<Duration>,
    /// Until when; wins over `duration`.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<Moment>")]
    expires: Option<OffsetDateTime>,
    /// What it does to messages is not logged.
    #[serde(default)]
    suppress_logging: bool,
    /// Only in the place of the order of this id, or of `none`: 409 when another one of these criteria is in force, or none is. With
    /// `shorter` one that lasts as long stays, and its id is the answer.
    #[serde(default)]
    replaces: Replaces,
}

/// How messages are moved.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Moving {
    /// Metadata to set, or what `rebind_message` is told.
    data: BTreeMap<String, String>,
    /// What it does to messages is not logged.
    #[serde(default)]
    suppress_logging: bool,
    /// Messages are due at once, whether their queue changes or not.
    #[serde(default)]
    always_flush: bool,
    /// The event `rebind_message` decides what becomes of each message.
    #[serde(default)]
    trigger_rebind_event: bool,
}

/// Where messages are transferred.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Transfer {
    /// The other node's URL.
    target: String,
}

/// What ends the transfers of a queue.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CancelRequest {
    /// A queue of messages to another node, as `inspect-sched-q` names it.
    queue_name: String,
    /// For people, and for the log.
    reason: String,
    /// The other node is gone for good: messages that it was handed come back too. Should it come back all the same, they may be
    /// delivered twice.
    #[serde(default)]
    node_is_gone: bool,
}

/// What suspends a ready queue.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadyRequest {
    /// The ready queue.
    name: String,
    /// For people, and for the log.
    reason: String,
    /// How long it is in force.
    #[schemars(with = "Option<Span>")]
    duration: Option<Duration>,
    /// Until when; wins over `duration`.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<Moment>")]
    expires: Option<OffsetDateTime>,
    /// It is in force after a restart too.
    #[serde(default = "yes")]
    survives_restart: bool,
    /// Only in the place of the order of this id, or of `none`: 409 when another one of that name is in force, or none is. With
    /// `shorter` one that lasts as long stays, and its id is the answer.
    #[serde(default)]
    replaces: Replaces,
}

/// What takes an order back.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Withdrawal {
    /// Of the order.
    id: Uuid,
}

/// What of a request is the same for every action.
struct How {
    lasts: Lasts,
    suppress_logging: bool,
    replaces: Replaces,
}

impl How {
    fn of(Lasting { duration, expires, suppress_logging, replaces }: Lasting) -> How {
        How { lasts: lasts(duration, expires), suppress_logging, replaces }
    }

    fn order(self, action: Action, reason: String, survives_restart: bool) -> NewOrder {
        let How { lasts, suppress_logging, replaces: Replaces(instead_of) } = self;
        NewOrder { action, reason, lasts, suppress_logging, survives_restart, instead_of }
    }
}

/// What became of a request.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Given {
    /// Of the order: DELETE takes it.
    id: Uuid,
    /// Messages it is about now.
    messages: usize,
    /// KumoMTA's answer to a bounce has these, always empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounced: Option<BTreeMap<String, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bounced: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<Replaced>,
}

/// The order about the same mail that gave way to the new one; given again as it was, it takes its place back.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ReplacedOrder")]
struct Replaced {
    id: Uuid,
    reason: String,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    expires: OffsetDateTime,
    survives_restart: bool,
    suppress_logging: bool,
}

/// An order in force.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Order")]
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
    /// The node messages are transferred to.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    reason: String,
    #[serde(flatten)]
    bounce: Option<Bounced>,
    /// What is left of it.
    #[schemars(with = "Span")]
    duration: Duration,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    expires: OffsetDateTime,
    survives_restart: bool,
    /// Where it is so: what it does to messages is not logged.
    #[serde(skip_serializing_if = "is_no")]
    suppress_logging: bool,
}

#[derive(Serialize, JsonSchema)]
struct Bounced {
    bounced: BTreeMap<String, u64>,
    total_bounced: u64,
    /// Of these, those whose end is not written yet: DELETE brings them back.
    pending: usize,
    /// Messages that were there when it was given are still looked for.
    under_way: bool,
}

pub(crate) async fn bounce(
    State(engine): State<Engine>,
    Both(about, lasting): Both<About, Lasting>,
) -> Result<Json<Given>, Failed> {
    let mut given = give(engine, about, lasting, Action::Bounce).await?;
    (given.bounced, given.total_bounced) = (Some(BTreeMap::new()), Some(0));
    Ok(Json(given))
}

pub(crate) async fn suspend(
    State(engine): State<Engine>,
    Both(about, lasting): Both<About, Lasting>,
) -> Result<Json<Given>, Failed> {
    give(engine, about, lasting, Action::Suspend).await.map(Json)
}

pub(crate) async fn flush(
    State(engine): State<Engine>,
    Both(about, lasting): Both<About, Lasting>,
) -> Result<Json<Given>, Failed> {
    let how = How { lasts: AT_ONCE, suppress_logging: lasting.suppress_logging, replaces: lasting.replaces };
    give_for(engine, about, Action::Flush, how).await.map(Json)
}

pub(crate) async fn hold(
    State(engine): State<Engine>,
    Both(about, lasting): Both<About, Lasting>,
) -> Result<Json<Given>, Failed> {
    let forever = lasting.duration.is_none() && lasting.expires.is_none();
    let mut how = How::of(lasting);
    if forever {
        how.lasts = Lasts::Until(NEVER);
    }
    give_for(engine, about, Action::Hold, how).await.map(Json)
}

pub(crate) async fn rebind(
    State(engine): State<Engine>,
    Both(about, moving): Both<About, Moving>,
) -> Result<Json<Given>, Failed> {
    let Moving { data, suppress_logging, always_flush, trigger_rebind_event } = moving;
    if trigger_rebind_event && !engine.handles(Event::RebindMessage) {
        let fault = "true: expected a policy that handles the event rebind_message, or false";
        return Err(Failed::bad_at("/trigger_rebind_event", fault));
    }
    let change = if trigger_rebind_event { Change::Ask(data) } else { Change::Set(data) };
    let action = |criteria| Action::Rebind(Rebinding { criteria, change, always_flush });
    give_once(engine, about, suppress_logging, action).await.map(Json)
}

pub(crate) async fn xfer(
    State(engine): State<Engine>,
    Both(about, transfer): Both<About, Transfer>,
) -> Result<Json<Given>, Failed> {
    let target = xfer::check_target(&transfer.target).map_err(|fault| Failed::bad_at("/target", fault))?.to_owned();
    let change = Change::Xfer(target);
    let action = |criteria| Action::Rebind(Rebinding { criteria, change, always_flush: false });
    give_once(engine, about, false, action).await.map(Json)
}

pub(crate) async fn cancel_xfer(
    State(engine): State<Engine>,
    Json(body): Json<CancelRequest>,
) -> Result<Json<Given>, Failed> {
    let CancelRequest { queue_name, reason, node_is_gone } = body;
    if xfer::target_of(&queue_name).is_none() {
        let fault = format!("{queue_name:?}: expected a queue of messages to another node");
        return Err(Failed::bad_at("/queue_name", fault));
    }
    if !engine.has_queue(&queue_name) {
        return Err(Failed::not_found(format!("no such queue: {queue_name}")));
    }
    let criteria = Criteria { queue_names: [queue_name].into(), ..Criteria::default() };
    let change = Change::CancelXfer { node_is_gone };
    let action = Action::Rebind(Rebinding { criteria, change, always_flush: false });
    let how = How { lasts: AT_ONCE, suppress_logging: false, replaces: Replaces::default() };
    order(engine, how.order(action, reason, true)).await.map(Json)
}

pub(crate) async fn suspend_ready(
    State(engine): State<Engine>,
    Json(body): Json<ReadyRequest>,
) -> Result<Json<Given>, Failed> {
    let ReadyRequest { name, reason, duration, expires, survives_restart, replaces } = body;
    let how = How { lasts: lasts(duration, expires), suppress_logging: false, replaces };
    order(engine, how.order(Action::SuspendReady(name), reason, survives_restart)).await.map(Json)
}

type Listed = Json<Vec<Entry>>;
type Ended = Result<String, Failed>;

pub(crate) async fn bounces(State(engine): State<Engine>) -> Listed {
    list(&engine, is_bounce)
}

pub(crate) async fn end_bounce(State(engine): State<Engine>, Json(which): Json<Withdrawal>) -> Ended {
    withdraw(engine, which, is_bounce).await
}

pub(crate) async fn suspensions(State(engine): State<Engine>) -> Listed {
    list(&engine, is_suspension)
}

pub(crate) async fn end_suspension(State(engine): State<Engine>, Json(which): Json<Withdrawal>) -> Ended {
    withdraw(engine, which, is_suspension).await
}

pub(crate) async fn ready_suspensions(State(engine): State<Engine>) -> Listed {
    list(&engine, is_ready_suspension)
}

pub(crate) async fn end_ready_suspension(State(engine): State<Engine>, Json(which): Json<Withdrawal>) -> Ended {
    withdraw(engine, which, is_ready_suspension).await
}

pub(crate) async fn holds(State(engine): State<Engine>) -> Listed {
    list(&engine, is_hold)
}

pub(crate) async fn end_hold(State(engine): State<Engine>, Json(which): Json<Withdrawal>) -> Ended {
    withdraw(engine, which, is_hold).await
}

pub(crate) async fn flushes(State(engine): State<Engine>) -> Listed {
    list(&engine, is_flush)
}

pub(crate) async fn end_flush(State(engine): State<Engine>, Json(which): Json<Withdrawal>) -> Ended {
    withdraw(engine, which, is_flush).await
}

pub(crate) async fn rebindings(State(engine): State<Engine>) -> Listed {
    list(&engine, is_rebinding)
}

pub(crate) async fn end_rebinding(State(engine): State<Engine>, Json(which): Json<Withdrawal>) -> Ended {
    withdraw(engine, which, is_rebinding).await
}

pub(crate) async fn xfers(State(engine): State<Engine>) -> Listed {
    list(&engine, is_xfer)
}

pub(crate) async fn end_xfer(State(engine): State<Engine>, Json(which): Json<Withdrawal>) -> Ended {
    withdraw(engine, which, is_xfer).await
}

fn is_bounce(action: &Action) -> bool {
    matches!(action, Action::Bounce(_))
}

fn is_suspension(action: &Action) -> bool {
    matches!(action, Action::Suspend(_))
}

fn is_ready_suspension(action: &Action) -> bool {
    matches!(action, Action::SuspendReady(_))
}

fn is_hold(action: &Action) -> bool {
    matches!(action, Action::Hold(_))
}

fn is_flush(action: &Action) -> bool {
    matches!(action, Action::Flush(_))
}

fn is_rebinding(action: &Action) -> bool {
    matches!(action, Action::Rebind(_)) && !is_xfer(action)
}

fn is_xfer(action: &Action) -> bool {
    let Action::Rebind(rebinding) = action else { return false };
    matches!(rebinding.change, Change::Xfer(_) | Change::CancelXfer { .. })
}

/// Takes back an order of a kind. One of another kind is not there: who may take suspensions back may do no more.
async fn withdraw(engine: Engine, Withdrawal { id }: Withdrawal, is_it: impl Fn(&Action) -> bool) -> Ended {
    let order = OrderId(*id.as_bytes());
    let is_there = engine.order_of(order).is_some_and(|order| is_it(&order.action));
    match is_there && engine.withdraw_order(order).await?.is_some() {
        true => Ok(format!("removed {id}\n")),
        false => Err(Failed::not_found(format!("no such entry: {id}"))),
    }
}

async fn give(
    engine: Engine,
    about: About,
    lasting: Lasting,
    action: impl FnOnce(Criteria) -> Action,
) -> Result<Given, Failed> {
    give_for(engine, about, action, How::of(lasting)).await
}

/// An order about what is there now.
async fn give_once(
    engine: Engine,
    about: About,
    suppress_logging: bool,
    action: impl FnOnce(Criteria) -> Action,
) -> Result<Given, Failed> {
    let how = How { lasts: AT_ONCE, suppress_logging, replaces: Replaces::default() };
    give_for(engine, about, action, how).await
}

async fn give_for(
    engine: Engine,
    about: About,
    action: impl FnOnce(Criteria) -> Action,
    how: How,
) -> Result<Given, Failed> {
    let About { campaign, tenant, domain, routing_domain, queue_names, messages, reason, survives_restart } = about;
    if messages.as_ref().is_some_and(Vec::is_empty) {
        // A filter that found none must not become an order about all.
        return Err(Failed::bad_at(
            "/messages",
            "no ids: expected one at least; without `messages` it is about all mail",
        ));
    }
    let messages: BTreeSet<MessageId> = messages.into_iter().flatten().map(|id| id.0).collect();
    let queue_names = queue_names.into_iter().collect();
    // Names are compared in any case, and so are orders with each other.
    let [domain, routing_domain] = [domain, routing_domain].map(|name| name.map(|name| name.to_ascii_lowercase()));
    if messages.len() > MESSAGES_MAX {
        let count = messages.len();
        return Err(Failed::bad_at("/messages", format!("{count} ids: expected at most {MESSAGES_MAX}")));
    }
    let action = action(Criteria { campaign, tenant, domain, routing_domain, queue_names, messages });
    order(engine, how.order(action, reason, survives_restart)).await
}

async fn order(engine: Engine, new: NewOrder) -> Result<Given, Failed> {
    let GivenOrder { id: OrderId(id), messages, replaced } = engine.order(new).await?;
    let replaced = replaced.map(|order| Replaced {
        id: Uuid::from_bytes(order.id.0),
        reason: order.reason.clone(),
        expires: civil(order.expires),
        survives_restart: order.survives_restart,
        suppress_logging: order.suppress_logging,
    });
    Ok(Given { id: Uuid::from_bytes(id), messages, bounced: None, total_bounced: None, replaced })
}

fn lasts(duration: Option<Duration>, expires: Option<OffsetDateTime>) -> Lasts {
    match (expires, duration) {
        (Some(at), _) => Lasts::Until(crate::answer::wall(at)),
        (None, duration) => Lasts::For(duration.unwrap_or(DURATION).get()),
    }
}

fn list(engine: &Engine, wanted: impl Fn(&Action) -> bool) -> Json<Vec<Entry>> {
    let now = engine.wall_time();
    Json(engine.orders(wanted).into_iter().map(|state| entry(state, now)).collect())
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
        queue_names: criteria.queue_names.into_iter().collect(),
        messages: criteria.messages.iter().map(MessageId::to_string).collect(),
        target: match &order.action {
            Action::Rebind(Rebinding { change: Change::Xfer(target), .. }) => Some(target.clone()),
            _ => None,
        },
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
        suppress_logging: order.suppress_logging,
    }
}

fn yes() -> bool {
    true
}

fn is_no(is_so: &bool) -> bool {
    !is_so
}

impl From<OrderError> for Failed {
    fn from(error: OrderError) -> Failed {
        match error {
            OrderError::TooMany
            | OrderError::TooManySuspensions
            | OrderError::TooManySurviving
            | OrderError::Changed { .. } => Failed::conflict(error.to_string()),
            OrderError::Disk(_) | OrderError::Stopping => Failed::unavailable(error.to_string()),
        }
    }
}

/// Messages that one order names at most.
const MESSAGES_MAX: usize = 1000;
/// How long an order lasts that is about what is there now.
const AT_ONCE: Lasts = Lasts::For(core::time::Duration::ZERO);
/// When an order without an end expires.
const NEVER: WallTime = WallTime::from_unix_micros(i64::MAX);
/// How long an order without a duration is in force (KumoMTA behaviour).
const DURATION: Duration = Duration::from_minutes(5);
