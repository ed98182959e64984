//! `POST /api/inject/v1`: one text for many recipients.
//!
//! 200 with what became of each recipient, also when there is a message for none of them (KumoMTA behaviour); 422 and a JSON
//! pointer when the request can be carried out for nobody; 503 when new mail is not taken now. What is answered with success is
//! queued, and synced to disk unless `deferred_spool` is asked for.

use crate::access::{Proven, Via};
use crate::answer::{self, Failed, Json};
use crate::request;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header;
use engine::{BulkError, Engine, NotInjected, Requester};
use injection::Outcome;

/// What the listener calls this machine, where it says so.
#[derive(Clone)]
pub(crate) struct Name(pub Option<String>);

pub(crate) async fn inject(
    State(engine): State<Engine>,
    Extension(Proven(auth)): Extension<Proven>,
    Extension(Via(via)): Extension<Via>,
    Extension(Name(hostname)): Extension<Name>,
    request: Request,
) -> Result<Json<Outcome>, Failed> {
    if let Some(encoding) = request.headers().get(header::CONTENT_ENCODING) {
        return Err(Failed::bad(format!("Content-Encoding is {encoding:?}: expected none")));
    }
    let body = answer::json_octets(request, &engine).await?;
    let injection = request::read(&body).map_err(|error| match error {
        BulkError::NotJson(why) => Failed::bad(format!("the body is not JSON: {why}")),
        error => Failed::unprocessable(error.to_string()),
    })?;
    let from = Requester { auth, via: Some(via.ip()), hostname };
    engine.inject_request(injection, from).await.map(Json).map_err(|error| match error {
        NotInjected::Wrong(error) => Failed::unprocessable(error.to_string()),
        NotInjected::Later(why) => Failed::unavailable(why),
        error @ NotInjected::CutShort => Failed::internal(error.to_string()),
    })
}
