//! The older client of AMQP: one connection, made again when it broke, and confirmations that are waited for apart.

use crate::amqp_link::{Dial, Link, Login, Verdict, verdict};
use crate::amqp_message::Message;
use crate::amqp_pool::target;
use crate::certificates::Certificates;
use crate::error::{BrokerError, within};
use crate::nats::without_login;
use config::AmqpMessage;
use futures_util::future::{BoxFuture, FutureExt};
use lapin::PublisherConfirm;
use lapin::uri::{AMQPScheme, AMQPUri};
use net::tls::Connectors;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The client.
pub struct AmqpClient {
    dial: Dial,
    login: Login,
    connect_timeout: Duration,
    link: Mutex<Option<Arc<Link>>>,
    /// Messages sent so far.
    sent: AtomicUsize,
}

/// What is to become of a message.
pub struct Confirm {
    place: String,
    state: State,
}

enum State {
    /// The connection is held until the answer is there.
    Waiting(PublisherConfirm, Arc<Link>),
    Known(Verdict),
    /// The answer did not come, and never will.
    Lost,
}

impl AmqpClient {
    /// Connects to the server of `amqp://USER:PASSWORD@HOST:PORT/VHOST` or, over TLS, `amqps://...`.
    ///
    /// # Errors
    /// The URI is none; nobody is there in time, or lets us in.
    pub fn connect<'a>(uri: &'a str, connectors: &'a Connectors) -> BoxFuture<'a, Result<AmqpClient, BrokerError>> {
        async move {
            let client = AmqpClient::new(uri, connectors)?;
            client.link().await?;
            Ok(client)
        }
        .boxed()
    }

    fn new(uri: &str, connectors: &Connectors) -> Result<AmqpClient, BrokerError> {
        let expected = "expected amqp://USER:PASSWORD@HOST:PORT/VHOST";
        let bad = |why: String| BrokerError::Bad {
            what: format!("`{}`", without_login(uri)),
            why: format!("{expected}: {why}"),
        };
        let parsed: AMQPUri = uri.parse().map_err(|_| bad("this is none".to_owned()))?;
        let tls = match parsed.scheme {
            AMQPScheme::AMQP => None,
            AMQPScheme::AMQPS => Some(Certificates::default().config(connectors)?),
        };
        let user = parsed.authority.userinfo;
        let connect_timeout = parsed.query.connection_timeout.map_or(CONNECT_TIMEOUT, Duration::from_millis);
        let dial = Dial {
            host: parsed.authority.host,
            port: parsed.authority.port,
            vhost: parsed.vhost,
            name: None,
            heartbeat_s: parsed.query.heartbeat.unwrap_or_default(),
            tls,
        };
        let login = Login { user: user.username, password: user.password };
        let connect_timeout = connect_timeout.min(CONNECT_TIMEOUT);
        Ok(AmqpClient { dial, login, connect_timeout, link: Mutex::default(), sent: AtomicUsize::new(0) })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The message is none; the connection is lost and cannot be made again within `limit`.
    pub fn publish<'a>(
        &'a self,
        options: &'a AmqpMessage,
        payload: &'a [u8],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Confirm, BrokerError>> {
        async move {
            let message = || Message::plain(&options.exchange, &options.routing_key, payload);
            let place = format!("{} {}", self.dial.place(), target(&options.exchange, &options.routing_key));
            let sending = async {
                let link = self.link().await?;
                match link.send(&place, message()?).await {
                    // It broke while nobody looked.
                    Err(BrokerError::Lost { .. }) => {
                        self.kept().take();
                        let link = self.link().await?;
                        let confirm = link.send(&place, message()?).await?;
                        Ok((confirm, link))
                    }
                    sent => sent.map(|confirm| (confirm, link)),
                }
            };
            let (confirm, link) = within(&place, "connection", limit, sending).await?;
            if self.sent.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY == FORGET_EVERY - 1 {
                within(&place, "confirmation", limit, link.forget(&place)).await?;
            }
            Ok(Confirm { place, state: State::Waiting(confirm, link) })
        }
        .boxed()
    }

    /// Says goodbye to the server.
    ///
    /// # Errors
    /// It does not answer.
    pub fn close<'a>(&'a self) -> BoxFuture<'a, Result<(), BrokerError>> {
        async move {
            let link = self.kept().take().filter(|link| link.is_usable());
            let Some(link) = link else { return Ok(()) };
            within(&self.dial.place(), "goodbye", CONNECT_TIMEOUT, link.close(&self.dial.place())).await
        }
        .boxed()
    }

    async fn link(&self) -> Result<Arc<Link>, BrokerError> {
        let kept = self.kept().clone().filter(|link| link.is_usable());
        if let Some(link) = kept {
            return Ok(link);
        }
        let opening = Link::open(&self.dial, self.login.clone());
        let made = Arc::new(within(&self.dial.place(), "connection", self.connect_timeout, opening).await?);
        Ok(self.kept().insert(made).clone())
    }

    fn kept(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Confirm {
    /// Waits for it; the second time it is known.
    ///
    /// # Errors
    /// The answer does not come within `limit`; the connection is lost. It will not come any more then.
    pub fn wait<'a>(&'a mut self, limit: Duration) -> BoxFuture<'a, Result<Verdict, BrokerError>> {
        async move {
            match std::mem::replace(&mut self.state, State::Lost) {
                State::Waiting(confirm, link) => {
                    let said = within(&self.place, "confirmation", limit, verdict(&self.place, confirm)).await?;
                    drop(link);
                    self.state = State::Known(said.clone());
                    Ok(said)
                }
                State::Known(said) => {
                    self.state = State::Known(said.clone());
                    Ok(said)
                }
                State::Lost => Err(BrokerError::Closed("confirmation")),
            }
        }
        .boxed()
    }
}

/// Longest time for making a connection, and for ending it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// lapin remembers confirmations nobody waited for; so many messages later it is told to forget them.
const FORGET_EVERY: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_no_password() {
        let connectors = Connectors::new(None).expect("roots");
        for uri in ["http://u:s3cret@h/", "amqp://u:s3cret@h:x/", "s3cret@h", "amqp://u:s3cret@h?heartbeat=x"] {
            let error = AmqpClient::new(uri, &connectors).err().expect("refused").to_string();
            assert!(error.contains("expected amqp://") && !error.contains("s3cret"), "{error}");
        }
        let Ok(client) = AmqpClient::new("amqp://u:p%40@h:7/v?heartbeat=9", &connectors) else { panic!("sound") };
        assert_eq!((client.dial.place().as_str(), client.dial.vhost.as_str()), ("h:7", "v"));
        assert_eq!((client.login.password.as_str(), client.dial.heartbeat_s), ("p@", 9));
    }
}
