//! The HTTP face: metrics and liveness now, the administrative API as it grows.
//!
//! In: a bound socket and an engine; out: answers. Closed by default: an endpoint that tells or
//! changes anything answers only peers in the listener's `trusted_hosts`. Forwarding headers
//! are not looked at: only the socket's peer counts.

mod answer;
mod epoch;
mod inspect;
mod liveness;
mod metrics;
mod orders;
mod ready;
mod secrets;
mod xfer;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use config::{CidrSet, HttpListener};
use engine::Engine;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;

/// Why an HTTP listener cannot serve.
#[derive(Debug, Error)]
pub enum AdminError {
    /// An option that is parsed but not acted on yet.
    #[error("start_http_listener: use_tls: true is not supported yet: expected false")]
    Tls,
}

/// A listener ready to serve.
pub struct HttpService {
    router: Router,
    engine: Engine,
}

impl HttpService {
    /// Checks the options.
    pub fn new(engine: Engine, options: &HttpListener) -> Result<HttpService, AdminError> {
        if options.use_tls {
            return Err(AdminError::Tls);
        }
        let trusted = Arc::new(options.trusted_hosts.clone());
        let ready_suspensions = get(orders::ready_suspensions).post(orders::suspend_ready).delete(orders::withdraw);
        let closed = Router::new()
            .route("/metrics", get(metrics::text))
            .route("/api/admin/bounce/v1", get(orders::bounces).post(orders::bounce).delete(orders::withdraw))
            .route("/api/admin/suspend/v1", get(orders::suspensions).post(orders::suspend).delete(orders::withdraw))
            .route("/api/admin/hold/v1", get(orders::holds).post(orders::hold).delete(orders::withdraw))
            .route("/api/admin/inspect-message/v1", get(inspect::message))
            .route("/api/admin/inspect-sched-q/v1", get(inspect::scheduled))
            .route("/api/admin/suspend-ready-q/v1", ready_suspensions)
            .route("/api/admin/rebind/v1", get(orders::rebindings).post(orders::rebind).delete(orders::withdraw))
            .route("/api/admin/xfer/v1", get(orders::xfers).post(orders::xfer).delete(orders::withdraw))
            .route("/api/admin/xfer/cancel/v1", post(orders::cancel_xfer))
            .route("/api/xfer/inject/v1", post(xfer::inject))
            .route("/api/xfer/release/v1", post(xfer::release))
            .route("/api/xfer/drop/v1", post(xfer::forget))
            .route("/api/xfer/arrivals/v1", get(xfer::arrivals))
            .route("/api/admin/bump-config-epoch", post(epoch::bump))
            .route("/api/admin/inspect-ready-q/v1", get(ready::inspect))
            .route("/api/admin/ready-q-states/v1", get(ready::states))
            .route("/api/admin/resolve-egress-path/v1", get(ready::resolve))
            .route("/api/admin/abort-ready-q-conn/v1", post(ready::abort))
            .route("/api/admin/flush/v1", get(orders::flushes).post(orders::flush).delete(orders::withdraw))
            .route_layer(middleware::from_fn_with_state(trusted, only_trusted));
        let open = Router::new().route("/api/check-liveness/v1", get(liveness::check));
        Ok(HttpService { router: closed.merge(open).with_state(engine.clone()), engine })
    }

    /// Serves until draining begins.
    pub async fn serve(self, listener: TcpListener) {
        let engine = self.engine;
        let via = listener.local_addr().unwrap_or(NO_ADDRESS);
        let app = self.router.layer(Extension(xfer::Via(via))).into_make_service_with_connect_info::<SocketAddr>();
        let stop = async move { engine.draining().await };
        if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stop).await {
            tracing::error!("http listener: {error}");
        }
    }
}

/// For a listener that the system cannot name.
const NO_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

async fn only_trusted(
    State(trusted): State<Arc<CidrSet>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
    next: Next,
) -> Response {
    match trusted.contains(peer.ip()) {
        true => next.run(request).await,
        false => (StatusCode::UNAUTHORIZED, format!("{} is not in trusted_hosts\n", peer.ip())).into_response(),
    }
}
