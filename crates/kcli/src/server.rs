//! The node that is asked.
//!
//! Owns [`Server`]. In: a URL as `--endpoint` gives it, requests by path. Out: JSON, or text. Whoever stands in the URL
//! (`http://USER:PASSWORD@HOST`) is told by basic authentication, and never shown. Fails with a sentence that names the
//! request, the status and what the server said; after [`PATIENCE`] without an answer too. It does not know what is asked.

use anyhow::{Context, Result, anyhow, bail};
use config::HttpClientOptions;
use net::tls::Connectors;
use serde_json::Value;
use std::time::Duration;
use web::{Client, Content, HeaderMap, Method, Request, StatusCode, WebSocket};

/// A node.
pub(crate) struct Server {
    /// Scheme, host, port and what stands before the paths; nobody's name.
    base: String,
    fields: HeaderMap,
    client: Client,
    connectors: Connectors,
}

/// What a node said.
struct Answered {
    status: StatusCode,
    text: String,
    /// The request, for people.
    request: String,
}

impl Server {
    /// Connects to nobody yet.
    ///
    /// # Errors
    /// The URL is not one of HTTP or HTTPS.
    pub fn new(endpoint: &str) -> Result<Server> {
        let mut given = Request::new(Method::GET, endpoint).map_err(|error| {
            // A URL that does not read may hold a password all the same.
            match endpoint.contains('@') {
                true => anyhow!("--endpoint is not a URL: expected http://[USER:PASSWORD@]HOST[:PORT]"),
                false => anyhow!("--endpoint: {error}"),
            }
        })?;
        let decoded = |text: &str| percent_decoded(text).context("--endpoint: the user's name or password");
        let user = decoded(given.url.username())?;
        let password = given.url.password().map(decoded).transpose()?;
        if !user.is_empty() || password.is_some() {
            given.basic_auth(&user, password.as_deref())?;
        }
        // Neither fails: the URL has a host.
        let _ = given.url.set_username("");
        let _ = given.url.set_password(None);
        given.url.set_query(None);
        given.url.set_fragment(None);
        let connectors = Connectors::of_system()?;
        let agent = format!("kcli/{}", env!("CARGO_PKG_VERSION"));
        let options = HttpClientOptions { user_agent: Some(agent), timeout: PATIENCE.into(), ..Default::default() };
        let client = Client::on_one_host(&options, &connectors)?;
        let base = given.url.as_str().trim_end_matches('/').to_owned();
        Ok(Server { base, fields: given.headers, client, connectors })
    }

    /// The JSON at a path.
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value> {
        self.ask(Method::GET, path, query, None).await?.good()?.json()
    }

    /// The text at a path.
    pub async fn get_text(&self, path: &str, query: &[(&str, &str)]) -> Result<String> {
        Ok(self.ask(Method::GET, path, query, None).await?.good()?.text)
    }

    /// The same as JSON; nothing when the server says that there is no such thing (404).
    pub async fn find(&self, path: &str, query: &[(&str, &str)]) -> Result<Option<Value>> {
        let answered = self.ask(Method::GET, path, query, None).await?;
        match answered.status {
            StatusCode::NOT_FOUND => Ok(None),
            _ => answered.good()?.json().map(Some),
        }
    }

    /// Gives a JSON body; the JSON that comes back.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask(Method::POST, path, &[], Some(body)).await?.good()?.json()
    }

    /// Gives a JSON body; the text that comes back.
    pub async fn post_for_text(&self, path: &str, body: &Value) -> Result<String> {
        Ok(self.ask(Method::POST, path, &[], Some(body)).await?.good()?.text)
    }

    /// DELETE with a JSON body; the text that comes back.
    pub async fn delete(&self, path: &str, body: &Value) -> Result<String> {
        Ok(self.ask(Method::DELETE, path, &[], Some(body)).await?.good()?.text)
    }

    /// Opens a websocket and says `first`.
    pub async fn listen(&self, path: &str, first: &Value) -> Result<WebSocket> {
        // ws for http, wss for https.
        let url = format!("ws{}{path}", self.base.trim_start_matches("http"));
        let opened = WebSocket::connect_with(&url, self.fields.clone(), &self.connectors);
        let opened = tokio::time::timeout(PATIENCE, opened).await;
        let opened = opened.with_context(|| format!("{url}: no answer within {} s", PATIENCE.as_secs()))?;
        let (mut socket, ..) = opened.with_context(|| format!("cannot listen at {url}"))?;
        socket.send(first.to_string()).await.with_context(|| format!("cannot ask at {url}"))?;
        Ok(socket)
    }

    async fn ask(&self, method: Method, path: &str, query: &[(&str, &str)], body: Option<&Value>) -> Result<Answered> {
        let mut request = Request::new(method.clone(), &format!("{}{path}", self.base))?;
        if !query.is_empty() {
            request.url.query_pairs_mut().extend_pairs(query);
        }
        let described = format!("{method} {}", request.url);
        request.headers = self.fields.clone();
        if let Some(body) = body {
            request.add_header("content-type", b"application/json")?;
            request.content = Content::Octets(body.to_string().into_bytes());
        }
        let answer = self.client.send(request).await.with_context(|| {
            format!("no answer from {}: is the server running, and its HTTP listener there? (--endpoint)", self.base)
        })?;
        let status = answer.status;
        let content = answer.content().await.with_context(|| format!("{described}: the answer broke off"))?;
        Ok(Answered { status, text: String::from_utf8_lossy(&content).into_owned(), request: described })
    }
}

