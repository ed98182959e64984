//! `GET /api/admin/inspect-message/v1` and `inspect-sched-q/v1`: where messages are, why they wait, what is in them.
//!
//! KumoMTA's fields, and beside them `queue_name`, `state`, `why`, `until`, `what`, `order`, `limit` and `ends` of each message.

use crate::answer::{Failed, Id, Json, civil, timestamp};
use crate::forms::Moment;
use crate::query::Query;
use crate::secrets::without_secrets;
use axum::extract::State;
use engine::{Engine, Inspected, RecoveryState, State as Whereabouts};
use message::{Envelope, Message};
use queue::{Binding, EndOf, OrderId, Place, Sharers};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use time::OffsetDateTime;
use uuid::Uuid;

/// Which message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfMessage {
    /// Of the message: 32 hexadecimal digits, with or without dashes.
    id: Id,
    /// Its content too.
    #[serde(default)]
    want_body: bool,
}

/// Which queue.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfQueue {
    /// The scheduled queue.
    queue_name: String,
    /// Their contents too.
    #[serde(default)]
    want_body: bool,
    /// How many messages at most.
    limit: Option<usize>,
}

/// A message, and where it is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "InspectedMessage")]
pub(crate) struct Entry {
    id: String,
    message: Content,
    queue_name: String,
    state: &'static str,
    /// Why it waits: a code of docs/queue.md.
    why: Option<&'static str>,
    /// When that ends by itself.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<Moment>")]
    until: Option<OffsetDateTime>,
    /// The ready queue, or the reason of the order.
    what: Option<String>,
    /// The order that holds it: what takes an order back wants this id.
    order: Option<Uuid>,
    limit: Option<Limit>,
    ends: Option<Ends>,
}

/// The limit that holds a message back.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "BindingLimit")]
struct Limit {
    /// The option it is from.
    option: &'static str,
    /// Its name, when paths share it by name.
    name: Option<String>,
    /// As an operator writes it.
    value: String,
    /// How much of it is taken, where that is a number of messages or connections.
    used: Option<u64>,
    /// Ready queues whose paths name it too.
    shared_by: Vec<String>,
    /// How many these are.
    shared_by_total: usize,
}

/// When a message ends, whatever becomes of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MessageEnd")]
struct Ends {
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    at: OffsetDateTime,
    /// What says so: `max_age` of its queue, `expires` or `deliver_by` of its own.
    by: &'static str,
}

/// Limits that were looked at, with who shares them.
#[derive(Default)]
struct Limited(HashMap<Binding, Limit>);

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "MessageContent")]
struct Content {
    sender: Option<String>,
    /// One as text, several as a list (KumoMTA behaviour).
    recipient: Value,
    meta: Map<String, Value>,
    /// When it may be sent, where it says so itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduling: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    due: OffsetDateTime,
    num_attempts: u16,
}

/// A scheduled queue.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScheduledQueue")]
pub(crate) struct Queue {
    queue_name: String,
    messages: Vec<Entry>,
    num_scheduled: usize,
    /// It has more messages than are listed.
    is_cut: bool,
    /// What policy said of it; null until it has. Secrets are not told.
    queue_config: Option<Map<String, Value>>,
    /// As many as `num_scheduled` (KumoMTA's field).
    delayed_metric: usize,
    /// When a message came or left last.
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    last_changed: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    now: OffsetDateTime,
}

pub(crate) async fn message(
    State(engine): State<Engine>,
    Query(OfMessage { id, want_body }): Query<OfMessage>,
) -> Result<Json<Entry>, Failed> {
    let Id(id) = id;
    // As it was before the look: it may be one of those that came back since.
    let recovery = engine.recovery_state();
    if let Some(found) = engine.inspect_message(id).await? {
        return Ok(Json(Limited::default().entry(&engine, found, want_body).await));
    }
    Err(nowhere(&format!("no such message: {id}"), &recovery))
}

/// What is said of a message that is in no queue, when earlier mail was as far as that.
pub(crate) fn nowhere(text: &str, recovery: &RecoveryState) -> Failed {
    match missing(recovery) {
        None => Failed::not_found(text.to_owned()),
        Some(why) if *recovery == RecoveryState::Pending => Failed::unavailable(format!("{text}: not yet: {why}")),
        Some(why) => Failed::not_found(format!("{text}; {why}")),
    }
}

/// Which messages of the spool are in no queue; `None` when all are.
pub(crate) fn missing(recovery: &RecoveryState) -> Option<String> {
    match recovery {
        RecoveryState::Done => None,
        RecoveryState::Pending => Some("messages of earlier runs are on their way to their queues".to_owned()),
        RecoveryState::Failed(why) => Some(format!("messages of earlier runs are missing: {why}")),
    }
}

pub(crate) async fn scheduled(
    State(engine): State<Engine>,
    Query(OfQueue { queue_name, want_body, limit }): Query<OfQueue>,
) -> Result<Json<Queue>, Failed> {
    let limit = limit.unwrap_or(if want_body { CONTENTS_LISTED } else { LISTED }).min(LISTED_MAX);
    let Some((found, is_cut)) = engine.inspect_queue(&queue_name, limit, want_body).await? else {
        return Err(Failed::not_found(format!("no such queue: {queue_name}")));
    };
    let mut limited = Limited::default();
    let mut messages = Vec::with_capacity(found.len());
    for message in found {
        messages.push(limited.entry(&engine, message, want_body).await);
    }
    // One that ended meanwhile has nothing more.
    let view = engine.scheduled_view(&queue_name);
    let now = engine.wall_time();
    let config = view.as_ref().and_then(|view| view.config.as_deref()).map(without_secrets).transpose()?;
    let num_scheduled = view.as_ref().map_or(0, |view| view.messages);
    Ok(Json(Queue {
        is_cut,
        messages,
        num_scheduled,
        queue_config: config.and_then(|config| config.as_object().cloned()),
        delayed_metric: num_scheduled,
        last_changed: civil(view.map_or(now, |view| view.changed)),
        now: civil(now),
        queue_name,
    }))
}

