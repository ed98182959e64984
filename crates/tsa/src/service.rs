//! The endpoints, with KumoMTA's names: by the built-in rules all for peers in `trusted_hosts` but `/tsa/status` and the two probes.

use crate::Keeper;
use crate::answers::{Suspended, bounced};
use crate::shared::{Facts, SUBSCRIBERS_MAX, Shared};
use crate::subscription::{self, Form};
use admin::{
    AdminError, Content, Current, Endpoint, Failed, Front, Operation, Output, Schemas, Takes, Way, daemon_endpoints,
    json_body, probe_endpoints, read_json,
};
use automation::{Sites, overlay};
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use config::HttpListener;
use engine::Gate;
use record::LogRecord;
use serde_json::{Value, json};
use shaping::NAMED_SITES_MEDIA_TYPE;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A listener ready to serve.
pub struct TsaService {
    current: Current,
    stop: watch::Receiver<bool>,
}

/// A log record; what is in it, [`LogRecord`] knows.
struct Record;

/// A shaping file, and how its sites are written.
struct Toml(String, Sites);

/// A list, in KumoMTA's form.
struct List(Value);

impl TsaService {
    /// Checks the options. Serves, and has subscribers, until `stop` is true.
    ///
    /// # Errors
    /// The certificate or its key cannot be had or used.
    pub fn new(
        gate: Gate,
        keeper: Keeper,
        options: &HttpListener,
        facts: Arc<Facts>,
        stop: watch::Receiver<bool>,
    ) -> Result<TsaService, AdminError> {
        let front = Front::new(gate, options, &facts.hostname)?;
        let shared = Shared { keeper, facts, stop: stop.clone() };
        let routes = front.guarded("Postrider TSA daemon", endpoints()).with_state(shared);
        Ok(TsaService { current: Current::new(front, routes), stop })
    }

    /// Serves until the time to stop.
    pub async fn serve(self, socket: TcpListener) {
        let mut stop = self.stop;
        self.current.serve(socket, (), async move { stopped(&mut stop).await }).await;
    }
}

/// The table of endpoints.
fn endpoints() -> Vec<Endpoint<Shared>> {
    let mut all = vec![
        Endpoint::at("/publish_log_v1", SHAPING).post(publish, "Takes a log record: rules decide what follows.", &[]),
        Endpoint::at("/get_config_v1/shaping.toml", SHAPING).get(
            shaping_file,
            "Options in force that rules have set, as a shaping file.",
            &[],
        ),
        Endpoint::at("/get_suspension_v1/suspended.json", SHAPING).get(suspended_list, "Suspensions in force.", &[]),
        Endpoint::at("/get_bounce_v1/bounced.json", SHAPING).get(bounced_list, "Bounces in force.", &[]),
        Endpoint::at("/subscribe_event_v1", SHAPING).get(
            events,
            "A websocket: suspensions and bounces in force, and those that come.",
            &[],
        ),
        Endpoint::at("/subscribe_suspension_v1", SHAPING).get(
            suspensions,
            "A websocket: suspensions in force, and those that come.",
            &[],
        ),
        Endpoint::at("/tsa/status", SHAPING).get(status, "Whether the daemon runs.", &[]),
    ];
    all.extend(probe_endpoints());
    all.extend(daemon_endpoints());
    all
}

/// Waits for the time to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that nobody can say so any more.
    let _ = stop.wait_for(|is_over| *is_over).await;
}

/// Takes a log record.
async fn publish(State(shared): State<Shared>, _: Takes<Record>, request: Request) -> Result<(), Failed> {
    let body = json_body(request, &()).await?;
    let record: LogRecord = read_json(body)?;
    match shared.keeper.observe(&record) {
        true => Ok(()),
        false => Err(Failed::unavailable("shaping data could not be loaded yet".to_owned())),
    }
}

/// With sites by name for those who say that they know of them.
async fn shaping_file(State(shared): State<Shared>, headers: HeaderMap) -> Toml {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let is_known =
        accepted.flat_map(|accept| accept.split([',', ';'])).any(|media| media.trim() == NAMED_SITES_MEDIA_TYPE);
    let sites = if is_known { Sites::Named } else { Sites::OfDomains };
    Toml(shared.keeper.in_force(|effects| overlay(effects, sites)), sites)
}

async fn suspended_list(State(shared): State<Shared>) -> Result<List, Failed> {
    list(shared.keeper.in_force(|effects| serde_json::to_value(Suspended::of(effects))))
}

async fn bounced_list(State(shared): State<Shared>) -> Result<List, Failed> {
    list(shared.keeper.in_force(|effects| serde_json::to_value(bounced(effects))))
}

async fn status() -> &'static str {
    "TSA Daemon OK"
}

async fn events(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    subscribe(shared, upgrade, Form::Events)
}

async fn suspensions(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    subscribe(shared, upgrade, Form::Suspensions)
}

fn subscribe(shared: Shared, upgrade: WebSocketUpgrade, form: Form) -> Response {
    let Ok(place) = shared.facts.subscribers.clone().try_acquire_owned() else {
        let text = format!("Error: {SUBSCRIBERS_MAX} subscribers are served already\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    upgrade.max_message_size(HEARD_OCTETS_MAX).on_upgrade(move |socket| async move {
        subscription::serve(socket, shared.keeper, form, shared.stop).await;
        drop(place);
    })
}

fn list(value: Result<Value, serde_json::Error>) -> Result<List, Failed> {
    value.map(List).map_err(|error| Failed::internal(error.to_string()))
}

impl Content for Record {
    const MEDIA: &'static str = "application/json";

    fn form(_: &mut Schemas, _: Way) -> Value {
        json!({"type": "object"})
    }
}

impl IntoResponse for Toml {
    fn into_response(self) -> Response {
        let media = if self.1 == Sites::Named { NAMED_SITES_MEDIA_TYPE } else { TOML };
        ([(header::CONTENT_TYPE, media), (header::VARY, "accept")], self.0).into_response()
    }
}

impl Output for Toml {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, TOML, json!({"type": "string"}));
    }
}

impl IntoResponse for List {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

impl Output for List {
    fn describe(operation: &mut Operation, _: &mut Schemas) {
        operation.answers(200, "application/json", json!({"type": ["object", "array"]}));
    }
}

/// The heading of all of them.
const SHAPING: &str = "Traffic shaping";
const TOML: &str = "application/toml";
/// Octets of what a subscriber may say at once; it means nothing.
const HEARD_OCTETS_MAX: usize = 4096;
