//! `GET /api/admin/search/v1` and `timeline/v1`: where messages are, what became of them, and all that happened to one.
//!
//! In: what is known of a message. Out: a page of messages, newest first where the log is read, and the cursor of the next page; or the
//! log's records of one message. A page may be short, or empty, and have a next one: an answer takes a bounded time.
//! Additions of ours; docs/search.md.

use crate::answer::{Failed, Id, Json, civil, timestamp};
use crate::forms::Moment;
use crate::inspect;
use crate::query::Query;
use axum::extract::State;
use engine::{Among, Engine, FoundMessage, SearchCursor, SearchError, Sought, State as Whereabouts};
use message::MessageId;
use queue::{Criteria, Place};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use time::OffsetDateTime;

/// What is known of a message.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OfSearch {
    /// Of the message: 32 hexadecimal digits, with or without dashes.
    id: Option<Id>,
    /// The address of a recipient.
    recipient: Option<String>,
    /// The address of the sender.
    sender: Option<String>,
    /// The whole name of a scheduled queue.
    queue: Option<String>,
    /// Of the queue's name.
    campaign: Option<String>,
    /// Of the queue's name.
    tenant: Option<String>,
    /// Of the queue's name.
    domain: Option<String>,
    /// Of the queue's name.
    routing_domain: Option<String>,
    /// Where it is, or what became of it.
    #[schemars(extend("enum" = STATES))]
    state: Option<String>,
    /// Where to look; without it, in the log when there is one and an address is given.
    #[schemars(extend("enum" = ["queues", "logs"]))]
    among: Option<String>,
    /// How many at most.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// Where to go on: `next` of an answer.
    cursor: Option<String>,
}

/// Which message.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfTimeline {
    /// Of the message: 32 hexadecimal digits, with or without dashes.
    id: Id,
}

/// Messages.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FoundMessages")]
pub(crate) struct Found {
    messages: Vec<Entry>,
    /// The cursor of the next page; none at the end.
    next: Option<String>,
    /// Log segments that were not read, or not to their ends: they cannot be, have no index and are large, or it took too long; and,
    /// in words, that messages of earlier runs are not back in their queues.
    not_searched: Vec<String>,
}

/// A message.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FoundMessage")]
pub(crate) struct Entry {
    id: String,
    queue_name: String,
    /// As inspect-message has it, or what became of it; `unknown` when the log has no record of that.
    state: &'static str,
    sender: Option<String>,
    /// One as text, several as a list.
    recipient: Value,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<Moment>")]
    created: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<Moment>")]
    due: Option<OffsetDateTime>,
    num_attempts: Option<u16>,
    why: Option<&'static str>,
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<Moment>")]
    until: Option<OffsetDateTime>,
    what: Option<String>,
    /// When it ended.
    #[serde(with = "time::serde::rfc3339::option")]
    #[schemars(with = "Option<Moment>")]
    ended: Option<OffsetDateTime>,
    /// What was answered then.
    #[schemars(with = "Option<Map<String, Value>>")]
    response: Option<Box<RawValue>>,
}

/// All that happened to a message.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Timeline")]
pub(crate) struct Told {
    id: String,
    /// Where it is; null when it is not ours any more.
    now: Option<Entry>,
    events: Vec<Happened>,
    /// There are more events.
    is_cut: bool,
    /// As in a search.
    not_searched: Vec<String>,
}

/// A record of the log.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TimelineEvent")]
pub(crate) struct Happened {
    #[serde(with = "time::serde::rfc3339")]
    #[schemars(with = "Moment")]
    at: OffsetDateTime,
    #[serde(rename = "type")]
    kind: String,
    #[schemars(with = "Map<String, Value>")]
    record: Box<RawValue>,
}

/// Of a record.
#[derive(Deserialize)]
struct Answered<'a> {
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

pub(crate) async fn search(State(engine): State<Engine>, Query(asked): Query<OfSearch>) -> Result<Json<Found>, Failed> {
    let (sought, from, state) = asked.understood().map_err(Failed::unprocessable)?;
    // As it was before the look: those that came back since may have been passed over.
    let missing = inspect::missing(&engine.recovery_state()).filter(|_| sought.among != Some(Among::Logs));
    let page = engine.search(sought, from).await?;
    let messages = page.found.into_iter().map(entry);
    let messages = messages.filter(|entry| state.as_ref().is_none_or(|state| *state == entry.state)).collect();
    Ok(Json(Found {
        messages,
        next: page.next.map(|next| next.to_string()),
        not_searched: page.unread.into_iter().chain(missing).collect(),
    }))
}

