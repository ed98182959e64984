//! What an HTTP listener is at the moment.
//!
//! It may change while it is served, to other options or a certificate that was renewed: the next request of every client meets what
//! it is then, and no connection ends for it. But who is connected in clear to a listener that has become one for TLS, or the other
//! way round, is told to connect anew (421, RFC 9110 section 15.5.20: what was asked was not done). Once it accepts nobody any more,
//! each connection has one more answer.

use crate::access::Via;
use crate::answer::Failed;
use crate::front::Front;
use crate::inject::Listener;
use crate::serve::{HEAD_MAX, serve};
use crate::socket::{Peer, Socket, TIME_TO_ASK};
use crate::unpack::linger;
use arc_swap::ArcSwap;
use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::future::RouteFuture;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either, Map};
use net::identity::Identity;
use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tower::{Layer, Service};

/// A listener, as it is now; all handles are of one.
#[derive(Clone)]
pub struct Current(Arc<ArcSwap<Face>>);

/// What changes a listener, as long as it is served.
pub struct Change(Weak<ArcSwap<Face>>);

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
    /// It accepts nobody any more.
    is_closed: Arc<AtomicBool>,
}

/// An answer to come.
type Coming = Map<RouteFuture<Infallible>, fn(Answered) -> Answered>;
type Answered = Result<Response, Infallible>;

impl Current {
    /// These routes behind what the front is.
    pub fn new(front: Front, routes: Router) -> Current {
        let Front { identity, said, .. } = front;
        Current(Arc::new(ArcSwap::from_pointee(Face { identity, routes, said })))
    }

    /// In clear and without routes.
    #[cfg(test)]
    pub fn bare() -> Current {
        let said = Listener { hostname: None, window: Duration::ZERO, body_octets_max: 0 };
        Current(Arc::new(ArcSwap::from_pointee(Face { identity: None, routes: Router::new(), said })))
    }

    /// What changes it. (Not itself: its routes have the engine, which has those who change it.)
    pub fn change(&self) -> Change {
        Change(Arc::downgrade(&self.0))
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
        self.serve_patiently(socket, layers, stop, || TIME_TO_ASK).await;
    }

    /// The same, where it turns out at the end how long there is time to ask.
    pub(crate) async fn serve_patiently<L, S>(
        self,
        socket: TcpListener,
        layers: L,
        stop: impl Future<Output = ()> + Send + 'static,
        patience: impl FnOnce() -> Duration + Send + 'static,
    ) where
        L: Layer<Answers, Service = S>,
        S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
    {
        let via = Via(socket.local_addr().unwrap_or(NO_ADDRESS));
        let is_closed = Arc::new(AtomicBool::new(false));
        let (socket, over) = Socket::new(socket, self.clone(), stop, is_closed.clone(), patience);
        let answers = layers.layer(Answers { current: self, via, is_closed });
        serve(socket, answers, over, HEAD_MAX).await;
    }
}

impl Change {
    /// From now on it is as the other would be.
    pub fn to(&self, other: &Current) {
        if let Some(current) = self.0.upgrade() {
            current.store(other.0.load_full());
        }
    }
}

impl Service<Request> for Answers {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Coming, BoxFuture<'static, Answered>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    // Not layers of the router, which would be packed up anew for every request.
    fn call(&mut self, mut request: Request) -> Self::Future {
        let face = self.current.0.load();
        let peer = request.extensions().get::<ConnectInfo<Peer>>();
        if peer.is_none_or(|ConnectInfo(peer)| peer.is_secure != face.identity.is_some()) {
            return Either::Right(misdirected(&face, request).boxed());
        }
        DefaultBodyLimit::max(face.said.body_octets_max).apply(&mut request);
        request.extensions_mut().insert(self.via);
        request.extensions_mut().insert(face.said.clone());
        let kind: fn(Answered) -> Answered =
            if self.is_closed.load(Ordering::Relaxed) { last } else { |answer| answer };
        Either::Left(face.routes.clone().call(request).map(kind))
    }
}

/// On a connection that this listener would not have now; whoever still sends shall see that.
fn misdirected(face: &Face, request: Request) -> impl Future<Output = Answered> + Send + use<> {
    let (now, then) = if face.identity.is_some() { ("TLS", "in clear") } else { ("clear text", "under TLS") };
    let refusal =
        Failed::misdirected(format!("this listener is for {now} now, and this connection {then}: connect anew"));
    async move {
        linger(&mut request.into_body().into_data_stream()).await;
        last(Ok(refusal.into_response()))
    }
}

/// The connection ends behind it, unless it becomes another's.
fn last(answer: Answered) -> Answered {
    answer.map(|mut answer| {
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    })
}

/// For a listener that the system cannot name.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
