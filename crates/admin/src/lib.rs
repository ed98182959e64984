//! The HTTP face: metrics and liveness now, the administrative API as it grows.
//!
//! In: a bound socket and an engine; out: answers. Closed by default: an endpoint answers whom a rule lets ask, and by the
//! built-in rules what tells or changes anything is for peers in the listener's `trusted_hosts`, injection also for who proves who he is. Forwarding headers are not looked at: only the
//! socket's peer counts.

mod access;
mod answer;
mod browser;
mod bulk;
mod console;
mod credentials;
mod epoch;
mod events;
mod front;
mod inject;
mod inspect;
mod lines;
mod liveness;
mod local;
mod machine;
mod metrics;
mod orders;
mod overview;
mod queues;
mod ready;
mod request;
mod secrets;
mod socket;
mod trace;
mod upkeep;
mod xfer;

pub use answer::{Failed, value as json_body};
use axum::routing::{get, post};
use axum::{Extension, Router};
use config::HttpListener;
use engine::Engine;
pub use front::{Front, Route};
pub use local::Local;
use net::tls::TlsError;
use thiserror::Error;
use tokio::net::TcpListener;

/// Why an HTTP listener cannot serve.
#[derive(Debug, Error)]
pub enum AdminError {
    /// Its certificate and key cannot be had or used.
    #[error("start_http_listener: {0}")]
    Tls(#[from] TlsError),
}

/// A listener ready to serve.
pub struct HttpService {
    front: Front,
    routes: Router,
    engine: Engine,
}

impl HttpService {
    /// Checks the options.
    ///
    /// # Errors
    /// As [`Front::new`].
    pub fn new(engine: Engine, options: &HttpListener) -> Result<HttpService, AdminError> {
        let front = Front::new(engine.gate().clone(), options, engine.hostname())?;
        let others = [
            ("/api/inject/v1", post(inject::inject)),
            ("/api/inject/bulk/v1", post(bulk::inject)),
            (access::LIVENESS, get(liveness::check)),
            ("/console", get(console::page)),
            ("/console/{file}", get(console::file)),
        ];
        let name = inject::Name(options.hostname.clone());
        let window = inject::Window(options.idempotency_window.into());
        let line_max = bulk::LineMax(front.body_octets_max());
        let routes = front.guarded(administration().into_iter().chain(others));
        let routes = routes
            .layer(Extension(name))
            .layer(Extension(line_max))
            .layer(Extension(window))
            .with_state(engine.clone());
        Ok(HttpService { front, routes, engine })
    }

    /// Serves until it is `closed`, or draining begins; what was asked by then is answered.
    pub async fn serve(self, listener: TcpListener, closed: impl Future<Output = ()> + Send + 'static) {
        let HttpService { front, routes, engine } = self;
        let stop = async move {
            tokio::select! { () = engine.draining() => {}, () = closed => {} }
        };
        front.serve(listener, routes, stop).await;
    }
}

/// What operators ask, and other nodes.
pub(crate) fn administration() -> Vec<Route<Engine>> {
    let ready_suspensions = get(orders::ready_suspensions).post(orders::suspend_ready).delete(orders::withdraw);
    vec![
        ("/metrics", get(metrics::text)),
        ("/metrics.json", get(metrics::json)),
        ("/api/admin/bounce/v1", get(orders::bounces).post(orders::bounce).delete(orders::withdraw)),
        ("/api/admin/suspend/v1", get(orders::suspensions).post(orders::suspend).delete(orders::withdraw)),
        ("/api/admin/hold/v1", get(orders::holds).post(orders::hold).delete(orders::withdraw)),
        ("/api/admin/inspect-message/v1", get(inspect::message)),
        ("/api/admin/inspect-sched-q/v1", get(inspect::scheduled)),
        ("/api/admin/suspend-ready-q/v1", ready_suspensions),
        ("/api/admin/rebind/v1", get(orders::rebindings).post(orders::rebind).delete(orders::withdraw)),
        ("/api/admin/xfer/v1", get(orders::xfers).post(orders::xfer).delete(orders::withdraw)),
        ("/api/admin/xfer/cancel/v1", post(orders::cancel_xfer)),
        ("/api/xfer/inject/v1", post(xfer::inject)),
        ("/api/xfer/release/v1", post(xfer::release)),
        ("/api/xfer/drop/v1", post(xfer::forget)),
        ("/api/xfer/arrivals/v1", get(xfer::arrivals)),
        ("/api/admin/bump-config-epoch", post(epoch::bump)),
        ("/api/admin/set_diagnostic_log_filter/v1", post(upkeep::filter)),
        ("/api/admin/spool-compact/v1", post(upkeep::compact)),
        ("/api/admin/inspect-ready-q/v1", get(ready::inspect)),
        ("/api/admin/ready-q-states/v1", get(ready::states)),
        ("/api/admin/resolve-egress-path/v1", get(ready::resolve)),
        ("/api/admin/abort-ready-q-conn/v1", post(ready::abort)),
        ("/api/machine-info", get(machine::info)),
        ("/api/admin/overview/v1", get(overview::overview)),
        ("/api/admin/queues/v1", get(queues::queues)),
        ("/api/admin/trace-smtp-server/v1", get(trace::server)),
        ("/api/admin/trace-smtp-client/v1", get(trace::client)),
        ("/api/admin/events/v1", get(events::events)),
        ("/api/admin/flush/v1", get(orders::flushes).post(orders::flush).delete(orders::withdraw)),
    ]
}
