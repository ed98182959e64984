//! Bodies in and out: JSON that is checked field by field, and refusals as KumoMTA words them.
//!
//! A body that is not JSON is 400, one without the right content type 415, one of the wrong shape 422 with a JSON pointer
//! (RFC 6901) to the place, the value there and what was expected.

use crate::describe::{Input, Operation, Output};
use crate::forms::{Content, JsonOf, Schemas, Way, never_null};

use crate::pointer;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use clock::WallTime;
use config::Fault;
use core::fmt::Display;
use core::str::FromStr;
use message::MessageId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::time::Duration;
use time::OffsetDateTime;

/// A JSON body.
pub(crate) struct Json<T>(pub T);

/// A JSON body whose fields are those of two nouns: what many requests have in common, and what this one has besides.
pub(crate) struct Both<A, B>(pub A, pub B);

/// The first of two.
pub(crate) trait Common: DeserializeOwned {
    /// Its fields.
    const FIELDS: &'static [&'static str];
    /// Those of them for which `null` is a fault, and not as if they were left out.
    const NEVER_NULL: &'static [&'static str];
}

/// A refusal: its status and what it says.
#[derive(Debug)]
pub struct Failed(StatusCode, String);

impl Failed {
    /// 404.
    pub fn not_found(text: String) -> Failed {
        Failed(StatusCode::NOT_FOUND, text)
    }

    /// 405.
    pub(crate) fn not_allowed(text: String) -> Failed {
        Failed(StatusCode::METHOD_NOT_ALLOWED, text)
    }

    /// 409.
    pub fn conflict(text: String) -> Failed {
        Failed(StatusCode::CONFLICT, text)
    }

