//! A client and the answers it gets.
//!
//! Owns [`Client`] and [`Answer`]. Connections are kept for reuse; redirections are followed, ten at most. `HTTP_PROXY` and
//! its kin are respected.

use crate::error::WebError;
use crate::request::{Content, Part, Request};
use bytes::{Bytes, BytesMut};
use config::HttpClientOptions;
use net::tls::Connectors;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use reqwest::multipart::{self, Form};
use reqwest::redirect::{Attempt, Policy};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Whoever asks.
#[derive(Clone, Debug)]
pub struct Client {
    client: reqwest::Client,
    timeout: Duration,
}

impl Client {
    /// As configured; connects to nobody.
    ///
    /// # Errors
    /// No TLS can be had, or the name in the options cannot stand in a header.
    pub fn new(options: &HttpClientOptions, connectors: &Connectors) -> Result<Client, WebError> {
        Client::with(options, connectors, Policy::default(), None)
    }

    /// The same, but a redirection to another host, port or scheme is an answer and not followed: for what carries secrets.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn on_one_host(options: &HttpClientOptions, connectors: &Connectors) -> Result<Client, WebError> {
        let stays = |attempt: Attempt<'_>| {
            let is_same = attempt.previous().first().is_some_and(|from| from.origin() == attempt.url().origin());
            if is_same && attempt.previous().len() <= REDIRECTIONS_MAX { attempt.follow() } else { attempt.stop() }
        };
        Client::with(options, connectors, Policy::custom(stays), None)
    }

    /// The same, but no redirection is followed: most make a GET of what was a POST, and so lose what it carried.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn without_redirections(options: &HttpClientOptions, connectors: &Connectors) -> Result<Client, WebError> {
        Client::with(options, connectors, Policy::none(), None)
    }

    /// The same, and `host` has these addresses whatever is said of it later: for who has looked at them before. A proxy that is
    /// configured looks the name up itself.
    ///
    /// # Errors
    /// As [`Client::new`].
    pub fn pinned(
        options: &HttpClientOptions,
        connectors: &Connectors,
        host: &str,
        addresses: &[IpAddr],
    ) -> Result<Client, WebError> {
        Client::with(options, connectors, Policy::none(), Some((host, addresses)))
    }

    fn with(
        options: &HttpClientOptions,
        connectors: &Connectors,
        redirections: Policy,
        pinned: Option<(&str, &[IpAddr])>,
    ) -> Result<Client, WebError> {
        let tls = connectors.web(options.accept_invalid_certs)?;
        let timeout = options.timeout.get();
        let mut builder = reqwest::Client::builder()
            .redirect(redirections)
            .tls_backend_preconfigured((*tls).clone())
            .timeout(timeout)
            .pool_idle_timeout(options.pool_idle_timeout.get());
        if let Some(name) = &options.user_agent {
            builder = builder.user_agent(name);
        }
        if let Some((host, addresses)) = pinned {
            // The port is that of the URL.
            let addresses: Vec<SocketAddr> = addresses.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
            builder = builder.resolve_to_addrs(host, &addresses);
        }
        Ok(Client { client: builder.build()?, timeout })
    }

    /// The longest that an answer to `request` is waited for.
    pub fn patience(&self, request: &Request) -> Duration {
        request.timeout.unwrap_or(self.timeout)
    }

    /// The same, for an answer that goes on for as long as the server likes: nothing ends it but whoever asks.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn send_without_end(&self, request: Request) -> Result<Answer, WebError> {
        self.send(Request { timeout: Some(WITHOUT_END), ..request }).await
    }

    /// Asks, and waits for status and header fields of the answer.
    ///
    /// # Errors
    /// There is none: name, connection, TLS, time, HTTP.
    pub async fn send(&self, request: Request) -> Result<Answer, WebError> {
        let mut builder = self.client.request(request.method, request.url).headers(request.headers);
        if let Some(limit) = request.timeout {
            builder = builder.timeout(limit);
        }
        builder = match request.content {
            Content::None => builder,
            Content::Octets(octets) => builder.body(octets),
            Content::Form(fields) => {
                let add = |form: Form, (name, part)| Ok::<_, WebError>(form.part(name, field(part)?));
                builder.multipart(fields.into_iter().try_fold(Form::new(), add)?)
            }
        };
        let answer = builder.send().await?;
        Ok(Answer {
            status: answer.status(),
            headers: answer.headers().clone(),
            content_length: answer.content_length(),
            rest: answer,
        })
    }
}

