//! The connections of an HTTP listener, in clear or under TLS.
//!
//! Handshakes run beside each other, so that a client that says nothing holds up nobody; each has its time, and there are only so
//! many at once: then new connections wait to be accepted. Once told to stop, nobody is accepted, and connections end only when those
//! who were have had the time to ask; under TLS that is little, or none for who is in the middle of a handshake.

use crate::current::Current;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use net::Stream;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// A listener's socket.
pub(crate) struct Socket {
    /// Nothing once it accepts nobody any more.
    open: Option<Open>,
    address: io::Result<SocketAddr>,
    /// Under TLS or in clear, as it is when a client comes.
    current: Current,
    handshakes: JoinSet<Option<Connection>>,
}

/// What is there while clients are accepted.
struct Open {
    tcp: TcpListener,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Gone, the last clients' time to ask begins.
    _accepting: oneshot::Sender<()>,
}

/// What happens to a socket that is open.
enum Happened {
    Came(io::Result<(TcpStream, SocketAddr)>),
    Stopped,
}

/// The client at the other end of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// Under TLS.
    pub is_secure: bool,
}

type Connection = (Stream, SocketAddr);

impl Socket {
    /// With what tells when connections may end.
    pub fn new(
        tcp: TcpListener,
        current: Current,
        stop: impl Future<Output = ()> + Send + 'static,
        is_closed: Arc<AtomicBool>,
    ) -> (Socket, impl Future<Output = ()> + Send + 'static) {
        let (accepting, stopped) = oneshot::channel::<()>();
        let over = async move {
            // Nothing is ever sent: it ends when the sender is gone.
            _ = stopped.await;
            is_closed.store(true, Ordering::Relaxed);
            tokio::time::sleep(TIME_TO_ASK).await;
        };
        let address = tcp.local_addr();
        let open = Some(Open { tcp, stop: Box::pin(stop), _accepting: accepting });
        (Socket { open, address, current, handshakes: JoinSet::new() }, over)
    }

    /// A client came: its connection, if it can be used at once.
    fn came(&mut self, tcp: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let Some(identity) = self.current.identity() else { return Some((Stream::Plain(tcp), peer)) };
        self.handshakes.spawn(async move {
            let handshake = async { Stream::Plain(tcp).accept_tls(&identity.acceptor().await).await };
            match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
                Ok(Ok((stream, _))) => Some((stream, peer)),
                Ok(Err(error)) => {
                    tracing::debug!("{peer}: no TLS: {error}");
                    None
                }
                Err(_) => None,
            }
        });
        None
    }
}

impl Listener for Socket {
    type Io = Stream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Connection {
        loop {
            let has_room = self.handshakes.len() < HANDSHAKES_MAX;
            let found = tokio::select! {
                happened = happened(self.open.as_mut(), has_room) => match happened {
                    Happened::Came(Ok((tcp, peer))) => self.came(tcp, peer),
                    Happened::Came(Err(error)) => {
                        tracing::warn!("http listener: {error}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        None
                    }
                    Happened::Stopped => {
                        self.open = None;
                        None
                    }
                },
                Some(shaken) = self.handshakes.join_next() => shaken.ok().flatten(),
            };
            if let Some(connection) = found {
                return connection;
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.address.as_ref().copied().map_err(|error| error.kind().into())
    }
}

/// Clients wait while there is no room.
async fn happened(open: Option<&mut Open>, has_room: bool) -> Happened {
    let Some(Open { tcp, stop, .. }) = open else { return std::future::pending().await };
    tokio::select! {
        () = stop => Happened::Stopped,
        accepted = TcpListener::accept(tcp), if has_room => Happened::Came(accepted),
    }
}

impl Connected<IncomingStream<'_, Socket>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Socket>) -> Peer {
        Peer { address: *stream.remote_addr(), is_secure: !matches!(stream.io(), Stream::Plain(_)) }
    }
}

/// Handshakes at once.
const HANDSHAKES_MAX: usize = 256;
/// How long one may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long a client may take, once it is connected, until what it asks is here: the way there and back.
const TIME_TO_ASK: Duration = Duration::from_millis(500);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
