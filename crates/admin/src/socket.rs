//! The connections of an HTTP listener, in clear or under TLS.
//!
//! Handshakes run beside each other, so that a client that says nothing holds up nobody; each has its time, and there are only so
//! many at once: then new connections wait to be accepted. So it is with places for clients, which leave descriptors for mail;
//! while somebody waits for one, those who ask nothing just then are let go. Once told to stop, nobody is accepted, and connections
//! end only when those who were have had the time to ask; under TLS that is little, or none for who is in the middle of a
//! handshake.

use crate::current::Current;
use crate::placed::Placed;
use net::Stream;
use nix::sys::resource::{Resource, getrlimit};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A listener's socket.
pub(crate) struct Socket {
    /// Nothing once it accepts nobody any more.
    open: Option<Open>,
    /// Under TLS or in clear, as it is when a client comes.
    current: Current,
    /// As that of the places.
    crowded: watch::Sender<()>,
    handshakes: JoinSet<Option<Connection>>,
}

/// What is there while clients are accepted.
struct Open {
    tcp: TcpListener,
    /// One who came and has no place yet.
    came: Option<(TcpStream, SocketAddr)>,
    places: Places,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// Gone, the last clients' time to ask begins.
    _accepting: oneshot::Sender<()>,
}

/// What happens to a socket that is open.
enum Happened {
    Came(TcpStream, SocketAddr, Option<OwnedSemaphorePermit>),
    Failed(io::Error),
    Nothing,
    Stopped,
}

/// For so many connections there is room.
struct Places {
    all: Arc<Semaphore>,
    count: usize,
    /// When it was last said that there is none.
    said: Option<Instant>,
    /// When clients were last told.
    told: Option<Instant>,
    /// Told that there is none: who asks nothing just then makes room.
    crowded: watch::Sender<()>,
}

/// The client at the other end of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// Under TLS.
    pub is_secure: bool,
}

/// A client that came.
pub(crate) struct Connection {
    pub stream: Placed,
    pub peer: Peer,
    /// Told when others wait for a place.
    pub crowded: watch::Receiver<()>,
}

impl Socket {
    /// With what tells when connections may end: `patience` after nobody is accepted any more.
    pub fn new(
        tcp: TcpListener,
        current: Current,
        stop: impl Future<Output = ()> + Send + 'static,
        is_closed: Arc<AtomicBool>,
        patience: impl FnOnce() -> Duration + Send + 'static,
    ) -> (Socket, impl Future<Output = ()> + Send + 'static) {
        let (accepting, stopped) = oneshot::channel::<()>();
        let over = async move {
            // Nothing is ever sent: it ends when the sender is gone.
            _ = stopped.await;
            is_closed.store(true, Ordering::Relaxed);
            tokio::time::sleep(patience()).await;
        };
        let places = Places::of(connections_max());
        let crowded = places.crowded.clone();
        let open = Some(Open { tcp, came: None, places, stop: Box::pin(stop), _accepting: accepting });
        (Socket { open, current, crowded, handshakes: JoinSet::new() }, over)
    }

    /// In clear, with so many places.
    #[cfg(test)]
    pub fn plain(tcp: TcpListener, count: usize) -> Socket {
        let (accepting, _) = oneshot::channel();
        let (places, stop) = (Places::of(count), Box::pin(std::future::pending()));
        let crowded = places.crowded.clone();
        let open = Some(Open { tcp, came: None, places, stop, _accepting: accepting });
        Socket { open, current: Current::bare(), crowded, handshakes: JoinSet::new() }
    }

