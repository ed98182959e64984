//! `GET /api/admin/events/v1`: log records as they come, for who keeps the cursor himself.
//!
//! In: a cursor, or `from`; which types, how many, how long the first may be waited for. Out: `{"events": [...], "next": CURSOR}`. A
//! cursor whose segment is gone is 410 with the oldest there is; one reader too many is 503. The segments are read, so nobody
//! who carries mail is asked.

use crate::answer::Failed;
use crate::describe::{Operation, Output};
use crate::forms::{JsonOf, Schemas};
use crate::query::Query;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use config::{BadText, RecordKey, StreamFrom};
use engine::Engine;
use event_stream::{Asked, Cursor, EventError, LIMIT_MAX, WAIT_MAX};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::time::Duration;

/// What may be asked.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OfEvents {
    /// Of which log; without it, of the only one.
    log_dir: Option<PathBuf>,
    /// Of segments with this suffix.
    suffix: String,
    /// Where to go on: `next` of an answer.
    cursor: Option<String>,
    /// Where to begin: `start`, `end`, or a moment, RFC 3339.
    from: Option<String>,
    /// Only these types of records, with commas between.
    types: String,
    /// How many at most.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// Seconds that the first may be waited for.
    #[schemars(range(max = WAIT_MAX.as_secs()))]
    wait: u64,
}

/// An answer.
pub(crate) struct Answer(Response);

/// Its form, of which `event_stream` makes the octets.
#[derive(JsonSchema)]
#[schemars(rename = "Events")]
#[expect(dead_code, reason = "only its form counts")]
struct Batch {
    /// Log records, as segments have them.
    events: Vec<Map<String, Value>>,
    /// The cursor to go on with.
    next: String,
}

/// The form of an answer to who comes too late.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EventsGone")]
struct Gone {
    error: String,
    /// The cursor of the oldest that is still there.
    oldest: String,
}

pub(crate) async fn events(State(engine): State<Engine>, Query(asked): Query<OfEvents>) -> Result<Answer, Failed> {
    let asked = asked.understood().map_err(Failed::unprocessable)?;
    match engine.events().pull(asked).await {
        Ok(pulled) => Ok(Answer(([(header::CONTENT_TYPE, "application/json")], pulled.body).into_response())),
        Err(gone @ EventError::Gone { .. }) => Ok(Answer(told(&gone))),
        Err(error @ (EventError::Busy { .. } | EventError::Ending)) => Err(Failed::unavailable(error.to_string())),
        Err(error @ EventError::Folder { .. }) => Err(Failed::unprocessable(error.to_string())),
        Err(error) => Err(Failed::internal(error.to_string())),
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Output for Answer {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.gives::<JsonOf<Batch>>(200, schemas);
        operation.gives::<JsonOf<Gone>>(410, schemas);
    }
}

impl OfEvents {
    /// The same, checked; an error names the field, its value and what was expected.
    fn understood(self) -> Result<Asked, String> {
        let OfEvents { log_dir, suffix, cursor, from, types, limit, wait } = self;
        if cursor.is_some() && from.is_some() {
            return Err("cursor and from are both given: expected one of them".to_owned());
        }
        let from = from.map(|from| from.parse().map_err(|error: BadText| error.to_string())).transpose()?;
        let cursor = cursor.map(|cursor| cursor.parse::<Cursor>().map_err(|error| error.to_string())).transpose()?;
        let limit = limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(format!("invalid limit {limit}: expected an integer from 1 to {LIMIT_MAX}"));
        }
        if wait > WAIT_MAX.as_secs() {
            return Err(format!("invalid wait {wait}: expected seconds from 0 to {}", WAIT_MAX.as_secs()));
        }
        let named = types.split(',').map(str::trim).filter(|name| !name.is_empty());
        let types = named.map(kind).collect::<Result<_, _>>()?;
        let (from, wait) = (from.unwrap_or(StreamFrom::End), Duration::from_secs(wait));
        Ok(Asked { log_dir, suffix, cursor, from, types, limit, wait })
    }
}

fn kind(name: &str) -> Result<RecordKey, String> {
    RecordKey::ALL.iter().find(|kind| kind.as_str() == name).copied().ok_or_else(|| {
        let known: Vec<&str> = RecordKey::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("invalid type {name:?}: expected one of {}", known.join(", "))
    })
}

/// 410, for people and programs.
fn told(gone: &EventError) -> Response {
    let oldest = match gone {
        EventError::Gone { oldest, .. } => oldest.to_string(),
        _ => String::new(),
    };
    (StatusCode::GONE, Json(Gone { error: gone.to_string(), oldest })).into_response()
}

/// Events of an answer when nothing is said.
const LIMIT_DEFAULT: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Uri;

    fn of(query: &str) -> Result<Asked, String> {
        let uri: Uri = format!("/?{query}").parse().expect("a path");
        Query::<OfEvents>::of(&uri)?.0.understood()
    }

    #[test]
    fn questions_are_checked_field_by_field() {
        let plain = of("").expect("sound");
        assert_eq!((plain.limit, plain.wait, plain.from), (1000, Duration::ZERO, StreamFrom::End));
        let full = of("types=Delivery,Bounce&limit=10000&wait=60&from=2026-11-25T03:00:00Z&suffix=-x&log_dir=/l")
            .expect("sound");
        assert_eq!(full.types, [RecordKey::Delivery, RecordKey::Bounce]);
        assert_eq!((full.limit, full.wait, full.from), (10_000, WAIT_MAX, StreamFrom::Time(1_795_575_600)));
        for (query, says) in [
            ("limit=0", "invalid limit 0: expected an integer from 1 to 10000"),
            ("limit=10001", "invalid limit 10001"),
            ("wait=61", "invalid wait 61: expected seconds from 0 to 60"),
            ("types=Deliverie", "invalid type \"Deliverie\": expected one of "),
            ("from=soon", "invalid from \"soon\""),
            ("cursor=soon", "invalid cursor \"soon\""),
            ("cursor=MTowOg&from=end", "expected one of them"),
            ("curser=x", "curser"),
        ] {
            let error = of(query).expect_err(query);
            assert!(error.contains(says), "{query}: {error}");
        }
    }
}
