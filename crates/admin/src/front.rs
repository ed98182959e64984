//! What every HTTP listener has in front of its endpoints: TLS, who may ask, and compressed bodies.
//!
//! In: the options of a listener, and the gate, which knows who may do what. Out: routes behind a guard, and a socket that serves them
//! until it is told to stop.

use crate::AdminError;
use crate::access::{self, Access, Via};
use crate::browser::{self, Document};
use crate::endpoint::Endpoint;
use crate::socket::{Peer, Socket};
use crate::{pack, unpack};
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::{Extension, Router};
use config::HttpListener;
use engine::Gate;
use net::identity::Identity;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

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
        let guarded = |router: Router<S>, endpoint: Endpoint<S>| {
            let guard = middleware::from_fn_with_state(self.access.clone(), access::check);
            let methods = endpoint.methods.route_layer(middleware::from_fn(unpack::requests));
            // Outermost is who may ask.
            let methods = methods.route_layer(middleware::from_fn(pack::answers)).route_layer(guard);
            router.route(endpoint.path, methods)
        };
        endpoints.into_iter().fold(Router::new(), guarded).layer(Extension(document))
    }

    /// Serves until `stop`.
    pub async fn serve(self, listener: TcpListener, routes: Router, stop: impl Future<Output = ()> + Send + 'static) {
        let via = Via(listener.local_addr().unwrap_or(NO_ADDRESS));
        let app = routes.layer(Extension(via)).layer(DefaultBodyLimit::max(self.body_octets_max));
        let app = app.into_make_service_with_connect_info::<Peer>();
        if let Err(error) = axum::serve(Socket::new(listener, self.identity), app).with_graceful_shutdown(stop).await {
            tracing::error!("http listener: {error}");
        }
    }
}

/// For a listener that the system cannot name.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
