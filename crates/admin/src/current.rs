//! What an HTTP listener is at the moment.
//!
//! It may change while it is served, to other options or a certificate that was renewed: the next request of every client meets what
//! it is then, and no connection ends for it. But who talks in clear to a listener that has become one for TLS, or the other way
//! round, has one more answer on that connection.

use crate::access::Via;
use crate::front::Front;
use crate::inject::Listener;
use crate::socket::{Peer, Socket};
use arc_swap::ArcSwap;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::Response;
use axum::routing::future::RouteFuture;
use axum::{Router, ServiceExt};
use net::identity::Identity;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tower::{Layer, Service};

/// A listener, as it is now; all handles are of one.
#[derive(Clone)]
pub struct Current(Arc<ArcSwap<Face>>);

/// TLS and routes.
struct Face {
    identity: Option<Identity>,
    routes: Router,
    said: Listener,
}

/// Its answers to those who are connected to an address.
#[derive(Clone)]
pub struct Answers {
    current: Current,
    via: Via,
}

impl Current {
    /// These routes behind what the front is.
    pub fn new(front: Front, routes: Router) -> Current {
        let Front { identity, said, .. } = front;
        Current(Arc::new(ArcSwap::from_pointee(Face { identity, routes, said })))
    }

    /// From now on this is as the other is.
    pub fn change_to(&self, other: &Current) {
        self.0.store(other.0.load_full());
    }

    /// The certificate for those who connect now; in clear without.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.0.load().identity.clone()
    }

    /// Serves on a socket, with these layers in front of its answers, until `stop`: then nobody is accepted any more, and who was has
    /// time to ask.
    pub async fn serve<L, S>(self, socket: TcpListener, layers: L, stop: impl Future<Output = ()> + Send + 'static)
    where
        L: Layer<Answers, Service = S>,
        S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
    {
        let via = Via(socket.local_addr().unwrap_or(NO_ADDRESS));
        let (socket, over) = Socket::new(socket, self.clone(), stop);
        let answers = layers.layer(Answers { current: self, via });
        let app = answers.into_make_service_with_connect_info::<Peer>();
        if let Err(error) = axum::serve(socket, app).with_graceful_shutdown(over).await {
            tracing::error!("http listener: {error}");
        }
    }
}

impl Service<Request> for Answers {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    // Not layers of the router, which would be packed up anew for every request.
    fn call(&mut self, mut request: Request) -> RouteFuture<Infallible> {
        let face = self.current.0.load();
        DefaultBodyLimit::max(face.said.body_octets_max).apply(&mut request);
        request.extensions_mut().insert(self.via);
        request.extensions_mut().insert(face.said.clone());
        face.routes.clone().call(request)
    }
}

/// For a listener that the system cannot name.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
