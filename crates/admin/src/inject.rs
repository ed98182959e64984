//! `POST /api/inject/v1`: one text for many recipients.
//!
//! 200 with what became of each recipient, also when there is a message for none of them (KumoMTA behaviour); 422 and a JSON
//! pointer when the request can be carried out for nobody; 503 when new mail is not taken now. What is answered with success is
//! queued, and synced to disk unless `deferred_spool` is asked for. With a key, a request that comes again has the first answer.

use crate::access::{Proven, Via};
use crate::answer::{self, Failed, Json};
use crate::describe::{Input, Operation, Takes};
use crate::forms::{JsonOf, Schemas};
use crate::request;
use axum::Extension;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue};
use engine::{BulkError, Door, Engine, KeyedOutcome, NotInjected, RequestKey, Requester};
use injection::{Injection, Outcome};
use serde_json::json;
use std::time::Duration;

/// What a listener's options say about requests for mail.
#[derive(Clone)]
pub(crate) struct Listener {
    /// What it calls this machine, where it says so.
    pub hostname: Option<String>,
    /// How long requests with a key are remembered.
    pub window: Duration,
    /// Octets of a body that is read whole, and of a line of a stream.
    pub body_octets_max: usize,
}

/// The key of a request, if its header has one.
pub(crate) struct Key(Option<String>);

pub(crate) async fn inject(
    State(engine): State<Engine>,
    Extension(Proven(auth)): Extension<Proven>,
    Extension(Via(via)): Extension<Via>,
    Extension(Listener { hostname, window, body_octets_max }): Extension<Listener>,
    _: Takes<JsonOf<Injection>>,
    Key(field): Key,
    request: Request,
) -> Result<(HeaderMap, Json<Outcome>), Failed> {
    let body = {
        // Until it is there, and the next sample of memory shows it.
        let _room = engine.room_for_request(octets_due(request.headers(), body_octets_max)).map_err(failed)?;
        answer::json_octets(request, &engine).await?
    };
    let mut injection = request::read(&body).map_err(|error| match error {
        BulkError::NotJson(why) => Failed::bad(format!("the body is not JSON: {why}")),
        BulkError::Wrong(wrong) => Failed::at(&wrong.pointer, wrong.why),
        error => Failed::unprocessable(error.to_string()),
    })?;
    let from = Requester { auth, via: Some(via.ip()), hostname };
    let place = if field.is_some() { KEY_FIELD } else { "/idempotency_key" };
    let text = match (field, injection.idempotency_key.take()) {
        (Some(field), Some(member)) if field != member => {
            let text = format!("{KEY_FIELD} is {field:?} and idempotency_key {member:?}: expected one of them");
            return Err(Failed::bad(text));
        }
        (field, member) => field.or(member),
    };
    let Some(text) = text else {
        drop(body);
        let outcome = engine.inject_request(injection, from).await.map_err(failed)?;
        return Ok((HeaderMap::new(), Json(outcome)));
    };
    let key = RequestKey::new(Door::Http, (&text, &[]), &from.auth, &[&body[..]], window);
    let key = key.map_err(|why| Failed::unprocessable(format!("{place}: {why}")))?;
    let KeyedOutcome { outcome, is_replayed } = engine.inject_keyed(injection, from, key).await.map_err(failed)?;
    let mut headers = HeaderMap::new();
    if is_replayed {
        headers.insert(REPLAYED_FIELD, HeaderValue::from_static("true"));
    }
    Ok((headers, Json(outcome)))
}

/// Octets of the content that is to come; where it does not say, of one that is not large.
fn octets_due(headers: &HeaderMap, octets_max: usize) -> u64 {
    let length = headers.get(CONTENT_LENGTH).filter(|_| !headers.contains_key(CONTENT_ENCODING));
    let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    length.unwrap_or(OCTETS_USUAL).min(octets_max as u64)
}

fn failed(error: NotInjected) -> Failed {
    match error {
        NotInjected::Wrong(error) => Failed::at(&error.pointer, error.why),
        NotInjected::Later(why) => Failed::unavailable(why),
        NotInjected::Conflict => Failed::conflict(error.to_string()),
        NotInjected::CutShort | NotInjected::AnswerLost => Failed::internal(error.to_string()),
    }
}

impl<S: Sync> FromRequestParts<S> for Key {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Key, Failed> {
        key_field(&parts.headers).map(Key)
    }
}

impl Input for Key {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        let about = "Sent again with the same, it is carried out once.";
        let schema = json!({"type": "string", "pattern": "^[!-~]{1,255}$", "description": about});
        operation.parameter("header", KEY_FIELD, false, schema);
        operation.refusals.push(400);
    }
}

/// The one field that holds a key.
fn key_field(headers: &HeaderMap) -> Result<Option<String>, Failed> {
    let mut found = headers.get_all(KEY_FIELD).iter();
    match (found.next(), found.next()) {
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(Failed::bad(format!("{KEY_FIELD} is there twice: expected one"))),
        (Some(one), None) => {
            let text = one.to_str().map_err(|_| Failed::bad(format!("{KEY_FIELD} is {one:?}: expected ASCII")))?;
            Ok(Some(text.to_owned()))
        }
    }
}

/// Those of a request that does not say how many it has.
const OCTETS_USUAL: u64 = 64 << 10;
/// Sent again with the same key, a request is carried out once.
const KEY_FIELD: &str = "Idempotency-Key";
/// Says that an answer is that of the first time.
const REPLAYED_FIELD: &str = "Idempotency-Replayed";
