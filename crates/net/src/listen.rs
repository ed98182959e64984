//! Listening sockets, bound before privileges are dropped.
//!
//! The backlog is large: 2 000 clients that connect at once must not overflow it (KumoMTA's
//! 128 does). Errors name the address and the cause: a port in use is the commonest one.

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use thiserror::Error;
use tokio::net::TcpListener;

/// Why a listener could not be had.
#[derive(Debug, Error)]
pub enum ListenError {
    /// `listen` is not an `ip:port`.
    #[error("listen `{0}`: expected ip:port, such as 127.0.0.1:2025 or [::]:25")]
    Address(String),
    /// The socket could not be bound.
    #[error("cannot listen on {address}: {cause}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the kernel said.
        cause: io::Error,
    },
}

/// Parses KumoMTA's forms of a listen address: `127.0.0.1:25`, `[::]:25`, `0:25`.
pub fn parse_address(text: &str) -> Result<SocketAddr, ListenError> {
    let error = || ListenError::Address(text.to_owned());
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // Short forms such as `0:25` and host names such as `localhost:25`.
    text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(error)
}

/// A bound, listening, non-blocking socket.
pub fn bind(address: SocketAddr) -> Result<std::net::TcpListener, ListenError> {
    let bind = || -> io::Result<std::net::TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::from(address))?;
        socket.listen(BACKLOG.cast_signed())?;
        Ok(socket.into())
    };
    bind().map_err(|cause| ListenError::Bind { address, cause })
}

/// The same socket inside the runtime.
pub fn into_tokio(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(listener)
}

/// Connections the kernel may hold for us, if its own limit (`net.core.somaxconn`) allows.
pub const BACKLOG: u32 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named() {
        let first = bind(parse_address("127.0.0.1:0").expect("sound")).expect("a free port");
        let address = first.local_addr().expect("bound");
        let error = bind(address).expect_err("bound twice").to_string();
        assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
        assert!(parse_address("nonsense").is_err());
        assert_eq!(parse_address("0:25").map(|a| a.port()).ok(), Some(25));
    }
}