impl Answered {
    /// Itself when the request was carried out.
    fn good(self) -> Result<Answered> {
        if self.status.is_success() {
            return Ok(self);
        }
        let said = self.text.trim();
        let said = said.strip_prefix("Error: ").unwrap_or(said);
        let status = self.status.as_u16();
        match (self.status, said) {
            (StatusCode::UNAUTHORIZED, _) => {
                let hint =
                    "say who you are by --endpoint http://USER:PASSWORD@HOST, or ask from one of its trusted_hosts";
                bail!("{} is refused: {status}: {said}; {hint}", self.request)
            }
            (StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED, "") => {
                bail!("{}: {status}: this server does not have that endpoint", self.request)
            }
            (_, "") => bail!("{}: {status}, without a reason", self.request),
            _ => bail!("{}: {status}: {said}", self.request),
        }
    }

    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| {
            let begin: String = self.text.chars().take(SHOWN_CHARS_MAX).collect();
            format!("{}: the answer is not JSON: {begin:?}", self.request)
        })
    }
}

/// Text of a URL as it was before it was put there.
fn percent_decoded(text: &str) -> Result<String> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        if octet != b'%' {
            octets.push(octet);
            continue;
        }
        let digits = [rest.next(), rest.next()].map(|digit| digit.and_then(|d| char::from(d).to_digit(16)));
        let [Some(high), Some(low)] = digits else { bail!("two hexadecimal digits expected behind %") };
        octets.push((high * 16 + low) as u8);
    }
    String::from_utf8(octets).context("expected UTF-8")
}

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Characters of an answer that are shown when it is not what it should be.
const SHOWN_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_taken_out_of_the_url() {
        let server = Server::new("http://ad%6din:s3%20cret@127.0.0.1:8000/front/?x#y").expect("a URL");
        assert_eq!(server.base, "http://127.0.0.1:8000/front");
        assert_eq!(server.fields["authorization"], "Basic YWRtaW46czMgY3JldA==");
        let server = Server::new("https://mail.test").expect("a URL");
        assert_eq!((server.base.as_str(), server.fields.len()), ("https://mail.test", 0));
    }

    #[test]
    fn what_is_no_url_is_named_but_no_password() {
        let error = |endpoint: &str| format!("{:#}", Server::new(endpoint).err().expect("refused"));
        assert!(error("127.0.0.1:8000").contains("--endpoint: `127.0.0.1:8000` is not a URL"));
        assert!(error("ftp://a.test").contains("expected http://HOST or https://HOST"));
        let text = error("a:s3cret@b.test");
        assert!(text.contains("http://[USER:PASSWORD@]HOST[:PORT]") && !text.contains("s3cret"), "{text}");
        let text = error("http://a:%zz@b.test");
        assert!(text.contains("hexadecimal") && !text.contains("zz"), "{text}");
    }

    #[test]
    fn a_refusal_names_request_status_and_reason() {
        let error = |status: u16, text: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            let answered = Answered { status, text: text.to_owned(), request: "GET http://a.test/x".to_owned() };
            answered.good().err().expect("refused").to_string()
        };
        assert_eq!(error(404, "Error: no such queue: b\n"), "GET http://a.test/x: 404: no such queue: b");
        assert_eq!(error(404, ""), "GET http://a.test/x: 404: this server does not have that endpoint");
        assert!(error(401, "Error: x denied").contains("401: x denied; say who you are"));
        assert_eq!(error(500, ""), "GET http://a.test/x: 500, without a reason");
    }
}