    /// 503.
    pub fn unavailable(text: String) -> Failed {
        Failed(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// 500.
    pub fn internal(text: String) -> Failed {
        Failed(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    /// 415.
    pub fn unsupported(text: String) -> Failed {
        Failed(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)
    }

    /// 422.
    pub fn unprocessable(text: String) -> Failed {
        Failed(StatusCode::UNPROCESSABLE_ENTITY, text)
    }

    /// 422, of a place in the body; the body itself has no pointer.
    pub(crate) fn at(pointer: &str, fault: impl Display) -> Failed {
        Failed::unprocessable(placed(pointer, fault))
    }

    /// The same as 400: KumoMTA's answer to a value that only other values, or the server, make wrong.
    pub(crate) fn bad_at(pointer: &str, fault: impl Display) -> Failed {
        Failed::bad(placed(pointer, fault))
    }

    /// 403.
    pub fn forbidden(text: String) -> Failed {
        Failed(StatusCode::FORBIDDEN, text)
    }

    /// 421.
    pub fn misdirected(text: String) -> Failed {
        Failed(StatusCode::MISDIRECTED_REQUEST, text)
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.0
    }

    /// 401.
    pub fn unauthorized(text: String) -> Failed {
        Failed(StatusCode::UNAUTHORIZED, text)
    }

    /// 400.
    pub fn bad(text: String) -> Failed {
        Failed(StatusCode::BAD_REQUEST, text)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (self.0, format!("Error: {}\n", self.1)).into_response()
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Json<T>, Failed> {
        parse(value(request, state).await?).map(Json)
    }
}

impl<S: Send + Sync, A: Common, B: DeserializeOwned> FromRequest<S> for Both<A, B> {
    type Rejection = Failed;

    async fn from_request(request: Request, state: &S) -> Result<Both<A, B>, Failed> {
        let (mut common, mut rest) = (value(request, state).await?, Value::Null);
        if let Value::Object(fields) = &mut common {
            if let Some(name) = A::NEVER_NULL.iter().find(|name| fields.get(**name).is_some_and(Value::is_null)) {
                return Err(Failed::at(&format!("/{name}"), "null: expected a value, or nothing at all"));
            }
            let split: (Map<_, _>, Map<_, _>) =
                std::mem::take(fields).into_iter().partition(|(name, _)| A::FIELDS.contains(&name.as_str()));
            (*fields, rest) = (split.0, Value::Object(split.1));
        }
        Ok(Both(parse(common)?, parse_beside(rest, A::FIELDS)?))
    }
}

fn placed(pointer: &str, fault: impl Display) -> String {
    let place = if pointer.is_empty() { "the body" } else { pointer };
    format!("{place}: {fault}")
}

fn parse<T: DeserializeOwned>(value: Value) -> Result<T, Failed> {
    parse_beside(value, &[])
}

/// The same of a part of a body, whose other part may have these fields.
fn parse_beside<T: DeserializeOwned>(value: Value, others: &[&'static str]) -> Result<T, Failed> {
    // Bodies of orders are small, and what is wrong is looked for in them.
    let given = value.clone();
    config::parse("request", value).map_err(|mut error| {
        if let Fault::UnknownField { valid, .. } = &mut error.fault
            && !error.path.contains('.')
        {
            valid.splice(0..0, others.iter().copied());
        }
        Failed::at(&pointer::of_text(&error.path, &given), error.fault)
    })
}

/// What a body means, read as strictly as JSON is.
///
/// # Errors
/// 422 with a JSON pointer.
pub fn read<T: DeserializeOwned>(value: Value) -> Result<T, Failed> {
    serde_path_to_error::deserialize(value).map_err(|error| Failed::at(&pointer::of_path(error.path()), error.inner()))
}

/// The body, which must say that it is JSON.
///
/// # Errors
/// 415 for another content type, 413 for one that is too long, 400 for what is no JSON.
pub async fn value<S: Send + Sync>(request: Request, state: &S) -> Result<Value, Failed> {
    let body = json_octets(request, state).await?;
    serde_json::from_slice(&body).map_err(|error| Failed::bad(format!("the body is not JSON: {error}")))
}

/// The octets of a body that says it is JSON.
///
/// # Errors
/// 415 for another content type, 413 for one that is too long, 400 for one that does not come in time.
pub(crate) async fn json_octets<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Failed> {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = content_type.map(|text| text.split(';').next().unwrap_or(text).trim());
    let is_json = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    if !is_json {
        let found = content_type.unwrap_or("nothing");
        let text = format!("Content-Type is {found:?}: expected application/json");
        return Err(Failed::unsupported(text));
    }
    let reading = tokio::time::timeout(BODY_TIME_MAX, Bytes::from_request(request, state)).await;
    let body = reading.map_err(|_| Failed::bad(format!("the content did not come within {BODY_TIME_MAX:?}")))?;
    body.map_err(|error| Failed(error.status(), error.body_text()))
}

/// How long the content of a request may take.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(300);

impl<T: JsonSchema> Input for Json<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.takes::<JsonOf<T>>(schemas);
    }
}

impl<A: JsonSchema + Common, B: JsonSchema> Input for Both<A, B> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        let (mut form, more) = (schemas.inline::<A>(Way::In), schemas.inline::<B>(Way::In));
        for part in ["properties", "required"] {
            match (form.get_mut(part), more.get(part).cloned()) {
                (Some(Value::Object(some)), Some(Value::Object(others))) => some.extend(others),
                (Some(Value::Array(some)), Some(Value::Array(others))) => some.extend(others),
                (None, Some(others)) => form[part] = others,
                _ => {}
            }
        }
        A::NEVER_NULL.iter().for_each(|name| never_null(&mut form["properties"][*name]));
        operation.takes_form(JsonOf::<A>::MEDIA, form);
    }
}

impl<T: JsonSchema> Output for Json<T> {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.gives::<JsonOf<T>>(200, schemas);
    }
}

/// A message's id as people write it: 32 hexadecimal digits, with or without dashes.
#[derive(Debug)]
pub(crate) struct Id(pub MessageId);

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Id, String> {
        let wrong = |_| format!("{text:?}: expected a message id, 32 hexadecimal digits with or without dashes");
        text.replace('-', "").parse().map(Id).map_err(wrong)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Id, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl JsonSchema for Id {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Id".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})$"})
    }
}

/// A civil moment as the queue knows it; what is out of its range is at its end.
pub(crate) fn wall(at: OffsetDateTime) -> WallTime {
    let micros = at.unix_timestamp_nanos() / 1000;
    WallTime::from_unix_micros(i64::try_from(micros).unwrap_or(i64::MAX))
}

/// The same the other way; beyond the year 9999 it is the end of that.
pub(crate) fn civil(at: WallTime) -> OffsetDateTime {
    let nanos = i128::from(at.unix_micros()) * 1000;
    OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap_or(LAST)
}

/// A moment that can be written; none for one beyond the year 9999: that is never.
pub(crate) fn timestamp(at: WallTime) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(at.unix_micros()) * 1000).ok()
}

/// The last moment that can be written.
const LAST: OffsetDateTime = time::macros::datetime!(9999-12-31 23:59:59 UTC);
