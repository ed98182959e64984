//! Websockets (RFC 6455), of which scripts and the operator's tools read.
//!
//! Owns [`WebSocket`]. In: a URL, and text to say. Out: messages, text and binary alike. Pings are answered while a message is
//! waited for; a server that pings and then is silent is gone.

use crate::error::WebError;
use crate::request::absolute;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use net::causes::with_causes;
use net::tls::Connectors;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use rustls_pki_types::ServerName;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// One that is open.
pub struct WebSocket {
    stream: WebSocketStream<Box<dyn Duplex>>,
    /// The other side has said so; what becomes of the connection then is nobody's concern.
    is_over: bool,
    /// What came behind the messages of a batch.
    failed: Option<WebError>,
    /// When it pinged last.
    pinged_at: Option<Instant>,
    /// When something came last from who pings again and again; any other may be silent.
    heard_at: Option<Instant>,
    /// How long who pings may be silent.
    silence_max: Duration,
}

/// A connection, in clear or not.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

impl WebSocket {
    /// Opens one; also status and header fields of the server's answer. Has no deadline of its own.
    ///
    /// # Errors
    /// The URL is none of `ws` or `wss`, nobody is there, TLS fails, or the server answers anything but 101.
    pub async fn connect(url: &str, connectors: &Connectors) -> Result<(WebSocket, StatusCode, HeaderMap), WebError> {
        WebSocket::connect_with(url, HeaderMap::new(), connectors).await
    }

    /// The same with these header fields in the request: who asks, for instance.
    ///
    /// # Errors
    /// As [`WebSocket::connect`].
    pub async fn connect_with(
        url: &str,
        fields: HeaderMap,
        connectors: &Connectors,
    ) -> Result<(WebSocket, StatusCode, HeaderMap), WebError> {
        let parsed = absolute(url, &["ws", "wss"])?;
        let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let port = parsed.port_or_known_default().unwrap_or(80);
        // The URL may hold secrets.
        let place = format!("{host}:{port}");
        let failed = |e: io::Error| WebError::Request(format!("{place}: {e}"));
        let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(failed)?;
        let stream: Box<dyn Duplex> = if parsed.scheme() == "wss" {
            let tls = TlsConnector::from(connectors.web(false)?);
            let name = ServerName::try_from(host).map_err(|e| failed(io::Error::other(e)))?;
            Box::new(tls.connect(name, tcp).await.map_err(failed)?)
        } else {
            Box::new(tcp)
        };
        let bounds = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_OCTETS_MAX))
            .max_frame_size(Some(MESSAGE_OCTETS_MAX));
        let mut request = parsed.as_str().into_client_request().map_err(|e| WebError::WebSocket(with_causes(&e)))?;
        request.headers_mut().extend(fields);
        let opened = client_async_with_config(request, stream, Some(bounds)).await;
        let (stream, answer) = opened.map_err(|e| WebError::WebSocket(with_causes(&e)))?;
        let (failed, silence_max) = (None, SILENCE_MAX);
        let socket = WebSocket { stream, is_over: false, failed, pinged_at: None, heard_at: None, silence_max };
        Ok((socket, answer.status(), answer.headers().clone()))
    }

    /// Says something.
    ///
    /// # Errors
    /// The connection breaks.
    pub async fn send(&mut self, text: String) -> Result<(), WebError> {
        self.stream.send(Message::text(text)).await.map_err(|e| WebError::WebSocket(with_causes(&e)))
    }

    /// Waits for the next message; `None` when the other side is done.
    ///
    /// # Errors
    /// The connection breaks, a message is longer than [`MESSAGE_OCTETS_MAX`], or a server that has pinged twice is silent for
    /// [`SILENCE_MAX`], and three times as long as it was between two pings.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, WebError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        while !self.is_over {
            match self.next().await? {
                Some(Ok(Message::Text(text))) => return Ok(Some(text.into())),
                Some(Ok(Message::Binary(octets))) => return Ok(Some(octets)),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) | None => self.is_over = true,
                Some(Err(error)) => return Err(WebError::WebSocket(with_causes(&error))),
            }
        }
        Ok(None)
    }

    /// The next frame. One that is there already is never too late.
    async fn next(&mut self) -> Result<Option<Result<Message, Error>>, WebError> {
        let next = match self.heard_at {
            None => self.stream.next().await,
            Some(at) => timeout_at(at + self.silence_max, self.stream.next()).await.map_err(|_| {
                WebError::WebSocket(format!("nothing was heard for {:?} of who pinged before", self.silence_max))
            })?,
        };
        let now = Instant::now();
        if matches!(next, Some(Ok(Message::Ping(_)))) {
            let pause = self.pinged_at.replace(now).map(|before| now - before);
            // Some ping less often.
            self.silence_max = pause.map_or(self.silence_max, |pause| self.silence_max.max(pause * 3));
            self.heard_at = pause.map(|_| now).or(self.heard_at);
        }
        self.heard_at = self.heard_at.map(|_| now);
        Ok(next)
    }

    /// The messages of the next `time`, at most [`BATCH_MAX`]; `None` when there is none and the other side is done.
    ///
    /// # Errors
    /// As [`WebSocket::recv`], where there is no message to return first.
    pub async fn recv_batch(&mut self, time: Duration) -> Result<Option<Vec<Bytes>>, WebError> {
        let now = Instant::now();
        let until = now.checked_add(time).unwrap_or(now + LONGEST);
        let mut batch = Vec::new();
        while batch.len() < BATCH_MAX {
            match timeout_at(until, self.recv()).await {
                Err(_) => break,
                Ok(Ok(Some(message))) => batch.push(message),
                Ok(end) if !batch.is_empty() => {
                    self.failed = end.err();
                    break;
                }
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(error),
            }
        }
        Ok(Some(batch))
    }
}

