//! `GET /metrics`: Prometheus text; `?prefix=` filters by name.

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::Engine;
use std::collections::HashMap;

pub(crate) async fn text(State(engine): State<Engine>, Query(query): Query<HashMap<String, String>>) -> Response {
    if let Some(unknown) = query.keys().find(|k| *k != "prefix") {
        return (StatusCode::BAD_REQUEST, format!("unknown parameter `{unknown}`: expected prefix\n")).into_response();
    }
    match engine.metrics_text(query.get("prefix").map_or("", String::as_str)) {
        Ok(text) => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
