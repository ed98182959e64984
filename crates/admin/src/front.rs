//! What every HTTP listener has in front of its endpoints: TLS, and who may ask.
//!
//! In: the options of a listener, and policy, which knows who is who. Out: routes behind a guard, and a socket that serves them
//! until it is told to stop.

use crate::AdminError;
use crate::access::{self, Access, Who};
use crate::socket::{Peer, Socket};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use config::HttpListener;
use net::tls::acceptor_of;
use policy::Policy;
use std::future::Future;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// TLS and guards of a listener.
pub struct Front {
    acceptor: Option<TlsAcceptor>,
    access: Access,
    body_octets_max: usize,
}

impl Front {
    /// As the options say; a made-up certificate names `hostname` where they name nobody.
    ///
    /// # Errors
    /// The certificate or its key cannot be had or used.
    pub fn new(policy: Arc<dyn Policy>, options: &HttpListener, hostname: &str) -> Result<Front, AdminError> {
        let hostname = options.hostname.as_deref().unwrap_or(hostname);
        let acceptor = match options.use_tls {
            true => {
                Some(acceptor_of((options.tls_certificate.as_ref(), options.tls_private_key.as_ref()), None, hostname)?)
            }
            false => None,
        };
        let access = Access::new(policy, options);
        let body_octets_max = usize::try_from(options.request_body_bytes_max()).unwrap_or(usize::MAX);
        Ok(Front { acceptor, access, body_octets_max })
    }

    /// Routes for peers in `trusted_hosts`.
    pub fn trusted<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        self.guarded(routes, Who::Trusted)
    }

    /// Routes for those, and for who proves who he is.
    pub(crate) fn proven<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        self.guarded(routes, Who::Proven)
    }

    /// Serves until `stop`.
    pub async fn serve(self, listener: TcpListener, routes: Router, stop: impl Future<Output = ()> + Send + 'static) {
        let app = routes.layer(DefaultBodyLimit::max(self.body_octets_max));
        let app = app.into_make_service_with_connect_info::<Peer>();
        if let Err(error) = axum::serve(Socket::new(listener, self.acceptor), app).with_graceful_shutdown(stop).await {
            tracing::error!("http listener: {error}");
        }
    }

    fn guarded<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>, who: Who) -> Router<S> {
        routes.route_layer(middleware::from_fn_with_state((self.access.clone(), who), access::check))
    }
}
