//! Connections to one AMQP server, each used for one message at a time.
//!
//! Owns [`AmqpPool`] and [`Slot`]. A slot is a place among the connections, with one or without: where there is none, whoever has
//! the slot reads the secrets and connects. A connection goes back when its message was confirmed or refused for what it is; one
//! on which anything else happened is cut off.

use crate::amqp_link::{Dial, Link, Login, Status, Verdict, verdict};
use crate::amqp_message::Message;
use crate::certificates::Certificates;
use crate::error::{BrokerError, within};
use config::{AmqpConnection, AmqpPublish};
use futures_util::future::{BoxFuture, FutureExt};
use net::tls::Connectors;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The connections.
pub struct AmqpPool {
    options: AmqpConnection,
    places: Arc<Semaphore>,
    /// Those nobody uses, the last used last.
    idle: Mutex<Vec<Link>>,
}

/// A place among them.
pub struct Slot {
    pool: Arc<AmqpPool>,
    link: Option<Link>,
    _place: OwnedSemaphorePermit,
}

impl AmqpPool {
    /// As configured; connects to nobody.
    pub fn new(options: &AmqpConnection) -> Arc<AmqpPool> {
        let processors = || std::thread::available_parallelism().map_or(1, |count| count.get());
        let size = options.pool_size.unwrap_or_else(|| processors() * CONNECTIONS_PER_PROCESSOR).min(POOL_MAX);
        let places = Arc::new(Semaphore::new(size));
        Arc::new(AmqpPool { options: options.clone(), places, idle: Mutex::default() })
    }

    /// The server's options.
    pub fn options(&self) -> &AmqpConnection {
        &self.options
    }

    /// The longest that any one step takes: waiting for a place, connecting, publishing.
    pub fn patience(&self) -> Duration {
        let options = &self.options;
        let limits = [options.wait_timeout, options.connect_timeout, options.publish_timeout];
        limits.into_iter().map(limit).max().unwrap_or(TIMEOUT)
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// None becomes free in time.
    pub async fn slot(self: &Arc<AmqpPool>) -> Result<Slot, BrokerError> {
        let waiting = async {
            let closed = |_| BrokerError::Closed("pool");
            self.places.clone().acquire_owned().await.map_err(closed)
        };
        let place = within(&self.place(), "free connection", limit(self.options.wait_timeout), waiting).await?;
        let mut idle = self.idle();
        let link = std::iter::from_fn(|| idle.pop()).find(Link::is_usable);
        drop(idle);
        Ok(Slot { pool: self.clone(), link, _place: place })
    }

    fn dial(&self, certificates: &Certificates, connectors: &Connectors) -> Result<Dial, BrokerError> {
        let options = &self.options;
        let tls = options.enable_tls.then(|| certificates.config(connectors)).transpose()?;
        // A beat of less than a second would be none.
        let heartbeat_s = options.heartbeat.map_or(0, |every| every.as_secs().max(1));
        Ok(Dial {
            host: options.host.clone(),
            port: self.port(),
            vhost: options.vhost.clone(),
            name: options.connection_name.clone(),
            heartbeat_s: u16::try_from(heartbeat_s).unwrap_or(u16::MAX),
            tls,
        })
    }

    fn port(&self) -> u16 {
        self.options.port.unwrap_or(if self.options.enable_tls { TLS_PORT } else { PORT })
    }

    fn place(&self) -> String {
        format!("{}:{}", self.options.host, self.port())
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Link>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// There is a connection.
    pub fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Makes one.
    ///
    /// # Errors
    /// TLS cannot be had; nobody is there in time, or lets us in.
    pub fn connect<'a>(
        &'a mut self,
        login: Login,
        certificates: &'a Certificates,
        connectors: &'a Connectors,
    ) -> BoxFuture<'a, Result<(), BrokerError>> {
        async move {
            let dial = self.pool.dial(certificates, connectors)?;
            let limit = limit(self.pool.options.connect_timeout);
            self.link = Some(within(&dial.place(), "connection", limit, Link::open(&dial, login)).await?);
            Ok(())
        }
        .boxed()
    }