impl Limited {
    async fn entry(&mut self, engine: &Engine, found: Inspected, want_body: bool) -> Entry {
        let binding = match &found.state {
            Whereabouts::Queued(_, wait) => wait.limit.clone(),
            Whereabouts::InDelivery => None,
        };
        let limit = match binding {
            Some(binding) => Some(self.limit(engine, binding).await),
            None => None,
        };
        Entry { limit, ..entry(found, want_body) }
    }

    /// Each message of a queue may wait for the same: who shares it is asked once.
    async fn limit(&mut self, engine: &Engine, binding: Binding) -> Limit {
        if let Some(limit) = self.0.get(&binding) {
            return limit.clone();
        }
        let limit = Limit::new(&binding, engine.sharers(&binding).await);
        self.0.entry(binding).or_insert(limit).clone()
    }
}

impl Limit {
    fn new(binding: &Binding, Sharers { names, total }: Sharers) -> Limit {
        Limit {
            option: binding.option,
            name: binding.name.as_deref().map(str::to_owned),
            value: binding.value.clone(),
            used: binding.used,
            shared_by: names.iter().map(ToString::to_string).collect(),
            shared_by_total: total,
        }
    }
}

/// Without its limit.
fn entry(found: Inspected, want_body: bool) -> Entry {
    let Inspected { message, queue, state, end, content } = found;
    let (state, wait) = match state {
        Whereabouts::InDelivery => ("in_delivery", None),
        Whereabouts::Queued(place, wait) => (name(place), Some(wait)),
    };
    let sender = content.as_ref().map(|c| c.envelope.sender.as_str().to_owned());
    let recipient = content.as_ref().map_or_else(|| json!([]), |content| recipients(&message, &content.envelope));
    let data = content.as_ref().filter(|_| want_body).map(|c| {
        let mut data = String::from_utf8_lossy(&c.head).into_owned();
        data.push_str(&String::from_utf8_lossy(&c.body));
        data
    });
    let meta = content.map(|c| c.meta.as_map().clone()).unwrap_or_default();
    Entry {
        id: message.id.to_string(),
        message: Content {
            sender,
            recipient,
            scheduling: meta.get("scheduling").filter(|value| !value.is_null()).cloned(),
            meta,
            data,
            due: civil(message.due),
            num_attempts: message.attempts,
        },
        queue_name: queue.to_string(),
        state,
        why: wait.as_ref().map(|w| w.why.name()),
        until: wait.as_ref().and_then(|w| w.until).and_then(timestamp),
        order: wait.as_ref().and_then(|w| w.order).map(|OrderId(id)| Uuid::from_bytes(id)),
        what: wait.and_then(|w| w.what).map(|what| what.to_string()),
        limit: None,
        ends: end.and_then(|EndOf { at, option }| Some(Ends { at: timestamp(at)?, by: option })),
    }
}

pub(crate) fn name(place: Place) -> &'static str {
    match place {
        Place::Waiting => "waiting",
        Place::Due => "due",
        Place::Ready => "ready",
        Place::Ending => "ending",
        Place::Held => "held",
        Place::Unspooled => "unspooled",
    }
}

impl From<spool::SpoolError> for Failed {
    fn from(error: spool::SpoolError) -> Failed {
        Failed::unavailable(error.to_string())
    }
}

/// Messages listed without a limit.
const LISTED: usize = 1000;
/// The same with their contents.
const CONTENTS_LISTED: usize = 100;
/// Messages listed at most: each is read from the disk.
const LISTED_MAX: usize = 10_000;

/// Those whom it has not reached yet: a text, or a list of another number than one (KumoMTA behaviour).
fn recipients(message: &Message, envelope: &Envelope) -> Value {
    let pending = message.pending().filter_map(|number| envelope.recipients.get(usize::from(number)));
    let mut pending: Vec<Value> = pending.map(|recipient| recipient.as_str().into()).collect();
    if pending.len() == 1 { pending.remove(0) } else { pending.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::WallTime;
    use message::{MessageId, TlsDemand};
    use smtp_wire::{Mailbox, ReversePath};

    #[test]
    fn only_those_are_shown_who_wait_for_it() {
        let mailbox = |address: &str| Mailbox::parse(address).expect("an address");
        let recipients_of = ["a@x.test", "b@x.test", "c@x.test"].map(mailbox).into();
        let envelope =
            Envelope { sender: ReversePath(None), recipients: recipients_of, dsn: None, tls: TlsDemand::Usual };
        let mut message = Message::bare(MessageId::from_bytes([1; 16]), WallTime::EPOCH);
        message.recipients = 3;
        assert_eq!(recipients(&message, &envelope), json!(["a@x.test", "b@x.test", "c@x.test"]));
        message.settled.insert(1);
        assert_eq!(recipients(&message, &envelope), json!(["a@x.test", "c@x.test"]));
        message.settled.insert(0);
        assert_eq!(recipients(&message, &envelope), json!("c@x.test"));
    }
}
