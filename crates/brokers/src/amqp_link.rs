//! One connection to an AMQP server, with one channel, on which every message is confirmed.

use crate::amqp_message::Message;
use crate::amqp_wire::{Cut, Duplex, Kit, Wire};
use crate::error::BrokerError;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::protocol::{AMQPErrorKind, AMQPHardError};
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{AsyncTcpStream, Channel, Confirmation, Connection, ConnectionProperties, ErrorKind, PublisherConfirm};
use net::causes::with_causes;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Who connects.
#[derive(Clone)]
pub struct Login {
    /// The user.
    pub user: String,
    /// Its password.
    pub password: String,
}

/// Where to, and how.
#[derive(Clone)]
pub(crate) struct Dial {
    pub host: String,
    pub port: u16,
    pub vhost: String,
    pub name: Option<String>,
    /// Seconds; 0 is as the server likes.
    pub heartbeat_s: u16,
    pub tls: Option<Arc<ClientConfig>>,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the server said.
    pub status: Status,
    /// Code and text with which it gave the message back, when it did: no queue got it.
    pub returned: Option<(u16, String)>,
}

/// What the server said of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing: it was not asked to.
    NotRequested,
    /// It is the server's now.
    Ack,
    /// The server did not take it.
    Nack,
}

impl Status {
    /// As scripts see it.
    pub fn name(self) -> &'static str {
        match self {
            Status::NotRequested => "NotRequested",
            Status::Ack => "Ack",
            Status::Nack => "Nack",
        }
    }
}

/// The connection. It is cut off when this is dropped.
pub(crate) struct Link {
    connection: Connection,
    channel: Channel,
    _cut: Cut,
}

impl Dial {
    /// The server, as errors name it.
    pub fn place(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    fn uri(&self, login: Login) -> AMQPUri {
        let userinfo = AMQPUserInfo { username: login.user, password: login.password };
        let heartbeat = (self.heartbeat_s > 0).then_some(self.heartbeat_s);
        AMQPUri {
            scheme: AMQPScheme::AMQP,
            authority: AMQPAuthority { userinfo, host: self.host.clone(), port: self.port },
            vhost: self.vhost.clone(),
            query: AMQPQueryString { frame_max: Some(FRAME_OCTETS), heartbeat, ..AMQPQueryString::default() },
        }
    }

    async fn stream(&self) -> io::Result<Box<dyn Duplex>> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(tls.clone()).connect(name, tcp).await?))
    }
}

impl Link {
    /// Connects. Has no limit of its own.
    pub async fn open(dial: &Dial, login: Login) -> Result<Link, BrokerError> {
        let failed = |cause: String| BrokerError::Connect { place: dial.place(), cause };
        let (wire, cut) = Wire::new(dial.stream().await.map_err(|e| failed(e.to_string()))?);
        let ready = Mutex::new(Some(wire));
        let mut properties = ConnectionProperties::default();
        if let Some(name) = &dial.name {
            properties = properties.with_connection_name(name.as_str().into());
        }
        let take = async move |_, _| match ready.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(wire) => Ok(AsyncTcpStream::Plain(wire)),
            // lapin tries once more where a server hangs up before it has said anything.
            None => Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
        };
        let refused = |e: lapin::Error| failed(with_causes(&e));
        let connection =
            Connection::connector(dial.uri(login), Kit::current(), take, properties).await.map_err(refused)?;
        let channel = connection.create_channel().await.map_err(refused)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(refused)?;
        Ok(Link { connection, channel, _cut: cut })
    }

    /// Messages can be published.
    pub fn is_usable(&self) -> bool {
        self.connection.status().connected() && self.channel.status().connected()
    }

    /// Sends a message; what becomes of it is still to come.
    pub async fn send(&self, place: &str, message: Message<'_>) -> Result<PublisherConfirm, BrokerError> {
        let options = BasicPublishOptions { mandatory: message.is_mandatory, immediate: message.is_immediate };
        let (exchange, routing_key) = (message.exchange.into(), message.routing_key.into());
        let sent = self.channel.basic_publish(exchange, routing_key, options, message.payload, message.properties);
        sent.await.map_err(|e| failure(place, &e))
    }

    /// Forgets what became of messages nobody waited for; waits for the last of them.
    pub async fn forget(&self, place: &str) -> Result<(), BrokerError> {
        self.channel.wait_for_confirms().await.map(|_returned| ()).map_err(|e| failure(place, &e))
    }

    /// Says goodbye.
    pub async fn close(&self, place: &str) -> Result<(), BrokerError> {
        self.connection.close(200, "OK".into()).await.map_err(|e| failure(place, &e))
    }
}

/// Waits for what became of a message.
pub(crate) async fn verdict(place: &str, confirm: PublisherConfirm) -> Result<Verdict, BrokerError> {
    let (status, returned) = match confirm.await.map_err(|e| failure(place, &e))? {
        Confirmation::NotRequested => (Status::NotRequested, None),
        Confirmation::Ack(returned) => (Status::Ack, returned),
        Confirmation::Nack(returned) => (Status::Nack, returned),
    };
    let returned = returned.map(|message| (message.reply_code, message.reply_text.to_string()));
    Ok(Verdict { status, returned })
}

/// Whether the server says no, or the connection is gone.
fn failure(place: &str, error: &lapin::Error) -> BrokerError {
    let (place, cause) = (place.to_owned(), with_causes(error));
    let is_refusal = match error.kind() {
        // It shuts down, or somebody had it drop this connection.
        ErrorKind::ProtocolError(said) => *said.kind() != AMQPErrorKind::Hard(AMQPHardError::CONNECTIONFORCED),
        ErrorKind::SerialisationError(_) | ErrorKind::ChannelsLimitReached | ErrorKind::AuthProviderError(_) => true,
        _ => false,
    };
    if is_refusal { BrokerError::Refused { place, cause } } else { BrokerError::Lost { place, cause } }
}

/// Frames of a message, in octets. lapin holds room for 64 of them a connection.
const FRAME_OCTETS: u32 = 32 << 10;
/// How long is waited for what becomes of a message where no script says.
pub const CONFIRM_TIMEOUT: Duration = Duration::from_secs(60);