/// The longest message that is taken, in octets.
pub const MESSAGE_OCTETS_MAX: usize = 16 << 20;
/// How long a server may be silent that pings: ours do so each half minute.
pub const SILENCE_MAX: Duration = Duration::from_secs(90);
/// A time that does not end.
const LONGEST: Duration = Duration::from_secs(u32::MAX as u64);
/// Messages of one batch.
const BATCH_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{AUTHORIZATION, HeaderValue};
    use tokio::net::TcpListener;

    /// A server that says `messages` and then goes away.
    async fn server(messages: Vec<Message>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("accepts");
            let mut stream = tokio_tungstenite::accept_async(stream).await.expect("opens");
            for message in messages {
                stream.send(message).await.expect("takes it");
            }
            stream.close(None).await.expect("closes");
            while let Some(Ok(_)) = stream.next().await {}
        });
        format!("ws://{address}/")
    }

    async fn connected(messages: Vec<Message>) -> WebSocket {
        let connectors = Connectors::new(None).expect("roots");
        WebSocket::connect(&server(messages).await, &connectors).await.expect("opens").0
    }

    #[tokio::test]
    async fn messages_come_until_the_end() {
        let ping = || Message::Ping(Bytes::from_static(b"p"));
        let mut socket = connected(vec![Message::text("a"), ping(), Message::binary(vec![0xff])]).await;
        assert_eq!(socket.recv().await.expect("whole").as_deref(), Some(&b"a"[..]));
        assert_eq!(socket.recv().await.expect("whole").as_deref(), Some(&[0xff][..]));
        assert_eq!(socket.recv().await.expect("in order"), None);
        assert_eq!(socket.recv().await.expect("still"), None);
    }

    #[tokio::test]
    async fn who_asks_is_said_and_then_what() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("accepts");
            let mut head = vec![0; 4096];
            // The client says no more before it is answered.
            let length = stream.peek(&mut head).await.expect("a request");
            head.truncate(length);
            let mut stream = tokio_tungstenite::accept_async(&mut stream).await.expect("opens");
            let said = stream.next().await.expect("a frame").expect("whole");
            (String::from_utf8(head).expect("text"), said)
        });
        let fields: HeaderMap = [(AUTHORIZATION, HeaderValue::from_static("Basic x"))].into_iter().collect();
        let connectors = Connectors::new(None).expect("roots");
        let opened = WebSocket::connect_with(&format!("ws://{address}/at?q"), fields, &connectors).await;
        opened.expect("opens").0.send("hello".to_owned()).await.expect("says it");
        let (head, said) = server.await.expect("ended");
        assert!(head.starts_with("GET /at?q HTTP/1.1") && head.contains("authorization: Basic x\r\n"), "{head}");
        assert_eq!(said, Message::text("hello"));
    }

    #[tokio::test]
    async fn a_batch_is_what_has_come() {
        let mut socket = connected(vec![Message::text("a"), Message::text("b")]).await;
        let batch = socket.recv_batch(Duration::from_secs(600)).await.expect("whole").expect("some");
        assert_eq!(batch, ["a", "b"]);
        assert_eq!(socket.recv_batch(Duration::from_secs(600)).await.expect("in order"), None);
    }

    #[tokio::test]
    async fn a_batch_may_be_empty() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let silent = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("accepts");
            let _open = tokio_tungstenite::accept_async(stream).await.expect("opens");
            std::future::pending::<()>().await;
        });
        let connectors = Connectors::new(None).expect("roots");
        let mut socket = WebSocket::connect(&format!("ws://{address}/"), &connectors).await.expect("opens").0;
        assert_eq!(socket.recv_batch(Duration::from_millis(1)).await.expect("no error"), Some(Vec::new()));
        silent.abort();
    }

    #[tokio::test]
    async fn who_has_pinged_and_is_silent_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let silent = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("accepts");
            let mut open = tokio_tungstenite::accept_async(stream).await.expect("opens");
            for _ in 0..2 {
                open.send(Message::Ping(Bytes::new())).await.expect("takes it");
            }
            open.send(Message::text("a")).await.expect("takes it");
            std::future::pending::<()>().await;
        });
        let connectors = Connectors::new(None).expect("roots");
        let mut socket = WebSocket::connect(&format!("ws://{address}/"), &connectors).await.expect("opens").0;
        socket.silence_max = Duration::from_millis(100);
        assert_eq!(socket.recv().await.expect("whole").as_deref(), Some(&b"a"[..]));
        // Also where nobody waits for so long at a time.
        let error = loop {
            match socket.recv_batch(Duration::from_millis(10)).await {
                Ok(batch) => assert_eq!(batch, Some(Vec::new())),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("nothing was heard for "), "{error}");
        silent.abort();
    }
}
