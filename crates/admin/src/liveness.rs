//! `GET /api/check-liveness/v1`: 200 while new mail is taken, 503 and the reason when it is not.
//!
//! KumoMTA's texts: `shutting down`, `load shedding`, `storage is too full`, the spool's own words when it fails. Most end by
//! themselves, so `Retry-After` says when it is worth asking again.

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use engine::{Engine, RecoveryState};

/// Why not.
type Refusal = (StatusCode, Option<[(HeaderName, &'static str); 1]>, String);

pub(crate) async fn check(State(engine): State<Engine>) -> Result<&'static str, Refusal> {
    if !engine.is_serving() {
        return Err((StatusCode::SERVICE_UNAVAILABLE, None, "shutting down".to_owned()));
    }
    let of_recovery = match engine.recovery_state() {
        RecoveryState::Failed(why) => Some(format!("spool unhealthy: {why}")),
        RecoveryState::Pending | RecoveryState::Done => None,
    };
    match engine.pressure().reason().or(of_recovery) {
        None => Ok("OK"),
        Some(reason) => Err((StatusCode::SERVICE_UNAVAILABLE, Some(RETRY_AFTER), reason)),
    }
}

/// Seconds within which the server looks at disks and spool again.
const RETRY_AFTER: [(HeaderName, &str); 1] = [(header::RETRY_AFTER, "5")];
