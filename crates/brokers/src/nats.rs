//! NATS: subjects and, with JetStream, streams that keep what is published.
//!
//! Owns [`Nats`], a client with one connection, which is made again by itself when it breaks; what is published meanwhile waits
//! for it. In: subject, payload, header fields. Out: where a stream put the message ([`Ack`]). How long a message may be says the
//! server. A client that is given up while its server is away looks for it until it is back, and ends then: async-nats has no
//! way to say otherwise.

use crate::certificates::Certificates;
use crate::error::{BrokerError, late, within};
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::{self, publish::PublishAck};
use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, HeaderMap, HeaderName, HeaderValue, ServerAddr,
};
use config::NatsOptions;
use futures_util::future::{BoxFuture, FutureExt};
use net::causes::with_causes;
use net::tls::Connectors;
use std::time::Duration;

/// Who connects.
#[derive(Clone, Default)]
pub enum NatsLogin {
    /// Nobody in particular, or whom the servers' addresses name.
    #[default]
    Nobody,
    /// A user.
    User {
        /// Its name.
        name: String,
        /// Its password.
        password: String,
    },
    /// Whoever has this token.
    Token(String),
}

/// A client.
pub struct Nats {
    client: Client,
    jetstream: jetstream::Context,
    servers: String,
    patience: Duration,
}

/// Where a stream put a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The stream.
    pub stream: String,
    /// Its place in there.
    pub sequence: u64,
    /// The domain of the stream; empty for the server's own.
    pub domain: String,
    /// The stream had a message with this `Nats-Msg-Id` already, and keeps that one.
    pub duplicate: bool,
    /// The sum, in streams that count.
    pub value: Option<String>,
}

impl Nats {
    /// Longest time that [`Nats::connect`] takes.
    pub fn connect_patience(options: &NatsOptions) -> Duration {
        let servers = u32::try_from(options.servers().len()).unwrap_or(u32::MAX);
        options.connection_timeout.get().saturating_mul(servers)
    }

    /// Longest time that a message or the end takes.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Connects to one of the servers.
    ///
    /// # Errors
    /// An address is none; TLS cannot be had; no server can be reached in time, or lets us in.
    pub fn connect<'a>(
        options: &'a NatsOptions,
        login: NatsLogin,
        certificates: &'a Certificates,
        connectors: &'a Connectors,
    ) -> BoxFuture<'a, Result<Nats, BrokerError>> {
        async move {
            let servers = options.servers().iter().map(|server| address(server)).collect::<Result<Vec<_>, _>>()?;
            let named = servers.iter().map(|server| format!("{}:{}", server.host(), server.port())).collect::<Vec<_>>();
            let named = named.join(", ");
            let tls = certificates.config(connectors)?;
            let settings = settings(options, login).tls_client_config((*tls).clone());
            let limit = Nats::connect_patience(options);
            // The last server's own time runs out when ours does: either may be first.
            let refused = |e: ConnectError| match e.kind() {
                ConnectErrorKind::TimedOut => late(&named, "connection", limit),
                _ => BrokerError::Connect { place: named.clone(), cause: with_causes(&e) },
            };
            let connecting = async { async_nats::connect_with_options(servers, settings).await.map_err(refused) };
            let client = within(&named, "connection", limit, connecting).await?;
            let patience = options.request_timeout.get();
            // Its own limits are beyond ours, whose errors say more.
            let beyond = patience.saturating_mul(2);
            let jetstream = ContextBuilder::new().timeout(beyond).ack_timeout(beyond).build(client.clone());
            Ok(Nats { client, jetstream, servers: named, patience })
        }
        .boxed()
    }

    /// Publishes a message; with `awaits_ack`, to a stream, and waits until that has it.
    ///
    /// # Errors
    /// Subject or header fields are none; the payload is longer than the server takes; no stream takes the subject, or does not
    /// say so in time.
    pub fn publish<'a>(
        &'a self,
        subject: &'a str,
        payload: Vec<u8>,
        headers: &'a [(String, String)],
        awaits_ack: bool,
    ) -> BoxFuture<'a, Result<Option<Ack>, BrokerError>> {
        async move {
            let place = format!("{} {subject:?}", self.servers);
            let headers = header_map(headers)?;
            let subject = subject.to_owned();
            let refused =
                |e: &dyn std::error::Error| BrokerError::Refused { place: place.clone(), cause: with_causes(e) };
            let publishing = async {
                if awaits_ack {
                    let sent = self.jetstream.publish_with_headers(subject, headers, payload.into()).await;
                    let ack = sent.map_err(|e| refused(&e))?.await.map_err(|e| refused(&e))?;
                    return Ok(Some(Ack::from(ack)));
                }
                let sent = match headers.is_empty() {
                    true => self.client.publish(subject, payload.into()).await,
                    false => self.client.publish_with_headers(subject, headers, payload.into()).await,
                };
                sent.map(|()| None).map_err(|e| refused(&e))
            };
            within(&place, "acknowledgement", self.patience, publishing).await
        }
        .boxed()
    }

    /// Waits until all that was published is on its way, and disconnects.
    ///
    /// # Errors
    /// That takes too long.
    pub fn close<'a>(&'a self) -> BoxFuture<'a, Result<(), BrokerError>> {
        async move {
            let flushing = async {
                let lost = |cause: String| BrokerError::Lost { place: self.servers.clone(), cause };
                self.client.flush().await.map_err(|e| lost(with_causes(&e)))?;
                self.client.drain().await.map_err(|e| lost(with_causes(&e)))
            };
            within(&self.servers, "end of what was published", self.patience, flushing).await
        }
        .boxed()
    }
}

