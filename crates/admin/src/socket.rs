//! The connections of an HTTP listener, in clear or under TLS.
//!
//! Handshakes run beside each other, so that a client that says nothing holds up nobody; each has its time, and there are only so
//! many at once: then new connections wait to be accepted.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use net::Stream;
use net::identity::Identity;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A listener's socket.
pub(crate) struct Socket {
    tcp: TcpListener,
    /// Under TLS, if there is one.
    identity: Option<Identity>,
    handshakes: JoinSet<Option<Connection>>,
}

/// The client at the other end of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

type Connection = (Stream, SocketAddr);

impl Socket {
    pub fn new(tcp: TcpListener, identity: Option<Identity>) -> Socket {
        Socket { tcp, identity, handshakes: JoinSet::new() }
    }

    /// A client came: its connection, if it can be used at once.
    fn came(&mut self, tcp: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let Some(identity) = self.identity.clone() else { return Some((Stream::Plain(tcp), peer)) };
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
                accepted = self.tcp.accept(), if has_room => match accepted {
                    Ok((tcp, peer)) => self.came(tcp, peer),
                    Err(error) => {
                        tracing::warn!("http listener: {error}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
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
        self.tcp.local_addr()
    }
}

impl Connected<IncomingStream<'_, Socket>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Socket>) -> Peer {
        Peer(*stream.remote_addr())
    }
}

/// Handshakes at once.
const HANDSHAKES_MAX: usize = 256;
/// How long one may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
