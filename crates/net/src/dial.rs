//! Connecting out: one address, optionally from a given source address.
//!
//! The caller owns the timeout and the choice of address. TCP_NODELAY always: SMTP is a
//! dialogue of small writes, and delayed ACKs cost 40 ms each.

use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};

/// Connects to `to`; binds `from` first when given.
pub async fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(source) = from {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