pub(crate) async fn timeline(
    State(engine): State<Engine>,
    Query(OfTimeline { id: Id(id) }): Query<OfTimeline>,
) -> Result<Json<Told>, Failed> {
    // First what happened, then where it is: an end in between is told by the latter.
    let logged = match engine.timeline(id).await {
        Err(SearchError::NoLog) => log_search::Timeline::default(),
        logged => logged?,
    };
    let recovery = engine.recovery_state();
    let now = engine.inspect_message(id).await?;
    if now.is_none() && logged.records.is_empty() {
        let unread = logged.unread.join(", ");
        let but = if unread.is_empty() { unread } else { format!("; not searched: {unread}") };
        let text = format!("no such message: {id}: it is not here, and the log has nothing about it{but}");
        return Err(inspect::nowhere(&text, &recovery));
    }
    let missing = inspect::missing(&recovery).filter(|_| now.is_none());
    let events = logged.records.into_iter().filter_map(|record| {
        // It was read as JSON when it was found.
        let line = RawValue::from_string(record.line).ok()?;
        Some(Happened { at: record.at, kind: record.kind, record: line })
    });
    Ok(Json(Told {
        id: id.to_string(),
        events: events.collect(),
        now: now.map(|now| entry(FoundMessage::from(now))),
        is_cut: logged.is_cut,
        not_searched: logged.unread.into_iter().chain(missing).collect(),
    }))
}

impl OfSearch {
    /// The same, checked; an error names the field, its value and what was expected.
    fn understood(self) -> Result<(Sought, Option<SearchCursor>, Option<String>), String> {
        let OfSearch { id, recipient, sender, queue, campaign, tenant, domain, routing_domain, .. } = self;
        let OfSearch { state, among, limit, cursor, .. } = self;
        if queue.is_some() && (campaign.is_some() || tenant.is_some() || domain.is_some() || routing_domain.is_some()) {
            return Err("queue is given beside a part of its name: expected either".to_owned());
        }
        let limit = limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(format!("invalid limit {limit}: expected an integer from 1 to {LIMIT_MAX}"));
        }
        if let Some(state) = state.as_deref().filter(|state| !STATES.contains(state)) {
            return Err(format!("invalid state {state:?}: expected one of {}", STATES.join(", ")));
        }
        let among = match among.as_deref() {
            None => None,
            Some("queues") => Some(Among::Queues),
            Some("logs") => Some(Among::Logs),
            Some(other) => return Err(format!("invalid among {other:?}: expected queues or logs")),
        };
        let is_over = state.as_deref().is_some_and(|state| ENDED.contains(&state));
        let is_named = id.is_some() || recipient.is_some() || sender.is_some();
        match (&state, among) {
            (Some(state), Some(Among::Queues)) if is_over => {
                return Err(format!("state {state:?} is of messages that are in no queue: expected among=logs"));
            }
            (Some(state), _) if is_over && !is_named => {
                return Err(format!(
                    "state {state:?} is of messages that are in no queue: expected id, recipient or sender too"
                ));
            }
            (_, Some(Among::Logs)) if !is_named => {
                return Err("among=logs: expected id, recipient or sender too".to_owned());
            }
            _ => {}
        }
        let from = cursor
            .map(|cursor| cursor.parse())
            .transpose()
            .map_err(|error: log_search::BadCursor| error.to_string())?;
        let criteria = Criteria {
            campaign,
            tenant,
            domain,
            routing_domain,
            queue_names: queue.into_iter().collect(),
            messages: id.map(|Id(id)| id).into_iter().collect(),
        };
        let whereabouts = state.as_deref().and_then(whereabouts);
        Ok((Sought { criteria, recipient, sender, whereabouts, among, limit }, from, state))
    }
}

/// Where messages of that state are; none for one of messages that have ended.
fn whereabouts(state: &str) -> Option<engine::InQueues> {
    let places = [Place::Waiting, Place::Due, Place::Ready, Place::Ending, Place::Held, Place::Unspooled];
    let at = places.into_iter().find(|place| inspect::name(*place) == state).map(engine::InQueues::At);
    at.or((state == "in_delivery").then_some(engine::InQueues::InDelivery))
}