    /// A client came: its connection, if it can be used at once.
    fn came(&mut self, tcp: TcpStream, address: SocketAddr, place: Option<OwnedSemaphorePermit>) -> Option<Connection> {
        let crowded = self.crowded.subscribe();
        let Some(identity) = self.current.identity() else {
            let stream = Placed::new(Stream::Plain(tcp), place);
            return Some(Connection { stream, peer: Peer { address, is_secure: false }, crowded });
        };
        self.handshakes.spawn(async move {
            let handshake = async { Stream::Plain(tcp).accept_tls(&identity.acceptor().await).await };
            match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
                Ok(Ok((stream, _))) => Some(Connection {
                    stream: Placed::new(stream, place),
                    peer: Peer { address, is_secure: true },
                    crowded,
                }),
                Ok(Err(error)) => {
                    tracing::debug!("{address}: no TLS: {error}");
                    None
                }
                Err(_) => None,
            }
        });
        None
    }

    /// The next client; never returns when there are no more.
    pub async fn accept(&mut self) -> Connection {
        loop {
            let has_room = self.handshakes.len() < HANDSHAKES_MAX;
            let found = tokio::select! {
                happened = happened(self.open.as_mut(), has_room) => match happened {
                    Happened::Came(tcp, peer, place) => self.came(tcp, peer, place),
                    Happened::Failed(error) => {
                        tracing::warn!("http listener: {error}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        None
                    }
                    Happened::Nothing => None,
                    // Who came by then is served, place or not.
                    Happened::Stopped => {
                        let came = self.open.take().and_then(|open| open.came);
                        came.and_then(|(tcp, peer)| self.came(tcp, peer, None))
                    }
                },
                Some(shaken) = self.handshakes.join_next() => shaken.ok().flatten(),
            };
            if let Some(connection) = found {
                return connection;
            }
        }
    }
}

impl Places {
    fn of(count: usize) -> Places {
        Places { all: Arc::new(Semaphore::new(count)), count, said: None, told: None, crowded: watch::channel(()).0 }
    }

    /// One of them, as soon as there is one.
    async fn next(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.all.clone().try_acquire_owned() {
            return Some(place);
        }
        if self.said.is_none_or(|said| said.elapsed() > SAID_EVERY) {
            self.said = Some(Instant::now());
            tracing::warn!("http listener: {} clients are connected, as many as may be: others wait", self.count);
        }
        loop {
            // Not sooner, however often this begins anew.
            if self.told.is_none_or(|told| told.elapsed() >= CROWDED_EVERY) {
                self.told = Some(Instant::now());
                self.crowded.send_replace(());
            }
            if let Ok(place) = tokio::time::timeout(CROWDED_EVERY, self.all.clone().acquire_owned()).await {
                // It is never closed.
                return place.ok();
            }
        }
    }
}

/// How many connections an HTTP listener has at most: a thirty-second of the files this process may open.
#[must_use]
pub fn connections_max() -> usize {
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(FILES_USUAL, |(soft, _)| soft);
    usize::try_from(files / SHARE_OF_FILES).unwrap_or(usize::MAX).clamp(PLACES_MIN, PLACES_MAX)
}

/// Clients wait while there is no room for handshakes, and one who came for a place.
async fn happened(open: Option<&mut Open>, has_room: bool) -> Happened {
    let Some(Open { tcp, came, places, stop, .. }) = open else { return std::future::pending().await };
    let coming = async {
        if came.is_none() {
            match tcp.accept().await {
                Ok(accepted) => *came = Some(accepted),
                Err(error) => return Happened::Failed(error),
            }
        }
        let place = places.next().await;
        came.take().map_or(Happened::Nothing, |(tcp, peer)| Happened::Came(tcp, peer, place))
    };
    tokio::select! {
        () = stop => Happened::Stopped,
        happened = coming, if has_room => happened,
    }
}

/// One of so many of the program's descriptors may be a connection of this listener.
const SHARE_OF_FILES: u64 = 32;
/// But so many connections at least, and at most.
const PLACES_MIN: usize = 64;
const PLACES_MAX: usize = 16_384;
/// Where the system does not tell how many descriptors there may be.
const FILES_USUAL: u64 = 1024;
/// While somebody waits for a place, how often those who ask nothing are told to make room.
const CROWDED_EVERY: Duration = Duration::from_secs(1);
/// How often it is said that there is no room.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Handshakes at once.
const HANDSHAKES_MAX: usize = 256;
/// How long one may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// How long a client may take, once it is connected, until what it asks is here: the way there and back.
pub(crate) const TIME_TO_ASK: Duration = Duration::from_millis(500);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
