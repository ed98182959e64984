//! Connecting out through a proxy: HAProxy's PROXY protocol, or SOCKS5.
//!
//! In: the proxy, the local address to reach it from, the mail server's address. Out: the stream, on which the mail
//! server speaks next, and the address it sees us come from. Fails with a [`Cause`]; the [`Step`] it failed in was noted
//! before it was begun, so that a time limit around the whole can tell too what it cut short.
//!
//! A proxy given by name is looked up at each connection (the resolver caches) and its addresses are tried in order.
//!
//! - HAProxy: a version 2 header is sent, nothing is answered: the configured address is taken at its word.
//! - SOCKS5 without an address to bind: CONNECT, as RFC 1928 has it.
//! - SOCKS5 with one: BIND naming it with port 0, a success reply, then CONNECT on the same stream. RFC 1928 has BIND for
//!   inbound connections; this is KumoMTA's own use, which its proxy server understands.

use crate::dial::{Cause, Dialled, Step, tcp};
use crate::dns::MxCache;
use crate::proxy_protocol;
use crate::socks5::{self, Command, Credentials, Method};
use config::HostPort;
use route::IpStrategy;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// A server that makes the connection for us.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Where it is.
    pub server: HostPort,
    /// How to speak to it.
    pub protocol: Protocol,
}

/// How to speak to a proxy.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// The PROXY protocol, version 2.
    HaProxy {
        /// The address it shall bind.
        source: IpAddr,
    },
    /// SOCKS version 5.
    Socks5 {
        /// The address it shall bind; its own choice when absent.
        source: Option<IpAddr>,
        /// How to log in, if it asks.
        credentials: Option<Credentials>,
    },
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.protocol {
            Protocol::HaProxy { .. } => "HAProxy",
            Protocol::Socks5 { .. } => "SOCKS5",
        };
        write!(f, "{kind} proxy {}", self.server)
    }
}

impl Proxy {
    /// Connects to `to`; reaches the proxy from `from`.
    pub(crate) async fn connect(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        names: &MxCache,
        step: &mut Step,
    ) -> Result<Dialled, Cause> {
        let source = match &self.protocol {
            Protocol::HaProxy { source } => Some(*source),
            Protocol::Socks5 { source, .. } => *source,
        };
        step.at_proxy(format!("{self}"));
        if let Some(source) = source.filter(|source| source.is_ipv4() != to.is_ipv4()) {
            return Err(Cause::MixedFamilies { bind: source, to });
        }
        let mut stream = self.reach(from, names, step).await?;
        let address = match &self.protocol {
            Protocol::HaProxy { source } => {
                step.at_proxy(format!("{self}: send the PROXY header"));
                let source_socket = SocketAddr::new(*source, 0);
                let header = proxy_protocol::header(source_socket, to);
                stream.write_all(&header.ok_or(Cause::MixedFamilies { bind: *source, to })?).await?;
                host_port(source_socket)
            }
            Protocol::Socks5 { source, credentials } => {
                self.converse(&mut stream, to, *source, credentials.as_ref(), step).await?
            }
        };
        Ok(Dialled { stream, address })
    }

    /// A connection to the proxy itself.
    async fn reach(&self, from: Option<IpAddr>, names: &MxCache, step: &mut Step) -> Result<TcpStream, Cause> {
        let addresses = match self.server.socket_addr() {
            Some(address) => vec![address.ip()],
            None => {
                step.at_proxy(format!("{self}: resolve its name"));
                names.addresses(&self.server.host, IpStrategy::Ipv4AndIpv6).await?
            }
        };
        step.at_proxy(format!("{self}: connect"));
        let mut failed = Cause::NoAddress { from };
        let usable = addresses.into_iter().filter(|to| from.is_none_or(|from| from.is_ipv4() == to.is_ipv4()));
        for ip in usable.take(ADDRESSES_MAX) {
            match tcp(SocketAddr::new(ip, self.server.port), from).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = Cause::Io(error),
            }
        }
        Err(failed)
    }

    /// The dialogue with a SOCKS5 server; the result is the address it says it connects from.
    async fn converse(
        &self,
        stream: &mut TcpStream,
        to: SocketAddr,
        source: Option<IpAddr>,
        credentials: Option<&Credentials>,
        step: &mut Step,
    ) -> Result<HostPort, Cause> {
        step.at_proxy(format!("{self}: greet"));
        let method = socks5::greet(stream, credentials.is_some()).await?;
        if let (Method::Password, Some(credentials)) = (method, credentials) {
            step.at_proxy(format!("{self}: log in"));
            socks5::log_in(stream, credentials).await?;
        }
        let mut bound = None;
        if let Some(source) = source {
            step.at_proxy(format!("{self}: BIND {source}"));
            bound = Some(socks5::ask(stream, Command::Bind, SocketAddr::new(source, 0)).await?);
        }
        // From here on it may wait for the host.
        step.at_host(format!("{self}: CONNECT {to}"));
        let connected = socks5::ask(stream, Command::Connect, to).await?;
        // Servers that do not tell say 0.0.0.0; what BIND said is then the better knowledge.
        let tells = connected.host.parse::<IpAddr>().map_or(true, |ip| !ip.is_unspecified());
        Ok(if tells { connected } else { bound.unwrap_or(connected) })
    }
}

/// An address as it is logged.
pub(crate) fn host_port(address: SocketAddr) -> HostPort {
    HostPort { host: address.ip().to_string(), port: address.port() }
}

/// Addresses of one proxy that are tried.
const ADDRESSES_MAX: usize = 16;