    /// Publishes a message, and waits until the server has it. Whatever is the matter, the slot can be used again.
    ///
    /// # Errors
    /// The message is none; the server does not take it, gives it back, or does not say so in time; the connection is lost.
    pub fn publish<'a>(
        &'a mut self,
        options: &'a AmqpPublish,
        payload: &'a [u8],
    ) -> BoxFuture<'a, Result<Verdict, BrokerError>> {
        async move {
            let message = Message::new(options, payload)?;
            let place = format!("{} {}", self.pool.place(), target(&options.exchange, &options.routing_key));
            let link = self.link.take().ok_or(BrokerError::Closed("connection"))?;
            let publishing = async { verdict(&place, link.send(&place, message).await?).await };
            let limit = limit(self.pool.options.publish_timeout);
            let verdict = within(&place, "confirmation", limit, publishing).await?;
            self.link = Some(link);
            match (&verdict.returned, verdict.status) {
                (Some((code, text)), _) => {
                    Err(BrokerError::Refused { place, cause: format!("the message came back: {code} {text}") })
                }
                (None, Status::Nack) => {
                    Err(BrokerError::Refused { place, cause: "the server did not take it".to_owned() })
                }
                (None, Status::Ack | Status::NotRequested) => Ok(verdict),
            }
        }
        .boxed()
    }

    /// Gives the place back, and the connection where it can be used again.
    pub fn give_back(mut self) {
        let link = self.link.take().filter(Link::is_usable);
        self.pool.idle().extend(link);
    }
}

/// What is published to, as errors name it.
pub(crate) fn target(exchange: &str, routing_key: &str) -> String {
    match exchange {
        "" => format!("queue {routing_key:?}"),
        exchange => format!("exchange {exchange:?}, key {routing_key:?}"),
    }
}

fn limit(given: Option<config::Duration>) -> Duration {
    given.map_or(TIMEOUT, config::Duration::get)
}

/// KumoMTA has no limit where none is given.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Connections where no pool size is given.
const CONNECTIONS_PER_PROCESSOR: usize = 4;
/// Connections of a pool, whatever is given: each has a thread.
const POOL_MAX: usize = 256;
/// Ports, as they are registered.
const PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    fn to(port: u16) -> AmqpConnection {
        let short = Some(config::Duration::from(Duration::from_millis(50)));
        let (connect_timeout, wait_timeout) = (short, short);
        let port = Some(port);
        AmqpConnection { host: "127.0.0.1".into(), port, connect_timeout, wait_timeout, ..AmqpConnection::default() }
    }

    async fn connect(slot: &mut Slot) -> Result<(), BrokerError> {
        let login = Login { user: "guest".into(), password: "guest".into() };
        slot.connect(login, &Certificates::default(), &Connectors::new(None).expect("roots")).await
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let pool = AmqpPool::new(&to(listener.local_addr().expect("bound").port()));
        let mut slot = pool.slot().await.expect("a place");
        assert!(matches!(connect(&mut slot).await, Err(BrokerError::Late { .. })));
        let (mut stream, _) = listener.accept().await.expect("it came");
        let mut said = Vec::new();
        let over = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut said)).await;
        over.expect("it has gone, and what drove it").expect("in order");
        assert!(said.starts_with(b"AMQP"), "{said:?}");
    }

    #[tokio::test]
    async fn places_are_bounded() {
        let pool = AmqpPool::new(&AmqpConnection { pool_size: Some(2), ..to(1) });
        let (first, _second) = (pool.slot().await.expect("one"), pool.slot().await.expect("two"));
        assert!(matches!(pool.slot().await, Err(BrokerError::Late { wanted: "free connection", .. })));
        first.give_back();
        assert!(pool.slot().await.is_ok());
        let most = AmqpPool::new(&AmqpConnection { pool_size: Some(POOL_MAX + 1), ..to(1) });
        assert_eq!(most.places.available_permits(), POOL_MAX);
    }
}