impl From<PublishAck> for Ack {
    fn from(ack: PublishAck) -> Ack {
        let PublishAck { stream, sequence, domain, duplicate, value, .. } = ack;
        Ack { stream, sequence, domain, duplicate, value }
    }
}

/// The error does not show the address: it may hold a password.
fn address(given: &str) -> Result<ServerAddr, BrokerError> {
    let bad = || BrokerError::Bad {
        what: format!("servers: `{}`", without_login(given)),
        why: "expected nats://HOST:PORT, tls://HOST:PORT or HOST:PORT".to_owned(),
    };
    let address: ServerAddr = given.parse().map_err(|_| bad())?;
    if address.host().is_empty() || address.is_websocket() {
        return Err(bad());
    }
    Ok(address)
}

/// An address without user and password.
pub(crate) fn without_login(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let rest = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    if scheme.is_empty() { rest.to_owned() } else { format!("{scheme}://{rest}") }
}

fn settings(options: &NatsOptions, login: NatsLogin) -> ConnectOptions {
    let mut settings = ConnectOptions::new()
        .max_reconnects(options.max_reconnects)
        .connection_timeout(options.connection_timeout.get())
        .require_tls(options.tls_required)
        .ping_interval(options.ping_interval.get())
        .client_capacity(options.capacity())
        .request_timeout(Some(options.request_timeout.get()));
    settings = match login {
        NatsLogin::Nobody => settings,
        NatsLogin::User { name, password } => settings.user_and_password(name, password),
        NatsLogin::Token(token) => settings.token(token),
    };
    if let Some(name) = &options.name {
        settings = settings.name(name);
    }
    if let Some(prefix) = &options.inbox_prefix {
        settings = settings.custom_inbox_prefix(prefix);
    }
    let mut set = |wanted: bool, with: fn(ConnectOptions) -> ConnectOptions| {
        if wanted {
            settings = with(std::mem::take(&mut settings));
        }
    };
    set(options.no_echo, ConnectOptions::no_echo);
    set(options.tls_first, ConnectOptions::tls_first);
    set(options.retry_on_initial_connect, ConnectOptions::retry_on_initial_connect);
    set(options.ignore_discovered_servers, ConnectOptions::ignore_discovered_servers);
    set(options.retain_servers_order, ConnectOptions::retain_servers_order);
    settings
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, BrokerError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let bad = |why: String| BrokerError::Bad { what: format!("headers: {name:?}"), why };
        let field = name.parse::<HeaderName>().map_err(|e| bad(e.to_string()))?;
        map.append(field, value.parse::<HeaderValue>().map_err(|e| bad(e.to_string()))?);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_show_no_login() {
        for (given, shown) in [
            ("nats://u:p@h:1", "nats://h:1"),
            ("u:p@h", "h"),
            ("tls://h", "tls://h"),
            ("amqp://u:p@ss@h/v", "amqp://h/v"),
        ] {
            assert_eq!(without_login(given), shown);
        }
        let error = address("http://u:s3cret@h").expect_err("no NATS").to_string();
        assert!(error.contains("`http://h`: expected nats://HOST:PORT") && !error.contains("s3cret"), "{error}");
        assert!(address("ws://h").is_err() && address("").is_err());
        assert_eq!(address("h:4").expect("sound").port(), 4);
    }

    #[test]
    fn header_fields_are_one_line() {
        let field = |name: &str, value: &str| header_map(&[(name.to_owned(), value.to_owned())]);
        assert!(field("X-A", "1 2").is_ok());
        for (name, value) in [("X-A", "1\r\nX-B: 2"), ("X A", "1"), ("X-A:", "1")] {
            let error = field(name, value).expect_err("refused").to_string();
            assert!(error.starts_with(&format!("headers: {name:?}: ")), "{error}");
        }
    }
}
