//! One byte stream, with or without TLS, so that sessions need not know.

use crate::subject;
use rustls::pki_types::CertificateDer;
use rustls::{CommonState, ProtocolVersion};
use socket2::SockRef;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client, server};

/// A connection's bytes.
#[derive(Debug)]
pub enum Stream {
    /// In clear.
    Plain(TcpStream),
    /// We are the TLS server.
    Server(Box<server::TlsStream<TcpStream>>),
    /// We are the TLS client.
    Client(Box<client::TlsStream<TcpStream>>),
    /// Given away, for a handshake that failed; every use is an error.
    Closed,
}

/// What a handshake agreed on, in rustls's names (KumoMTA logs the same).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// `TLSv1_3`.
    pub protocol_version: String,
    /// Attributes of the peer's certificate's subject, as `CN=mx.example`; empty without certificate.
    pub peer_subject: Vec<String>,
}

impl Stream {
    /// Handshake as a server. An error ends the connection.
    pub async fn accept_tls(self, acceptor: &tokio_rustls::TlsAcceptor) -> io::Result<(Stream, TlsFacts)> {
        let tls = acceptor.accept(self.into_plain()?).await?;
        let facts = facts(tls.get_ref().1);
        Ok((Stream::Server(Box::new(tls)), facts))
    }

    /// Handshake as a client with the peer called `name`.
    pub async fn connect_tls(self, connector: &TlsConnector, name: &str) -> io::Result<(Stream, TlsFacts)> {
        let name = rustls::pki_types::ServerName::try_from(name.trim_end_matches('.').to_owned())
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let tls = connector.connect(name, self.into_plain()?).await?;
        let facts = facts(tls.get_ref().1);
        Ok((Stream::Client(Box::new(tls)), facts))
    }

    /// The certificates that the server showed us, its own first.
    pub fn server_certificates(&self) -> &[CertificateDer<'static>] {
        match self {
            Stream::Client(tls) => tls.get_ref().1.peer_certificates().unwrap_or_default(),
            Stream::Plain(_) | Stream::Server(_) | Stream::Closed => &[],
        }
    }

    /// True when a peer in clear has sent something already; nothing is taken from the socket.
    pub fn has_input(&self) -> io::Result<bool> {
        let Stream::Plain(tcp) = self else { return Ok(false) };
        match SockRef::from(tcp).peek(&mut [MaybeUninit::new(0); 1]) {
            Ok(count) => Ok(count > 0),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn into_plain(self) -> io::Result<TcpStream> {
        match self {
            Stream::Plain(tcp) => Ok(tcp),
            Stream::Closed => Err(closed()),
            _ => Err(io::Error::other("TLS is on already")),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Server(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Client(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Closed => Poll::Ready(Err(closed())),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Server(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Client(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Stream::Server(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Stream::Client(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Stream::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_flush(cx),
            Stream::Server(s) => Pin::new(s).poll_flush(cx),
            Stream::Client(s) => Pin::new(s).poll_flush(cx),
            Stream::Closed => Poll::Ready(Err(closed())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Server(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Client(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Closed => Poll::Ready(Ok(())),
        }
    }
}

fn closed() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

fn facts(tls: &CommonState) -> TlsFacts {
    let cipher = tls.negotiated_cipher_suite().map(|s| format!("{:?}", s.suite())).unwrap_or_default();
    let protocol_version = match tls.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1_3".to_owned(),
        Some(ProtocolVersion::TLSv1_2) => "TLSv1_2".to_owned(),
        other => format!("{other:?}"),
    };
    let peer = tls.peer_certificates().and_then(<[_]>::first);
    let peer_subject = peer.map(|certificate| subject::of_certificate(certificate)).unwrap_or_default();
    TlsFacts { cipher, protocol_version, peer_subject }
}
