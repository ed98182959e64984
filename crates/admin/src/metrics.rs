//! `GET /metrics`: Prometheus text, and `GET /metrics.json`; `?prefix=` filters by name.

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::Engine;
use std::collections::HashMap;
use telemetry::json_of;

pub(crate) async fn text(State(engine): State<Engine>, Query(query): Query<HashMap<String, String>>) -> Response {
    match asked_for(&engine, &query) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

pub(crate) async fn json(State(engine): State<Engine>, Query(query): Query<HashMap<String, String>>) -> Response {
    match asked_for(&engine, &query) {
        Ok(text) => axum::Json(json_of(&text)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

fn asked_for(engine: &Engine, query: &HashMap<String, String>) -> Result<String, (StatusCode, String)> {
    if let Some(unknown) = query.keys().find(|k| *k != "prefix") {
        return Err((StatusCode::BAD_REQUEST, format!("unknown parameter `{unknown}`: expected prefix\n")));
    }
    let text = engine.metrics_text(query.get("prefix").map_or("", String::as_str));
    text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
