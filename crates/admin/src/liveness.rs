//! `GET /api/check-liveness/v1`: 200 while new mail is taken, 503 when it is not.

use axum::extract::State;
use axum::http::StatusCode;
use engine::Engine;

pub(crate) async fn check(State(engine): State<Engine>) -> (StatusCode, &'static str) {
    match engine.is_serving() {
        true => (StatusCode::OK, "OK"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "shutting down"),
    }
}
