//! Requests to another node of the cluster: one kept connection, one request at a time.
//!
//! In: a base URL, then paths and bodies. Out: status and content of each answer, at most [`ANSWER_OCTETS_MAX`]. Fails with
//! [`HttpError`]. A request on a connection that was idle and breaks is sent once more on a new one, so requests must bear to be
//! said twice. Names are looked up as the system does, since nodes know each other by what stands in `/etc/hosts` too. Has no
//! deadlines of its own: whoever asks may drop the request. HTTP itself is hyper's. `mta_sts::fetch` makes its one request with
//! the same [`handshake`].

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::io;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The base URL.
    #[error("`{0}` is not a URL of a node: expected http://HOST[:PORT] or https://HOST[:PORT]")]
    Url(String),
    /// Name, connection or TLS.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// HTTP failed.
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// The request could not be written.
    #[error("HTTP: {0}")]
    Request(#[from] hyper::http::Error),
    /// The content broke off or is too large.
    #[error("the answer could not be read: {0}")]
    Body(String),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// Its status.
    pub status: StatusCode,
    /// Its content.
    pub content: Bytes,
}

/// A client of one node.
pub struct HttpClient {
    host: String,
    port: u16,
    /// What the `Host` field says.
    authority: String,
    tls: Option<TlsConnector>,
    connection: Option<SendRequest<Full<Bytes>>>,
    /// Drives the connection; ends with the client.
    driver: JoinSet<()>,
}

impl HttpClient {
    /// A client of the node at `base`, which verifies with `tls` where that is `https`. Connects with the first request.
    ///
    /// # Errors
    /// [`HttpError::Url`].
    pub fn new(base: &str, tls: TlsConnector) -> Result<HttpClient, HttpError> {
        let wrong = || HttpError::Url(base.to_owned());
        let uri: Uri = base.parse().map_err(|_| wrong())?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(tls), 443),
            _ => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        Ok(HttpClient {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(port),
            authority: authority.to_string(),
            tls,
            connection: None,
            driver: JoinSet::new(),
        })
    }

    /// Connects, unless there is a connection.
    ///
    /// # Errors
    /// [`HttpError::Io`], [`HttpError::Http`].
    pub async fn connect(&mut self) -> Result<(), HttpError> {
        if self.connection.as_ref().is_some_and(|connection| !connection.is_closed()) {
            return Ok(());
        }
        self.driver.abort_all();
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        tcp.set_nodelay(true)?;
        let connection = match &self.tls {
            None => handshake(&mut self.driver, tcp).await?,
            Some(connector) => {
                let name = ServerName::try_from(self.host.clone())
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
                let tls = connector.connect(name, tcp).await?;
                handshake(&mut self.driver, tls).await?
            }
        };
        self.connection = Some(connection);
        Ok(())
    }

    /// Posts `content` to `path`; the answer, whatever its status.
    ///
    /// # Errors
    /// See [`HttpError`]; the other side may have carried out the request then.
    pub async fn post(&mut self, path: &str, content_type: &str, content: Bytes) -> Result<HttpAnswer, HttpError> {
        let was_connected = self.connection.is_some();
        match self.post_once(path, content_type, content.clone()).await {
            Err(HttpError::Http(_)) if was_connected => {
                self.connection = None;
                self.post_once(path, content_type, content).await
            }
            answer => answer,
        }
    }

    async fn post_once(&mut self, path: &str, content_type: &str, content: Bytes) -> Result<HttpAnswer, HttpError> {
        self.connect().await?;
        // Taken out: a request that is dropped half-way leaves no connection behind.
        let Some(mut connection) = self.connection.take() else {
            return Err(io::Error::from(io::ErrorKind::NotConnected).into());
        };
        connection.ready().await?;
        let request = Request::post(path)
            .header(HOST, &self.authority)
            .header(USER_AGENT, "Postrider")
            .header(CONTENT_TYPE, content_type)
            .body(Full::new(content))?;
        let response = connection.send_request(request).await?;
        let status = response.status();
        let content = Limited::new(response.into_body(), ANSWER_OCTETS_MAX).collect().await;
        let content = content.map_err(|error| HttpError::Body(error.to_string()))?.to_bytes();
        self.connection = Some(connection);
        Ok(HttpAnswer { status, content })
    }
}

/// HTTP on a stream; `driver` is what moves its octets, for as long as it lives.
pub(crate) async fn handshake<S>(driver: &mut JoinSet<()>, stream: S) -> Result<SendRequest<Full<Bytes>>, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = Builder::new().max_buf_size(HEAD_OCTETS_MAX).handshake(TokioIo::new(stream)).await?;
    driver.spawn(async move {
        // How it ended is told to whoever sent a request on it.
        let _: Result<(), _> = connection.await;
    });
    Ok(sender)
}

/// Largest content of an answer.
pub const ANSWER_OCTETS_MAX: usize = 64 * 1024;
/// Largest head of an answer.
const HEAD_OCTETS_MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls_client::Connectors;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn client(base: &str) -> Result<HttpClient, HttpError> {
        HttpClient::new(base, Connectors::new(None).expect("roots").https().expect("a connector"))
    }

    /// Answers requests on one connection after the other, so many on each.
    async fn serve(listener: TcpListener, per_connection: usize) {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut buffer = vec![0; 4096];
            for _ in 0..per_connection {
                let mut seen = Vec::new();
                while !seen.ends_with(b"content") {
                    match stream.read(&mut buffer).await.expect("octets") {
                        0 => break,
                        count => seen.extend_from_slice(&buffer[..count]),
                    }
                }
                let text = String::from_utf8_lossy(&seen).to_lowercase();
                assert!(text.starts_with("post /a http/1.1\r\nhost: 127.0.0.1:"), "{text}");
                stream.write_all(b"HTTP/1.1 503 Later\r\nContent-Length: 2\r\n\r\nno").await.expect("written");
            }
        }
    }

    #[tokio::test]
    async fn a_connection_is_kept_and_one_that_ended_is_made_anew() {
        for per_connection in [1, 100] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let base = format!("http://{}", listener.local_addr().expect("an address"));
            let server = tokio::spawn(serve(listener, per_connection));
            let mut client = client(&base).expect("a URL");
            for _ in 0..3 {
                let answer = client.post("/a", "text/plain", Bytes::from_static(b"content")).await.expect("an answer");
                assert_eq!((answer.status, &answer.content[..]), (StatusCode::SERVICE_UNAVAILABLE, &b"no"[..]));
            }
            server.abort();
        }
    }

    #[tokio::test]
    async fn what_is_no_url_and_nobody_there_are_errors() {
        for wrong in ["", "host", "ftp://host", "http://"] {
            assert!(matches!(client(wrong).map(|_| ()), Err(HttpError::Url(_))), "{wrong}");
        }
        let mut nobody = client("http://127.0.0.1:1").expect("a URL");
        assert!(matches!(nobody.post("/", "text/plain", Bytes::new()).await, Err(HttpError::Io(_))));
    }
}
