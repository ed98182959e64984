//! `POST /api/inject/bulk/v1`: a stream of requests, one a line (`application/x-ndjson`), each as `/api/inject/v1` takes it.
//!
//! Out: a stream of answers, one a line, in order. A line's success is written when its messages are durable. 200 says only that
//! lines are read: each answer has its own `error`, with the `status` that the request would have had by itself.

use crate::access::{Proven, Via};
use crate::answer::Failed;
use crate::describe::{Operation, Output, Takes};
use crate::forms::{Content, LinesOf, Schemas};
use crate::inject::Listener;
use crate::lines::Lines;
use crate::request;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use engine::{BulkAnswer, BulkError, Engine, NotInjected, Requester};
use futures_util::stream;
use injection::{Injection, Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use std::convert::Infallible;

pub(crate) async fn inject(
    State(engine): State<Engine>,
    Extension(Proven(auth)): Extension<Proven>,
    Extension(Via(via)): Extension<Via>,
    Extension(Listener { hostname, window, body_octets_max }): Extension<Listener>,
    _: Takes<LinesOf<Injection>>,
    request: Request,
) -> Result<Answers, Failed> {
    let field = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let content_type = field(header::CONTENT_TYPE).unwrap_or("nothing");
    if content_type.split(';').next().unwrap_or_default().trim() != NDJSON {
        return Err(Failed::unsupported(format!("Content-Type is {content_type:?}: expected {NDJSON}")));
    }
    let from = Requester { auth, via: Some(via.ip()), hostname };
    let lines = Lines::new(request.into_body(), body_octets_max);
    let answers = engine.inject_bulk(from, lines, request::read, window).map_err(Failed::unavailable)?;
    let written = stream::unfold(answers, |mut answers| async move {
        let batch = answers.recv().await?;
        Some((Ok::<Bytes, Infallible>(written(&batch)), answers))
    });
    Ok(Answers(Body::from_stream(written)))
}

impl IntoResponse for Answers {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, NDJSON)], self.0).into_response()
    }
}

impl Output for Answers {
    fn describe(operation: &mut Operation, schemas: &mut Schemas) {
        operation.gives::<LinesOf<Answer<'_>>>(200, schemas);
    }
}

/// Answers as they are sent.
fn written(answers: &[BulkAnswer]) -> Bytes {
    let mut out = Vec::with_capacity(answers.len() * ANSWER_OCTETS_EXPECTED);
    for answer in answers {
        // Numbers, strings and lists of strings always have a form.
        let said = match answer {
            BulkAnswer::Done { line, outcome, is_replayed } => {
                serde_json::to_writer(&mut out, &Done { line: *line, outcome, replayed: *is_replayed })
            }
            BulkAnswer::Failed { line, error } => serde_json::to_writer(&mut out, &Fault::of(*line, error)),
            BulkAnswer::End { line, why } => {
                let end = Fault { line: *line, status: 503, error: why.clone(), pointer: None, end: true };
                serde_json::to_writer(&mut out, &end)
            }
        };
        if let Err(error) = said {
            tracing::error!("an answer cannot be written: {error}");
        }
        out.push(b'\n');
    }
    out.into()
}

/// A stream of answers.
pub(crate) struct Answers(Body);

/// One of them.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BulkAnswer")]
#[expect(dead_code, reason = "only its form counts")]
enum Answer<'a> {
    Done(Done<'a>),
    Fault(Fault),
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BulkDone")]
struct Done<'a> {
    line: u64,
    #[serde(flatten)]
    outcome: &'a Outcome,
    /// It is the answer of the first time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    replayed: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BulkFault")]
struct Fault {
    line: u64,
    status: u16,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// Nothing behind it is answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    end: bool,
}

impl Fault {
    fn of(line: u64, error: &BulkError) -> Fault {
        let (status, pointer) = match error {
            BulkError::NotJson(_) | BulkError::Damaged(_) => (400, None),
            BulkError::TooLong { .. } => (413, None),
            BulkError::Wrong(wrong) => (422, Some(wrong.pointer.clone())),
            BulkError::Later(_) => (503, None),
            BulkError::Key(NotInjected::Conflict) => (409, None),
            BulkError::Key(_) => (500, None),
        };
        // Nothing can be read behind damage.
        let end = matches!(error, BulkError::Damaged(_));
        Fault { line, status, error: error.to_string(), pointer, end }
    }
}

/// What comes in and what goes out.
const NDJSON: &str = <LinesOf<Injection> as Content>::MEDIA;
/// An answer in which all is well.
const ANSWER_OCTETS_EXPECTED: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use injection::{InjectionError, RecipientError};

    #[test]
    fn answers_are_lines() {
        let mut outcome = Outcome { success_count: 2, ..Outcome::default() };
        outcome.failed(&RecipientError::new("x", "no\naddress", false));
        let wrong = InjectionError { pointer: "/recipients/0/email".to_owned(), why: "it is 7".to_owned() };
        let answers = [
            BulkAnswer::Done { line: 1, outcome, is_replayed: false },
            BulkAnswer::Done { line: 2, outcome: Outcome::default(), is_replayed: true },
            BulkAnswer::Failed { line: 2, error: BulkError::Key(NotInjected::Conflict) },
            BulkAnswer::Failed { line: 3, error: BulkError::Wrong(wrong) },
            BulkAnswer::Failed { line: 4, error: BulkError::TooLong { octets_max: 5 } },
            BulkAnswer::Failed { line: 5, error: BulkError::Damaged("it ends too early".to_owned()) },
            BulkAnswer::End { line: 5, why: "shutting down".to_owned() },
        ];
        let written = String::from_utf8(written(&answers).to_vec()).expect("text");
        let expected = [
            r#"{"line":1,"success_count":2,"fail_count":1,"failed_recipients":["x"],"errors":["x: no\naddress"]}"#,
            r#"{"line":2,"success_count":0,"fail_count":0,"failed_recipients":[],"errors":[],"replayed":true}"#,
            r#"{"line":2,"status":409,"error":"the idempotency key was used for another request: expected the same request, or another key"}"#,
            r#"{"line":3,"status":422,"error":"/recipients/0/email: it is 7","pointer":"/recipients/0/email"}"#,
            r#"{"line":4,"status":413,"error":"the line is longer than 5 octets, the listener's request_body_limit"}"#,
            r#"{"line":5,"status":400,"error":"it ends too early","end":true}"#,
            r#"{"line":5,"status":503,"error":"shutting down","end":true}"#,
        ];
        assert_eq!(written.lines().collect::<Vec<_>>(), expected);
    }
}
