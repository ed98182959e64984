//! `GET /api/check-liveness/v1` and `GET /api/check-readiness/v1`: 200 while a program does what it is there for, 503 and the reason
//! when it does not: the mail server takes mail, `tsa-daemon` log records.
//!
//! The first is KumoMTA's, with its texts: `shutting down`, `load shedding`, `storage is too full`, the spool's own words when it
//! fails. It tells one reason, for which clients are refused. The second is ours: it tells all, a line each, those too for which
//! clients wait: a log or a hook that has no room; and, where nothing stands in the way, what is degraded all the same. Most end
//! by themselves, so `Retry-After` says when it is worth asking again.
//! Both are answered to the very end of the mail server; `tsa-daemon` ends when what it was asked is answered.

use crate::access::is_probe;
use crate::answer::Failed;
use crate::daemon::Daemon;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use engine::Engine;

/// Why not.
type Refusal = (StatusCode, Option<[(HeaderName, &'static str); 1]>, String);

pub(crate) async fn check<D: Daemon>(State(daemon): State<D>) -> Result<&'static str, Refusal> {
    if !daemon.is_serving() {
        return Err((StatusCode::SERVICE_UNAVAILABLE, None, "shutting down".to_owned()));
    }
    match daemon.fault() {
        None => Ok("OK"),
        Some(reason) => Err((StatusCode::SERVICE_UNAVAILABLE, Some(RETRY_AFTER), reason)),
    }
}

pub(crate) async fn check_readiness<D: Daemon>(State(daemon): State<D>) -> Result<String, Refusal> {
    let reasons = daemon.reasons_not_ready();
    if reasons.is_empty() {
        let degradations = daemon.degradations().into_iter().map(|degraded| format!("\ndegraded: {degraded}"));
        return Ok("OK".to_owned() + &degradations.collect::<String>());
    }
    // A program that ends does not take up its work again.
    let retry_after = daemon.is_serving().then_some(RETRY_AFTER);
    Err((StatusCode::SERVICE_UNAVAILABLE, retry_after, reasons.join("\n")))
}

/// A layer in front of everything: a program that ends says so, and does nothing else that it is asked.
pub(crate) async fn while_serving(State(engine): State<Engine>, request: Request, next: Next) -> Response {
    match engine.is_serving() || is_probe(request.uri().path()) {
        true => next.run(request).await,
        false => Failed::unavailable("shutting down".to_owned()).into_response(),
    }
}

/// Seconds within which the server looks at disks and spool again.
const RETRY_AFTER: [(HeaderName, &str); 1] = [(header::RETRY_AFTER, "5")];
