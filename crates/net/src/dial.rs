//! Connecting out: one address, optionally from a given source address, directly or through a proxy.
//!
//! In: the mail server's address, a [`Way`] to it, the time all of it may take. Out: a stream on which the mail server
//! speaks next, and the address it sees us come from. Fails with [`DialError`], which names the step that failed; the
//! choice among addresses is the caller's.
//!
//! TCP_NODELAY always: SMTP is a dialogue of small writes, and delayed ACKs cost 40 ms each.

use crate::dns::MxCache;
use crate::proxy::{Proxy, host_port};
use crate::socks5::Fault;
use config::HostPort;
use route::DnsError;
use std::borrow::Cow;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpSocket, TcpStream};

/// How to reach a mail server.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Local address to bind; with a proxy, the one to reach it from.
    pub from: Option<IpAddr>,
    /// Who makes the connection for us.
    pub proxy: Option<Proxy>,
}

/// A connection made.
#[derive(Debug)]
pub struct Dialled {
    /// The mail server speaks next.
    pub stream: TcpStream,
    /// Our address as the mail server sees it, as far as the proxy tells; port 0 where it does not.
    pub address: HostPort,
}

/// No connection.
#[derive(Debug, Error)]
#[error("{}: {cause}", step.text)]
pub struct DialError {
    /// What was being done.
    pub step: Step,
    /// Why it did not succeed.
    pub cause: Cause,
}

/// Why a step did not succeed.
#[derive(Debug, Error)]
pub enum Cause {
    /// The system says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The time was up.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The proxy's name.
    #[error("{0}")]
    Dns(#[from] DnsError),
    /// The SOCKS5 server says so.
    #[error("{0}")]
    Socks(#[from] Fault),
    /// The proxy would have to connect from one family to the other.
    #[error("cannot connect from {bind} to {to}: the one is IPv4, the other IPv6")]
    MixedFamilies {
        /// The address it should bind.
        bind: IpAddr,
        /// The address it should reach.
        to: SocketAddr,
    },
    /// All addresses of the proxy are of the other family than our own.
    #[error("it has no address that can be reached from source_address{}", from.map_or(String::new(), |ip| format!(" {ip}")))]
    NoAddress {
        /// Our own.
        from: Option<IpAddr>,
    },
}

/// What is being done.
#[derive(Debug)]
pub struct Step {
    /// For error texts.
    text: Cow<'static, str>,
    /// It is between us and a proxy; the host has no part in it yet.
    is_at_proxy: bool,
}

impl DialError {
    /// True when it failed between us and a proxy, before that was asked to connect to the host.
    pub fn is_at_proxy(&self) -> bool {
        self.step.is_at_proxy
    }
}

impl Step {
    /// Something that a proxy does, or we do to reach it.
    pub(crate) fn at_proxy(&mut self, text: String) {
        *self = Step { text: Cow::Owned(text), is_at_proxy: true };
    }

    /// Something that takes as long as the host takes to answer.
    pub(crate) fn at_host(&mut self, text: String) {
        *self = Step { text: Cow::Owned(text), is_at_proxy: false };
    }
}

/// Connects to `to` by `way`, all in all `within` the given time. `names` is asked for a proxy given by name.
pub async fn connect(to: SocketAddr, way: &Way, names: &MxCache, within: Duration) -> Result<Dialled, DialError> {
    let mut step = Step { text: Cow::Borrowed("connect"), is_at_proxy: false };
    let connecting = async {
        match &way.proxy {
            Some(proxy) => proxy.connect(to, way.from, names, &mut step).await,
            None => {
                let stream = tcp(to, way.from).await?;
                let address = host_port(stream.local_addr()?);
                Ok(Dialled { stream, address })
            }
        }
    };
    let connected = tokio::time::timeout(within, connecting).await;
    connected.unwrap_or(Err(Cause::TimedOut(within))).map_err(|cause| DialError { step, cause })
}

/// Connects to `to`; binds `from` first when given.
pub(crate) async fn tcp(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = from {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("from {source}: {error}"));
        socket.bind(SocketAddr::new(source, 0)).map_err(named)?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
