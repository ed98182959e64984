//! The administrative API for policy itself (`kumo.api.admin`): the same endpoints, without a listener and without a guard.

use crate::endpoint::Endpoint;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use engine::{Administration, Asked, Engine};
use serde_json::Value;
use tower::ServiceExt;

/// Answers requests of policy.
pub struct Local;

impl Administration for Local {
    fn answer(&self, engine: Engine, method: &'static str, path: &'static str, request: Value) -> Asked {
        Box::pin(async move {
            let add = |router: Router<Engine>, row: Endpoint<Engine>| router.route(row.path, row.methods);
            let router: Router = crate::administration().into_iter().fold(Router::new(), add).with_state(engine);
            let made = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
            let made = made.body(Body::from(request.to_string())).map_err(|error| error.to_string())?;
            let answer = router.oneshot(made).await.unwrap_or_else(|never| match never {});
            if method == "DELETE" && answer.status() == StatusCode::NOT_FOUND {
                // Scripts ask whether there was one.
                return Ok(Value::Bool(false));
            }
            let is_good = answer.status().is_success();
            let octets = to_bytes(answer.into_body(), usize::MAX).await.map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&octets);
            if !is_good {
                return Err(text.trim_start_matches("Error: ").trim_end().to_owned());
            }
            Ok(serde_json::from_slice(&octets).unwrap_or_else(|_| Value::String(text.into_owned())))
        })
    }
}
