//! The endpoints, with KumoMTA's names: by the built-in rules all for peers in `trusted_hosts` but `/tsa/status`.

use crate::Keeper;
use crate::answers::{Suspended, bounced};
use crate::subscription::{self, Form};
use admin::{AdminError, Failed, Front, json_body};
use automation::overlay;
use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use config::HttpListener;
use engine::Gate;
use record::LogRecord;
use serde_json::Value;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// A listener ready to serve.
pub struct TsaService {
    front: Front,
    routes: Router,
    stop: watch::Receiver<bool>,
}

#[derive(Clone)]
struct Shared {
    keeper: Keeper,
    subscribers: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl TsaService {
    /// Checks the options. Serves, and has subscribers, until `stop` is true.
    ///
    /// # Errors
    /// The certificate or its key cannot be had or used.
    pub fn new(
        gate: Gate,
        keeper: Keeper,
        options: &HttpListener,
        hostname: &str,
        stop: watch::Receiver<bool>,
    ) -> Result<TsaService, AdminError> {
        let front = Front::new(gate, options, hostname)?;
        let served = [
            ("/publish_log_v1", post(publish)),
            ("/get_config_v1/shaping.toml", get(shaping_file)),
            ("/get_suspension_v1/suspended.json", get(suspended_list)),
            ("/get_bounce_v1/bounced.json", get(bounced_list)),
            ("/subscribe_event_v1", get(events)),
            ("/subscribe_suspension_v1", get(suspensions)),
            ("/tsa/status", get(|| async { "TSA Daemon OK" })),
        ];
        let subscribers = Arc::new(Semaphore::new(SUBSCRIBERS_MAX));
        let shared = Shared { keeper, subscribers, stop: stop.clone() };
        let routes = front.guarded(served).with_state(shared);
        Ok(TsaService { front, routes, stop })
    }

    /// Serves until the time to stop.
    pub async fn serve(self, listener: TcpListener) {
        let mut stop = self.stop;
        self.front.serve(listener, self.routes, async move { stopped(&mut stop).await }).await;
    }
}

/// Waits for the time to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that nobody can say so any more.
    let _ = stop.wait_for(|is_over| *is_over).await;
}

/// Takes a log record.
async fn publish(State(shared): State<Shared>, request: Request) -> Result<StatusCode, Failed> {
    let body = json_body(request, &()).await?;
    let record: LogRecord =
        serde_json::from_value(body).map_err(|error| Failed::unprocessable(format!("no log record: {error}")))?;
    match shared.keeper.observe(&record) {
        true => Ok(StatusCode::OK),
        false => Err(Failed::unavailable("shaping data could not be loaded yet".to_owned())),
    }
}

async fn shaping_file(State(shared): State<Shared>) -> Response {
    ([(header::CONTENT_TYPE, "application/toml")], shared.keeper.in_force(|effects| overlay(effects))).into_response()
}

async fn suspended_list(State(shared): State<Shared>) -> Response {
    json(shared.keeper.in_force(|effects| serde_json::to_value(Suspended::of(effects))))
}

async fn bounced_list(State(shared): State<Shared>) -> Response {
    json(shared.keeper.in_force(|effects| serde_json::to_value(bounced(effects))))
}

async fn events(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    subscribe(shared, upgrade, Form::Events)
}

async fn suspensions(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    subscribe(shared, upgrade, Form::Suspensions)
}

fn subscribe(shared: Shared, upgrade: WebSocketUpgrade, form: Form) -> Response {
    let Ok(place) = shared.subscribers.try_acquire_owned() else {
        let text = format!("Error: {SUBSCRIBERS_MAX} subscribers are served already\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    upgrade.max_message_size(HEARD_OCTETS_MAX).on_upgrade(move |socket| async move {
        subscription::serve(socket, shared.keeper, form, shared.stop).await;
        drop(place);
    })
}

fn json(value: Result<Value, serde_json::Error>) -> Response {
    match value {
        Ok(value) => axum::Json(value).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("Error: {error}\n")).into_response(),
    }
}

/// Subscribers at once.
const SUBSCRIBERS_MAX: usize = 1024;
/// Octets of what a subscriber may say at once; it means nothing.
const HEARD_OCTETS_MAX: usize = 4096;
