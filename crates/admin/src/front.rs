//! What every HTTP listener has in front of its endpoints: TLS, who may ask, and compressed bodies.
//!
//! In: the options of a listener, and the gate, which knows who may do what. Out: routes behind a guard, and a socket that serves them
//! until it is told to stop.

use crate::AdminError;
use crate::access::{Access, Guard, Via};
use crate::browser::{self, Document};
use crate::endpoint::Endpoint;
use crate::socket::{Peer, Socket};
use crate::{pack, unpack};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router, ServiceExt};
use config::HttpListener;
use engine::Gate;
use net::identity::Identity;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;
use tower::{Layer, Service};

/// TLS and guards of a listener.
pub struct Front {
    identity: Option<Identity>,
    access: Access,
    body_octets_max: usize,
}

impl Front {
    /// As the options say; a made-up certificate names `hostname` where they name nobody.
    ///
    /// # Errors
    /// The certificate or its key cannot be had or used.
    pub fn new(gate: Gate, options: &HttpListener, hostname: &str) -> Result<Front, AdminError> {
        let hostname = options.hostname.as_deref().unwrap_or(hostname);
        let pair = (options.tls_certificate.as_ref(), options.tls_private_key.as_ref());
        let identity = options.use_tls.then(|| Identity::new(pair, None, hostname)).transpose()?;
        let access = Access::new(gate, options, hostname);
        let body_octets_max = usize::try_from(options.request_body_bytes_max()).unwrap_or(usize::MAX);
        Ok(Front { identity, access, body_octets_max })
    }

    /// Octets of a body that is read whole.
    pub fn body_octets_max(&self) -> usize {
        self.body_octets_max
    }

    /// Routes for those whom the rules let, and what describes them; `title` is what the program calls itself. A method that a path
    /// does not have is 405 for everybody.
    pub fn guarded<S>(&self, title: &str, mut endpoints: Vec<Endpoint<S>>) -> Router<S>
    where
        S: Clone + Send + Sync + 'static,
    {
        endpoints.extend(browser::endpoints());
        let document = Document::of(title, &endpoints);
        let with_guard = |router: Router<S>, endpoint: Endpoint<S>| {
            let guard = Guard::new(self.access.clone(), endpoint.path);
            let methods = match endpoint.path == browser::DOCUMENT {
                true => endpoint.methods.layer(Extension(document.clone())),
                false => endpoint.methods,
            };
            router.route(endpoint.path, methods.route_layer(middleware::from_fn_with_state(guard, guarded)))
        };
        endpoints.into_iter().fold(Router::new(), with_guard)
    }

    /// Serves routes, or what stands in front of them, until `stop`.
    pub async fn serve<S>(self, listener: TcpListener, routes: S, stop: impl Future<Output = ()> + Send + 'static)
    where
        S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
    {
        let via = Via(listener.local_addr().unwrap_or(NO_ADDRESS));
        // Around all routes, not each: what a router has as a layer is packed up anew for every request.
        let app = (Extension(via), DefaultBodyLimit::max(self.body_octets_max)).layer(routes);
        let app = app.into_make_service_with_connect_info::<Peer>();
        if let Err(error) = axum::serve(Socket::new(listener, self.identity), app).with_graceful_shutdown(stop).await {
            tracing::error!("http listener: {error}");
        }
    }
}

/// In front of every handler, all in one for the same reason: who may ask, then codings of bodies.
async fn guarded(
    State(guard): State<Guard>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Extension(via): Extension<Via>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(failed) = guard.check(peer, via, &mut request).await {
        return failed.into_response();
    }
    let is_taken = pack::is_taken(&request);
    let answer = match unpack::request(&mut request) {
        Ok(()) => next.run(request).await,
        Err(failed) => unpack::refused(failed),
    };
    pack::answer(answer, is_taken)
}

/// For a listener that the system cannot name.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