/// Text goes as it is; octets that are none, and files, say that they are octets.
fn field(part: Part) -> Result<multipart::Part, WebError> {
    let is_text = part.file_name.is_none() && std::str::from_utf8(&part.octets).is_ok();
    let mut field = multipart::Part::bytes(part.octets);
    if !is_text {
        field = field.mime_str("application/octet-stream")?;
    }
    Ok(match part.file_name {
        Some(name) => field.file_name(name),
        None => field,
    })
}

/// An answer whose content is still to come.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
    /// What it says of the length of its content, in octets.
    pub content_length: Option<u64>,
    rest: reqwest::Response,
}

impl Answer {
    /// The next octets of its content; `None` behind the last.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, WebError> {
        Ok(self.rest.chunk().await?)
    }

    /// Waits for its content.
    ///
    /// # Errors
    /// It breaks off, or is longer than [`ANSWER_OCTETS_MAX`].
    pub async fn content(self) -> Result<Bytes, WebError> {
        content(self.rest, ANSWER_OCTETS_MAX).await
    }

    /// The same, but at most so many octets of it.
    ///
    /// # Errors
    /// It breaks off, or is longer.
    pub async fn content_up_to(self, octets_max: usize) -> Result<Bytes, WebError> {
        content(self.rest, octets_max).await
    }

    /// Waits for the end of its content, which is not wanted and not kept. It has the time that the request has.
    ///
    /// # Errors
    /// It breaks off, or takes longer.
    pub async fn end(mut self) -> Result<(), WebError> {
        while self.chunk().await?.is_some() {}
        Ok(())
    }
}

async fn content(mut answer: reqwest::Response, octets_max: usize) -> Result<Bytes, WebError> {
    let mut content = BytesMut::new();
    while let Some(chunk) = answer.chunk().await? {
        if content.len() + chunk.len() > octets_max {
            return Err(WebError::TooLong { octets_max });
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content.freeze())
}

/// Longer than any connection lasts.
const WITHOUT_END: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Redirections that are followed on one host.
const REDIRECTIONS_MAX: usize = 10;
/// The longest content of an answer, in octets.
pub const ANSWER_OCTETS_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(octets: usize) -> reqwest::Response {
        http::Response::new(vec![7_u8; octets]).into()
    }

    #[tokio::test]
    async fn content_is_bounded() {
        assert_eq!(content(answer(8), 8).await.expect("at the bound").len(), 8);
        let error = content(answer(9), 8).await.expect_err("above it");
        assert!(matches!(error, WebError::TooLong { octets_max: 8 }), "{error}");
    }

    #[tokio::test]
    async fn content_that_is_not_wanted_may_have_any_length() {
        let rest = answer(ANSWER_OCTETS_MAX + 1);
        let answer = Answer { status: StatusCode::OK, headers: HeaderMap::new(), content_length: None, rest };
        answer.end().await.expect("its end");
    }

    #[tokio::test]
    async fn what_is_said_of_a_failure_names_no_url() {
        let connectors = Connectors::new(None).expect("TLS");
        let client = Client::new(&HttpClientOptions::default(), &connectors).expect("a client");
        let request = Request::new(reqwest::Method::GET, "http://127.0.0.1:1/s3cret?token=s3cret").expect("a request");
        let said = client.send(request).await.expect_err("nobody is there").to_string();
        assert!(said.contains("error sending request") && said.contains("refused"), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
    }

    /// DNS knows no such name.
    #[tokio::test]
    async fn a_host_is_where_it_is_said_to_be() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = server.local_addr().expect("bound");
        let connectors = Connectors::new(None).expect("TLS");
        let client = Client::pinned(&HttpClientOptions::default(), &connectors, "pinned.test", &[address.ip()]);
        let url = format!("http://pinned.test:{}/", address.port());
        let request = Request::new(reqwest::Method::POST, &url).expect("a request");
        let client = client.expect("a client");
        tokio::select! {
            answer = client.send(request) => panic!("nobody answers: {answer:?}"),
            accepted = server.accept() => drop(accepted.expect("a connection")),
        }
    }
}
