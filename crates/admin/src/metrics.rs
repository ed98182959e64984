//! `GET /metrics`: Prometheus text, and `GET /metrics.json`; `?prefix=` filters by name.

use crate::answer::{Failed, Json};
use crate::daemon::Daemon;
use crate::describe::{Operation, Output};
use crate::forms::Schemas;
use crate::query::Query;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use telemetry::json_of;

/// Which.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfMetrics {
    /// Only those whose names begin so.
    #[serde(default)]
    prefix: String,
}

/// All of them as text.
pub(crate) struct Page(String);

pub(crate) async fn text<D: Daemon>(State(daemon): State<D>, Query(asked): Query<OfMetrics>) -> Result<Page, Failed> {
    asked_for(&daemon, &asked).await.map(Page)
}

pub(crate) async fn json<D: Daemon>(
    State(daemon): State<D>,
    Query(asked): Query<OfMetrics>,
) -> Result<Json<Map<String, Value>>, Failed> {
    match json_of(&asked_for(&daemon, &asked).await?) {
        Value::Object(families) => Ok(Json(families)),
        other => Err(Failed::internal(format!("metrics are {other}: expected an object"))),
    }
}

async fn asked_for(daemon: &impl Daemon, OfMetrics { prefix }: &OfMetrics) -> Result<String, Failed> {
    daemon.metrics_text(prefix).await.map_err(Failed::internal)
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, MEDIA)], self.0).into_response()
    }
}

impl Output for Page {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, MEDIA, json!({"type": "string"}));
    }
}

/// The text form of Prometheus.
const MEDIA: &str = "text/plain; version=0.0.4";