fn entry(found: FoundMessage) -> Entry {
    let FoundMessage { id, sender, mut recipients, queue, now, end } = found;
    let created = id.parse::<MessageId>().ok().and_then(|id| timestamp(id.created()));
    let (state, wait) = match (&now, &end) {
        (Some(now), _) => match &now.state {
            Whereabouts::InDelivery => ("in_delivery", None),
            Whereabouts::Queued(place, wait) => (inspect::name(*place), Some(wait.clone())),
        },
        (None, Some(end)) => (ended_as(&end.kind), None),
        (None, None) => ("unknown", None),
    };
    let answered = end.as_ref().and_then(|end| serde_json::from_str::<Answered<'_>>(&end.line).ok());
    Entry {
        id,
        queue_name: queue.to_string(),
        state,
        sender,
        recipient: match recipients.len() {
            1 => Value::from(recipients.remove(0)),
            _ => Value::from(recipients),
        },
        created,
        due: now.as_ref().map(|now| civil(now.message.due)),
        num_attempts: now.as_ref().map(|now| now.message.attempts),
        why: wait.as_ref().map(|wait| wait.why.name()),
        until: wait.as_ref().and_then(|wait| wait.until).and_then(timestamp),
        what: wait.and_then(|wait| wait.what).map(|what| what.to_string()),
        response: answered.and_then(|answered| answered.response.map(ToOwned::to_owned)),
        ended: end.map(|end| end.at),
    }
}

fn ended_as(kind: &str) -> &'static str {
    match kind {
        "Delivery" => "delivered",
        "Bounce" => "bounced",
        "AdminBounce" => "admin_bounced",
        "Expiration" => "expired",
        "XferOut" => "transferred",
        _ => "unknown",
    }
}

impl From<SearchError> for Failed {
    fn from(error: SearchError) -> Failed {
        match error {
            SearchError::Busy { .. } | SearchError::Spool(_) => Failed::unavailable(error.to_string()),
            SearchError::NoLog => Failed::unprocessable(error.to_string()),
            SearchError::Log(_) | SearchError::Thread(_) => Failed::internal(error.to_string()),
        }
    }
}

/// All states.
const STATES: [&str; 13] = [
    "waiting",
    "due",
    "ready",
    "in_delivery",
    "ending",
    "held",
    "unspooled",
    ENDED[0],
    ENDED[1],
    ENDED[2],
    ENDED[3],
    ENDED[4],
    ENDED[5],
];
/// Those of messages that are not ours any more.
const ENDED: [&str; 6] = ["delivered", "bounced", "admin_bounced", "expired", "transferred", "unknown"];
/// Messages of a page when nothing is said.
const LIMIT_DEFAULT: usize = 50;
/// Messages of a page at most.
const LIMIT_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Uri;

    fn of(query: &str) -> Result<(Sought, Option<SearchCursor>, Option<String>), String> {
        let uri: Uri = format!("/?{query}").parse().expect("a path");
        Query::<OfSearch>::of(&uri)?.0.understood()
    }

    #[test]
    fn questions_are_checked_field_by_field() {
        let (plain, from, state) = of("").expect("everything");
        assert_eq!((plain.limit, plain.whereabouts, from, state), (50, None, None, None));
        let (full, from, _) =
            of("recipient=a@x.test&tenant=shop&state=delivered&limit=1000&cursor=q77").expect("sound");
        assert_eq!((full.recipient.as_deref(), full.criteria.tenant.as_deref()), (Some("a@x.test"), Some("shop")));
        assert_eq!((full.whereabouts, from), (None, Some(SearchCursor::Queues(77))));
        for state in STATES.iter().filter(|state| !ENDED.contains(state)) {
            let found = of(&format!("state={state}")).expect("sound").0.whereabouts;
            let name = found.map(|found| match found {
                engine::InQueues::At(place) => inspect::name(place),
                engine::InQueues::InDelivery => "in_delivery",
            });
            assert_eq!(name, Some(*state));
        }
        for (query, says) in [
            ("limit=0", "invalid limit 0: expected an integer from 1 to 1000"),
            ("limit=1001", "invalid limit 1001"),
            ("state=gone", "invalid state \"gone\": expected one of waiting, due, "),
            ("state=bounced", "expected id, recipient or sender too"),
            ("state=bounced&sender=a@x&among=queues", "expected among=logs"),
            ("among=logs", "expected id, recipient or sender too"),
            ("among=spool&sender=a@x", "invalid among \"spool\": expected queues or logs"),
            ("queue=x.test&domain=x.test", "expected either"),
            ("cursor=soon", "invalid cursor \"soon\""),
            ("id=7", "expected a message id, 32 hexadecimal digits"),
            ("recipent=x", "recipent"),
        ] {
            let error = of(query).expect_err(query);
            assert!(error.contains(says), "{query}: {error}");
        }
    }
}
